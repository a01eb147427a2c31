// Readings of AmdsmiReader, and the table of its items.

#include <algorithm>
#include <cctype>
#include <cstring>
#include <limits>
#include <string_view>

#include "sources/amdsmi/reader/amdsmi_reader.h"

namespace gpulens::amdsmi {
namespace {

// 2500 to 64000 MT/s, or the same in whole GT/s, to a generation; 0 for what is none.
unsigned GenerationOf(uint32_t speed) noexcept {
  constexpr uint32_t kSpeeds[] = {2500, 5000, 8000, 16000, 32000, 64000};
  for (unsigned i = 0; i < std::size(kSpeeds); ++i) {
    bool whole = speed == kSpeeds[i] / 1000 || (i == 0 && speed == 3);
    if (speed == kSpeeds[i] || whole) return i + 1;
  }
  return 0;
}

bool IsWidth(uint16_t width) noexcept {
  return width == 1 || width == 2 || width == 4 || width == 8 || width == 12 || width == 16 || width == 32;
}

// "SPX" is "spx".
bool SameWord(std::string_view a, std::string_view lower) noexcept {
  return std::equal(a.begin(), a.end(), lower.begin(), lower.end(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == y; });
}

}  // namespace

int AmdsmiReader::ReadMetrics() {
  return Query<GpuMetrics>(&AmdsmiSymbols::GpuMetrics, [&](const GpuMetrics* metrics) {
    EmitReported(Field::kTemperatureVrGfx, metrics->temperature_vr_gfx);
    EmitReported(Field::kTemperatureVrSoc, metrics->temperature_vr_soc);
    EmitReported(Field::kTemperatureVrMemory, metrics->temperature_vr_memory);
    EmitReported(Field::kThrottleMask, metrics->throttle_mask);
    if (Due(Field::kTemperatureStack)) TakeEngines();
    for (unsigned i = 0; i < CopiesOf(Field::kXgmiRead); ++i) {
      EmitReported(Field::kXgmiRead, metrics->xgmi_read[i], 1024, i);
      EmitReported(Field::kXgmiWrite, metrics->xgmi_write[i], 1024, i);
    }
    uint64_t none = ~uint64_t{0};
    bool residency = library_.layout()->residency;
    EmitReported(Field::kResidencyCycles, residency ? metrics->residency_cycles : none);
    EmitReported(Field::kResidencyProchot, residency ? metrics->residency_prochot : none);
    EmitReported(Field::kResidencyPower, residency ? metrics->residency_power : none);
    EmitReported(Field::kResidencySocket, residency ? metrics->residency_socket : none);
    EmitReported(Field::kResidencyVr, residency ? metrics->residency_vr : none);
    EmitReported(Field::kResidencyMemory, residency ? metrics->residency_memory : none);
  });
}

// What of the metrics is wanted less often.
void AmdsmiReader::TakeEngines() {
  const auto* metrics = reinterpret_cast<const GpuMetrics*>(scratch_.data());
  auto emit_known = [&](Field field, uint16_t value, unsigned copy) {
    if (value == 0) return EmitAbsent(field, copy);  // A sensor or rail that the board does not have.
    EmitReported(field, value, 1, copy);
  };
  for (unsigned i = 0; i < CopiesOf(Field::kTemperatureStack); ++i) {
    emit_known(Field::kTemperatureStack, metrics->temperature_stack[i], i);
  }
  emit_known(Field::kVoltageGfx, metrics->voltage_gfx, 0);
  emit_known(Field::kVoltageSoc, metrics->voltage_soc, 0);
  emit_known(Field::kVoltageMemory, metrics->voltage_memory, 0);
  for (unsigned i = 0; i < CopiesOf(Field::kVcnActivity); ++i) {
    EmitReported(Field::kVcnActivity, metrics->vcn_activity[i], 1, i);
  }
  for (unsigned i = 0; i < CopiesOf(Field::kJpegActivity); ++i) {
    EmitReported(Field::kJpegActivity, metrics->jpeg_activity[i], 1, i);
  }
  emit_known(Field::kXgmiWidth, metrics->xgmi_width, 0);
}

int AmdsmiReader::ReadPcie() {
  return Query<PcieInfo>(&AmdsmiSymbols::PcieInfo, [&](const PcieInfo* info) {
    auto width = [&](Field field, uint16_t value) { EmitIf(IsWidth(value), field, value); };
    auto generation = [&](Field field, uint32_t speed) {
      unsigned number = GenerationOf(speed);
      EmitIf(number > 0, field, number);
    };
    width(Field::kPcieWidth, info->metric.width);
    generation(Field::kPcieGeneration, info->metric.speed);
    width(Field::kPcieWidthMax, info->fixed.max_width);
    generation(Field::kPcieGenerationMax, info->fixed.max_speed);
    EmitReported(Field::kPcieReplay, info->metric.replay);
    EmitReported(Field::kPcieRecovery, info->metric.recovery);
    EmitReported(Field::kPcieRollover, info->metric.rollover);
    EmitReported(Field::kPcieNakSent, info->metric.nak_sent);
    EmitReported(Field::kPcieNakReceived, info->metric.nak_received);
  });
}

int AmdsmiReader::ReadXgmiLinks() {
  return Query<XgmiLinkStatus>(&AmdsmiSymbols::XgmiLinkStatus, [&](const XgmiLinkStatus* links) {
    uint32_t total = std::min(links->total, CopiesOf(Field::kXgmiLink));
    for (unsigned i = 0; i < CopiesOf(Field::kXgmiLink); ++i) {
      // A disabled link is not counted: it is not meant to work.
      EmitIf(i < total && links->status[i] <= 1, Field::kXgmiLink, links->status[i], i);
    }
  });
}

int AmdsmiReader::ReadFan() {
  int64_t speed = -1;
  int code = Do(&AmdsmiSymbols::FanSpeed, 0U, &speed);
  if (code != kSuccess) return code;
  uint64_t max = 0;
  code = Do(&AmdsmiSymbols::FanSpeedMax, 0U, &max);
  if (code != kSuccess) return code;
  const bool reported = speed >= 0 && max > 0 && max <= 100'000 && speed <= 100'000;
  EmitIf(reported, Field::kFanSpeed, speed);
  EmitIf(reported, Field::kFanSpeedMax, static_cast<int64_t>(max));
  return code;
}

int AmdsmiReader::ReadFanRpm() {
  int64_t rpm = -1;
  int code = Do(&AmdsmiSymbols::FanRpms, 0U, &rpm);
  if (code != kSuccess) return code;
  EmitIf(rpm >= 0 && rpm < 0xFFFF, Field::kFanRpm, rpm);
  return code;
}

int AmdsmiReader::ReadComputePartition() {
  char text[64] = "";
  int code = Do(&AmdsmiSymbols::ComputePartition, text, uint32_t{63});
  if (code != kSuccess) return code;
  std::string_view name(text, ::strnlen(text, sizeof text));
  for (unsigned i = 1; i < std::size(kComputePartitions); ++i) {
    if (!SameWord(name, kComputePartitions[i])) continue;
    Emit(Field::kComputePartition, i);
    return code;
  }
  EmitAbsent(Field::kComputePartition);
  return code;
}

int AmdsmiReader::ReadMemoryPartition() {
  char text[64] = "";
  int code = Do(&AmdsmiSymbols::MemoryPartition, text, uint32_t{63});
  if (code != kSuccess) return code;
  std::string_view name(text, ::strnlen(text, sizeof text));
  unsigned parts = name.size() == 4 && name.starts_with("NPS") ? static_cast<unsigned>(name[3] - '0') : 0;
  EmitIf(parts == 1 || parts == 2 || parts == 4 || parts == 8, Field::kMemoryPartition, parts);
  return code;
}

int AmdsmiReader::ReadPerformanceLevel() {
  uint32_t level = ~0U;
  int code = Do(&AmdsmiSymbols::PerfLevel, &level);
  if (code != kSuccess) return code;
  EmitIf(level < std::size(kPerformanceLevels), Field::kPerformanceLevel, level);
  return code;
}

int AmdsmiReader::ReadActivity() {
  return Query<EngineUsage>(&AmdsmiSymbols::Activity, [&](const EngineUsage* usage) {
    EmitReported(Field::kActivityGfx, usage->gfx);
    EmitReported(Field::kActivityMemory, usage->memory);
    EmitReported(Field::kActivityMultimedia, usage->multimedia);
  });
}

template <auto kFunction, MemoryType kType, Field kField>
int AmdsmiReader::ReadMemory() {
  uint64_t bytes = ~uint64_t{0};
  int code = Do(kFunction, uint32_t{kType}, &bytes);
  if (code == kSuccess) EmitReported(kField, bytes);
  return code;
}

int AmdsmiReader::ReadPower() {
  return Query<std::byte>(&AmdsmiSymbols::PowerInfo, [&](const std::byte* bytes) {
    uint32_t current, average;
    std::memcpy(&current, bytes + library_.layout()->power_current, sizeof current);
    std::memcpy(&average, bytes + library_.layout()->power_average, sizeof average);
    EmitReported(Field::kPowerCurrent, current);
    EmitReported(Field::kPowerAverage, average);
  });
}

int AmdsmiReader::ReadPowerCap() {
  auto* info = Scratch<PowerCapInfo>();
  int code = Do(&AmdsmiSymbols::PowerCap, 0U, static_cast<void*>(info));
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
  int code = Do(&AmdsmiSymbols::Energy, &count, &resolution, &timestamp);
  if (code != kSuccess) return code;
  // The count has 64 bits and a double keeps 53: the product would step by whole millijoules.
  long double uj = static_cast<long double>(count) * static_cast<long double>(resolution);
  bool reported = !IsNotReported(count) && resolution > 0 && uj < 9e18L;
  EmitIf(reported, Field::kEnergy, reported ? static_cast<int64_t>(uj) : 0);
  return code;
}

template <Field kField, TemperatureType kType, TemperatureMetric kMetric>
int AmdsmiReader::ReadTemperature() {
  int64_t value = std::numeric_limits<int64_t>::max();
  int code = Do(&AmdsmiSymbols::Temperature, uint32_t{kType}, uint32_t{kMetric}, &value);
  if (code != kSuccess) return code;
  // Degrees; thousandths of them from the older library beneath. Nothing of 1,000 degrees answers.
  if (value > -1000 && value < 1000) value *= 1000;
  bool reported =
      value != 0 && value > -1'000'000 && value < 1'000'000 && value != 0xFFFF && value != 65'535'000;
  EmitIf(reported, kField, value);
  return code;
}

template <Field kField, ClockType kType>
int AmdsmiReader::ReadClock() {
  constexpr auto kMax = static_cast<Field>(static_cast<uint16_t>(kField) + 1);
  auto* info = Scratch<ClockInfo>();
  int code = Do(&AmdsmiSymbols::ClockInfo, uint32_t{kType}, static_cast<void*>(info));
  if (code != kSuccess) return code;
  EmitReported(kField, info->current);
  if (info->max == 0) EmitAbsent(kMax);
  else EmitReported(kMax, info->max);
  return code;
}

std::span<const AmdsmiReader::Item> AmdsmiReader::Items() noexcept {
  using F = Field;
  using R = AmdsmiReader;
  // Limits of a sensor are items of their own: without the sensor each is learnt to be missing.
  static constexpr Item kItems[] = {
      {F::kActivityGfx, F::kActivityMultimedia, &R::ReadActivity, true},
      {F::kVramTotal, F::kVramTotal, &R::ReadMemory<&AmdsmiSymbols::MemoryTotal, kVram, F::kVramTotal>,
       false},
      {F::kVramUsed, F::kVramUsed, &R::ReadMemory<&AmdsmiSymbols::MemoryUsage, kVram, F::kVramUsed>, false},
      {F::kVisibleTotal, F::kVisibleTotal,
       &R::ReadMemory<&AmdsmiSymbols::MemoryTotal, kVisibleVram, F::kVisibleTotal>, false},
      {F::kVisibleUsed, F::kVisibleUsed,
       &R::ReadMemory<&AmdsmiSymbols::MemoryUsage, kVisibleVram, F::kVisibleUsed>, false},
      {F::kGttTotal, F::kGttTotal, &R::ReadMemory<&AmdsmiSymbols::MemoryTotal, kGtt, F::kGttTotal>, false},
      {F::kGttUsed, F::kGttUsed, &R::ReadMemory<&AmdsmiSymbols::MemoryUsage, kGtt, F::kGttUsed>, false},
      {F::kPowerCurrent, F::kPowerAverage, &R::ReadPower, true},
      {F::kPowerCap, F::kPowerCapMax, &R::ReadPowerCap, true},
      {F::kEnergy, F::kEnergy, &R::ReadEnergy, false},
      {F::kTemperatureEdge, F::kTemperatureEdge,
       &R::ReadTemperature<F::kTemperatureEdge, kTempEdge, kTempCurrent>, false},
      {F::kTemperatureHotspot, F::kTemperatureHotspot,
       &R::ReadTemperature<F::kTemperatureHotspot, kTempHotspot, kTempCurrent>, false},
      {F::kTemperatureMemory, F::kTemperatureMemory,
       &R::ReadTemperature<F::kTemperatureMemory, kTempVram, kTempCurrent>, false},
      {F::kCriticalEdge, F::kCriticalEdge, &R::ReadTemperature<F::kCriticalEdge, kTempEdge, kTempCritical>,
       false},
      {F::kCriticalHotspot, F::kCriticalHotspot,
       &R::ReadTemperature<F::kCriticalHotspot, kTempHotspot, kTempCritical>, false},
      {F::kCriticalMemory, F::kCriticalMemory,
       &R::ReadTemperature<F::kCriticalMemory, kTempVram, kTempCritical>, false},
      {F::kEmergencyEdge, F::kEmergencyEdge,
       &R::ReadTemperature<F::kEmergencyEdge, kTempEdge, kTempEmergency>, false},
      {F::kEmergencyHotspot, F::kEmergencyHotspot,
       &R::ReadTemperature<F::kEmergencyHotspot, kTempHotspot, kTempEmergency>, false},
      {F::kEmergencyMemory, F::kEmergencyMemory,
       &R::ReadTemperature<F::kEmergencyMemory, kTempVram, kTempEmergency>, false},
      {F::kClockGfx, F::kClockGfxMax, &R::ReadClock<F::kClockGfx, kClkGfx>, true},
      {F::kClockMemory, F::kClockMemoryMax, &R::ReadClock<F::kClockMemory, kClkMemory>, true},
      {F::kClockSoc, F::kClockSocMax, &R::ReadClock<F::kClockSoc, kClkSoc>, true},
      {F::kClockFabric, F::kClockFabricMax, &R::ReadClock<F::kClockFabric, kClkFabric>, true},
      {F::kClockVclk0, F::kClockVclk0Max, &R::ReadClock<F::kClockVclk0, kClkVclk0>, true},
      {F::kClockDclk0, F::kClockDclk0Max, &R::ReadClock<F::kClockDclk0, kClkDclk0>, true},
      {F::kTemperatureVrGfx, F::kResidencyMemory, &R::ReadMetrics, true},
      {F::kPcieWidth, F::kPcieNakReceived, &R::ReadPcie, true},
      {F::kXgmiLink, F::kXgmiLink, &R::ReadXgmiLinks, true},
      {F::kFanSpeed, F::kFanSpeedMax, &R::ReadFan, false},
      {F::kFanRpm, F::kFanRpm, &R::ReadFanRpm, false},
      {F::kEccBlocks, F::kEccDeferred, &R::ReadEccBlocks, true},
      {F::kEccTotalCorrectable, F::kEccTotalDeferred, &R::ReadEccTotals, true},
      {F::kRetiredPages, F::kRetiredPagesPending, &R::ReadRetiredPages, true},
      {F::kComputePartition, F::kComputePartition, &R::ReadComputePartition, false},
      {F::kMemoryPartition, F::kMemoryPartition, &R::ReadMemoryPartition, false},
      {F::kPerformanceLevel, F::kPerformanceLevel, &R::ReadPerformanceLevel, false},
  };
  return kItems;
}

}  // namespace gpulens::amdsmi
