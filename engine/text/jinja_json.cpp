#include "engine/text/jinja_json.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "engine/text/jinja_unicode.h"

namespace quire::jinja {
namespace {

constexpr std::size_t kMaxJsonDepth = 64;

// Builds values while the text is read: no second tree, and no search per key.
class ValueBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  Value take() { return std::move(result_); }
  const std::string& error() const { return error_; }

  bool null() override { return add(Value()); }
  bool boolean(bool value) override { return add(Value(value)); }
  bool number_integer(std::int64_t value) override { return add(Value(value)); }
  bool number_unsigned(std::uint64_t value) override {
    if (value > static_cast<std::uint64_t>(INT64_MAX)) return add(static_cast<double>(value));
    return add(static_cast<std::int64_t>(value));
  }
  bool number_float(double value, const std::string&) override { return add(value); }
  bool string(std::string& value) override { return add(Text(std::move(value), Origin::kCaller)); }
  bool binary(nlohmann::json::binary_t&) override { return refuse("binary data"); }
  bool start_object(std::size_t) override { return open(true); }
  bool start_array(std::size_t) override { return open(false); }
  bool key(std::string& key) override {
    open_.back().key = std::move(key);
    return true;
  }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception& failure) override {
    // 406: a number out of range; everything else is a matter of syntax.
    if (failure.id == 406) return refuse("a number is out of range");
    return refuse("byte " + std::to_string(position) + " is unexpected");
  }

 private:
  struct Open {
    bool is_object;
    Dict dict;
    std::vector<Value> items;
    std::string key;
  };

  bool refuse(std::string why) {
    error_ = std::move(why);
    return false;
  }

  bool open(bool is_object) {
    if (open_.size() >= kMaxJsonDepth) return refuse("it is nested too deeply");
    open_.push_back({is_object, {}, {}, {}});
    return true;
  }

  bool close() {
    Open done = std::move(open_.back());
    open_.pop_back();
    return add(done.is_object ? make_dict(std::move(done.dict)) : make_list(std::move(done.items)));
  }

  bool add(Value value) {
    if (open_.empty()) {
      result_ = std::move(value);
    } else if (open_.back().is_object) {
      open_.back().dict.set(Text(std::move(open_.back().key), Origin::kCaller), std::move(value));
    } else {
      open_.back().items.push_back(std::move(value));
    }
    return true;
  }

  std::vector<Open> open_;
  Value result_;
  std::string error_;
};

class Dumper {
 public:
  Dumper(Runtime& runtime, const JsonStyle& style) : runtime_(runtime), style_(style) {}

  std::string dump(const Value& value) {
    append(value);
    return std::move(out_);
  }

 private:
  void append(const Value& value) {
    runtime_.check_size(out_.size());
    if (value.is_none()) {
      out_ += "null";
    } else if (const auto* boolean = value.get<bool>()) {
      out_ += *boolean ? "true" : "false";
    } else if (const auto* integer = value.integer()) {
      out_ += std::to_string(*integer);
    } else if (const auto* number = value.get<double>()) {
      append_number(*number);
    } else if (const Text* text = value.text()) {
      append_string(text->bytes());
    } else if (const Dict* dict = value.dict()) {
      append_dict(*dict);
    } else if (const List* list = value.list(); list && list->form != List::Form::kIterator) {
      append_list(*list);
    } else {
      fail("a " + std::string(type_name(value)) + " cannot be turned into JSON");
    }
  }

  void append_number(double value) {
    if (std::isfinite(value)) {
      out_ += repr_float(value);
    } else {
      out_ += std::isnan(value) ? "NaN" : value < 0 ? "-Infinity" : "Infinity";
    }
  }

  void append_list(const List& list) {
    if (list.items.empty()) {
      out_ += "[]";
      return;
    }
    out_ += '[';
    ++level_;
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      separate(i == 0);
      append(list.items[i]);
    }
    close(']');
  }

  void append_dict(const Dict& dict) {
    if (dict.entries.empty()) {
      out_ += "{}";
      return;
    }
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (style_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(), [this](const auto* a, const auto* b) {
        return runtime_.compare(a->first, b->first) < 0;
      });
    }
    out_ += '{';
    ++level_;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      separate(i == 0);
      append_key(entries[i]->first);
      out_ += style_.key_separator;
      append(entries[i]->second);
    }
    close('}');
  }

  void append_key(const Value& key) {
    if (key.text() != nullptr) return append(key);
    if (key.list() != nullptr) fail("a tuple cannot be a key in JSON");
    out_ += '"';
    append(key);
    out_ += '"';
  }

  void separate(bool first) {
    if (!first) out_ += style_.item_separator;
    if (style_.multiline) new_line();
  }

  void close(char bracket) {
    --level_;
    if (style_.multiline) new_line();
    out_ += bracket;
  }

  void new_line() {
    runtime_.check_size(out_.size() + style_.indent.size() * static_cast<std::size_t>(level_));
    out_ += '\n';
    for (int i = 0; i < level_; ++i) out_ += style_.indent;
  }

  void append_string(std::string_view bytes) {
    out_ += '"';
    for (std::size_t i = 0; i < bytes.size();) {
      const Character c = character_at(bytes, i);
      append_character(c, bytes.substr(i, c.length));
      i += c.length;
    }
    out_ += '"';
  }

  void append_character(Character c, std::string_view bytes) {
    static constexpr std::string_view kEscaped = "\"\\\n\r\t\f\b";
    static constexpr std::string_view kLetters = "\"\\nrtfb";
    if (const auto index = kEscaped.find(bytes[0]); index != kEscaped.npos) {
      (out_ += '\\') += kLetters[index];
    } else if ((c.code >= 0 && c.code < 0x20) || (style_.ensure_ascii && c.code >= 0x80)) {
      append_escape(c.code);
    } else {
      out_ += bytes;
    }
  }

  void append_escape(int code) {
    char buffer[16];
    if (code >= 0x10000) {
      const int offset = code - 0x10000;
      std::snprintf(buffer, sizeof buffer, "\\u%04x\\u%04x", 0xd800 + (offset >> 10),
                    0xdc00 + (offset & 0x3ff));
    } else {
      std::snprintf(buffer, sizeof buffer, "\\u%04x", code);
    }
    out_ += buffer;
  }

  Runtime& runtime_;
  const JsonStyle& style_;
  std::string out_;
  int level_ = 0;
};

}  // namespace

Value parse_json(std::string_view json) {
  ValueBuilder builder;
  if (!nlohmann::json::sax_parse(json.begin(), json.end(), &builder)) {
    fail(builder.error());
  }
  return builder.take();
}

std::string dump_json(Runtime& runtime, const Value& value, const JsonStyle& style) {
  runtime.charge(value.cost());
  return Dumper(runtime, style).dump(value);
}

}  // namespace quire::jinja
