#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "engine/text/byte_alphabet.h"
#include "tests/support/gguf_writer.h"

namespace quire::test {

// A llama model whose weights are all zero, in Q8_0. `tied`: it has no matrix of its own for the
// output.
struct SyntheticModel {
  std::uint64_t hidden = 1024, ffn = 4096, layers = 8, kv_width = 256, vocab = 4096;
  bool tied = false;
};

// Writes it to `path` as a sparse file. Returns the bytes of its tensors.
inline std::uint64_t write_synthetic_gguf(const SyntheticModel& m, const std::string& path) {
  constexpr std::uint32_t kF32 = 0, kQ8_0 = 8;
  GgufWriter writer;
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte)
    tokens.push_back(spell_bytes(std::string(1, static_cast<char>(byte))));
  while (tokens.size() < m.vocab) tokens.push_back("<" + std::to_string(tokens.size()) + ">");
  writer.set("general.architecture", "llama")
      .set("llama.block_count", static_cast<std::uint32_t>(m.layers))
      .set("llama.context_length", std::uint32_t{2048})
      .set("llama.embedding_length", static_cast<std::uint32_t>(m.hidden))
      .set("llama.feed_forward_length", static_cast<std::uint32_t>(m.ffn))
      .set("llama.attention.head_count", static_cast<std::uint32_t>(m.hidden / 64))
      .set("llama.attention.head_count_kv", static_cast<std::uint32_t>(m.kv_width / 64))
      .set("llama.attention.layer_norm_rms_epsilon", 1e-5f)
      .set("tokenizer.ggml.model", "gpt2")
      .set("tokenizer.ggml.pre", "gpt-2")
      .set("tokenizer.ggml.tokens", tokens)
      .set("tokenizer.ggml.merges", std::vector<std::string>())
      .set("tokenizer.ggml.eos_token_id", std::uint32_t{0});
  std::uint64_t offset = 0;
  const auto add = [&](const std::string& name, std::uint32_t type,
                       const std::vector<std::uint64_t>& dims, std::uint64_t bytes) {
    writer.put_tensor(name + ".weight", type, dims, offset);
    offset += (bytes + 31) / 32 * 32;
  };
  const auto matrix = [&](const std::string& name, std::uint64_t rows, std::uint64_t cols) {
    add(name, kQ8_0, {cols, rows}, rows * cols / 32 * 34);
  };
  const auto vector = [&](const std::string& name) { add(name, kF32, {m.hidden}, m.hidden * 4); };
  matrix("token_embd", m.vocab, m.hidden);
  for (std::uint64_t layer = 0; layer < m.layers; ++layer) {
    const std::string prefix = "blk." + std::to_string(layer) + ".";
    vector(prefix + "attn_norm");
    matrix(prefix + "attn_q", m.hidden, m.hidden);
    matrix(prefix + "attn_k", m.kv_width, m.hidden);
    matrix(prefix + "attn_v", m.kv_width, m.hidden);
    matrix(prefix + "attn_output", m.hidden, m.hidden);
    vector(prefix + "ffn_norm");
    matrix(prefix + "ffn_gate", m.ffn, m.hidden);
    matrix(prefix + "ffn_up", m.ffn, m.hidden);
    matrix(prefix + "ffn_down", m.hidden, m.ffn);
  }
  vector("output_norm");
  if (!m.tied) matrix("output", m.vocab, m.hidden);
  const std::string header = writer.finish();
  std::ofstream(path, std::ios::binary)
      .write(header.data(), static_cast<std::streamsize>(header.size()));
  std::filesystem::resize_file(path, header.size() + offset);
  return offset;
}

}  // namespace quire::test
