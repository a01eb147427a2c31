// A header block as it comes in, kept within limits. Not thread-safe.
#pragma once

#include <cstddef>
#include <string_view>

#include "net/http2/http2_fields.h"

namespace gpulens {

class Http2Block {
 public:
  // A block this many times above its limit is no mistake any more.
  static constexpr size_t kTooManyTimes = 4;
  // It comes in so many CONTINUATION frames at most: 16 KiB each, far above what any limit allows.
  static constexpr int kMaxContinuations = 8;

  Http2Block(size_t max_bytes, size_t max_count) noexcept : max_bytes_(max_bytes), max_count_(max_count) {}

  void Begin() noexcept {
    fields_.Clear();
    bytes_ = count_ = 0;
    continuations_ = 0;
  }
  // Both are false when whoever sends this should be shut out. What is above the limit is not kept.
  bool Continue() noexcept { return ++continuations_ <= kMaxContinuations; }
  bool Add(std::string_view name, std::string_view value) {
    bytes_ += name.size() + value.size() + Http2Fields::kOverhead;
    ++count_;
    if (!too_large()) fields_.Add(name, value);
    return bytes_ <= kTooManyTimes * max_bytes_ && count_ <= kTooManyTimes * max_count_;
  }

  bool too_large() const noexcept { return bytes_ > max_bytes_ || count_ > max_count_; }
  const Http2Fields& fields() const noexcept { return fields_; }

 private:
  const size_t max_bytes_, max_count_;
  Http2Fields fields_;
  size_t bytes_ = 0, count_ = 0;
  int continuations_ = 0;
};

}  // namespace gpulens
