// The single readings of AmdsmiReader: each returns the library's code, and emits its fields when that is
// kSuccess. The table says which fields those are.
#include <limits>

#include "sources/amdsmi/reader/amdsmi_reader.h"

namespace gpulens::amdsmi {

using driver::ReadStatus;
using driver::Tier;

int AmdsmiReader::ReadActivity() {
  auto* usage = Scratch<EngineUsage>();
  int code = caller_.Do(Call::kActivity, caller_.fn().Activity, processor_.handle, static_cast<void*>(usage));
  if (code != kSuccess) return code;
  EmitReported(Field::kActivityGfx, usage->gfx);
  EmitReported(Field::kActivityMemory, usage->memory);
  EmitReported(Field::kActivityMultimedia, usage->multimedia);
  return code;
}

template <MemoryType kType, Field kTotal>
int AmdsmiReader::ReadMemoryTotal() {
  uint64_t bytes = ~uint64_t{0};
  int code =
      caller_.Do(Call::kMemoryTotal, caller_.fn().MemoryTotal, processor_.handle, uint32_t{kType}, &bytes);
  if (code == kSuccess) EmitReported(kTotal, bytes);
  return code;
}

template <MemoryType kType, Field kUsed>
int AmdsmiReader::ReadMemoryUsed() {
  uint64_t bytes = ~uint64_t{0};
  int code =
      caller_.Do(Call::kMemoryUsage, caller_.fn().MemoryUsage, processor_.handle, uint32_t{kType}, &bytes);
  if (code == kSuccess) EmitReported(kUsed, bytes);
  return code;
}

int AmdsmiReader::ReadPower() {
  auto* bytes = Scratch<std::byte>();
  int code =
      caller_.Do(Call::kPowerInfo, caller_.fn().PowerInfo, processor_.handle, static_cast<void*>(bytes));
  if (code != kSuccess) return code;
  uint32_t current, average;
  std::memcpy(&current, bytes + library_.layout()->power_current, sizeof current);
  std::memcpy(&average, bytes + library_.layout()->power_average, sizeof average);
  EmitReported(Field::kPowerCurrent, current);
  EmitReported(Field::kPowerAverage, average);
  return code;
}

int AmdsmiReader::ReadPowerCap() {
  auto* info = Scratch<PowerCapInfo>();
  int code =
      caller_.Do(Call::kPowerCap, caller_.fn().PowerCap, processor_.handle, 0U, static_cast<void*>(info));
  if (code != kSuccess) return code;
  auto emit = [&](Field field, uint64_t value) {
    if (value == 0) return EmitAbsent(field);  // No least cap, or none at all.
    // uW, and W where the host of virtual machines answers: no board may draw 100 kW, or only 0.1 W.
    EmitReported(field, value, value < 100'000 ? 1'000'000 : 1);
  };
  emit(Field::kPowerCap, info->cap);
  emit(Field::kPowerCapDefault, info->default_cap);
  emit(Field::kPowerCapMin, info->min_cap);
  emit(Field::kPowerCapMax, info->max_cap);
  return code;
}

int AmdsmiReader::ReadEnergy() {
  uint64_t count = ~uint64_t{0}, timestamp = 0;
  float resolution = 0;
  int code =
      caller_.Do(Call::kEnergy, caller_.fn().Energy, processor_.handle, &count, &resolution, &timestamp);
  if (code != kSuccess) return code;
  // The count has 64 bits and a double keeps 53: the product would step by whole millijoules.
  long double uj = static_cast<long double>(count) * static_cast<long double>(resolution);
  bool told = !IsNotReported(count) && resolution > 0 && uj < 9e18L;
  if (told) Emit(Field::kEnergy, static_cast<uint64_t>(uj));
  else EmitAbsent(Field::kEnergy);
  return code;
}

template <Field kField, TemperatureType kType, TemperatureMetric kMetric>
int AmdsmiReader::ReadTemperature() {
  int64_t value = std::numeric_limits<int64_t>::max();
  int code = caller_.Do(Call::kTemperature, caller_.fn().Temperature, processor_.handle, uint32_t{kType},
                        uint32_t{kMetric}, &value);
  if (code != kSuccess) return code;
  // Degrees; thousandths of them from the older library beneath. Nothing of 1,000 degrees answers.
  if (value > -1000 && value < 1000) value *= 1000;
  bool told = value != 0 && value > -1'000'000 && value < 1'000'000 && value != 0xFFFF && value != 65'535'000;
  if (told) Emit(kField, 0, ReadStatus::kOk, value);
  else EmitAbsent(kField);
  return code;
}

template <Field kField, ClockType kType>
int AmdsmiReader::ReadClock() {
  constexpr auto kMax = static_cast<Field>(static_cast<uint16_t>(kField) + 1);
  auto* info = Scratch<ClockInfo>();
  int code = caller_.Do(Call::kClockInfo, caller_.fn().ClockInfo, processor_.handle, uint32_t{kType},
                        static_cast<void*>(info));
  if (code != kSuccess) return code;
  EmitReported(kField, info->current);
  if (info->max == 0) EmitAbsent(kMax);
  else EmitReported(kMax, info->max);
  return code;
}

const std::array<AmdsmiReader::Item, AmdsmiReader::kItemCount> AmdsmiReader::kItems = {{
    {Tier::kFast, Field::kActivityGfx, Field::kActivityMultimedia, true, &AmdsmiReader::ReadActivity},
    {Tier::kSlow, Field::kVramTotal, Field::kVramTotal, false,
     &AmdsmiReader::ReadMemoryTotal<kVram, Field::kVramTotal>},
    {Tier::kFast, Field::kVramUsed, Field::kVramUsed, false,
     &AmdsmiReader::ReadMemoryUsed<kVram, Field::kVramUsed>},
    {Tier::kSlow, Field::kVisibleTotal, Field::kVisibleTotal, false,
     &AmdsmiReader::ReadMemoryTotal<kVisibleVram, Field::kVisibleTotal>},
    {Tier::kSlow, Field::kVisibleUsed, Field::kVisibleUsed, false,
     &AmdsmiReader::ReadMemoryUsed<kVisibleVram, Field::kVisibleUsed>},
    {Tier::kSlow, Field::kGttTotal, Field::kGttTotal, false,
     &AmdsmiReader::ReadMemoryTotal<kGtt, Field::kGttTotal>},
    {Tier::kSlow, Field::kGttUsed, Field::kGttUsed, false,
     &AmdsmiReader::ReadMemoryUsed<kGtt, Field::kGttUsed>},
    {Tier::kFast, Field::kPowerCurrent, Field::kPowerAverage, true, &AmdsmiReader::ReadPower},
    {Tier::kSlow, Field::kPowerCap, Field::kPowerCapMax, true, &AmdsmiReader::ReadPowerCap},
    {Tier::kFast, Field::kEnergy, Field::kEnergy, false, &AmdsmiReader::ReadEnergy},
    {Tier::kFast, Field::kTemperatureEdge, Field::kTemperatureEdge, false,
     &AmdsmiReader::ReadTemperature<Field::kTemperatureEdge, kTempEdge, kTempCurrent>},
    {Tier::kFast, Field::kTemperatureHotspot, Field::kTemperatureHotspot, false,
     &AmdsmiReader::ReadTemperature<Field::kTemperatureHotspot, kTempHotspot, kTempCurrent>},
    {Tier::kFast, Field::kTemperatureMemory, Field::kTemperatureMemory, false,
     &AmdsmiReader::ReadTemperature<Field::kTemperatureMemory, kTempVram, kTempCurrent>},
    // Limits of a sensor that is not there are not asked for one by one: each is an item.
    {Tier::kSlow, Field::kCriticalEdge, Field::kCriticalEdge, false,
     &AmdsmiReader::ReadTemperature<Field::kCriticalEdge, kTempEdge, kTempCritical>},
    {Tier::kSlow, Field::kCriticalHotspot, Field::kCriticalHotspot, false,
     &AmdsmiReader::ReadTemperature<Field::kCriticalHotspot, kTempHotspot, kTempCritical>},
    {Tier::kSlow, Field::kCriticalMemory, Field::kCriticalMemory, false,
     &AmdsmiReader::ReadTemperature<Field::kCriticalMemory, kTempVram, kTempCritical>},
    {Tier::kSlow, Field::kEmergencyEdge, Field::kEmergencyEdge, false,
     &AmdsmiReader::ReadTemperature<Field::kEmergencyEdge, kTempEdge, kTempEmergency>},
    {Tier::kSlow, Field::kEmergencyHotspot, Field::kEmergencyHotspot, false,
     &AmdsmiReader::ReadTemperature<Field::kEmergencyHotspot, kTempHotspot, kTempEmergency>},
    {Tier::kSlow, Field::kEmergencyMemory, Field::kEmergencyMemory, false,
     &AmdsmiReader::ReadTemperature<Field::kEmergencyMemory, kTempVram, kTempEmergency>},
    {Tier::kFast, Field::kClockGfx, Field::kClockGfxMax, true,
     &AmdsmiReader::ReadClock<Field::kClockGfx, kClkGfx>},
    {Tier::kFast, Field::kClockMemory, Field::kClockMemoryMax, true,
     &AmdsmiReader::ReadClock<Field::kClockMemory, kClkMemory>},
    {Tier::kMedium, Field::kClockSoc, Field::kClockSocMax, true,
     &AmdsmiReader::ReadClock<Field::kClockSoc, kClkSoc>},
    {Tier::kMedium, Field::kClockFabric, Field::kClockFabricMax, true,
     &AmdsmiReader::ReadClock<Field::kClockFabric, kClkFabric>},
    {Tier::kMedium, Field::kClockVclk0, Field::kClockVclk0Max, true,
     &AmdsmiReader::ReadClock<Field::kClockVclk0, kClkVclk0>},
    {Tier::kMedium, Field::kClockDclk0, Field::kClockDclk0Max, true,
     &AmdsmiReader::ReadClock<Field::kClockDclk0, kClkDclk0>},
    {Tier::kFast, Field::kTemperatureVrGfx, Field::kResidencyMemory, true, &AmdsmiReader::ReadMetrics},
    {Tier::kMedium, Field::kPcieWidth, Field::kPcieNakReceived, true, &AmdsmiReader::ReadPcie},
    {Tier::kMedium, Field::kXgmiLink, Field::kXgmiLink, true, &AmdsmiReader::ReadXgmiLinks},
    {Tier::kMedium, Field::kFanSpeed, Field::kFanSpeedMax, false, &AmdsmiReader::ReadFan},
    {Tier::kMedium, Field::kFanRpm, Field::kFanRpm, false, &AmdsmiReader::ReadFanRpm},
    {Tier::kSlow, Field::kEccBlocks, Field::kEccDeferred, true, &AmdsmiReader::ReadEccBlocks},
    {Tier::kSlow, Field::kEccTotalCorrectable, Field::kEccTotalDeferred, true, &AmdsmiReader::ReadEccTotals},
    {Tier::kSlow, Field::kRetiredPages, Field::kRetiredPagesPending, true, &AmdsmiReader::ReadRetiredPages},
    {Tier::kSlow, Field::kComputePartition, Field::kComputePartition, false,
     &AmdsmiReader::ReadComputePartition},
    {Tier::kSlow, Field::kMemoryPartition, Field::kMemoryPartition, false,
     &AmdsmiReader::ReadMemoryPartition},
    {Tier::kSlow, Field::kPerformanceLevel, Field::kPerformanceLevel, false,
     &AmdsmiReader::ReadPerformanceLevel},
}};

}  // namespace gpulens::amdsmi
