// Status and Result: how functions of gpulens report errors.
//
// Not for programming errors (CHECK crashes) nor for hot paths (they are noexcept, drop and count). Not
// std::expected: libstdc++ 12 has it only as C++23, and not [[nodiscard]].
//
//   Result<int> Port(std::string_view text);
//   auto port = Port("9091");
//   if (!port) return port.error();
//
// Plain values, without locks.
#pragma once

#include <cassert>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace gpulens {

// A number that was not measured, which is never 0.
inline constexpr double kNotMeasured = std::numeric_limits<double>::quiet_NaN();

// Errors that callers distinguish. The set is closed; `detail` has anything finer.
enum class Code : uint8_t {
  kOk,
  kUnavailable,       // This machine lacks the device, file or server.
  kPermissionDenied,  // It exists, but this process may not read it.
  kInvalidArgument,   // The argument or the configuration is invalid.
  kDataLoss,          // The other side sent bytes that cannot be decoded.
  kTimeout,           // There was no answer by the deadline.
  kExhausted,         // A limit of size, count or queue is reached.
  kIo,                // Any other failed system call.
};

// Name of the code in metrics and logs: "permission_denied". Static storage.
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

// Success, or a code with a sentence for people: what failed, why and, if known, what to do.
struct [[nodiscard]] Status {
  Code code = Code::kOk;
  std::string detail;

  bool ok() const noexcept { return code == Code::kOk; }
  explicit operator bool() const noexcept { return ok(); }
};

inline Status Ok() noexcept { return {}; }

// A value or an error. Reading the value of an error is a programming error.
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
  // Ok for a value, otherwise the error.
  Status status() const { return ok() ? Status{} : error(); }

 private:
  std::variant<T, Status> state_;
};

}  // namespace gpulens
