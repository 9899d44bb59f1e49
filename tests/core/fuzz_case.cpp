#include "tests/core/fuzz_case.h"

#include <algorithm>
#include <sstream>

#include "tests/core/harness.h"

namespace quire::test {
namespace {

constexpr int kLongestPrompt = 60;

void choose_live_fields(Dice& dice, EngineConfig& config) {
  config.max_num_seqs = dice(1, 8);
  config.max_num_batched_tokens = dice(1, 48);
  config.max_queue = dice(6, 12);
  config.long_prefill_token_threshold = dice.chance(40) ? dice(1, 12) : 0;
  config.max_num_partial_prefills = dice.chance(30) ? dice(1, 3) : 0;
  config.prefill_chunk = {dice(0, 40), dice(0, 20)};
  config.max_itl_ms = dice.chance(15) ? dice(1, 40) : 0;
  config.policy = static_cast<SchedulingPolicy>(dice(0, 2));
  config.victim = static_cast<VictimChoice>(dice(0, 1));
  config.preemption_mode = static_cast<PreemptionMode>(dice(0, 2));
  config.lpm_max_overtakes = dice(0, 6);
  config.max_displacements = dice(0, 4);
}

EngineConfig random_config(Dice& dice) {
  const int num_blocks = dice(5, dice.chance(60) ? 14 : 40);
  EngineConfig config = small_config(num_blocks, dice.chance(50) ? 4 : dice(1, 7));
  choose_live_fields(dice, config);
  config.enable_prefix_caching = dice.chance(80);
  config.enable_chunked_prefill = dice.chance(80);
  config.max_model_len = dice(8, 120);
  config.num_swap_blocks = dice.chance(60) ? dice(1, 40) : 0;
  config.prefix_index = static_cast<PrefixIndexKind>(dice(0, 1));
  return config;
}

// Most prompts leave room for an answer in a context of `context` tokens.
FuzzOp random_add(Dice& dice, int context) {
  FuzzOp op;
  op.kind = FuzzOpKind::kAdd;
  op.seed = dice.seed();
  op.family = dice(0, 2);
  op.length = dice(1, std::min(dice.chance(50) ? 16 : kLongestPrompt, context));
  if (dice.chance(40)) op.changed_at = dice(0, op.length - 1);
  if (dice.chance(25)) {
    op.continues = dice(0, 5);
    op.length = dice(1, 8);
  }
  op.max_tokens = dice.chance(5) ? -1 : dice(0, 20);
  if (op.max_tokens > 2) op.min_tokens = dice(0, 2);
  op.priority = dice(0, 3);
  op.ignore_eos = dice.chance(30);
  op.other_key = dice.chance(10);
  op.other_salt = dice.chance(10);
  return op;
}

DecisionInputs random_inputs(Dice& dice) {
  DecisionInputs inputs;
  inputs.swap_us_per_block = dice(0, 10);
  inputs.recompute_us_per_token = dice(0, 10);
  inputs.step_time_margin = 1 + dice(0, 5) * 0.1;
  inputs.decode_debt_ms = dice.chance(30) ? dice(0, 60) : 0;
  inputs.steps_without_prefill = dice(0, 9);
  inputs.step_time.fitted = dice.chance(70);
  inputs.step_time.ms = {2.0, dice(1, 10) * 0.1, 0.5, 0.1, 0.001, 0.001};
  return inputs;
}

FuzzOp random_step(Dice& dice, bool failing) {
  FuzzOp op;
  op.seed = dice.seed();
  op.inputs = random_inputs(dice);
  if (dice.chance(4)) op.fate = FakeRunner::Fate::kCancel;
  if (failing && dice(1, 400) == 1) op.fate = FakeRunner::Fate::kFail;
  op.moves_fail = failing && dice(1, 400) == 1;
  return op;
}

FuzzOp simple(FuzzOpKind kind) {
  FuzzOp op;
  op.kind = kind;
  return op;
}

FuzzOp random_abort(Dice& dice) {
  FuzzOp op = simple(FuzzOpKind::kAbort);
  op.target = static_cast<AbortTarget>(dice(0, kNumAbortTargets - 1));
  op.pick = dice(0, 20);
  return op;
}

void describe_config(const EngineConfig& config, bool live_only, std::ostream& out) {
  const auto usual = config_fields(EngineConfig{}), fields = config_fields(config);
  for (std::size_t i = 0; i < fields.size(); ++i)
    if (fields[i].value != usual[i].value && (fields[i].live || !live_only))
      out << ' ' << fields[i].name << '=' << fields[i].value;
}

void describe_add(const FuzzOp& op, std::ostream& out) {
  out << "add family " << op.family << " length " << op.length;
  if (op.changed_at >= 0) out << " changed at " << op.changed_at;
  if (op.continues >= 0) out << " continuing finished " << op.continues;
  out << " max_tokens " << op.max_tokens << " min_tokens " << op.min_tokens << " priority "
      << op.priority << (op.ignore_eos ? " ignore_eos" : "") << (op.other_key ? " key" : "")
      << (op.other_salt ? " salt" : "");
}

void describe_step(const FuzzOp& op, std::ostream& out) {
  static const char* const kFates[] = {"", " cancelled", " fails"};
  out << "step" << kFates[static_cast<int>(op.fate)] << (op.moves_fail ? " moves fail" : "");
}

void describe_op(const FuzzOp& op, std::ostream& out) {
  static const char* const kTargets[] = {"waiting",   "partial prefill", "decoding",
                                         "preempted", "swapped",         "just finished"};
  switch (op.kind) {
    case FuzzOpKind::kAdd:
      return describe_add(op, out);
    case FuzzOpKind::kAbort:
      out << "abort " << kTargets[static_cast<int>(op.target)] << ' ' << op.pick;
      return;
    case FuzzOpKind::kStep:
      return describe_step(op, out);
    case FuzzOpKind::kCancelNext:
      out << "cancel the next step";
      return;
    case FuzzOpKind::kReset:
      out << "reset the prefix cache";
      return;
    case FuzzOpKind::kReconfigure:
      out << "reconfigure";
      return describe_config(op.config, true, out);
  }
}

}  // namespace

FuzzCase random_case(unsigned seed, int num_steps) {
  Dice dice(seed);
  FuzzCase made;
  made.config = random_config(dice);
  made.drafts = dice.chance(50);
  const bool failing = dice.chance(30);
  for (int i = 0; i < num_steps; ++i) {
    while (dice.chance(25)) made.ops.push_back(random_add(dice, made.config.effective_context()));
    if (dice.chance(6)) made.ops.push_back(random_abort(dice));
    if (dice.chance(2)) made.ops.push_back(simple(FuzzOpKind::kCancelNext));
    if (dice(1, 200) == 1) made.ops.push_back(simple(FuzzOpKind::kReset));
    if (dice.chance(2)) {
      FuzzOp op = simple(FuzzOpKind::kReconfigure);
      choose_live_fields(dice, op.config);
      made.ops.push_back(op);
    }
    made.ops.push_back(random_step(dice, failing));
  }
  return made;
}

std::string describe(const FuzzCase& fuzz_case) {
  std::ostringstream out;
  out << "config";
  describe_config(fuzz_case.config, false, out);
  out << (fuzz_case.drafts ? ", with drafts\n" : "\n");
  for (const FuzzOp& op : fuzz_case.ops) {
    out << "  ";
    describe_op(op, out);
    out << '\n';
  }
  return out.str();
}

}  // namespace quire::test
