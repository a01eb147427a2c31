// Takes a received message apart. Pure; the bytes outlive what is taken from them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include <gpulens/status.h>

namespace gpulens::driver {

inline constexpr size_t kMaxText = 512;

// kDataLoss: "driver message: …".
inline Status BadMessage(std::string_view what) {
  return {Code::kDataLoss, "driver message: " + std::string(what)};
}

// An array inside a received message. Elements are copied out: the bytes may be unaligned.
template <class T>
class WireArray {
 public:
  WireArray() noexcept = default;
  explicit WireArray(std::span<const std::byte> bytes) noexcept : bytes_(bytes) {}
  size_t size() const noexcept { return bytes_.size() / sizeof(T); }
  T operator[](size_t i) const noexcept {
    T value;
    std::memcpy(&value, bytes_.data() + i * sizeof(T), sizeof(T));
    return value;
  }

 private:
  std::span<const std::byte> bytes_;
};

struct Fact {
  std::string_view key, value;
};

// Takes numbers and texts off the front. After the first failure everything reads as zero or empty.
class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> rest) noexcept : rest_(rest) {}

  bool ok() const noexcept { return ok_; }
  bool done() const noexcept { return ok_ && rest_.empty(); }

  template <class T>
  T Number() noexcept {
    T value{};
    std::span<const std::byte> bytes = Take(sizeof value);
    if (!bytes.empty()) std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  std::string_view Text() noexcept {
    size_t size = Number<uint16_t>();
    if (size > kMaxText) ok_ = false;
    std::span<const std::byte> bytes = Take(size);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  // A count and so many facts; the count. More than there is room for is a failure.
  template <size_t kRoom>
  size_t Facts(std::array<Fact, kRoom>& out) noexcept {
    size_t count = Number<uint32_t>();
    if (count > kRoom) ok_ = false;
    for (size_t i = 0; ok_ && i < count; ++i) {
      out[i].key = Text();
      out[i].value = Text();
    }
    return ok_ ? count : 0;
  }
  // All that is left, which must be whole elements and at most `limit` of them.
  template <class T>
  WireArray<T> Rows(size_t limit) noexcept {
    if (rest_.size() % sizeof(T) != 0 || rest_.size() / sizeof(T) > limit) ok_ = false;
    return WireArray<T>(Take(rest_.size()));
  }
  std::span<const std::byte> Rest() noexcept { return Take(rest_.size()); }

 private:
  std::span<const std::byte> Take(size_t size) noexcept {
    if (!ok_ || size > rest_.size()) {
      ok_ = false;
      return {};
    }
    std::span<const std::byte> taken = rest_.first(size);
    rest_ = rest_.subspan(size);
    return taken;
  }

  std::span<const std::byte> rest_;
  bool ok_ = true;
};

}  // namespace gpulens::driver
