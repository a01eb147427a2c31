// Readings of GpuReader that are functions of their own: a table of what each reads and how often, and
// what such a function works with. GpuReader keeps the schedule and what it has learnt of each.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "sources/nvml/nvml_fields.h"
#include "sources/nvml/nvml_link_fields.h"
#include "sources/nvml/reader/gpu_identity.h"
#include "sources/nvml/reader/read_status.h"

namespace gpulens::nvml {

// Takes the readings of one round.
class ReadingSink {
 public:
  virtual void Emit(uint8_t part, uint16_t field, ReadStatus status, int64_t raw) = 0;

 protected:
  ~ReadingSink() = default;
};

struct ItemContext {
  Caller& caller;
  const GpuIdentity& identity;
  ReadingSink& sink;

  void Emit(Field field, int64_t raw) const { Emit(field, ReadStatus::kOk, raw); }
  void Emit(Field field, ReadStatus status, int64_t raw) const {
    sink.Emit(0, static_cast<uint16_t>(field), status, raw);
  }
};

// Stands after the last field of an item.
inline constexpr Field kEndOfFields = Field::kCount;

// One or a few calls and the fields they give together.
struct MoreItem {
  Tier tier = Tier::kSlow;
  std::array<Field, 6> fields{};
  // The library's code; not kSuccess: nothing was emitted, and the code holds for all fields.
  int (*read)(const ItemContext&) = nullptr;
  uint32_t details = 0;  // Read only when one of these Details is asked for; 0: always.
};

std::span<const MoreItem> BoardItems() noexcept;   // Engines, temperatures, clocks, fans, encoder, modes.
std::span<const MoreItem> ErrorItems() noexcept;   // Memory errors and repair.
std::span<const MoreItem> FabricItems() noexcept;  // NVLink fabric, confidential computing.
inline constexpr size_t kMaxMoreItems = 96;        // In all of these.

// Facts beyond the identity that every GPU has: place, firmware, what is near. Appends to
// `identity.facts`: gsp_firmware platform_chassis_serial platform_slot platform_tray platform_host
// platform_module cpu_affinity memory_affinity topology. The last is one letter per GPU of the machine:
// n NVLink, i same board, s one switch, m more switches, b host bridge, u NUMA node, y system, - not known.
void AddMoreFacts(Caller& caller, unsigned index, uint32_t details, GpuIdentity& identity);

// A field value of any type as an unsigned number; a negative one as its bits.
uint64_t UnsignedOf(unsigned value_type, const Value& value) noexcept;

}  // namespace gpulens::nvml
