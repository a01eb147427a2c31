// The one message of a unary call, out of the bytes of its stream: five bytes of flag and length, then the
// message. Pure; reads bytes from outside, within a limit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace gpulens {

// Not thread-safe.
class GrpcMessageReader {
 public:
  enum class State : uint8_t {
    kMore,
    kWhole,
    kTooLarge,  // known from its head: nothing of it was kept
    kBad,       // no such head, or more than one message; see why
  };
  static constexpr size_t kHeadBytes = 5;

  explicit GrpcMessageReader(size_t limit) noexcept : limit_(limit) {}

  State Feed(std::string_view bytes);
  State state() const noexcept { return state_; }
  // Nothing has come yet.
  bool empty() const noexcept { return head_size_ == 0; }
  // The length that its head tells; 0 before that.
  size_t announced() const noexcept { return announced_; }
  bool packed() const noexcept { return packed_; }
  // What has come of it.
  std::string& message() noexcept { return message_; }
  // For people. Static storage.
  std::string_view why() const noexcept { return why_; }

 private:
  bool TakeHead();

  const size_t limit_;
  State state_ = State::kMore;
  char head_[kHeadBytes] = {};
  size_t head_size_ = 0, announced_ = 0;
  bool packed_ = false;
  std::string message_;
  std::string_view why_;
};

// The five bytes in front of a message, whose length must fit into 32 bits.
std::string GrpcMessageHead(bool packed, size_t size);

// Unpacks one gzip member into `out`. False when it is none; `too_large` then tells that it would be above
// `limit`, as far as its end says so.
bool GrpcGunzip(std::string_view packed, size_t limit, std::string& out, bool& too_large);

}  // namespace gpulens
