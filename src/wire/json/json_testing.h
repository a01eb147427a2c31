// For tests: a strict JSON reader that also finds doubled keys, and snapshots made of a few sources.
#pragma once

#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/parse.h"
#include "base/text.h"
#include "core/frame_writer.h"

namespace gpulens::json_testing {

// A value that was read; anything that is not there is of the type kMissing.
struct Json {
  enum Type { kMissing, kNull, kBool, kNumber, kString, kArray, kObject } type = kMissing;
  std::string text;  // of a number as it stands there, of a string decoded
  bool yes = false;
  std::vector<std::string> keys;  // of an object, in the order of its items
  std::vector<Json> items;

  const Json& operator[](std::string_view key) const {
    static const Json none;
    for (size_t i = 0; i < keys.size(); ++i) {
      if (keys[i] == key) return items[i];
    }
    return none;
  }
  const Json& operator[](size_t i) const {
    static const Json none;
    return i < items.size() ? items[i] : none;
  }
  bool here() const { return type != kMissing; }
  double number() const { return type == kNumber ? ParseDouble(text).value_or(-12345) : -12345; }
};

class JsonReader {
 public:
  // Nothing, and why, for text that is no JSON.
  static std::optional<Json> Read(std::string_view text, std::string* why = nullptr) {
    JsonReader reader(text);
    try {
      Json value = reader.Value(0);
      reader.Blank();
      if (reader.at_ != text.size()) reader.Fail("text behind the end");
      return value;
    } catch (const std::runtime_error& error) {
      if (why) *why = error.what();
      return std::nullopt;
    }
  }

 private:
  explicit JsonReader(std::string_view text) : text_(text) {}
  [[noreturn]] void Fail(const char* what) const {
    size_t from = at_ < 40 ? 0 : at_ - 40;
    throw std::runtime_error(std::string(what) + " at " + std::to_string(at_) + ": …" +
                             std::string(text_.substr(from, 80)));
  }
  char Peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool Take(char c) { return Peek() == c && ++at_; }
  void Blank() {
    while (Peek() == ' ' || Peek() == '\n' || Peek() == '\t' || Peek() == '\r') ++at_;
  }
  Json Value(int depth) {
    if (depth > 50) Fail("too deep");
    Blank();
    Json value;
    if (Take('{')) Object(value, depth);
    else if (Take('[')) Array(value, depth);
    else if (Peek() == '"') value.type = Json::kString, value.text = String();
    else if (Word("true")) value.type = Json::kBool, value.yes = true;
    else if (Word("false")) value.type = Json::kBool;
    else if (Word("null")) value.type = Json::kNull;
    else Number(value);
    return value;
  }
  bool Word(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  void Object(Json& value, int depth) {
    value.type = Json::kObject;
    Blank();
    if (Take('}')) return;
    do {
      Blank();
      std::string key = String();
      if (value[key].here()) Fail("a key twice");
      Blank();
      if (!Take(':')) Fail("no colon");
      value.items.push_back(Value(depth + 1));
      value.keys.push_back(std::move(key));
      Blank();
    } while (Take(','));
    if (!Take('}')) Fail("no end of an object");
  }
  void Array(Json& value, int depth) {
    value.type = Json::kArray;
    Blank();
    if (Take(']')) return;
    do {
      value.items.push_back(Value(depth + 1));
      Blank();
    } while (Take(','));
    if (!Take(']')) Fail("no end of an array");
  }
  std::string String() {
    if (!Take('"')) Fail("no string");
    std::string out;
    while (!Take('"')) {
      if (at_ >= text_.size()) Fail("no end of a string");
      if (static_cast<unsigned char>(Peek()) < 0x20) Fail("a control byte");
      if (Take('\\')) {
        if (Take('u')) {
          auto code = ParseInt<unsigned>(text_.substr(at_, 4), 16);
          if (!code) Fail("no code point");
          at_ += 4;
          out += *code < 0x80 ? static_cast<char>(*code) : '?';
        } else if (Take('n')) {
          out += '\n';
        } else if (Peek() == '"' || Peek() == '\\' || Peek() == '/') {
          out += text_[at_++];
        } else {
          Fail("an unknown escape");
        }
        continue;
      }
      size_t length = Utf8Length(text_.substr(at_));
      if (length == 0) Fail("no UTF-8");
      out += text_.substr(at_, length);
      at_ += length;
    }
    return out;
  }
  void Digits() {
    if (Peek() < '0' || Peek() > '9') Fail("no digit");
    while (Peek() >= '0' && Peek() <= '9') ++at_;
  }
  void Number(Json& value) {
    size_t start = at_;
    Take('-');
    if (!Take('0')) Digits();
    if (Take('.')) Digits();
    if (Take('e') || Take('E')) {
      if (!Take('+')) Take('-');
      Digits();
    }
    value.type = Json::kNumber;
    value.text = text_.substr(start, at_ - start);
  }

  std::string_view text_;
  size_t at_ = 0;
};

// One source with its table and writer: declare, Begin, Set, then Entry.
struct TestSource {
  explicit TestSource(std::string name) : writer(table, std::chrono::seconds(10), std::move(name)) {}
  SnapshotEntry Entry(Precedence precedence = Precedence::kNative, bool overdue = false) {
    Ref<const Frame> frame = writer.Finish();
    std::string_view source = frame->source;
    return {std::move(frame), source, precedence, overdue};
  }
  SeriesTable table;
  FrameWriter writer;
};

inline Ref<Snapshot> MakeSnapshot(uint64_t tick, Instant closed_at, std::vector<SnapshotEntry> frames) {
  Ref<Snapshot> snapshot = MakeRef<Snapshot>();
  snapshot->tick = tick;
  snapshot->closed_at = closed_at;
  snapshot->frames = std::move(frames);
  return snapshot;
}

inline EntityRef Gpu(int64_t index) {
  return MakeRef<const Entity>("gpu", AttributeSet({{"gpu.index", index}}));
}

}  // namespace gpulens::json_testing
