#include "wire/llm/json_digest.h"

#include <algorithm>

namespace gpulens {

void JsonDigest::Put(char c) {
  if (muted()) return;
  if (text_.size() >= max_bytes_) gave_up_ = true;
  else text_ += c;
}

bool JsonDigest::Feed(std::string_view piece) {
  for (size_t at = 0; at < piece.size() && !ended_ && !gave_up_;) {
    if (in_string_) {
      EatString(piece, at);
      continue;
    }
    const char c = piece[at++];
    switch (c) {
      case '"':
        in_string_ = true;
        string_begin_ = text_.size();
        string_bytes_ = 0;
        Put(c);
        after_container_ = false;
        break;
      case '{':
      case '[': Open(c); break;
      case '}':
      case ']': Close(c); break;
      case ',':
        if (!muted() && depth_ <= kMaxDepth && is_array_[depth_] &&
            ++elements_[depth_] >= (after_container_ ? kMaxElements : kMaxScalars)) {
          // Until the array is closed.
          muted_depth_ = depth_;
          muted_as_null_ = false;
          break;
        }
        Put(c);
        break;
      case ' ':
      case '\t':
      case '\r':
      case '\n':
        // One blank, so that what it separates stays separate.
        if (!text_.empty() && text_.back() != ' ') Put(' ');
        break;
      default:
        Put(c);
        after_container_ = false;
        break;
    }
  }
  return ended_;
}

void JsonDigest::Open(char c) {
  ++depth_;
  if (muted()) return;
  if (depth_ > kMaxDepth) {
    muted_depth_ = depth_;
    muted_as_null_ = true;
    return;
  }
  is_array_[depth_] = c == '[';
  elements_[depth_] = 0;
  after_container_ = false;
  Put(c);
}

void JsonDigest::Close(char c) {
  if (depth_ == 0) {
    gave_up_ = true;
    return;
  }
  if (muted() && depth_ == muted_depth_) {
    muted_depth_ = 0;
    if (muted_as_null_) {
      for (const char n : {'n', 'u', 'l', 'l'}) Put(n);
    } else {
      Put(c);
    }
  } else {
    Put(c);
  }
  after_container_ = true;
  if (--depth_ == 0) ended_ = true;
}

void JsonDigest::EatString(std::string_view piece, size_t& at) {
  while (at < piece.size()) {
    if (after_backslash_) {
      after_backslash_ = false;
      ++string_bytes_;
      if (string_bytes_ <= static_cast<int64_t>(kMaxString)) Put(piece[at]);
      ++at;
      continue;
    }
    const std::string_view rest = piece.substr(at);
    size_t plain = 0;
    while (plain < rest.size() && rest[plain] != '"' && rest[plain] != '\\') ++plain;
    const size_t room = string_bytes_ < static_cast<int64_t>(kMaxString)
                            ? kMaxString - static_cast<size_t>(string_bytes_)
                            : 0;
    for (const char c : rest.substr(0, std::min(plain, room))) Put(c);
    string_bytes_ += static_cast<int64_t>(plain);
    at += plain;
    if (at == piece.size()) return;
    if (piece[at] == '\\') {
      ++string_bytes_;
      if (string_bytes_ <= static_cast<int64_t>(kMaxString)) Put('\\');
      after_backslash_ = true;
      ++at;
      continue;
    }
    ++at;
    in_string_ = false;
    if (string_bytes_ > static_cast<int64_t>(kMaxString)) {
      left_out_ += string_bytes_;
      if (!muted() && !gave_up_) text_.resize(string_begin_ + 1);
    }
    Put('"');
    return;
  }
}

}  // namespace gpulens
