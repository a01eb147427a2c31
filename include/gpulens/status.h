// Status and Result: how every part of gpulens reports that something did not work.
//
// Not for programmer errors (those CHECK and crash) and not for hot paths (those are noexcept,
// drop and count). Ours and not std::expected: libstdc++ 12 has it only as C++23 and there it is
// not [[nodiscard]].
//
//   Result<int> Port(std::string_view text);
//   auto port = Port("9091");
//   if (!port) return port.error();
//
// Plain values: safe to copy and move between threads, not to share without a lock.
#pragma once

#include <cassert>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace gpulens {

// A number that was not measured. Never 0.
inline constexpr double kNotMeasured = std::numeric_limits<double>::quiet_NaN();

// The failures a caller may want to tell apart. Closed on purpose: anything finer is `detail`.
enum class Code : uint8_t {
  kOk,
  kUnavailable,       // This machine does not have the thing (no GPU, file absent).
  kPermissionDenied,  // It is there; we may not read it.
  kInvalidArgument,   // The caller or the configuration is wrong.
  kDataLoss,          // The other side sent bytes that cannot be understood.
  kTimeout,           // No answer by the deadline.
  kExhausted,         // A bound of ours is reached: size, count, queue.
  kIo,                // Any other failed system call.
};

// The code as it stands in metrics and logs: "permission_denied". Static storage.
constexpr std::string_view CodeName(Code code) noexcept {
  switch (code) {
    case Code::kOk: return "ok";
    case Code::kUnavailable: return "unavailable";
    case Code::kPermissionDenied: return "permission_denied";
    case Code::kInvalidArgument: return "invalid_argument";
    case Code::kDataLoss: return "data_loss";
    case Code::kTimeout: return "timeout";
    case Code::kExhausted: return "exhausted";
    case Code::kIo: return "io";
  }
  return "unknown";
}

// Success, or a code with a sentence for people: what, why and, when known, what to do.
struct [[nodiscard]] Status {
  Code code = Code::kOk;
  std::string detail;

  bool ok() const noexcept { return code == Code::kOk; }
  explicit operator bool() const noexcept { return ok(); }
};

inline Status Ok() noexcept { return {}; }

// A value or a Status that is not ok. Reading the value of a failed Result is a programmer error.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Status error) : state_(std::in_place_index<1>, std::move(error)) {
    assert(!std::get_if<1>(&state_)->ok());
  }

  bool ok() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return ok(); }

  T& operator*() & noexcept { return assert(ok()), *std::get_if<0>(&state_); }
  const T& operator*() const& noexcept { return assert(ok()), *std::get_if<0>(&state_); }
  T&& operator*() && noexcept { return assert(ok()), std::move(*std::get_if<0>(&state_)); }
  T* operator->() noexcept { return assert(ok()), std::get_if<0>(&state_); }
  const T* operator->() const noexcept { return assert(ok()), std::get_if<0>(&state_); }
  T value_or(T fallback) && { return ok() ? std::move(**this) : std::move(fallback); }

  const Status& error() const& noexcept { return assert(!ok()), *std::get_if<1>(&state_); }
  Status&& error() && noexcept { return assert(!ok()), std::move(*std::get_if<1>(&state_)); }
  // A copy of the outcome without the value.
  Status status() const { return ok() ? Status{} : error(); }

 private:
  std::variant<T, Status> state_;
};

}  // namespace gpulens
