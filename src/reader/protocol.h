// Takes a received message apart. Pure; the bytes outlive what is taken from them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <gpulens/status.h>

#include "reader/vendor.h"

namespace gpulens::reader {

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

struct FactView {
  std::string_view key, value;
};

// Takes numbers and texts off the front. After the first failure everything reads as zero or empty.
class MessageCursor {
 public:
  explicit MessageCursor(std::span<const std::byte> rest) noexcept : rest_(rest) {}

  bool ok() const noexcept { return ok_; }
  bool done() const noexcept { return ok_ && rest_.empty(); }

  template <class T>
  T Number() noexcept {
    T value{};
    std::span<const std::byte> bytes = Take(sizeof value);
    if (!bytes.empty()) std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  template <class... T>
  void Numbers(T&... out) noexcept {
    ((out = Number<T>()), ...);
  }
  std::string_view Text() noexcept {
    size_t size = Number<uint16_t>();
    if (size > kMaxText) ok_ = false;
    std::span<const std::byte> bytes = Take(size);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  // A count and so many facts; the count. More than there is room for is a failure.
  template <size_t kRoom>
  size_t Facts(std::array<FactView, kRoom>& out) noexcept {
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

// The messages between a reader process and the agent: one per SOCK_SEQPACKET packet, at most 64 KiB,
// in the byte order of the machine (both ends are the same binary). Pure: no I/O here.
//
// The agent treats what it receives as bytes from outside: a broken process may send anything.
inline constexpr uint32_t kProtocolVersion = 4;
inline constexpr size_t kMaxMessage = 64 * 1024;
inline constexpr size_t kMaxFacts = 48;
inline constexpr size_t kMaxProcesses = 512;
// The exit code of a reader process whose devices have come or gone: it is to be started again, now.
inline constexpr int kRecountExit = 5;
// The exit code of one that exceeds its limits: its last heartbeat has the numbers.
inline constexpr int kBeyondExit = 6;

enum class MessageType : uint16_t {
  kHello = 1,
  kLibrary,
  kDevice,
  kReadings,
  kProcesses,
  kHeartbeat,
  kVendor,
  kAttach = 100,  // To the reader process.
};

struct DeviceReading {
  uint32_t device = 0;
  uint16_t field = 0;  // An index into VendorTables::fields; a field of links where `link` is one.
  ReadStatus status = ReadStatus::kNever;
  uint8_t link = 0;     // 0: the device itself; else one of its links, from 1.
  int64_t boot_ns = 0;  // when the library was called
  int64_t raw = 0;      // In the unit of the field; 64-bit masks and counters as their bits.
};
static_assert(sizeof(DeviceReading) == 24);

// A process that uses a device. Unknown numbers are kUnknown.
struct ProcessUse {
  static constexpr uint64_t kUnknown = ~uint64_t{0};

  uint32_t pid = 0;
  uint32_t compute_units = ~uint32_t{0};  // In use at the moment; all ones: unknown.
  uint64_t memory = kUnknown;             // Bytes of device memory.
  uint64_t host_memory = kUnknown;        // Bytes of host memory mapped by the device.
  uint64_t graphics_ns = kUnknown, encode_ns = kUnknown;
  std::array<char, 40> name{};  // Cut, and ended by a zero.
};
static_assert(sizeof(ProcessUse) == 80);

// The first message. Text views of all messages point into the received bytes.
struct HelloMessage {
  uint32_t protocol = kProtocolVersion;
  std::string_view build_id{};
};

// How opening the library ended.
struct LibraryReport {
  ReaderFault fault = ReaderFault::kNone;  // kNone: it is open.
  int32_t code = 0;                        // The library's own.
  uint32_t devices = 0;
  // `detail`: what is wrong and what to do about it, when there is a fault.
  std::string_view path{}, library_version{}, driver_version{}, runtime_version{}, detail{};
};

// One device: its identity, or why it could not be opened.
struct DeviceReport {
  uint32_t device = 0;
  DeviceState state = DeviceState::kOk;
  int32_t code = 0;
  size_t fact_count = 0;
  std::array<FactView, kMaxFacts> facts;
};

struct ReadingsReport {
  WireArray<DeviceReading> readings;
};

struct ProcessesReport {
  uint32_t device = 0;
  int64_t boot_ns = 0;
  WireArray<ProcessUse> processes;
};

struct HeartbeatMessage {
  int64_t boot_ns = 0;
  uint64_t sequence = 0;
  uint64_t calls = 0;    // Library calls that returned since the start.
  uint64_t dropped = 0;  // Messages the agent was too slow for.
  uint64_t watched = 0;  // devices whose events the library reports
  // Of the process itself: resident bytes, open descriptors, threads. 0: unknown.
  uint64_t memory = 0, files = 0, threads = 0;
};

// A message of a vendor beyond readings. Its VendorState validates `kind` and `body`.
struct VendorReport {
  uint32_t device = 0;
  uint32_t kind = 0;
  std::span<const std::byte> body{};
};

// Requests that the process begins to read a device that it leaves out.
struct AttachRequest {
  uint32_t device = 0;
};

using ReaderMessage = std::variant<HelloMessage, LibraryReport, DeviceReport, ReadingsReport, ProcessesReport,
                                   HeartbeatMessage, VendorReport, AttachRequest>;

// Every number that indexes something is in range in the result, as far as the vendor's tables go, and no
// time is negative; kind and body of a VendorReport are as they came. kDataLoss names the error.
Result<ReaderMessage> DecodeMessage(std::span<const std::byte> bytes, const VendorTables& vendor);

// Makes one message at a time in a buffer that it keeps. Texts over kMaxText are cut, facts over
// kMaxFacts and elements that do not fit left out. Not thread-safe.
class MessageEncoder {
 public:
  using Bytes = std::span<const std::byte>;  // Valid until the next call.

  Bytes Encode(const HelloMessage& message);
  Bytes Encode(const LibraryReport& message);
  Bytes Encode(const DeviceReport& head, std::span<const FactView> facts);
  Bytes Encode(std::span<const DeviceReading> readings);
  Bytes Encode(uint32_t device, int64_t boot_ns, std::span<const ProcessUse> processes);
  Bytes Encode(const HeartbeatMessage& message);
  Bytes Encode(const AttachRequest& message);

  // A message of a vendor: everything between these two is its body.
  void BeginVendor(uint32_t kind, uint32_t device);
  template <class T>
  void Number(T value) {
    Raw(&value, sizeof value);
  }
  template <class... T>
  void Numbers(const T&... values) {
    (Number(values), ...);
  }
  void Text(std::string_view text);
  // Their number, and at most `limit` of them.
  void Facts(std::span<const FactView> facts, size_t limit);
  // At most `limit`, and no more than there is room for.
  template <class T>
  void Rows(std::span<const T> rows, size_t limit) {
    rows = rows.first(std::min({rows.size(), limit, (kMaxMessage - buffer_.size()) / sizeof(T)}));
    Raw(rows.data(), rows.size_bytes());
  }
  Bytes Finish();

 private:
  void Begin(MessageType type);
  void Raw(const void* data, size_t size);

  std::vector<std::byte> buffer_;
};

}  // namespace gpulens::reader
