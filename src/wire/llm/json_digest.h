// A JSON text in pieces, made short enough to be read: answers of any size in bounded memory.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace gpulens {

// Copies the text without what is long: a string of more than 256 bytes becomes "", an array loses its
// elements after 8 that are no objects or arrays, or after 1,024, objects and arrays after a depth of 32
// become null. All else stays, so members that count tokens are there whatever the size of the answer. Where
// pieces are cut changes nothing. Checks no syntax: the digest of a text that is no JSON is none either, or
// it is. Not thread-safe.
class JsonDigest {
 public:
  static constexpr size_t kMaxString = 256, kMaxDepth = 32, kMaxScalars = 8, kMaxElements = 1024;

  // The digest of a text of JSON of more than `max_bytes` is given up.
  explicit JsonDigest(size_t max_bytes) noexcept : max_bytes_(max_bytes) {}

  // Takes the next bytes. True once the value that the text begins with has ended; what follows is ignored.
  bool Feed(std::string_view piece);
  bool ended() const noexcept { return ended_; }
  bool gave_up() const noexcept { return gave_up_; }
  // The digest so far; a whole JSON text when it has ended.
  std::string_view text() const noexcept { return text_; }
  // Bytes of strings that were left out.
  int64_t bytes_left_out() const noexcept { return left_out_; }

 private:
  void EatString(std::string_view piece, size_t& at);
  void Open(char c);
  void Close(char c);
  void Put(char c);
  bool muted() const noexcept { return muted_depth_ != 0; }

  const size_t max_bytes_;
  std::string text_;
  int64_t left_out_ = 0;
  bool ended_ = false, gave_up_ = false;
  bool in_string_ = false, after_backslash_ = false;
  size_t string_begin_ = 0;  // in text_
  int64_t string_bytes_ = 0;
  size_t depth_ = 0;
  size_t muted_depth_ = 0;  // nothing is copied until this depth is left; 0: all is
  bool muted_as_null_ = false;
  bool after_container_ = false;
  std::bitset<kMaxDepth + 1> is_array_;
  uint32_t elements_[kMaxDepth + 1] = {};
};

}  // namespace gpulens
