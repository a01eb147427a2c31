// The single readings of GpuReader: each asks and emits its fields, or returns the code for all of them.
#include <algorithm>

#include "sources/nvml/reader/nvml_reader.h"

namespace gpulens::nvml {

const std::array<GpuReader::Item, GpuReader::kItemCount> GpuReader::kItems = [] {
  using F = Field;
  using R = GpuReader;
  constexpr Field kEnd = Field::kCount;
  return std::array<Item, kItemCount>{{
      {Tier::kSlow, {F::kMigMode, F::kMigModePending, kEnd}, &R::ReadMigMode},
      {Tier::kFast, {F::kUtilizationGpu, F::kUtilizationMemory, kEnd}, &R::ReadUtilization},
      {Tier::kFast, {F::kUtilizationEncoder, kEnd}, &R::ReadEncoder},
      {Tier::kFast, {F::kUtilizationDecoder, kEnd}, &R::ReadDecoder},
      {Tier::kFast,
       {F::kMemoryTotal, F::kMemoryUsed, F::kMemoryFree, F::kMemoryReserved, F::kUnifiedTotal,
        F::kUnifiedUsed},
       &R::ReadMemory},
      {Tier::kSlow, {F::kBar1Total, F::kBar1Used, kEnd}, &R::ReadBar1},
      {Tier::kFast, {F::kTemperature, kEnd}, &R::ReadTemperature},
      {Tier::kFast, {F::kPower, kEnd}, &R::ReadPower},
      {Tier::kSlow, {F::kPowerLimitEnforced, kEnd}, &R::ReadPowerLimit},
      {Tier::kFast, {F::kEnergy, kEnd}, &R::ReadEnergy},
      {Tier::kFast, {F::kClockGraphics, kEnd}, &R::ReadClock<F::kClockGraphics, kGraphicsClock>},
      {Tier::kFast, {F::kClockSm, kEnd}, &R::ReadClock<F::kClockSm, kSmClock>},
      {Tier::kFast, {F::kClockMemory, kEnd}, &R::ReadClock<F::kClockMemory, kMemoryClock>},
      {Tier::kFast, {F::kClockVideo, kEnd}, &R::ReadClock<F::kClockVideo, kVideoClock>},
      {Tier::kStatic, {F::kClockMaxGraphics, kEnd}, &R::ReadMaxClock<F::kClockMaxGraphics, kGraphicsClock>},
      {Tier::kStatic, {F::kClockMaxSm, kEnd}, &R::ReadMaxClock<F::kClockMaxSm, kSmClock>},
      {Tier::kStatic, {F::kClockMaxMemory, kEnd}, &R::ReadMaxClock<F::kClockMaxMemory, kMemoryClock>},
      {Tier::kStatic, {F::kClockMaxVideo, kEnd}, &R::ReadMaxClock<F::kClockMaxVideo, kVideoClock>},
      {Tier::kFast, {F::kPerformanceState, kEnd}, &R::ReadPerformanceState},
      {Tier::kFast, {F::kClockEventReasons, kEnd}, &R::ReadClockReasons},
      {Tier::kMedium, {F::kFanSpeedMean, F::kFanSpeedMax, kEnd}, &R::ReadFans},
      {Tier::kMedium, {F::kEccCorrected, F::kEccUncorrected, kEnd}, &R::ReadEcc},
      {Tier::kSlow, {F::kEccMode, F::kEccModePending, kEnd}, &R::ReadEccMode},
      {Tier::kSlow,
       {F::kRemappedCorrectable, F::kRemappedUncorrectable, F::kRemapPending, F::kRemapFailure, kEnd},
       &R::ReadRemappedRows},
      {Tier::kSlow, {F::kRetiredSingleBit, F::kRetiredDoubleBit, kEnd}, &R::ReadRetiredPages},
      {Tier::kSlow, {F::kRetiredPending, kEnd}, &R::ReadRetiredPending},
      {Tier::kMedium, {F::kPcieReplay, kEnd}, &R::ReadPcieReplay},
      {Tier::kMedium, {F::kPcieLinkGen, F::kPcieLinkWidth, kEnd}, &R::ReadPcieLink},
      {Tier::kStatic, {F::kPcieMaxLinkGen, F::kPcieMaxLinkWidth, kEnd}, &R::ReadPcieMaxLink},
      {Tier::kMedium, {F::kNvlinkTotal, F::kNvlinkActive, kEnd}, &R::ReadNvlinks},
      {Tier::kSlow, {F::kPersistenceMode, kEnd}, &R::ReadPersistence},
  }};
}();

int GpuReader::ReadOne(Field field, Call call, int (*function)(Device, unsigned*)) {
  unsigned value = 0;
  int code = caller_.Do(call, function, identity_.device, &value);
  if (code == kSuccess) Emit(field, value);
  return code;
}

int GpuReader::ReadUtilization() {
  Utilization out{};
  int code = caller_.Do(Call::kUtilizationRates, caller_.fn().UtilizationRates, identity_.device, &out);
  if (code != kSuccess) return code;
  Emit(Field::kUtilizationGpu, out.gpu);
  Emit(Field::kUtilizationMemory, out.memory);
  return code;
}

int GpuReader::ReadEncoder() {
  unsigned percent = 0, period = 0;
  int code = caller_.Do(Call::kEncoderUtilization, caller_.fn().EncoderUtilization, identity_.device,
                        &percent, &period);
  if (code == kSuccess) Emit(Field::kUtilizationEncoder, percent);
  return code;
}

int GpuReader::ReadDecoder() {
  unsigned percent = 0, period = 0;
  int code = caller_.Do(Call::kDecoderUtilization, caller_.fn().DecoderUtilization, identity_.device,
                        &percent, &period);
  if (code == kSuccess) Emit(Field::kUtilizationDecoder, percent);
  return code;
}

int GpuReader::ReadBar1() {
  Bar1Memory out{};
  int code = caller_.Do(Call::kBar1Memory, caller_.fn().Bar1Memory, identity_.device, &out);
  if (code != kSuccess) return code;
  Emit(Field::kBar1Total, static_cast<int64_t>(out.total));
  Emit(Field::kBar1Used, static_cast<int64_t>(out.used));
  return code;
}

int GpuReader::ReadTemperature() {
  TemperatureV1 out{.version = kTemperatureV1, .sensor = 0, .temperature = 0};
  int code = caller_.Do(Call::kTemperatureV, caller_.fn().TemperatureV, identity_.device, &out);
  if (code == kFunctionNotFound || code == kArgumentVersionMismatch || code == kNotSupported) {
    unsigned value = 0;
    code = caller_.Do(Call::kTemperature, caller_.fn().Temperature, identity_.device, 0U, &value);
    out.temperature = static_cast<int>(value);
  }
  if (code == kSuccess) Emit(Field::kTemperature, out.temperature);
  return code;
}

int GpuReader::ReadPower() { return ReadOne(Field::kPower, Call::kPowerUsage, caller_.fn().PowerUsage); }

int GpuReader::ReadPowerLimit() {
  return ReadOne(Field::kPowerLimitEnforced, Call::kEnforcedPowerLimit, caller_.fn().EnforcedPowerLimit);
}

int GpuReader::ReadEnergy() {
  unsigned long long millijoules = 0;
  int code = caller_.Do(Call::kTotalEnergy, caller_.fn().TotalEnergy, identity_.device, &millijoules);
  if (code == kSuccess) Emit(Field::kEnergy, static_cast<int64_t>(millijoules));
  return code;
}

template <Field kField, ClockType kType>
int GpuReader::ReadClock() {
  unsigned mhz = 0;
  int code = caller_.Do(Call::kClockInfo, caller_.fn().ClockInfo, identity_.device, unsigned{kType}, &mhz);
  if (code == kSuccess) Emit(kField, mhz);
  return code;
}

template <Field kField, ClockType kType>
int GpuReader::ReadMaxClock() {
  unsigned mhz = 0;
  int code =
      caller_.Do(Call::kMaxClockInfo, caller_.fn().MaxClockInfo, identity_.device, unsigned{kType}, &mhz);
  if (code == kSuccess) Emit(kField, mhz);
  return code;
}

int GpuReader::ReadPerformanceState() {
  return ReadOne(Field::kPerformanceState, Call::kPerformanceState, caller_.fn().PerformanceState);
}

int GpuReader::ReadClockReasons() {
  unsigned long long mask = 0;
  const Symbols& fn = caller_.fn();
  int code = fn.ClockEventReasons
                 ? caller_.Do(Call::kClockEventReasons, fn.ClockEventReasons, identity_.device, &mask)
                 : caller_.Do(Call::kThrottleReasons, fn.ThrottleReasons, identity_.device, &mask);
  if (code == kSuccess) Emit(Field::kClockEventReasons, static_cast<int64_t>(mask));
  return code;
}

int GpuReader::ReadFans() {
  const Symbols& fn = caller_.fn();
  unsigned count = 0, speed = 0;
  int code = caller_.Do(Call::kNumFans, fn.NumFans, identity_.device, &count);
  if (code == kSuccess && count == 0) return kNotSupported;
  if (code != kSuccess || !fn.FanSpeedV2) {
    code = caller_.Do(Call::kFanSpeed, fn.FanSpeed, identity_.device, &speed);
    if (code != kSuccess) return code;
    Emit(Field::kFanSpeedMean, speed);
    Emit(Field::kFanSpeedMax, speed);
    return code;
  }
  count = std::min(count, 16U);
  int64_t sum = 0, greatest = 0;
  for (unsigned fan = 0; fan < count; ++fan) {
    code = caller_.Do(Call::kFanSpeedV2, fn.FanSpeedV2, identity_.device, fan, &speed);
    if (code != kSuccess) return code;
    sum += speed;
    greatest = std::max<int64_t>(greatest, speed);
  }
  Emit(Field::kFanSpeedMean, sum / count);
  Emit(Field::kFanSpeedMax, greatest);
  return kSuccess;
}

int GpuReader::ReadEcc() {
  unsigned long long corrected = 0, uncorrected = 0;
  auto* function = caller_.fn().TotalEccErrors;
  int code = caller_.Do(Call::kTotalEccErrors, function, identity_.device, unsigned{kCorrectedError},
                        unsigned{kVolatileEcc}, &corrected);
  if (code != kSuccess) return code;
  code = caller_.Do(Call::kTotalEccErrors, function, identity_.device, unsigned{kUncorrectedError},
                    unsigned{kVolatileEcc}, &uncorrected);
  if (code != kSuccess) return code;
  Emit(Field::kEccCorrected, static_cast<int64_t>(corrected));
  Emit(Field::kEccUncorrected, static_cast<int64_t>(uncorrected));
  return code;
}

int GpuReader::ReadEccMode() {
  unsigned current = 0, pending = 0;
  int code = caller_.Do(Call::kEccMode, caller_.fn().EccMode, identity_.device, &current, &pending);
  if (code != kSuccess) return code;
  Emit(Field::kEccMode, current);
  Emit(Field::kEccModePending, pending);
  return code;
}

int GpuReader::ReadRemappedRows() {
  unsigned corrected = 0, uncorrected = 0, pending = 0, failure = 0;
  int code = caller_.Do(Call::kRemappedRows, caller_.fn().RemappedRows, identity_.device, &corrected,
                        &uncorrected, &pending, &failure);
  if (code != kSuccess) return code;
  Emit(Field::kRemappedCorrectable, corrected);
  Emit(Field::kRemappedUncorrectable, uncorrected);
  Emit(Field::kRemapPending, pending);
  Emit(Field::kRemapFailure, failure);
  return code;
}

int GpuReader::ReadRetiredPages() {
  const Symbols& fn = caller_.fn();
  for (auto [field, cause] : {std::pair{Field::kRetiredSingleBit, kMultipleSingleBit},
                              std::pair{Field::kRetiredDoubleBit, kDoubleBit}}) {
    // Without a buffer the library answers the number of pages: success for none, else "too small".
    unsigned count = 0;
    int code = fn.RetiredPagesV2 ? caller_.Do(Call::kRetiredPagesV2, fn.RetiredPagesV2, identity_.device,
                                              unsigned{cause}, &count, nullptr, nullptr)
                                 : caller_.Do(Call::kRetiredPages, fn.RetiredPages, identity_.device,
                                              unsigned{cause}, &count, nullptr);
    if (code == kInsufficientSize && count == 0) return kUnknownError;  // It contradicts itself.
    if (code != kSuccess && code != kInsufficientSize) return code;
    Emit(field, count);
  }
  return kSuccess;
}

int GpuReader::ReadRetiredPending() {
  return ReadOne(Field::kRetiredPending, Call::kRetiredPagesPending, caller_.fn().RetiredPagesPending);
}

int GpuReader::ReadPcieReplay() {
  return ReadOne(Field::kPcieReplay, Call::kPcieReplayCounter, caller_.fn().PcieReplayCounter);
}

int GpuReader::ReadPcieLink() {
  int code = ReadOne(Field::kPcieLinkGen, Call::kPcieLinkGen, caller_.fn().PcieLinkGen);
  if (code != kSuccess) return code;
  return ReadOne(Field::kPcieLinkWidth, Call::kPcieLinkWidth, caller_.fn().PcieLinkWidth);
}

int GpuReader::ReadPcieMaxLink() {
  int code = ReadOne(Field::kPcieMaxLinkGen, Call::kPcieMaxLinkGen, caller_.fn().PcieMaxLinkGen);
  if (code != kSuccess) return code;
  return ReadOne(Field::kPcieMaxLinkWidth, Call::kPcieMaxLinkWidth, caller_.fn().PcieMaxLinkWidth);
}

int GpuReader::ReadNvlinks() {
  if (identity_.nvlink_count == 0) return kNotSupported;
  int64_t active = 0;
  for (unsigned link = 0; link < identity_.nvlink_count; ++link) {
    unsigned state = 0;
    int code = caller_.Do(Call::kNvLinkState, caller_.fn().NvLinkState, identity_.device, link, &state);
    if (code != kSuccess && (link == 0 || (code != kNotSupported && code != kInvalidArgument))) return code;
    active += code == kSuccess && state == 1;
    if (code == kSuccess)
      Emit(PartOfNvlink(link), static_cast<uint16_t>(LinkField::kActive), ReadStatus::kOk, state == 1);
  }
  Emit(Field::kNvlinkTotal, identity_.nvlink_count);
  Emit(Field::kNvlinkActive, active);
  return kSuccess;
}

int GpuReader::ReadMigMode() {
  unsigned current = 0, pending = 0;
  int code = caller_.Do(Call::kMigMode, caller_.fn().MigMode, identity_.device, &current, &pending);
  if (code != kSuccess) return code;
  // Another mode supports other calls: all that was learnt is void.
  if (mig_mode_ >= 0 && mig_mode_ != static_cast<int>(current)) mig_changed_ = true;
  mig_mode_ = static_cast<int>(current);
  Emit(Field::kMigMode, current);
  Emit(Field::kMigModePending, pending);
  return code;
}

int GpuReader::ReadPersistence() {
  return ReadOne(Field::kPersistenceMode, Call::kPersistenceMode, caller_.fn().PersistenceMode);
}

}  // namespace gpulens::nvml
