// The messages between a driver process and the agent: one per SOCK_SEQPACKET packet, at most 64 KiB,
// in the byte order of the machine (both ends are the same binary). Pure: no I/O here.
//
// The agent treats what it receives as bytes from outside: a broken driver may send anything.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include <gpulens/status.h>

#include "driver/vendor.h"

namespace gpulens::driver {

inline constexpr uint32_t kProtocolVersion = 1;
inline constexpr size_t kMaxMessage = 64 * 1024;
inline constexpr size_t kMaxFacts = 48;
inline constexpr size_t kMaxText = 512;
inline constexpr size_t kMaxProcesses = 512;

enum class MessageType : uint16_t {
  kHello = 1,
  kLibrary,
  kDevice,
  kReadings,
  kProcesses,
  kHeartbeat,
  kAttach = 100,  // To the driver.
};

struct Reading {
  uint32_t device = 0;
  uint16_t field = 0;  // An index into Vendor::fields.
  ReadStatus status = ReadStatus::kNever;
  uint8_t reserved = 0;
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

struct Fact {
  std::string_view key, value;
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
};

// Asks the driver to begin reading a device that it was told to leave out.
struct AttachRequest {
  uint32_t device = 0;
};

using Message = std::variant<Hello, LibraryReport, DeviceReport, ReadingsReport, ProcessesReport, Heartbeat,
                             AttachRequest>;

// Every number that indexes something is in range in the result; `fields` is the size of the vendor's
// table. kDataLoss says what is wrong.
Result<Message> DecodeMessage(std::span<const std::byte> bytes, size_t fields);

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

 private:
  void Begin(MessageType type);
  void Raw(const void* data, size_t size);
  template <class T>
  void Number(T value) {
    Raw(&value, sizeof value);
  }
  void Text(std::string_view text);
  Bytes Finish();

  std::vector<std::byte> buffer_;
};

}  // namespace gpulens::driver
