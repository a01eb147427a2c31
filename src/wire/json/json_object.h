// Writes JSON objects member by member. The output is valid whatever the texts are.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/text.h"
#include "wire/json/json_text.h"

namespace gpulens {

// Writes an object from its construction to its destruction. Meanwhile only its members may append to the
// text.
class JsonObject {
 public:
  explicit JsonObject(std::string& out) : out_(out) { out_ += '{'; }
  ~JsonObject() { out_ += '}'; }
  JsonObject(const JsonObject&) = delete;
  JsonObject& operator=(const JsonObject&) = delete;

  // The caller appends a whole member.
  std::string& Next() {
    if (!first_) out_ += ',';
    first_ = false;
    return out_;
  }
  // The caller appends the value.
  std::string& Key(std::string_view key, std::string_view before = {}) {
    AppendJsonString(Next().append(before), key);
    out_ += ':';
    return out_;
  }
  void Text(std::string_view key, std::string_view text) { AppendJsonString(Key(key), text); }
  // Omits an empty text.
  void TextIfAny(std::string_view key, std::string_view text) {
    if (!text.empty()) Text(key, text);
  }
  void Flag(std::string_view key, bool value) { Key(key) += value ? "true" : "false"; }
  void Whole(std::string_view key, int64_t value) { Key(key) += std::to_string(value); }
  void Count(std::string_view key, uint64_t value) { Key(key) += std::to_string(value); }
  // Writes null for a number that is not finite.
  void Number(std::string_view key, double value) { AppendJsonNumber(Key(key), value); }
  void Raw(std::string_view key, std::string_view json) { Key(key) += json; }
  void Time(std::string_view key, int64_t unix_ns) {
    Key(key) += '"';
    AppendRfc3339(out_, unix_ns);
    out_ += '"';
  }
  // Adds an array; `write(out, item)` appends one item. `before` precedes each item, `after` the closing
  // bracket.
  template <class Items, class Write>
  void List(std::string_view key, const Items& items, Write write, std::string_view before = {},
            std::string_view after = {}) {
    Key(key) += '[';
    bool first = true;
    for (const auto& item : items) {
      if (!first) out_ += ',';
      first = false;
      out_ += before;
      write(out_, item);
    }
    out_.append(after) += ']';
  }
  template <class Items>
  void Texts(std::string_view key, const Items& texts) {
    List(key, texts, [](std::string& out, std::string_view text) { AppendJsonString(out, text); });
  }

 private:
  std::string& out_;
  bool first_ = true;
};

// Returns a document: the schema, then the members that `write(object)` adds.
template <class Write>
std::string JsonDocumentText(std::string_view schema, Write write) {
  std::string out;
  {
    JsonObject object(out);
    object.Text("schema", schema);
    write(object);
  }
  return out += '\n';
}

}  // namespace gpulens
