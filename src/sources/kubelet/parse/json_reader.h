// One pass over JSON from outside, taking a few facts out of much: no tree is built.
//
//   JsonReader json(text);
//   json.Object([&](std::string_view key) {
//     if (key == "name") name = json.Text();
//   });
//   if (Status status = json.Finish(); !status) …
//
// What a callback does not take is passed over. A value of another type than the one asked for is passed
// over, too, and gives nothing. The first thing that is no JSON ends it: every later call gives nothing, and
// Finish tells why. Not thread-safe; `text` must outlive it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <gpulens/status.h>

namespace gpulens::kubelet {

class JsonReader {
 public:
  static constexpr size_t kMostDepth = 64;

  explicit JsonReader(std::string_view text) noexcept : text_(text) {}

  // Calls `member(key)` for each member of the object that comes next. The key is valid inside the call.
  template <class Member>
  void Object(Member&& member) {
    if (!Enter('{')) return;
    std::string room;
    std::string_view key;
    for (bool first = true; NextKey(first, room, key); first = false) {
      size_t before = at_;
      member(key);
      if (at_ == before) Skip();
    }
  }
  // Calls `element()` for each element of the array that comes next.
  template <class Element>
  void Array(Element&& element) {
    if (!Enter('[')) return;
    for (bool first = true; NextElement(first); first = false) {
      size_t before = at_;
      element();
      if (at_ == before) Skip();
    }
  }
  // Valid until the next call of Text. Always UTF-8.
  std::string_view Text();
  std::optional<double> Number();
  std::optional<uint64_t> Unsigned();  // only of whole numbers
  std::optional<bool> Bool();
  void Skip();
  // Whether an object comes next.
  bool AtObject() noexcept { return !failed_ && Peek() == '{'; }

  bool failed() const noexcept { return failed_; }
  // A callback has seen something that makes all of it useless: nothing more is read.
  void Fail(std::string_view why, Code code = Code::kDataLoss);
  // kDataLoss: no JSON, or something behind it. kExhausted: nested too deep.
  Status Finish();

 private:
  char Peek() noexcept;
  bool Enter(char open);
  bool NextKey(bool first, std::string& room, std::string_view& key);
  bool NextElement(bool first);
  bool Next(bool first, char close);
  // The string that begins here. Escaped ones are decoded into `room`; null: passed over.
  std::string_view String(std::string* room);
  bool Escape(std::string* room);
  std::optional<uint32_t> Hex4();
  std::string_view Word();

  std::string_view text_;
  size_t at_ = 0, depth_ = 0;
  bool failed_ = false;
  Status why_;
  std::string room_;
};

}  // namespace gpulens::kubelet
