#include "engine/text/tokenizer_json_reader.h"

#include "engine/text/bpe.h"

namespace quire {
namespace {

using nlohmann::json;

// SAX handler that builds a JSON value, except below model.vocab and model.merges.
class Reader : public json::json_sax_t {
 public:
  Reader(TokenizerJson& out, bool extract) : out_(out), extract_(extract) {}
  const std::string& error() const { return error_; }

  bool null() override { return scalar(json()); }
  bool boolean(bool value) override { return scalar(json(value)); }
  bool number_integer(std::int64_t value) override {
    return where_ == Where::kVocab ? fail("a token's id is negative") : scalar(json(value));
  }
  bool number_unsigned(std::uint64_t value) override {
    return where_ == Where::kVocab ? token(value) : scalar(json(value));
  }
  bool number_float(double value, const std::string&) override { return scalar(json(value)); }
  bool string(std::string& value) override {
    return where_ == Where::kMerges ? merge_part(value) : scalar(json(std::move(value)));
  }
  bool binary(json::binary_t&) override { return fail("it holds binary data"); }

  bool start_object(std::size_t) override {
    if (where_ != Where::kElsewhere) return fail("an object where a token or merge should be");
    if (extract_ && in_model() && key_ == "vocab") return enter(Where::kVocab);
    return open(json::object());
  }
  bool start_array(std::size_t) override {
    if (where_ == Where::kVocab) return fail("a token's id is not a number");
    if (where_ == Where::kMerges) return start_pair();
    if (extract_ && in_model() && key_ == "merges") return enter(Where::kMerges);
    return open(json::array());
  }
  bool key(std::string& value) override {
    key_ = std::move(value);
    return true;
  }
  bool end_object() override { return close(); }
  bool end_array() override {
    if (where_ != Where::kMerges || !in_pair_) return close();
    in_pair_ = false;
    return pair_length_ == 2 || fail("a merge is not a pair");
  }
  bool parse_error(std::size_t position, const std::string&, const json::exception&) override {
    return fail("it is not valid JSON near byte " + std::to_string(position));
  }

 private:
  enum class Where { kElsewhere, kVocab, kMerges };

  bool fail(std::string what) {
    if (error_.empty()) error_ = std::move(what);
    return false;
  }
  bool in_model() const { return open_.size() == 2 && keys_.back() == "model"; }

  bool enter(Where where) {
    where_ = where;
    return true;
  }

  bool open(json value) {
    if (open_.size() >= kMaxJsonDepth) return fail("it is nested too deeply");
    keys_.push_back(key_);
    open_.push_back(std::move(value));
    return true;
  }

  bool close() {
    if (where_ != Where::kElsewhere) return enter(Where::kElsewhere);
    json value = std::move(open_.back());
    open_.pop_back();
    key_ = std::move(keys_.back());
    keys_.pop_back();
    return scalar(std::move(value));
  }

  bool scalar(json value) {
    if (where_ != Where::kElsewhere) return fail("a token or merge of the wrong type");
    if (open_.empty()) {
      out_.rest = std::move(value);
    } else if (open_.back().is_array()) {
      open_.back().push_back(std::move(value));
    } else {
      open_.back()[key_] = std::move(value);
    }
    return true;
  }

  bool token(std::uint64_t id) {
    if (id >= kMaxVocabularySize) return fail("a token's id is above 4194303");
    if (out_.vocab_ids.size() >= kMaxVocabularySize) return fail("it has too many tokens");
    if (key_.size() > kMaxTokenBytes) return fail("a token is longer than 65536 bytes");
    if (out_.vocab_texts.bytes() > kMaxVocabularyBytes) return fail("its tokens exceed 1 GiB");
    out_.vocab_texts.push(key_);
    out_.vocab_ids.push_back(static_cast<TokenId>(id));
    return true;
  }

  bool start_pair() {
    if (in_pair_) return fail("a merge is not a pair");
    in_pair_ = true;
    pair_length_ = 0;
    return true;
  }

  bool merge_part(std::string_view text) {
    if (out_.merges.size() >= 2 * kMaxMerges) return fail("it has too many merges");
    if (text.size() > 2 * kMaxTokenBytes || out_.merges.bytes() > kMaxVocabularyBytes)
      return fail("its merges are too long");
    if (in_pair_) {
      if (++pair_length_ > 2) return fail("a merge is not a pair");
      out_.merges.push(text);
      return true;
    }
    const std::size_t space = text.find(' ');
    if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos)
      return fail("a merge is not a pair");
    out_.merges.push(text.substr(0, space));
    out_.merges.push(text.substr(space + 1));
    return true;
  }

  TokenizerJson& out_;
  bool extract_;
  Where where_ = Where::kElsewhere;
  std::vector<json> open_;         // containers being built, outermost first
  std::vector<std::string> keys_;  // keys_[i]: under which open_[i] goes into its parent
  std::string key_, error_;
  bool in_pair_ = false;
  int pair_length_ = 0;
};

Status parse(std::string_view text, Reader& reader, std::string_view what) {
  if (json::sax_parse(text.begin(), text.end(), &reader) && reader.error().empty()) return Ok{};
  return make_error(ErrorCode::kBadModelFile,
                    std::string(what) + " cannot be read: " + reader.error());
}

}  // namespace

Result<TokenizerJson> read_tokenizer_json(std::string_view text) {
  TokenizerJson out;
  Reader reader(out, true);
  QUIRE_RETURN_IF_ERROR(parse(text, reader, "tokenizer.json"));
  if (!out.rest.is_object())
    return make_error(ErrorCode::kBadModelFile, "tokenizer.json is not a JSON object");
  return out;
}

Result<json> read_json(std::string_view text, std::string_view what) {
  TokenizerJson out;
  Reader reader(out, false);
  QUIRE_RETURN_IF_ERROR(parse(text, reader, what));
  return std::move(out.rest);
}

}  // namespace quire
