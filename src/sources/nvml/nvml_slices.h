// The slices of a GPU that the NVML source knows (MIG devices, vGPUs), what is read of them, and the GPM
// values of a whole GPU, which are read in the same way. The source's own names; no metric is born here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sources/nvml/nvml_fields.h"

// X(Id, GPM metric number). Shares in %, rates in MiB/s, over the time between two samples; cycles since the
// machine was started. From kGpmDecoder0 on they are read with kDetailMore only.
#define GPULENS_NVML_GPM_FIELDS(X) \
  X(GpmGraphics, 1)                \
  X(GpmSm, 2)                      \
  X(GpmOccupancy, 3)               \
  X(GpmInt, 4)                     \
  X(GpmTensor, 5)                  \
  X(GpmDfma, 6)                    \
  X(GpmHmma, 7)                    \
  X(GpmDmma, 8)                    \
  X(GpmImma, 9)                    \
  X(GpmDram, 10)                   \
  X(GpmFp64, 11)                   \
  X(GpmFp32, 12)                   \
  X(GpmFp16, 13)                   \
  X(GpmPcieTx, 20)                 \
  X(GpmPcieRx, 21)                 \
  X(GpmNvlinkRx, 60)               \
  X(GpmNvlinkTx, 61)               \
  X(GpmC2cTx, 100)                 \
  X(GpmC2cRx, 101)                 \
  X(GpmC2cDataTx, 102)             \
  X(GpmC2cDataRx, 103)             \
  X(GpmDecoder0, 30)               \
  X(GpmDecoder1, 31)               \
  X(GpmDecoder2, 32)               \
  X(GpmDecoder3, 33)               \
  X(GpmDecoder4, 34)               \
  X(GpmDecoder5, 35)               \
  X(GpmDecoder6, 36)               \
  X(GpmDecoder7, 37)               \
  X(GpmJpeg0, 40)                  \
  X(GpmJpeg1, 41)                  \
  X(GpmJpeg2, 42)                  \
  X(GpmJpeg3, 43)                  \
  X(GpmJpeg4, 44)                  \
  X(GpmJpeg5, 45)                  \
  X(GpmJpeg6, 46)                  \
  X(GpmJpeg7, 47)                  \
  X(GpmOpticalFlow0, 50)           \
  X(GpmOpticalFlow1, 51)           \
  X(GpmHitHost, 160)               \
  X(GpmHitPeer, 162)               \
  X(GpmHitDram, 164)               \
  X(GpmEncoder0, 166)              \
  X(GpmEncoder1, 167)              \
  X(GpmEncoder2, 168)              \
  X(GpmEncoder3, 169)              \
  X(GpmCycles, 248)                \
  X(GpmCyclesSm, 249)              \
  X(GpmCyclesTensor, 250)          \
  X(GpmCyclesDmma, 251)            \
  X(GpmCyclesHmma, 252)            \
  X(GpmCyclesImma, 253)            \
  X(GpmCyclesDfma, 254)            \
  X(GpmCyclesInt, 257)             \
  X(GpmCyclesFp64, 258)            \
  X(GpmCyclesFp32, 259)            \
  X(GpmCyclesFp16, 260)

namespace gpulens::nvml {

enum class SliceKind : uint8_t { kWhole, kMig, kVgpu };
inline constexpr uint8_t kSliceKinds = 3;

enum class SliceField : uint16_t {
#define GPULENS_NVML_GPM_FIELD(id, number) k##id,
  GPULENS_NVML_GPM_FIELDS(GPULENS_NVML_GPM_FIELD)
#undef GPULENS_NVML_GPM_FIELD
      kMemoryTotal,  // Bytes, of a MIG device; so are the next
  kMemoryUsed,
  kMemoryFree,
  kMemoryReserved,
  kBar1Used,
  kVgpuMemoryUsed,  // Bytes
  kVgpuLicensed,    // 0 or 1
  kVgpuSm,          // %; so are the next
  kVgpuMemory,
  kVgpuEncoder,
  kVgpuDecoder,
  kVgpuJpeg,
  kVgpuOfa,
  kCount,
};
inline constexpr size_t kSliceFieldCount = static_cast<size_t>(SliceField::kCount);
inline constexpr size_t kGpmFieldCount = static_cast<size_t>(SliceField::kMemoryTotal);
// From here on they are read with kDetailMore only.
inline constexpr size_t kGpmUsualCount = static_cast<size_t>(SliceField::kGpmDecoder0);

inline constexpr size_t kMaxSlices = 64;  // Of one kind on one GPU.
inline constexpr size_t kMaxSliceFacts = 12;

// Which slice of its GPU: a MIG device by its GPU and compute instance, a vGPU by the library's number.
struct SliceKey {
  SliceKind kind = SliceKind::kWhole;
  uint8_t reserved[3] = {};
  uint32_t id = 0;
  uint32_t sub = 0;

  friend bool operator==(const SliceKey& a, const SliceKey& b) noexcept {
    return a.kind == b.kind && a.id == b.id && a.sub == b.sub;
  }
};
static_assert(sizeof(SliceKey) == 12);

struct SliceReading {
  uint32_t entity = 0;  // The GPU's index.
  SliceKey key;
  uint16_t field = 0;  // A SliceField.
  ReadStatus status = ReadStatus::kNever;
  uint8_t reserved[5] = {};
  int64_t boot_ns = 0;  // when the library was called
  double value = 0;     // In the unit of the field.
};
static_assert(sizeof(SliceReading) == 40);

// What a process has used of its GPU in the last second or interval.
struct ProcessShare {
  static constexpr uint8_t kUnknown = 255;
  uint32_t pid = 0;
  uint8_t sm = kUnknown, memory = kUnknown, encoder = kUnknown, decoder = kUnknown, jpeg = kUnknown,
          ofa = kUnknown;  // %; above 100: the library's nonsense, to be rejected
  uint16_t reserved = 0;
};
static_assert(sizeof(ProcessShare) == 12);

// Bits of DeviceEvent::type, as the library numbers them.
enum EventType : uint64_t {
  kEventEccCorrected = 0x1,
  kEventEccUncorrected = 0x2,
  kEventPerformanceState = 0x4,
  kEventXid = 0x8,
  kEventClock = 0x10,
  kEventPowerSource = 0x80,
  kEventMigConfig = 0x100,
  kEventEccStorm = 0x200,
  kEventDramRetired = 0x400,
  kEventDramRetirementFailed = 0x800,
  kEventPoisonContained = 0x1000,
  kEventPoisonUncontained = 0x2000,
  kEventGpuUnavailable = 0x4000,
  kEventRecoveryAction = 0x8000,
};
// All but the changes of clock and performance state, which come often.
inline constexpr uint64_t kUsualEvents = 0xFFFF & ~uint64_t{kEventPerformanceState | kEventClock};

// The agent's side. `status` is of the latest attempt, the rest of the latest good one.
struct SliceValue {
  ReadStatus status = ReadStatus::kNever;
  int64_t boot_ns = 0;  // 0: never with success.
  double value = 0;
};
using SliceValues = std::array<SliceValue, kSliceFieldCount>;

struct GpuSlice {
  SliceKey key;
  // MIG: uuid name profile slices. vGPU: uuid type vm driver. Empty until they have arrived.
  std::vector<std::pair<std::string, std::string>> facts;
  SliceValues values{};

  const SliceValue& operator[](SliceField field) const noexcept { return values[static_cast<size_t>(field)]; }
  std::string_view Fact(std::string_view name) const noexcept {
    for (const auto& [key_text, value] : facts) {
      if (key_text == name) return value;
    }
    return {};
  }
};

// All that is known of a GPU's slices.
struct GpuSlices {
  static constexpr uint32_t kUnknown = ~uint32_t{0};

  SliceValues whole{};          // GPM of the GPU itself; never with success while MIG is on.
  std::vector<GpuSlice> list;   // Those that exist; sorted by kind, id, sub.
  uint32_t mig_max = kUnknown;  // Most MIG devices; kUnknown: this GPU has no MIG.
  bool vgpu_host = false;       // vGPUs are listed, though there may be none.
  std::vector<ProcessShare> shares;
  int64_t shares_boot_ns = 0;  // 0: the library has no shares (of this GPU, or in MIG mode).

  const SliceValue& operator[](SliceField field) const noexcept { return whole[static_cast<size_t>(field)]; }
};

}  // namespace gpulens::nvml
