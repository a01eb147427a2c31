// Reads the numbers of one GPU or partition on a schedule of three tiers.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

#include "reader/process/device_reader.h"
#include "reader/process/library_caller.h"
#include "sources/amdsmi/amdsmi_fields.h"
#include "sources/amdsmi/reader/amdsmi_library.h"

namespace gpulens::amdsmi {

// The library's sentinels: all bits set, of the number's width or of the 16 bits that it was read
// with, and what its Python side once printed for a missing number.
template <class Number>
constexpr bool IsNotReported(Number value) noexcept {
  static_assert(std::is_unsigned_v<Number>);
  if (value == std::numeric_limits<Number>::max()) return true;
  // A 64-bit counter may well pass 0xFFFF; a smaller number of ours never does.
  if constexpr (sizeof(Number) == 8) return value == 9223372036854775794U;
  return value == 0xFFFF;
}

// Used by one thread. Everything it is given outlives it. Allocates only when it is attached and when a
// GPU has more processes than ever before.
//
// What a GPU does not support is learnt at the first answer and queried again as QueryBackoff decides.
// A sentinel is reported as not supported.
class AmdsmiReader final : public reader::DeviceReader {
 public:
  AmdsmiReader(const AmdsmiLibrary& library, uint32_t index, reader::CallSlot& slot, const Clock& clock,
               const reader::TierClock::Periods& periods);

  Attached Attach() override;
  const reader::DeviceFacts& facts() const noexcept override { return facts_; }
  // False when the GPU is gone: none of the calls that should have worked did, each for want of a device.
  bool Round(int64_t boot_ns, reader::MessageOutbox& out) override;

  // The reading of a round, without the sending. The results stay until the next one.
  bool Read(int64_t boot_ns);
  std::span<const reader::DeviceReading> readings() const noexcept { return readings_; }
  // True when the last round has read the process list.
  bool has_processes() const noexcept { return has_processes_; }
  std::span<const reader::ProcessUse> processes() const noexcept { return processes_; }
  uint64_t calls() const noexcept override { return caller_.calls(); }

 private:
  // The fields that one call gives, or a few alike; the tier of the first decides how often it is called.
  struct Item {
    Field first, last;
    int (AmdsmiReader::*read)();
    bool needs_layout;  // Reads a struct: only where the version is known.
  };
  struct ItemMemory {
    reader::QueryBackoff again;
    bool denied = false;
    bool tried = false;  // in this round
  };
  static std::span<const Item> Items() noexcept;

  // Calls a function about the GPU. The library's code.
  template <class Function, class... Arguments>
  int Do(Function AmdsmiSymbols::* function, Arguments... arguments) {
    return caller_.Do(caller_.fn().*function, processor_.handle, arguments...);
  }
  void Emit(Field field, unsigned copy, reader::ReadStatus status, int64_t raw);
  void Emit(Field field, uint64_t raw, unsigned copy = 0) {
    Emit(field, copy, reader::ReadStatus::kOk, static_cast<int64_t>(raw));
  }
  // Unless the number is a sentinel of its width.
  template <class Number>
  void EmitReported(Field field, Number value, uint64_t factor = 1, unsigned copy = 0) {
    if (IsNotReported(value)) return EmitAbsent(field, copy);
    Emit(field, value * factor, copy);
  }
  // Repeated with the slow tier, since a message may have been lost.
  void EmitAbsent(Field field, unsigned copy = 0);
  void EmitIf(bool reported, Field field, int64_t raw, unsigned copy = 0) {
    if (reported) Emit(field, copy, reader::ReadStatus::kOk, raw);
    else EmitAbsent(field, copy);
  }
  void EmitAll(const Item& item, reader::ReadStatus status);
  bool Due(Field field) const noexcept;

  // The scratch room, all bits set, as the struct to be filled in.
  template <class Struct>
  Struct* Scratch() noexcept {
    static_assert(sizeof(Struct) <= kScratchBytes && std::is_trivially_copyable_v<Struct>);
    std::memset(scratch_.data(), 0xFF, scratch_.size());
    return reinterpret_cast<Struct*>(scratch_.data());
  }

  // Calls a function that fills in a struct, and then `use` where it succeeded. The library's code.
  template <class Struct, class Function, class Use>
  int Query(Function function, Use use) {
    auto* out = Scratch<Struct>();
    int code = Do(function, static_cast<void*>(out));
    if (code == kSuccess) use(out);
    return code;
  }

  void ReadProcesses();
  int ReadProcessList(uint32_t& count);
  void TakeProcesses(uint32_t count);

  int ReadActivity();
  template <auto kFunction, MemoryType kType, Field kField>
  int ReadMemory();
  int ReadPower();
  int ReadPowerCap();
  int ReadEnergy();
  template <Field kField, TemperatureType kType, TemperatureMetric kMetric>
  int ReadTemperature();
  template <Field kField, ClockType kType>
  int ReadClock();
  int ReadMetrics();
  void TakeEngines();
  int ReadPcie();
  int ReadXgmiLinks();
  int ReadFan();
  int ReadFanRpm();
  int ReadEccBlocks();
  int ReadEccTotals();
  int ReadRetiredPages();
  int ReadComputePartition();
  int ReadMemoryPartition();
  int ReadPerformanceLevel();

  const AmdsmiLibrary& library_;
  const uint32_t index_;
  const ListedProcessor& processor_;
  AmdsmiCaller caller_;
  reader::TierClock tiers_;
  reader::DeviceFacts facts_;

  std::vector<ItemMemory> items_;  // as Items()
  std::array<reader::QueryBackoff, std::size(kEccBlocks)> ecc_{};
  reader::QueryBackoff process_list_;
  int64_t now_ns_ = 0;  // Of the round.
  bool has_processes_ = false;
  std::vector<reader::DeviceReading> readings_;
  std::vector<reader::ProcessUse> processes_;
  std::vector<std::byte> scratch_, process_buffer_;
  int64_t processes_boot_ns_ = 0;
  reader::MessageEncoder encoder_;
};

}  // namespace gpulens::amdsmi
