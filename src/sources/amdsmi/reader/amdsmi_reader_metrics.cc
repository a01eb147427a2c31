// Readings of AmdsmiReader that take a struct apart or words: see amdsmi_reader_items.cc for the table.
#include <algorithm>
#include <cctype>
#include <cstring>
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
  auto* metrics = Scratch<GpuMetrics>();
  int code =
      caller_.Do(Call::kGpuMetrics, caller_.fn().GpuMetrics, processor_.handle, static_cast<void*>(metrics));
  if (code != kSuccess) return code;
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
  return code;
}

// What of the metrics is wanted less often.
void AmdsmiReader::TakeEngines() {
  const auto* metrics = reinterpret_cast<const GpuMetrics*>(scratch_.data());
  auto told = [&](Field field, uint16_t value, unsigned copy) {
    if (value == 0) return EmitAbsent(field, copy);  // A sensor or rail that the board does not have.
    EmitReported(field, value, 1, copy);
  };
  for (unsigned i = 0; i < CopiesOf(Field::kTemperatureStack); ++i) {
    told(Field::kTemperatureStack, metrics->temperature_stack[i], i);
  }
  told(Field::kVoltageGfx, metrics->voltage_gfx, 0);
  told(Field::kVoltageSoc, metrics->voltage_soc, 0);
  told(Field::kVoltageMemory, metrics->voltage_memory, 0);
  for (unsigned i = 0; i < CopiesOf(Field::kVcnActivity); ++i) {
    EmitReported(Field::kVcnActivity, metrics->vcn_activity[i], 1, i);
  }
  for (unsigned i = 0; i < CopiesOf(Field::kJpegActivity); ++i) {
    EmitReported(Field::kJpegActivity, metrics->jpeg_activity[i], 1, i);
  }
  told(Field::kXgmiWidth, metrics->xgmi_width, 0);
}

int AmdsmiReader::ReadPcie() {
  auto* info = Scratch<PcieInfo>();
  int code = caller_.Do(Call::kPcieInfo, caller_.fn().PcieInfo, processor_.handle, static_cast<void*>(info));
  if (code != kSuccess) return code;
  auto width = [&](Field field, uint16_t value) {
    if (IsWidth(value)) Emit(field, value);
    else EmitAbsent(field);
  };
  auto generation = [&](Field field, uint32_t speed) {
    if (unsigned number = GenerationOf(speed); number > 0) Emit(field, number);
    else EmitAbsent(field);
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
  return code;
}

int AmdsmiReader::ReadXgmiLinks() {
  auto* links = Scratch<XgmiLinkStatus>();
  int code = caller_.Do(Call::kXgmiLinkStatus, caller_.fn().XgmiLinkStatus, processor_.handle,
                        static_cast<void*>(links));
  if (code != kSuccess) return code;
  uint32_t total = std::min(links->total, CopiesOf(Field::kXgmiLink));
  for (unsigned i = 0; i < CopiesOf(Field::kXgmiLink); ++i) {
    // A disabled link is none: nobody expects it to work.
    if (i < total && links->status[i] <= 1) Emit(Field::kXgmiLink, links->status[i], i);
    else EmitAbsent(Field::kXgmiLink, i);
  }
  return code;
}

int AmdsmiReader::ReadFan() {
  int64_t speed = -1;
  int code = caller_.Do(Call::kFanSpeed, caller_.fn().FanSpeed, processor_.handle, 0U, &speed);
  if (code != kSuccess) return code;
  uint64_t max = 0;
  code = caller_.Do(Call::kFanSpeedMax, caller_.fn().FanSpeedMax, processor_.handle, 0U, &max);
  if (code != kSuccess) return code;
  if (speed >= 0 && max > 0 && max <= 100'000 && speed <= 100'000) {
    Emit(Field::kFanSpeed, static_cast<uint64_t>(speed));
    Emit(Field::kFanSpeedMax, max);
  } else {
    EmitAbsent(Field::kFanSpeed);
    EmitAbsent(Field::kFanSpeedMax);
  }
  return code;
}

int AmdsmiReader::ReadFanRpm() {
  int64_t rpm = -1;
  int code = caller_.Do(Call::kFanRpms, caller_.fn().FanRpms, processor_.handle, 0U, &rpm);
  if (code != kSuccess) return code;
  if (rpm >= 0 && rpm < 0xFFFF) Emit(Field::kFanRpm, static_cast<uint64_t>(rpm));
  else EmitAbsent(Field::kFanRpm);
  return code;
}

int AmdsmiReader::ReadComputePartition() {
  char text[64] = "";
  int code = caller_.Do(Call::kComputePartition, caller_.fn().ComputePartition, processor_.handle, text,
                        uint32_t{63});
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
  int code =
      caller_.Do(Call::kMemoryPartition, caller_.fn().MemoryPartition, processor_.handle, text, uint32_t{63});
  if (code != kSuccess) return code;
  std::string_view name(text, ::strnlen(text, sizeof text));
  unsigned parts = name.size() == 4 && name.starts_with("NPS") ? static_cast<unsigned>(name[3] - '0') : 0;
  if (parts == 1 || parts == 2 || parts == 4 || parts == 8) Emit(Field::kMemoryPartition, parts);
  else EmitAbsent(Field::kMemoryPartition);
  return code;
}

int AmdsmiReader::ReadPerformanceLevel() {
  uint32_t level = ~0U;
  int code = caller_.Do(Call::kPerfLevel, caller_.fn().PerfLevel, processor_.handle, &level);
  if (code != kSuccess) return code;
  if (level < std::size(kPerformanceLevels)) Emit(Field::kPerformanceLevel, level);
  else EmitAbsent(Field::kPerformanceLevel);
  return code;
}

}  // namespace gpulens::amdsmi
