// The messages between a reader process and the agent: one per SOCK_SEQPACKET packet, at most 64 KiB,
// in the byte order of the machine (both ends are the same binary). Pure: no I/O here.
//
// The agent treats what it receives as bytes from outside: a broken driver may send anything.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include <gpulens/status.h>

#include "reader/cursor.h"
#include "reader/vendor.h"

namespace gpulens::driver {

inline constexpr uint32_t kProtocolVersion = 4;
inline constexpr size_t kMaxMessage = 64 * 1024;
inline constexpr size_t kMaxFacts = 48;
inline constexpr size_t kMaxProcesses = 512;
// The exit code of a reader process whose devices have come or gone: it is to be started again, now.
inline constexpr int kRecountExit = 5;
// And of one that uses more of the machine than it may: its last heartbeat says what.
inline constexpr int kBeyondExit = 6;

enum class MessageType : uint16_t {
  kHello = 1,
  kLibrary,
  kDevice,
  kReadings,
  kProcesses,
  kHeartbeat,
  kVendor,
  kAttach = 100,  // To the driver.
};

struct Reading {
  uint32_t device = 0;
  uint16_t field = 0;  // An index into Vendor::fields; a field of links where `part` is one.
  ReadStatus status = ReadStatus::kNever;
  uint8_t part = 0;     // 0: the device itself; else one of its links, from 1.
  int64_t boot_ns = 0;  // When the library was asked.
  int64_t raw = 0;      // In the unit of the field; 64-bit masks and counters as their bits.
};
static_assert(sizeof(Reading) == 24);

// A process that uses a device. What the library does not tell is kUnknown.
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
struct Hello {
  uint32_t protocol = kProtocolVersion;
  std::string_view build_id{};
};

// How opening the library ended.
struct LibraryReport {
  Fault fault = Fault::kNone;  // kNone: it is open.
  int32_t code = 0;            // The library's own.
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
  std::array<Fact, kMaxFacts> facts;
};

struct ReadingsReport {
  WireArray<Reading> readings;
};

struct ProcessesReport {
  uint32_t device = 0;
  int64_t boot_ns = 0;
  WireArray<ProcessUse> processes;
};

struct Heartbeat {
  int64_t boot_ns = 0;
  uint64_t sequence = 0;
  uint64_t calls = 0;    // Library calls that returned since the start.
  uint64_t dropped = 0;  // Messages the agent was too slow for.
  uint64_t watched = 0;  // Devices whose events the library tells.
  // Of the process itself: resident bytes, open descriptors, threads. 0: not told.
  uint64_t memory = 0, files = 0, threads = 0;
};

// What a vendor tells beyond readings. `kind` and `body` are the vendor's, and are judged by its
// VendorState.
struct VendorReport {
  uint32_t device = 0;
  uint32_t kind = 0;
  std::span<const std::byte> body{};
};

// Asks the driver to begin reading a device that it was told to leave out.
struct AttachRequest {
  uint32_t device = 0;
};

using Message = std::variant<Hello, LibraryReport, DeviceReport, ReadingsReport, ProcessesReport, Heartbeat,
                             VendorReport, AttachRequest>;

// Every number that indexes something is in range in the result, as far as the vendor's tables go; kind and
// body of a VendorReport are as they came. kDataLoss says what is wrong.
Result<Message> DecodeMessage(std::span<const std::byte> bytes, const Vendor& vendor);

// Makes one message at a time in a buffer that it keeps. Texts over kMaxText are cut, facts over
// kMaxFacts and elements that do not fit left out. Not thread-safe.
class MessageEncoder {
 public:
  using Bytes = std::span<const std::byte>;  // Valid until the next call.

  Bytes Encode(const Hello& message);
  Bytes Encode(const LibraryReport& message);
  Bytes Encode(const DeviceReport& head, std::span<const Fact> facts);
  Bytes Encode(std::span<const Reading> readings);
  Bytes Encode(uint32_t device, int64_t boot_ns, std::span<const ProcessUse> processes);
  Bytes Encode(const Heartbeat& message);
  Bytes Encode(const AttachRequest& message);

  // A message of a vendor: what stands between these two is its body.
  void BeginVendor(uint32_t kind, uint32_t device);
  template <class T>
  void Number(T value) {
    Raw(&value, sizeof value);
  }
  void Text(std::string_view text);
  // Their number, and at most `limit` of them.
  void Facts(std::span<const Fact> facts, size_t limit);
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

}  // namespace gpulens::driver
