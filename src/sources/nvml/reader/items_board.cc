// What a board tells beside its common readings: engines, temperature limits, application clocks, fans,
// encoder and modes.
#include <algorithm>

#include "sources/nvml/reader/items.h"

namespace gpulens::nvml {
namespace {

// Calls whose one result is an unsigned number.
template <Field kField, Call kCall, auto kSymbol>
int ReadNumber(const ItemContext& in) {
  unsigned value = 0;
  int code = in.caller.Do(kCall, in.caller.fn().*kSymbol, in.identity.device, &value);
  if (code == kSuccess) in.Emit(kField, value);
  return code;
}

// Calls that take a selector before their one result.
template <Field kField, Call kCall, auto kSymbol, unsigned kSelector>
int ReadSelected(const ItemContext& in) {
  unsigned value = 0;
  int code = in.caller.Do(kCall, in.caller.fn().*kSymbol, in.identity.device, unsigned{kSelector}, &value);
  if (code == kSuccess) in.Emit(kField, value);
  return code;
}

// Calls that tell a share and the period it was taken over.
template <Field kField, Call kCall, auto kSymbol>
int ReadShare(const ItemContext& in) {
  unsigned percent = 0, period = 0;
  int code = in.caller.Do(kCall, in.caller.fn().*kSymbol, in.identity.device, &percent, &period);
  if (code == kSuccess) in.Emit(kField, percent);
  return code;
}

int ReadMargin(const ItemContext& in) {
  MarginTemperature out{.version = StructVersion(sizeof(MarginTemperature), 1), .margin = 0};
  int code =
      in.caller.Do(Call::kMarginTemperature, in.caller.fn().MarginTemperature, in.identity.device, &out);
  if (code == kSuccess) in.Emit(Field::kTemperatureMargin, out.margin);
  return code;
}

int ReadSupportedReasons(const ItemContext& in) {
  unsigned long long mask = 0;
  const Symbols& fn = in.caller.fn();
  int code = fn.SupportedEventReasons ? in.caller.Do(Call::kSupportedEventReasons, fn.SupportedEventReasons,
                                                     in.identity.device, &mask)
                                      : in.caller.Do(Call::kSupportedThrottleReasons,
                                                     fn.SupportedThrottleReasons, in.identity.device, &mask);
  if (code == kSuccess) in.Emit(Field::kClockReasonsSupported, static_cast<int64_t>(mask));
  return code;
}

int ReadFanRotation(const ItemContext& in) {
  constexpr std::array kFans = {Field::kFanRotation0, Field::kFanRotation1, Field::kFanRotation2,
                                Field::kFanRotation3, Field::kFanRotation4, Field::kFanRotation5};
  const Symbols& fn = in.caller.fn();
  unsigned count = 0;
  if (!fn.FanSpeedRpm) return kFunctionNotFound;
  if (int code = in.caller.Do(Call::kNumFans, fn.NumFans, in.identity.device, &count); code != kSuccess)
    return code;
  if (count == 0) return kNotSupported;
  std::array<unsigned, kFans.size()> speeds{};
  count = std::min(count, static_cast<unsigned>(kFans.size()));
  for (unsigned fan = 0; fan < count; ++fan) {
    FanSpeedInfo out{.version = StructVersion(sizeof(FanSpeedInfo), 1), .fan = fan, .speed = 0};
    int code = in.caller.Do(Call::kFanSpeedRpm, fn.FanSpeedRpm, in.identity.device, &out);
    if (code != kSuccess) return code;
    speeds[fan] = out.speed;
  }
  for (unsigned fan = 0; fan < count; ++fan) in.Emit(kFans[fan], speeds[fan]);
  return kSuccess;
}

// Means over sessions mean nothing while there is none.
int ReadEncoderStats(const ItemContext& in) {
  unsigned sessions = 0, rate = 0, latency = 0;
  int code = in.caller.Do(Call::kEncoderStats, in.caller.fn().EncoderStats, in.identity.device, &sessions,
                          &rate, &latency);
  if (code != kSuccess) return code;
  ReadStatus status = sessions > 0 ? ReadStatus::kOk : ReadStatus::kNotFound;
  in.Emit(Field::kEncoderSessions, sessions);
  in.Emit(Field::kEncoderFrameRate, status, rate);
  in.Emit(Field::kEncoderLatency, status, latency);
  return code;
}

int ReadFbcStats(const ItemContext& in) {
  FbcStats out{};
  int code = in.caller.Do(Call::kFbcStats, in.caller.fn().FbcStats, in.identity.device, &out);
  if (code == kSuccess) in.Emit(Field::kFbcSessions, out.sessions);
  return code;
}

// The answer is the code itself.
int ReadInforomValid(const ItemContext& in) {
  int code = in.caller.Do(Call::kValidateInforom, in.caller.fn().ValidateInforom, in.identity.device);
  if (code != kSuccess && code != kCorruptedInforom) return code;
  in.Emit(Field::kInforomValid, code == kSuccess);
  return kSuccess;
}

template <Field kField, unsigned kThreshold>
constexpr auto kReadThreshold =
    &ReadSelected<kField, Call::kTemperatureThreshold, &Symbols::TemperatureThreshold, kThreshold>;
template <Field kField, unsigned kClock>
constexpr auto kReadApplicationsClock =
    &ReadSelected<kField, Call::kApplicationsClock, &Symbols::ApplicationsClock, kClock>;
template <Field kField, unsigned kCodec>
constexpr auto kReadCapacity =
    &ReadSelected<kField, Call::kEncoderCapacity, &Symbols::EncoderCapacity, kCodec>;

using F = Field;
constexpr MoreItem kBoardItems[] = {
    {Tier::kMedium,
     {F::kUtilizationJpeg, kEndOfFields},
     &ReadShare<F::kUtilizationJpeg, Call::kJpgUtilization, &Symbols::JpgUtilization>},
    {Tier::kMedium,
     {F::kUtilizationOfa, kEndOfFields},
     &ReadShare<F::kUtilizationOfa, Call::kOfaUtilization, &Symbols::OfaUtilization>},
    {Tier::kFast, {F::kTemperatureMargin, kEndOfFields}, &ReadMargin},
    {Tier::kStatic,
     {F::kTemperatureShutdown, kEndOfFields},
     kReadThreshold<F::kTemperatureShutdown, kThresholdShutdown>},
    {Tier::kStatic,
     {F::kTemperatureSlowdown, kEndOfFields},
     kReadThreshold<F::kTemperatureSlowdown, kThresholdSlowdown>},
    {Tier::kStatic,
     {F::kTemperatureMemoryMax, kEndOfFields},
     kReadThreshold<F::kTemperatureMemoryMax, kThresholdMemoryMax>},
    {Tier::kStatic,
     {F::kTemperatureGpuMax, kEndOfFields},
     kReadThreshold<F::kTemperatureGpuMax, kThresholdGpuMax>},
    {Tier::kStatic,
     {F::kTemperatureTarget, kEndOfFields},
     kReadThreshold<F::kTemperatureTarget, kThresholdTarget>},
    {Tier::kSlow,
     {F::kClockApplicationGraphics, kEndOfFields},
     kReadApplicationsClock<F::kClockApplicationGraphics, kGraphicsClock>},
    {Tier::kSlow,
     {F::kClockApplicationMemory, kEndOfFields},
     kReadApplicationsClock<F::kClockApplicationMemory, kMemoryClock>},
    {Tier::kStatic, {F::kClockReasonsSupported, kEndOfFields}, &ReadSupportedReasons},
    {Tier::kMedium,
     {F::kFanRotation0, F::kFanRotation1, F::kFanRotation2, F::kFanRotation3, F::kFanRotation4,
      F::kFanRotation5},
     &ReadFanRotation},
    {Tier::kMedium,
     {F::kEncoderSessions, F::kEncoderFrameRate, F::kEncoderLatency, kEndOfFields},
     &ReadEncoderStats},
    {Tier::kSlow,
     {F::kEncoderCapacityH264, kEndOfFields},
     kReadCapacity<F::kEncoderCapacityH264, kEncoderH264>,
     kDetailMore},
    {Tier::kSlow,
     {F::kEncoderCapacityHevc, kEndOfFields},
     kReadCapacity<F::kEncoderCapacityHevc, kEncoderHevc>,
     kDetailMore},
    {Tier::kSlow,
     {F::kEncoderCapacityAv1, kEndOfFields},
     kReadCapacity<F::kEncoderCapacityAv1, kEncoderAv1>,
     kDetailMore},
    {Tier::kSlow, {F::kFbcSessions, kEndOfFields}, &ReadFbcStats, kDetailMore},
    {Tier::kSlow,
     {F::kComputeMode, kEndOfFields},
     &ReadNumber<F::kComputeMode, Call::kComputeMode, &Symbols::ComputeMode>},
    {Tier::kSlow,
     {F::kDisplayActive, kEndOfFields},
     &ReadNumber<F::kDisplayActive, Call::kDisplayActive, &Symbols::DisplayActive>},
    {Tier::kSlow,
     {F::kPowerSource, kEndOfFields},
     &ReadNumber<F::kPowerSource, Call::kPowerSource, &Symbols::PowerSource>},
    {Tier::kStatic,
     {F::kVirtualizationMode, kEndOfFields},
     &ReadNumber<F::kVirtualizationMode, Call::kVirtualizationMode, &Symbols::VirtualizationMode>},
    {Tier::kStatic, {F::kInforomValid, kEndOfFields}, &ReadInforomValid},
};

}  // namespace

std::span<const MoreItem> BoardItems() noexcept { return kBoardItems; }

}  // namespace gpulens::nvml
