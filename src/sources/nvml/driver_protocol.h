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

#include "sources/nvml/nvml_calls.h"
#include "sources/nvml/nvml_fields.h"
#include "sources/nvml/nvml_link_fields.h"
#include "sources/nvml/parts/nvml_parts.h"

namespace gpulens::nvml {

inline constexpr uint32_t kProtocolVersion = 2;
inline constexpr size_t kMaxMessage = 64 * 1024;
inline constexpr size_t kMaxFacts = 48;
inline constexpr size_t kMaxText = 512;
inline constexpr size_t kMaxProcesses = 1024;

enum class MessageType : uint16_t {
  kHello = 1,
  kLibrary,
  kEntity,
  kReadings,
  kProcesses,
  kEvents,
  kHeartbeat,
  kParts,
  kPart,
  kPartReadings,
  kProcessShares,
  kAttach = 100,  // To the driver.
};

// Stands before every message.
struct MessageHeader {
  uint16_t type = 0;
  uint16_t reserved = 0;
  uint32_t payload = 0;  // Bytes after the header.
};
static_assert(sizeof(MessageHeader) == 8);

struct Reading {
  uint32_t entity = 0;  // The GPU's index.
  uint16_t field = 0;   // A Field; a LinkField where `part` is a link.
  ReadStatus status = ReadStatus::kNever;
  uint8_t part = 0;     // 0: the GPU; else a link, see PartOfNvlink.
  int64_t boot_ns = 0;  // When the library was asked.
  int64_t raw = 0;      // In the unit of the field; 64-bit masks and counters as their bits.
};
static_assert(sizeof(Reading) == 24);

enum class ProcessType : uint32_t { kCompute, kGraphics, kMps };

struct GpuProcess {
  static constexpr uint64_t kUnknownMemory = ~uint64_t{0};
  static constexpr uint32_t kNoInstance = ~uint32_t{0};

  uint32_t pid = 0;
  ProcessType type = ProcessType::kCompute;
  uint64_t memory_used = kUnknownMemory;  // Bytes.
  uint32_t gpu_instance = kNoInstance;
  uint32_t compute_instance = kNoInstance;
};
static_assert(sizeof(GpuProcess) == 24);

// Something that happened on a GPU. `type` is the library's event type.
struct DeviceEvent {
  uint32_t entity = 0;
  uint32_t gpu_instance = GpuProcess::kNoInstance;
  uint64_t type = 0;
  uint64_t data = 0;
  int64_t boot_ns = 0;
};
static_assert(sizeof(DeviceEvent) == 32);

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
  std::string_view build_id;
};

// How far opening the library got.
enum class LibraryPhase : uint32_t { kLoad, kInit, kReady };

struct LibraryReport {
  LibraryPhase phase = LibraryPhase::kLoad;  // The phase that failed, or kReady.
  int32_t code = 0;                          // The library's return code; 0 in kReady.
  uint32_t gpu_count = 0;
  std::string_view path{}, library_version{}, driver_version{}, cuda_version{}, detail{};
};

struct Fact {
  std::string_view key, value;
};

// One GPU: why it could not be opened (`code`), or its identity.
struct EntityReport {
  uint32_t entity = 0;
  int32_t code = 0;
  size_t fact_count = 0;
  std::array<Fact, kMaxFacts> facts;
};

struct ReadingsReport {
  WireArray<Reading> readings;
};

struct ProcessesReport {
  uint32_t entity = 0;
  int64_t boot_ns = 0;
  WireArray<GpuProcess> processes;
};

struct EventsReport {
  WireArray<DeviceEvent> events;
};

struct Heartbeat {
  int64_t boot_ns = 0;
  uint64_t sequence = 0;
  uint64_t calls = 0;    // Library calls that returned since the start.
  uint64_t dropped = 0;  // Messages the agent was too slow for.
  uint64_t watched = 0;  // GPUs whose events the library tells.
};

// All parts of one kind that a GPU has now: what is not in the list is gone.
struct PartsReport {
  uint32_t entity = 0;
  PartKind kind = PartKind::kMig;
  uint32_t max = 0;  // MIG: how many there may be.
  WireArray<PartKey> keys;
};

// What identifies a part that a PartsReport has named.
struct PartReport {
  uint32_t entity = 0;
  PartKey key;
  size_t fact_count = 0;
  std::array<Fact, kMaxPartFacts> facts;
};

struct PartReadingsReport {
  WireArray<PartReading> readings;
};

struct ProcessSharesReport {
  uint32_t entity = 0;
  int64_t boot_ns = 0;
  WireArray<ProcessShare> shares;
};

// Asks the driver to begin reading a GPU that it was told to leave out.
struct AttachRequest {
  uint32_t entity = 0;
};

using Message =
    std::variant<Hello, LibraryReport, EntityReport, ReadingsReport, ProcessesReport, EventsReport, Heartbeat,
                 AttachRequest, PartsReport, PartReport, PartReadingsReport, ProcessSharesReport>;

// Every number that indexes something is in range in the result. kDataLoss says what is wrong.
Result<Message> DecodeMessage(std::span<const std::byte> bytes);

}  // namespace gpulens::nvml
