// What the supervision of a reader process must know of its library, and the words that both sides share.
// No metric name is born here: a collector maps fields to metrics.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/clock.h"
#include "reader/call_page.h"

namespace gpulens::reader {

// How often a field is read: every interval, every 10 s, every 60 s (or every interval if longer), or once
// while the device is attached; a static reading is repeated with the slow ones without a call.
enum class FieldTier : uint8_t { kFast, kMedium, kSlow, kStatic };
inline constexpr size_t kTierCount = 3;  // Those with a period.

// One number that the library reports of a device. What comes in numbered copies (links, blocks) has
// one field for each.
struct FieldInfo {
  std::string_view name;
  std::string_view unit;  // As the reader process sends it. Empty: a count, a state or a mask.
  FieldTier tier;
};

// Outcome of the last attempt to read a field.
enum class ReadStatus : uint8_t {
  kNever,         // Not tried yet.
  kOk,            // The value holds.
  kNotSupported,  // This device, driver or library does not have it.
  kNoPermission,
  kNotFound,
  kLost,           // The device is gone.
  kResetRequired,  // The device must be reset before it works again.
  kError,          // Any other error of the library.
  kCount,
};
inline constexpr size_t kReadStatusCount = static_cast<size_t>(ReadStatus::kCount);
// "ok", "not_supported", … Static storage.
std::string_view StatusName(ReadStatus status) noexcept;

enum class DeviceState : uint8_t {
  kStarting,  // Not opened yet.
  kOk,
  kHung,  // Inside a library call beyond its deadline.
  kLost,
  kResetRequired,
  kNoPermission,
  kFailed,   // Cannot be opened for another reason: see the code.
  kLeftOut,  // Hung twice, or ended the reader process twice; tried again later.
  kUnread,   // No thread could be made that would read it; tried again soon.
  kCount,
};

// Why a reader process was started.
enum class StartReason : uint8_t { kFirst, kCrash, kExited, kHang, kKilled, kReload, kProtocol, kCount };
std::string_view StartReasonName(StartReason reason) noexcept;

// Why there are no readings, for people and for `doctor`.
enum class ReaderFault : uint8_t {
  kNone,
  kLibraryNotFound,
  kNoPermission,
  kDriverNotLoaded,
  kVersionMismatch,  // Library and kernel driver, or library and our tables, do not fit.
  kNoDevices,
  kLibraryError,  // Any other code of the library.
  kCannotStart,   // The process could not be started, or ended before it spoke.
  kCrashed,
  kHung,
  kStuckInKernel,  // Killed, but the kernel will not let go of it.
  kBadMessage,
  kReleased,  // Ended on request, until it is resumed.
  kCount,
};

// The tables of one library. Static storage; safe to read from any thread.
struct VendorTables {
  std::string_view name{};        // "amdsmi": the argument of `gpulens reader`.
  std::string_view no_devices{};  // A sentence for a library that sees none.
  std::string_view device{};      // What people call one: "GPU".
  std::span<const FieldInfo> fields{};
  std::string_view (*call_name)(CallNumber call) noexcept = nullptr;  // "unknown" for what is no call.
  // Calls that open the library or wake a device and may rightly take many seconds.
  bool (*slow_call)(CallNumber call) noexcept = nullptr;
  // A device may have numbered links, each with the same fields; 0: this library has none.
  size_t links = 0, link_fields = 0;
  // As long as the thread that waits for events rightly stays in one call.
  Duration longest_wait{0};
};

}  // namespace gpulens::reader
