#include "sources/nvml/reader/gpu_items.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/files.h"
#include "base/parse.h"

namespace gpulens::nvml {
namespace {

using F = Field;

// Calls whose one result is an unsigned number; they may take selectors before it.
template <Field kField, auto kFunction, auto... kSelectors>
int ReadNumber(const ItemContext& in) {
  unsigned value = 0;
  int code = in.Do(kFunction, unsigned{kSelectors}..., &value);
  return in.EmitIf(code, {{kField, value}});
}

// Calls that report a share and the period over which it was taken.
template <Field kField, auto kFunction>
int ReadShare(const ItemContext& in) {
  unsigned percent = 0, period = 0;
  int code = in.Do(kFunction, &percent, &period);
  return in.EmitIf(code, {{kField, percent}});
}

// Two numbers of two calls.
template <Field kFirst, auto kFirstFunction, Field kSecond, auto kSecondFunction>
int ReadTwoNumbers(const ItemContext& in) {
  int code = ReadNumber<kFirst, kFirstFunction>(in);
  return code == kSuccess ? ReadNumber<kSecond, kSecondFunction>(in) : code;
}

// Memory errors since the driver was loaded, or of the board's life.
template <Field kCorrected, Field kUncorrected, EccCounter kCounter>
int ReadEccTotals(const ItemContext& in) {
  unsigned long long corrected = 0, uncorrected = 0;
  int code = in.Do(&NvmlSymbols::TotalEccErrors, unsigned{kCorrectedError}, unsigned{kCounter}, &corrected);
  if (code != kSuccess) return code;
  code = in.Do(&NvmlSymbols::TotalEccErrors, unsigned{kUncorrectedError}, unsigned{kCounter}, &uncorrected);
  return in.EmitIf(code, {{kCorrected, corrected}, {kUncorrected, uncorrected}});
}

int ReadUtilization(const ItemContext& in) {
  Utilization out{};
  int code = in.Do(&NvmlSymbols::UtilizationRates, &out);
  return in.EmitIf(code, {{Field::kUtilizationGpu, out.gpu}, {Field::kUtilizationMemory, out.memory}});
}

int ReadBar1(const ItemContext& in) {
  Bar1Memory out{};
  int code = in.Do(&NvmlSymbols::Bar1Memory, &out);
  return in.EmitIf(code, {{Field::kBar1Total, out.total}, {Field::kBar1Used, out.used}});
}

int ReadTemperature(const ItemContext& in) {
  TemperatureV1 out{.version = kTemperatureV1, .sensor = 0, .temperature = 0};
  int code = in.Do(&NvmlSymbols::TemperatureV, &out);
  if (code == kFunctionNotFound || code == kArgumentVersionMismatch || code == kNotSupported) {
    unsigned value = 0;
    code = in.Do(&NvmlSymbols::Temperature, 0U, &value);
    out.temperature = static_cast<int>(value);
  }
  return in.EmitIf(code, {{Field::kTemperature, out.temperature}});
}

int ReadEnergy(const ItemContext& in) {
  unsigned long long millijoules = 0;
  int code = in.Do(&NvmlSymbols::TotalEnergy, &millijoules);
  return in.EmitIf(code, {{Field::kEnergy, millijoules}});
}

int ReadClockReasons(const ItemContext& in) {
  unsigned long long mask = 0;
  const NvmlSymbols& fn = in.caller.fn();
  int code = in.caller.DoEither(fn.ClockEventReasons, fn.ThrottleReasons, in.identity.device, &mask);
  return in.EmitIf(code, {{Field::kClockEventReasons, mask}});
}

int ReadFans(const ItemContext& in) {
  const NvmlSymbols& fn = in.caller.fn();
  unsigned count = 0, speed = 0;
  int code = in.Do(&NvmlSymbols::NumFans, &count);
  if (code == kSuccess && count == 0) return kNotSupported;
  if (code != kSuccess || !fn.FanSpeedV2) {
    code = in.Do(&NvmlSymbols::FanSpeed, &speed);
    if (code != kSuccess) return code;
    in.Emit(Field::kFanSpeedMean, speed);
    in.Emit(Field::kFanSpeedMax, speed);
    return code;
  }
  count = std::min(count, 16U);
  int64_t sum = 0, greatest = 0;
  for (unsigned fan = 0; fan < count; ++fan) {
    code = in.Do(&NvmlSymbols::FanSpeedV2, fan, &speed);
    if (code != kSuccess) return code;
    sum += speed;
    greatest = std::max<int64_t>(greatest, speed);
  }
  in.Emit(Field::kFanSpeedMean, sum / count);
  in.Emit(Field::kFanSpeedMax, greatest);
  return kSuccess;
}

int ReadEccMode(const ItemContext& in) {
  unsigned current = 0, pending = 0;
  int code = in.Do(&NvmlSymbols::EccMode, &current, &pending);
  return in.EmitIf(code, {{Field::kEccMode, current}, {Field::kEccModePending, pending}});
}

int ReadRemappedRows(const ItemContext& in) {
  unsigned corrected = 0, uncorrected = 0, pending = 0, failure = 0;
  int code = in.Do(&NvmlSymbols::RemappedRows, &corrected, &uncorrected, &pending, &failure);
  return in.EmitIf(code, {{Field::kRemappedCorrectable, corrected},
                          {Field::kRemappedUncorrectable, uncorrected},
                          {Field::kRemapPending, pending},
                          {Field::kRemapFailure, failure}});
}

int ReadRetiredPages(const ItemContext& in) {
  const NvmlSymbols& fn = in.caller.fn();
  for (auto [field, cause] : {std::pair{Field::kRetiredSingleBit, kMultipleSingleBit},
                              std::pair{Field::kRetiredDoubleBit, kDoubleBit}}) {
    // Without a buffer the library answers the number of pages: success for none, else "too small".
    unsigned count = 0;
    int code = fn.RetiredPagesV2
                   ? in.Do(&NvmlSymbols::RetiredPagesV2, unsigned{cause}, &count, nullptr, nullptr)
                   : in.Do(&NvmlSymbols::RetiredPages, unsigned{cause}, &count, nullptr);
    if (code == kInsufficientSize && count == 0) return kUnknownError;  // It contradicts itself.
    if (code != kSuccess && code != kInsufficientSize) return code;
    in.Emit(field, count);
  }
  return kSuccess;
}

int ReadNvlinks(const ItemContext& in) {
  if (in.identity.nvlink_count == 0) return kNotSupported;
  int64_t active = 0;
  for (unsigned link = 0; link < in.identity.nvlink_count; ++link) {
    unsigned state = 0;
    int code = in.Do(&NvmlSymbols::NvLinkState, link, &state);
    if (code != kSuccess && (link == 0 || (code != kNotSupported && code != kInvalidArgument))) return code;
    active += code == kSuccess && state == 1;
    if (code == kSuccess)
      in.sink.Emit(LinkOfNvlink(link), static_cast<uint16_t>(LinkField::kActive), ReadStatus::kOk,
                   state == 1);
  }
  in.Emit(Field::kNvlinkTotal, in.identity.nvlink_count);
  in.Emit(Field::kNvlinkActive, active);
  return kSuccess;
}

int ReadMigMode(const ItemContext& in) {
  unsigned current = 0, pending = 0;
  int code = in.Do(&NvmlSymbols::MigMode, &current, &pending);
  if (code != kSuccess) return code;
  // Another mode supports other calls: all that was learnt is void.
  if (in.state.mig_mode >= 0 && in.state.mig_mode != static_cast<int>(current)) in.state.mig_changed = true;
  in.state.mig_mode = static_cast<int>(current);
  in.Emit(Field::kMigMode, current);
  in.Emit(Field::kMigModePending, pending);
  return code;
}

// Unified is a pool that the CPU addresses coherently, or one in use without a frame buffer (total 0).
void EmitMemory(const ItemContext& in, const MemoryV2& memory, bool reserved_known) {
  bool only_unified = memory.total == 0;
  if (only_unified) {
    for (Field field :
         {Field::kMemoryTotal, Field::kMemoryUsed, Field::kMemoryFree, Field::kMemoryReserved}) {
      in.Emit(field, ReadStatus::kNotSupported, 0);
    }
  } else {
    in.Emit(Field::kMemoryTotal, static_cast<int64_t>(memory.total));
    in.Emit(Field::kMemoryUsed, static_cast<int64_t>(memory.used));
    in.Emit(Field::kMemoryFree, static_cast<int64_t>(memory.free));
    // The old struct counts what is reserved as used and does not report how much that is.
    in.Emit(Field::kMemoryReserved, reserved_known ? ReadStatus::kOk : ReadStatus::kNotSupported,
            static_cast<int64_t>(memory.reserved));
  }
  bool unified = in.identity.coherent_memory || (only_unified && memory.used + memory.free > 0);
  ReadStatus status = unified ? ReadStatus::kOk : ReadStatus::kNotSupported;
  uint64_t total = only_unified ? memory.used + memory.free : memory.total;
  in.Emit(Field::kUnifiedTotal, status, unified ? static_cast<int64_t>(total) : 0);
  in.Emit(Field::kUnifiedUsed, status, unified ? static_cast<int64_t>(memory.used) : 0);
}

int EmitUnified(const ItemContext& in, std::string_view meminfo, std::string_view free_key) {
  int64_t total = -1, free = -1;
  std::string_view rest = meminfo;
  while (!rest.empty()) {
    std::string_view line = TakeUntil(rest, '\n');  // "Node 2 MemTotal:  100663296 kB"
    for (auto [key, out] : {std::pair{std::string_view("MemTotal:"), &total}, {free_key, &free}}) {
      size_t at = line.find(key);
      if (at == std::string_view::npos) continue;
      std::string_view number = Trim(line.substr(at + key.size()));
      *out = ParseInt<int64_t>(TakeUntil(number, ' ')).value_or(-1);
    }
  }
  constexpr int64_t kLimit = int64_t{1} << 40;  // kB: no node has an exabyte.
  if (total < 0 || free < 0 || free > total || total > kLimit) return kNotSupported;
  for (Field field : {Field::kMemoryTotal, Field::kMemoryUsed, Field::kMemoryFree, Field::kMemoryReserved}) {
    in.Emit(field, ReadStatus::kNotSupported, 0);
  }
  in.Emit(Field::kUnifiedTotal, total * 1024);
  in.Emit(Field::kUnifiedUsed, (total - free) * 1024);
  return kSuccess;
}

// Where the library answers NOT_SUPPORTED and the GPU's memory is a NUMA node, the kernel knows it.
int ReadMemoryOfNode(const ItemContext& in) {
  if (in.identity.numa_node < 0) return kNotSupported;
  std::string path =
      in.sysfs + "/devices/system/node/node" + std::to_string(in.identity.numa_node) + "/meminfo";
  Result<std::string> text = ReadFile(path, 64 * 1024);
  return text ? EmitUnified(in, *text, "MemFree:") : int{kNotSupported};
}

// As DGX Spark and Jetson: what a program may still have of the machine's memory is free.
int ReadMemoryOfMachine(const ItemContext& in) {
  Result<std::string> text = ReadFile(in.procfs + "/meminfo", 64 * 1024);
  return text ? EmitUnified(in, *text, "MemAvailable:") : int{kNotSupported};
}

int ReadMemory(const ItemContext& in) {
  MemoryV2 memory{};
  memory.version = kMemoryV2;
  int code = kFunctionNotFound;
  const bool newer = !in.state.memory_v2.Rests(in.state.now_ns);
  if (newer) code = in.Do(&NvmlSymbols::MemoryInfoV2, &memory);
  if (newer && code == kSuccess) in.state.memory_v2.Take(ReadStatus::kOk, in.state.now_ns);
  if (code == kFunctionNotFound || code == kArgumentVersionMismatch || code == kNotSupported) {
    Memory old{};
    code = in.Do(&NvmlSymbols::MemoryInfo, &old);
    if (code == kSuccess) {
      if (newer) in.state.memory_v2.Take(ReadStatus::kNotSupported, in.state.now_ns);
      memory.total = old.total, memory.free = old.free, memory.used = old.used;
    }
  }
  const bool answered = code != kNotSupported && code != kFunctionNotFound;
  // A GPU without memory of its own: some libraries answer with the machine's, and some refuse.
  if ((!answered || code == kSuccess) && in.identity.integrated && ReadMemoryOfMachine(in) == kSuccess)
    return kSuccess;
  if (!answered) return ReadMemoryOfNode(in);
  if (code == kSuccess && in.identity.integrated) {
    memory.free += memory.reserved;
    memory.total = 0;
  }
  if (code == kSuccess) EmitMemory(in, memory, !in.state.memory_v2.absent());
  return code;
}

int ReadMargin(const ItemContext& in) {
  MarginTemperature out{.version = StructVersion(sizeof(MarginTemperature), 1), .margin = 0};
  int code = in.Do(&NvmlSymbols::MarginTemperature, &out);
  return in.EmitIf(code, {{Field::kTemperatureMargin, out.margin}});
}

int ReadSupportedReasons(const ItemContext& in) {
  unsigned long long mask = 0;
  const NvmlSymbols& fn = in.caller.fn();
  int code =
      in.caller.DoEither(fn.SupportedEventReasons, fn.SupportedThrottleReasons, in.identity.device, &mask);
  return in.EmitIf(code, {{Field::kClockReasonsSupported, mask}});
}

int ReadFanRotation(const ItemContext& in) {
  constexpr std::array kFans = {Field::kFanRotation0, Field::kFanRotation1, Field::kFanRotation2,
                                Field::kFanRotation3, Field::kFanRotation4, Field::kFanRotation5};
  const NvmlSymbols& fn = in.caller.fn();
  unsigned count = 0;
  if (!fn.FanSpeedRpm) return kFunctionNotFound;
  if (int code = in.Do(&NvmlSymbols::NumFans, &count); code != kSuccess) return code;
  if (count == 0) return kNotSupported;
  std::array<unsigned, kFans.size()> speeds{};
  count = std::min(count, static_cast<unsigned>(kFans.size()));
  for (unsigned fan = 0; fan < count; ++fan) {
    FanSpeedInfo out{.version = StructVersion(sizeof(FanSpeedInfo), 1), .fan = fan, .speed = 0};
    int code = in.Do(&NvmlSymbols::FanSpeedRpm, &out);
    if (code != kSuccess) return code;
    speeds[fan] = out.speed;
  }
  for (unsigned fan = 0; fan < count; ++fan) in.Emit(kFans[fan], speeds[fan]);
  return kSuccess;
}

// Means over sessions mean nothing while there is none.
int ReadEncoderStats(const ItemContext& in) {
  unsigned sessions = 0, rate = 0, latency = 0;
  int code = in.Do(&NvmlSymbols::EncoderStats, &sessions, &rate, &latency);
  if (code != kSuccess) return code;
  ReadStatus status = sessions > 0 ? ReadStatus::kOk : ReadStatus::kNotFound;
  in.Emit(Field::kEncoderSessions, sessions);
  in.Emit(Field::kEncoderFrameRate, status, rate);
  in.Emit(Field::kEncoderLatency, status, latency);
  return code;
}

int ReadFbcStats(const ItemContext& in) {
  FbcStats out{};
  int code = in.Do(&NvmlSymbols::FbcStats, &out);
  return in.EmitIf(code, {{Field::kFbcSessions, out.sessions}});
}

// The answer is the code itself.
int ReadInforomValid(const ItemContext& in) {
  int code = in.Do(&NvmlSymbols::ValidateInforom);
  if (code != kSuccess && code != kCorruptedInforom) return code;
  in.Emit(Field::kInforomValid, code == kSuccess);
  return kSuccess;
}

// The fields of memory errors by location are in the order of the library's numbers, four to a location.
constexpr size_t kLocations = 8, kPerLocation = 4;
constexpr auto kFirstLocation = static_cast<size_t>(F::kEccVolatileCorrectedL1);
static_assert(static_cast<size_t>(F::kEccAggregateUncorrectedSram) ==
              kFirstLocation + kLocations * kPerLocation - 1);

template <size_t kAt>
int ReadEccLocation(const ItemContext& in) {
  unsigned long long count = 0;
  constexpr unsigned kLocation = kAt / kPerLocation;
  constexpr unsigned kType = kAt % 2 == 0 ? kCorrectedError : kUncorrectedError;
  constexpr unsigned kCounter = kAt % kPerLocation < 2 ? kVolatileEcc : kAggregateEcc;
  int code = in.Do(&NvmlSymbols::MemoryErrorCounter, unsigned{kType}, unsigned{kCounter}, unsigned{kLocation},
                   &count);
  return in.EmitIf(code, {{static_cast<Field>(kFirstLocation + kAt), count}});
}

int ReadSram(const ItemContext& in) {
  SramEccErrorStatus out{};
  out.version = StructVersion(sizeof out, 1);
  int code = in.Do(&NvmlSymbols::SramEccErrorStatus, &out);
  return in.EmitIf(code, {{F::kSramThresholdExceeded, out.threshold_exceeded != 0},
                          {F::kSramL2, out.bucket_l2},
                          {F::kSramSm, out.bucket_sm},
                          {F::kSramMicrocontroller, out.bucket_microcontroller},
                          {F::kSramPcie, out.bucket_pcie},
                          {F::kSramOther, out.bucket_other}});
}

int ReadBanks(const ItemContext& in) {
  RowRemapperHistogram out{};
  int code = in.Do(&NvmlSymbols::RowRemapperHistogram, &out);
  return in.EmitIf(code, {{F::kRemapBanksMax, out.max},
                          {F::kRemapBanksHigh, out.high},
                          {F::kRemapBanksPartial, out.partial},
                          {F::kRemapBanksLow, out.low},
                          {F::kRemapBanksNone, out.none}});
}

int ReadUnrepairable(const ItemContext& in) {
  unsigned flag = 0;
  int code = in.Do(&NvmlSymbols::UnrepairableMemory, &flag);
  return in.EmitIf(code, {{F::kMemoryUnrepairable, flag != 0}});
}

int QueryFabric(const ItemContext& in, FabricInfoV3& out) {
  int code = kFunctionNotFound;
  // Newest first. Version 2 is shorter: the last member then stays as it is.
  for (unsigned version : {StructVersion(sizeof(FabricInfoV3), 3), StructVersion(kFabricInfoV2Size, 2)}) {
    out.version = version;
    code = in.Do(&NvmlSymbols::FabricInfoV, &out);
    if (code != kArgumentVersionMismatch && code != kInvalidArgument) break;
  }
  if (code != kFunctionNotFound && code != kArgumentVersionMismatch && code != kInvalidArgument) return code;
  FabricInfoV1 old{};
  code = in.Do(&NvmlSymbols::FabricInfo, &old);
  if (code != kSuccess) return code;
  std::memcpy(out.cluster_uuid, old.cluster_uuid, sizeof out.cluster_uuid);
  out.status = old.status;
  out.clique = old.clique;
  out.state = old.state;
  out.health = 0;  // This version does not report it: each condition reads "not supported".
  return code;
}

uint64_t BigEndian(const unsigned char* bytes) noexcept {
  uint64_t out = 0;
  for (int i = 0; i < 8; ++i) out = out << 8 | bytes[i];
  return out;
}

// All but the state mean something only once the registration is complete.
int ReadFabric(const ItemContext& in) {
  FabricInfoV3 out{};
  int code = QueryFabric(in, out);
  if (code != kSuccess) return code;
  ReadStatus status = out.state == kFabricCompleted ? ReadStatus::kOk : ReadStatus::kNotFound;
  in.Emit(F::kFabricState, out.state);
  in.Emit(F::kFabricStatus, status, out.status);
  in.Emit(F::kFabricHealth, status, out.health);
  in.Emit(F::kFabricClique, status, out.clique);
  in.Emit(F::kFabricClusterHigh, status, static_cast<int64_t>(BigEndian(out.cluster_uuid)));
  in.Emit(F::kFabricClusterLow, status, static_cast<int64_t>(BigEndian(out.cluster_uuid + 8)));
  return code;
}

int ReadConfidentialState(const ItemContext& in) {
  ConfComputeState out{};
  int code = in.caller.Do(in.caller.fn().ConfComputeState, &out);
  return in.EmitIf(
      code, {{F::kConfidentialEnabled, out.feature != 0}, {F::kConfidentialDevMode, out.dev_tools != 0}});
}

int ReadConfidentialReady(const ItemContext& in) {
  unsigned ready = 0;
  int code = in.caller.Do(in.caller.fn().ConfComputeReady, &ready);
  return in.EmitIf(code, {{F::kConfidentialReady, ready != 0}});
}

int ReadConfidentialMemory(const ItemContext& in) {
  ConfComputeMemory out{};
  int code = in.Do(&NvmlSymbols::ConfComputeMemory, &out);
  return in.EmitIf(code, {{F::kConfidentialProtected, out.protected_kib},
                          {F::kConfidentialUnprotected, out.unprotected_kib}});
}

template <Field... kFields>
consteval GpuItem Group(int (*read)(const ItemContext&), uint32_t details = 0) {
  GpuItem item{.read = read, .fields = {}, .details = details};
  item.fields.fill(Field::kCount);
  size_t at = 0;
  ((item.fields[at++] = kFields), ...);
  return item;
}
template <Field kField, auto kFunction, auto... kSelectors>
constexpr GpuItem kNumber = Group<kField>(&ReadNumber<kField, kFunction, kSelectors...>);
template <Field kField, auto kFunction>
constexpr GpuItem kShare = Group<kField>(&ReadShare<kField, kFunction>);
template <Field kField, unsigned kCodec>
constexpr GpuItem kEncoderCapacity =
    Group<kField>(&ReadNumber<kField, &NvmlSymbols::EncoderCapacity, kCodec>, kDetailMore);

template <size_t... kAt>
constexpr auto MakeEccLocationItems(std::index_sequence<kAt...>) {
  return std::array{Group<static_cast<Field>(kFirstLocation + kAt)>(&ReadEccLocation<kAt>)...};
}
constexpr auto kEccLocationItems =
    MakeEccLocationItems(std::make_index_sequence<kLocations * kPerLocation>());

// Read before all others: another mode supports other calls.
constexpr GpuItem kMigModeItem[] = {Group<F::kMigMode, F::kMigModePending>(&ReadMigMode)};

constexpr GpuItem kGroupItems[] = {
    Group<F::kUtilizationGpu, F::kUtilizationMemory>(&ReadUtilization),
    kShare<F::kUtilizationEncoder, &NvmlSymbols::EncoderUtilization>,
    kShare<F::kUtilizationDecoder, &NvmlSymbols::DecoderUtilization>,
    Group<F::kMemoryTotal, F::kMemoryUsed, F::kMemoryFree, F::kMemoryReserved, F::kUnifiedTotal,
          F::kUnifiedUsed>(&ReadMemory),
    Group<F::kBar1Total, F::kBar1Used>(&ReadBar1),
    Group<F::kTemperature>(&ReadTemperature),
    Group<F::kEnergy>(&ReadEnergy),
    kNumber<F::kClockGraphics, &NvmlSymbols::ClockInfo, kGraphicsClock>,
    kNumber<F::kClockSm, &NvmlSymbols::ClockInfo, kSmClock>,
    kNumber<F::kClockMemory, &NvmlSymbols::ClockInfo, kMemoryClock>,
    kNumber<F::kClockVideo, &NvmlSymbols::ClockInfo, kVideoClock>,
    kNumber<F::kClockMaxGraphics, &NvmlSymbols::MaxClockInfo, kGraphicsClock>,
    kNumber<F::kClockMaxSm, &NvmlSymbols::MaxClockInfo, kSmClock>,
    kNumber<F::kClockMaxMemory, &NvmlSymbols::MaxClockInfo, kMemoryClock>,
    kNumber<F::kClockMaxVideo, &NvmlSymbols::MaxClockInfo, kVideoClock>,
    Group<F::kClockEventReasons>(&ReadClockReasons),
    Group<F::kFanSpeedMean, F::kFanSpeedMax>(&ReadFans),
    Group<F::kEccCorrected, F::kEccUncorrected>(
        &ReadEccTotals<F::kEccCorrected, F::kEccUncorrected, kVolatileEcc>),
    Group<F::kEccMode, F::kEccModePending>(&ReadEccMode),
    Group<F::kRemappedCorrectable, F::kRemappedUncorrectable, F::kRemapPending, F::kRemapFailure>(
        &ReadRemappedRows),
    Group<F::kRetiredSingleBit, F::kRetiredDoubleBit>(&ReadRetiredPages),
    Group<F::kPcieLinkGen, F::kPcieLinkWidth>(
        &ReadTwoNumbers<F::kPcieLinkGen, &NvmlSymbols::PcieLinkGen, F::kPcieLinkWidth,
                        &NvmlSymbols::PcieLinkWidth>),
    Group<F::kPcieMaxLinkGen, F::kPcieMaxLinkWidth>(
        &ReadTwoNumbers<F::kPcieMaxLinkGen, &NvmlSymbols::PcieMaxLinkGen, F::kPcieMaxLinkWidth,
                        &NvmlSymbols::PcieMaxLinkWidth>),
    Group<F::kNvlinkTotal, F::kNvlinkActive>(&ReadNvlinks),
    kShare<F::kUtilizationJpeg, &NvmlSymbols::JpgUtilization>,
    kShare<F::kUtilizationOfa, &NvmlSymbols::OfaUtilization>,
    Group<F::kTemperatureMargin>(&ReadMargin),
    kNumber<F::kTemperatureShutdown, &NvmlSymbols::TemperatureThreshold, kThresholdShutdown>,
    kNumber<F::kTemperatureSlowdown, &NvmlSymbols::TemperatureThreshold, kThresholdSlowdown>,
    kNumber<F::kTemperatureMemoryMax, &NvmlSymbols::TemperatureThreshold, kThresholdMemoryMax>,
    kNumber<F::kTemperatureGpuMax, &NvmlSymbols::TemperatureThreshold, kThresholdGpuMax>,
    kNumber<F::kTemperatureTarget, &NvmlSymbols::TemperatureThreshold, kThresholdTarget>,
    kNumber<F::kClockApplicationGraphics, &NvmlSymbols::ApplicationsClock, kGraphicsClock>,
    kNumber<F::kClockApplicationMemory, &NvmlSymbols::ApplicationsClock, kMemoryClock>,
    Group<F::kClockReasonsSupported>(&ReadSupportedReasons),
    Group<F::kFanRotation0, F::kFanRotation1, F::kFanRotation2, F::kFanRotation3, F::kFanRotation4,
          F::kFanRotation5>(&ReadFanRotation),
    Group<F::kEncoderSessions, F::kEncoderFrameRate, F::kEncoderLatency>(&ReadEncoderStats),
    kEncoderCapacity<F::kEncoderCapacityH264, kEncoderH264>,
    kEncoderCapacity<F::kEncoderCapacityHevc, kEncoderHevc>,
    kEncoderCapacity<F::kEncoderCapacityAv1, kEncoderAv1>,
    Group<F::kFbcSessions>(&ReadFbcStats, kDetailMore),
    Group<F::kInforomValid>(&ReadInforomValid),
    Group<F::kEccAggregateCorrected, F::kEccAggregateUncorrected>(
        &ReadEccTotals<F::kEccAggregateCorrected, F::kEccAggregateUncorrected, kAggregateEcc>),
    Group<F::kSramThresholdExceeded, F::kSramL2, F::kSramSm, F::kSramMicrocontroller, F::kSramPcie,
          F::kSramOther>(&ReadSram),
    Group<F::kRemapBanksMax, F::kRemapBanksHigh, F::kRemapBanksPartial, F::kRemapBanksLow,
          F::kRemapBanksNone>(&ReadBanks),
    Group<F::kMemoryUnrepairable>(&ReadUnrepairable),
    Group<F::kFabricState, F::kFabricStatus, F::kFabricHealth, F::kFabricClique, F::kFabricClusterHigh,
          F::kFabricClusterLow>(&ReadFabric),
    Group<F::kConfidentialEnabled, F::kConfidentialDevMode>(&ReadConfidentialState),
    Group<F::kConfidentialReady>(&ReadConfidentialReady),
    Group<F::kConfidentialProtected, F::kConfidentialUnprotected>(&ReadConfidentialMemory),
};

constexpr GpuItem kNumberItems[] = {
#define GPULENS_NVML_NUMBER_ITEM(id, name, unit, tier, call) kNumber<F::k##id, &NvmlSymbols::call>,
    GPULENS_NVML_NUMBERS(GPULENS_NVML_NUMBER_ITEM)
#undef GPULENS_NVML_NUMBER_ITEM
};

template <auto&... kLists>
constexpr auto Join() {
  std::array<GpuItem, (std::size(kLists) + ...)> all{};
  auto end = all.begin();
  ((end = std::copy(std::begin(kLists), std::end(kLists), end)), ...);
  return all;
}
constexpr auto kItems = Join<kMigModeItem, kNumberItems, kGroupItems, kEccLocationItems>();

}  // namespace

std::span<const GpuItem> GpuItems() noexcept { return kItems; }

uint64_t UnsignedOf(unsigned value_type, const Value& value) noexcept {
  switch (value_type) {
    case kDouble:
      return value.double_value > 0 && value.double_value < 9e18 ? static_cast<uint64_t>(value.double_value)
                                                                 : 0;
    case kUint: return value.uint_value;
    case kUlong: return value.ulong_value;
    case kSllong: return static_cast<uint64_t>(value.sll_value);
    case kSint: return static_cast<uint64_t>(static_cast<int64_t>(value.int_value));
    case kUshort: return value.ushort_value;
    default: return value.ull_value;
  }
}

}  // namespace gpulens::nvml
