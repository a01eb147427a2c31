// The table of rules, and how each is evaluated. Thresholds that the health of GPUs, alerts and this table
// share are in catalog/limits.h; the reasons of the others are comments next to them.
#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "catalog/cost.h"
#include "catalog/gpu.h"
#include "catalog/host.h"
#include "catalog/inference.h"
#include "catalog/limits.h"
#include "catalog/nccl.h"
#include "catalog/phases.h"
#include "catalog/row.h"
#include "why/rule_case.h"

namespace gpulens {
namespace why_detail {
namespace {

using enum WhyInput::Combine;
constexpr std::string_view kCause = "gpu.throttle.cause", kClock = "gpu.clock.type",
                           kEcc = "gpu.ecc.error_type", kPressure = "host.pressure.resource",
                           kLevel = "host.pressure.level";

// A condition must hold for this share of the rule's time: a dip of a second or two does not hide a cause,
// and a peak does not make one.
constexpr double kMostOfTheTime = 0.8;
// A condition over a minute: engines are read every 5 s, and a notebook's cell or a checkpoint passes sooner.
constexpr int kMinute = 60, kMostOfAMinute = 48;

// ---- Series
// -------------------------------------------------------------------------------------------------

// The driver's counter of time has no sampling error; the flag is what older drivers have; AMD has shares.
template <KeyText cause>
constexpr WhyInput kThrottled[] = {{&kGpuThrottleTime, kCause, cause.view()},
                                   {&kGpuThrottleShare, kCause, cause.view()},
                                   {&kGpuThrottleReason, kCause, cause.view()}};
constexpr WhyInput kHeatOfMemory[] = {{&kGpuThrottleShare, kCause, "temp_memory"},
                                      {&kGpuThrottleTime, kCause, "temp_software"},
                                      {&kGpuThrottleReason, kCause, "temp_software"}};
constexpr WhyInput kClockNow[] = {{&kGpuClockFrequency, kClock, "sm"},
                                  {&kGpuClockFrequency, kClock, "graphics"}};
constexpr WhyInput kClockMost[] = {{&kGpuClockMax, kClock, "sm"}, {&kGpuClockMax, kClock, "graphics"}};
constexpr WhyInput kClockSet[] = {
    {&kGpuClockLimit, kClock, "graphics|sm", "gpu.clock.limit_type", "application"}};
constexpr WhyInput kClockReason[] = {{&kGpuThrottleReason, kCause, "clock_setting"}};
constexpr WhyInput kLimitNow[] = {{&kGpuPowerLimit, "gpu.power.limit_type", "enforced"}};
constexpr WhyInput kLimitDefault[] = {{&kGpuPowerLimit, "gpu.power.limit_type", "default"}};
constexpr WhyInput kPower[] = {{&kGpuPowerDraw}};
constexpr WhyInput kCoreHeat[] = {{&kGpuTemperature, "gpu.temperature.sensor", "edge"}};
constexpr WhyInput kMemoryHeat[] = {{&kGpuTemperature, "gpu.temperature.sensor", "memory"}};
constexpr WhyInput kMemoryHeatLimit[] = {{&kGpuTemperatureLimit, "gpu.temperature.sensor", "memory",
                                          "gpu.temperature.limit_type", "max_operating|slowdown"}};
constexpr WhyInput kMargin[] = {{&kGpuTemperatureMargin}};
constexpr WhyInput kBusy[] = {{&kGpuUtilization, "gpu.task.type", "compute"}, {&kGpuUtilization}};
constexpr WhyInput kWidth[] = {{&kGpuPcieLinkWidthCurrent}};
constexpr WhyInput kWidthMost[] = {{&kGpuPcieLinkWidthMax}};
constexpr WhyInput kGeneration[] = {{&kGpuPcieLinkGenCurrent}};
constexpr WhyInput kGenerationMost[] = {{&kGpuPcieLinkGenMax}};
constexpr WhyInput kPcieBytes[] = {{&kGpuPcieIo, {}, {}, {}, {}, kMax}};
constexpr WhyInput kPagesLocal[] = {{&kHostNumaMemoryAllocations, "host.numa.result", "local", {}, {}, kSum}};
constexpr WhyInput kPagesOther[] = {{&kHostNumaMemoryAllocations, "host.numa.result", "other", {}, {}, kSum}};
constexpr WhyInput kCpuSome[] = {{&kHostPressureTime, kPressure, "cpu", kLevel, "some"}};
constexpr WhyInput kMemorySome[] = {{&kHostPressureTime, kPressure, "memory", kLevel, "some"}};
constexpr WhyInput kMemoryFull[] = {{&kHostPressureTime, kPressure, "memory", kLevel, "full"}};
constexpr WhyInput kOomKills[] = {{&kHostMemoryOomKills}};
constexpr WhyInput kIoSome[] = {{&kHostPressureTime, kPressure, "io", kLevel, "some"}};
constexpr WhyInput kIoFull[] = {{&kHostPressureTime, kPressure, "io", kLevel, "full"}};
constexpr WhyInput kDiskBusy[] = {{&kSystemDiskIoTime, {}, {}, {}, {}, kMax}};
// As the condition link_errors of fleet_health counts them: CRC and corrected ECC errors are left out, as
// every link has some.
constexpr WhyInput kLinkErrors[] = {{&kGpuInterconnectErrors,
                                     "gpu.interconnect.error_type",
                                     "replay|recovery|malformed|overrun|remote|integrity|discard",
                                     {},
                                     {},
                                     kSum}};
constexpr WhyInput kTensor[] = {{&kGpuPipeTensorActive}};
constexpr WhyInput kDram[] = {{&kGpuDramActive}};
constexpr WhyInput kFp64[] = {{&kGpuPipeFp64Active}};
constexpr WhyInput kSm[] = {{&kGpuSmActive}};
constexpr WhyInput kKvUsage[] = {{&kInferenceKvCacheUsage, "cache.type", "gpu", {}, {}, kMax},
                                 {&kInferenceKvCacheUsage, {}, {}, {}, {}, kMax}};
constexpr WhyInput kPreempted[] = {{&kInferencePreemptions, {}, {}, {}, {}, kSum}};
constexpr WhyInput kRecomputed[] = {{&kInferenceRecomputedTokens, {}, {}, {}, {}, kSum}};
constexpr WhyInput kPrompt[] = {{&kInferencePromptTokens, {}, {}, {}, {}, kSum}};
constexpr WhyInput kWaiting[] = {{&kInferenceRequestsWaiting, {}, {}, {}, {}, kSum}};
constexpr WhyInput kRunning[] = {{&kInferenceRequestsRunning, {}, {}, {}, {}, kSum}};
constexpr WhyInput kHits[] = {{&kInferencePrefixCacheHits, "cache.type", "gpu", {}, {}, kSum}};
constexpr WhyInput kLookups[] = {{&kInferencePrefixCacheQueries, "cache.type", "gpu", {}, {}, kSum}};
constexpr WhyInput kCorrected[] = {
    {&kGpuEccErrors, kEcc, "correctable", "gpu.ecc.count_type", "volatile", kSum}};
constexpr WhyInput kUncorrected[] = {
    {&kGpuEccErrors, kEcc, "uncorrectable", "gpu.ecc.count_type", "volatile", kSum}};
constexpr WhyInput kRemapPending[] = {{&kGpuRowRemapResetPending}, {&kGpuRetiredPagesPending}};
constexpr WhyInput kRemapFailed[] = {{&kGpuRowRemapFailed}};
constexpr WhyInput kIdle[] = {{&kGpuIdle}};
constexpr bool kOfProcesses = true;
constexpr WhyInput kDataLoading[] = {
    {&kProcessPhaseTime, "process.phase", "data_loading", {}, {}, kSum, kOfProcesses}};
constexpr WhyInput kPhaseConfidence[] = {{&kProcessPhaseConfidence, {}, {}, {}, {}, kMax, kOfProcesses}};
constexpr WhyInput kStraggler[] = {{&kNcclRankStraggler, {}, {}, {}, {}, kMax}};
constexpr WhyInput kLateness[] = {{&kNcclRankLateness, {}, {}, {}, {}, kMax}};
constexpr WhyInput kLostTime[] = {{&kNcclRankLostTime, {}, {}, {}, {}, kMax}};
constexpr WhyInput kHung[] = {{&kNcclCommunicatorHung, {}, {}, {}, {}, kMax}};
constexpr WhyInput kRanksMissing[] = {{&kNcclCommunicatorRanksMissing, {}, {}, {}, {}, kMax}};
constexpr WhyInput kPendingAge[] = {{&kNcclCommunicatorPendingAge, {}, {}, {}, {}, kMax}};

constexpr bool kOptional = false, kNeeded = true, kNotZero = true;

// ---- Evaluators
// -------------------------------------------------------------------------------------------------

int Known(double value, bool holds) { return std::isnan(value) ? -1 : holds; }

// The share of the rule's time for which the track's share held. Unknown time counts as free of it, so that a
// gap cannot make a finding; what is shown is the mean of the known time.
double SureShare(const RuleCase& c, size_t role) {
  return c.tracks[role].Sum(static_cast<size_t>(c.rule.seconds)) / c.rule.seconds;
}

// What a lower clock costs: the share of time, times the share of the clock. Work that waits for memory loses
// less.
WhyCost ClockCost(const RuleCase& c, double share, size_t clock, size_t most) {
  double now = c.MeanWhile(clock, [&](size_t i) { return Known(c.At(0, i), c.At(0, i) > 0.01); }),
         max = c.Now(most);
  if (std::isnan(now) || std::isnan(max) || max <= 0) return {};
  return {share * (1 - now / max), true};
}

// Roles: 0 throttled, 1 clock, 2 highest clock, then evidence.
Verdict Throttled(const RuleCase& c, std::string sentence_end) {
  const double share = std::min(c.Mean(0), 1.0);
  const Held held = c.Hold([&](size_t i) { return Known(c.At(0, i), c.At(0, i) > 0.01); });
  if (SureShare(c, 0) <= c.rule.threshold || !held.now) return {};
  std::string sentence = "Clocks are held down " + Percent(share) + " of the time " + sentence_end;
  if (double now = c.Mean(1), max = c.Now(2); !std::isnan(now) && !std::isnan(max))
    sentence += ": " + Whole(now) + " of " + Whole(max) + " MHz";
  return {c.Found(held, sentence + ".", {0, 1, 2, 3, 4, 5}, ClockCost(c, share, 1, 2)), {}};
}

Verdict PowerCap(const RuleCase& c) {
  double limit = c.Now(3), normal = c.Now(4);
  std::string end = "by the power limit";
  if (!std::isnan(limit)) end += " of " + Whole(limit) + " W";
  if (limit < normal) end += ", which is below the board's default of " + Whole(normal) + " W";
  return Throttled(c, end);
}

Verdict PowerBrake(const RuleCase& c) { return Throttled(c, "by the power supply of the machine"); }

// Whether it is the memory that is hot: at its limit where that is known. Else by exclusion: the core is not
// near the temperature at which it slows down, and the memory is above 85 °C, from where HBM is refreshed
// twice as often.
enum class Heat { kUnknown, kCore, kMemory };
Heat HotPart(const RuleCase& c, size_t memory, size_t limit, size_t margin) {
  constexpr double kCool = 5, kWarmMemory = 85;  // degrees
  auto throttled = [&](size_t i) { return Known(c.At(0, i), c.At(0, i) > 0.01); };
  double heat = c.MeanWhile(memory, throttled), most = c.Now(limit), left = c.MeanWhile(margin, throttled);
  if (std::isnan(heat)) return Heat::kUnknown;
  if (!std::isnan(most)) return heat >= most - 1 ? Heat::kMemory : Heat::kCore;
  if (heat < kWarmMemory) return Heat::kCore;
  if (std::isnan(left)) return Heat::kUnknown;
  return left >= kCool ? Heat::kMemory : Heat::kCore;
}

// Roles 3 to 6: core, memory, limit of the memory, margin of the core.
Verdict ThermalSoftware(const RuleCase& c) {
  if (HotPart(c, 4, 5, 6) == Heat::kMemory) return {};  // thermal_memory has it
  return Throttled(c, "by the driver, as the GPU is too hot");
}

Verdict ThermalHardware(const RuleCase& c) {
  return Throttled(c, "by the hardware, as the GPU is far too hot");
}

Verdict ThermalMemory(const RuleCase& c) {
  if (SureShare(c, 0) <= c.rule.threshold) return {};
  if (c.tracks[0].input->value != "temp_memory") {
    Heat heat = HotPart(c, 4, 5, 6);
    if (heat == Heat::kUnknown)
      return {{},
              "clocks are held down by heat, and no series shows whether the memory is hot: "
              "gpu.temperature{gpu.temperature.sensor=memory}"};
    if (heat == Heat::kCore) return {};
  }
  return Throttled(c, "as the memory is too hot");
}

// Bytes a second of a PCIe link; the table is per lane of each generation, without the line code.
double LinkSpeed(double generation, double width) {
  constexpr double kOfOne[] = {0, 0.25e9, 0.5e9, 0.985e9, 1.969e9, 3.938e9, 7.563e9};
  auto index = static_cast<size_t>(generation);
  return generation >= 1 && index < std::size(kOfOne) ? kOfOne[index] * width : kNotMeasured;
}

// Roles: 0 width, 1 highest, 2 generation, 3 highest, 4 busy, 5 bytes. An idle GPU lowers its generation to
// save power.
Verdict PcieSlow(const RuleCase& c) {
  auto narrow = [&](size_t i) {
    return std::isnan(c.At(0, i)) || std::isnan(c.At(1, i)) ? -1 : c.At(0, i) < c.At(1, i);
  };
  auto slow = [&](size_t i) {
    if (std::isnan(c.At(2, i)) || std::isnan(c.At(3, i)) || std::isnan(c.At(4, i))) return -1;
    return c.At(2, i) < c.At(3, i) && c.At(4, i) > limits::kBusyAbove ? 1 : 0;
  };
  const Held held =
      c.Hold([&](size_t i) { return narrow(i) == 1 || slow(i) == 1 ? 1 : std::max(narrow(i), slow(i)); });
  // Boards are read every ten seconds: two of three readings.
  if (held.share < 0.6 || !held.now) return {};
  double width = c.Now(0), most_width = c.Now(1), generation = c.Now(2), most_generation = c.Now(3);
  std::string sentence = "The link uses ";
  if (width < most_width) sentence += Whole(width) + " of " + Whole(most_width) + " PCIe lanes";
  if (width < most_width && generation < most_generation) sentence += " and ";
  if (generation < most_generation)
    sentence += "generation " + Whole(generation) + " of " + Whole(most_generation);
  WhyCost cost;
  double speed = LinkSpeed(generation, width), most = LinkSpeed(most_generation, most_width),
         bytes = c.Mean(5);
  if (speed > 0 && most > speed) {
    sentence += ", " + Percent(speed / most) + " of the bandwidth that GPU and slot have";
    if (!std::isnan(bytes)) cost = {bytes / speed - bytes / most, true};
  }
  return {c.Found(held, sentence + ".", {0, 1, 2, 3, 4, 5}, cost), {}};
}

Verdict NumaRemote(const RuleCase& c) {
  constexpr double kFewPages = 1000;  // a second: 4 MB/s, below which placement costs nothing that is seen
  auto remote = [&](size_t i) {
    double local = c.At(0, i), other = c.At(1, i);
    if (std::isnan(local) || std::isnan(other)) return -1;
    return local + other >= kFewPages && other > c.rule.threshold * (local + other) ? 1 : 0;
  };
  const Held held = c.Hold(remote);
  if (held.share < kMostOfTheTime || !held.now) return {};
  double local = c.Mean(0), other = c.Mean(1);
  return {c.Found(held,
                  Percent(other / (local + other)) +
                      " of the memory that programs of this machine take lies on another NUMA node than the "
                      "processor that took it.",
                  {0, 1}),
          {}};
}

Verdict Pressure(const RuleCase& c, std::string_view what, std::initializer_list<size_t> evidence) {
  const double share = std::min(c.Mean(0), 1.0);
  const Held held = c.Hold([&](size_t i) { return Known(c.At(0, i), c.At(0, i) > c.rule.threshold); });
  if (SureShare(c, 0) <= c.rule.threshold || !held.now) return {};
  return {
      c.Found(held, "Some program waits for " + std::string(what) + " " + Percent(share) + " of the time.",
              evidence, {share, true}),
      {}};
}

Verdict CpuPressure(const RuleCase& c) { return Pressure(c, "a processor", {0}); }
Verdict StorageWait(const RuleCase& c) { return Pressure(c, "storage", {0, 1, 2}); }
Verdict MemoryPressure(const RuleCase& c) {
  Verdict verdict = Pressure(c, "host memory", {0, 1});
  const double kills = c.tracks[2].Sum(static_cast<size_t>(c.rule.seconds));
  if (kills < 0.5) return verdict;
  std::string killed = "The kernel has ended " + Whole(kills) + (kills < 1.5 ? " program" : " programs") +
                       " within a minute, as host memory ran out.";
  if (verdict.finding) {
    verdict.finding->sentence += " " + killed;
    verdict.finding->evidence.push_back(c.Evidence(c.tracks[2]));
    return verdict;
  }
  const Held held = c.Hold([&](size_t i) { return Known(c.At(2, i), c.At(2, i) > 0); });
  return {c.Found(held, killed, {2, 0}), {}};
}

// The growth of a counter within the rule's time, free of the rounding of rates.
double Growth(const RuleCase& c, size_t role) {
  return std::round(c.tracks[role].Sum(static_cast<size_t>(c.rule.seconds)) * 1e3) / 1e3;
}
Held Growing(const RuleCase& c, size_t role) {
  Held held = c.Hold([&](size_t i) { return Known(c.At(role, i), c.At(role, i) > 0); });
  for (size_t i = c.first(); i < c.size(); ++i) {
    if (!(c.At(role, i) > 0)) continue;
    held.since_ms = c.node.to_ms() - static_cast<int64_t>(c.size() - i) * 1000;
    held.since_begin = i <= 1;
    break;
  }
  return held;
}

Verdict NvlinkErrors(const RuleCase& c) {
  const double errors = Growth(c, 0);
  if (errors <= c.rule.threshold) return {};
  return {c.Found(Growing(c, 0),
                  Whole(errors) + " NVLink errors within " + std::to_string(c.rule.seconds / 60) +
                      " minutes: what was hit is sent again.",
                  {0}),
          {}};
}

// Roles: 0 clock, 1 busy. The median of the others is the measure, so two GPUs are not enough.
Verdict SlowGpu(const RuleCase& c) {
  const GpuFacts& own = c.node.Gpu(c.subject.name);
  std::vector<std::vector<Track>> others;
  std::vector<std::string> names;
  for (const WhySubject& gpu : c.node.gpus()) {
    const GpuFacts& facts = c.node.Gpu(gpu.name);
    if (own.job.empty() || facts.job != own.job || facts.model != own.model || gpu == c.subject) continue;
    others.push_back(
        {c.node.Get(gpu, c.rule.roles[0], c.rule.seconds), c.node.Get(gpu, c.rule.roles[1], c.rule.seconds)});
    names.push_back(gpu.name);
  }
  if (others.size() < 2) return {{}, "not one of three or more equal GPUs of a job"};
  constexpr double kWorks = 0.5;  // GPUs that wait for another one in a collective operation are busy, too
  std::vector<double> medians(c.size(), kNotMeasured), clocks;
  auto slow = [&](size_t i) {
    if (std::isnan(c.At(0, i)) || std::isnan(c.At(1, i))) return -1;
    if (c.At(1, i) <= kWorks) return 0;
    clocks.clear();
    for (const std::vector<Track>& other : others)
      if (!std::isnan(other[0].values[i]) && other[1].values[i] > kWorks)
        clocks.push_back(other[0].values[i]);
    if (clocks.size() < 2) return -1;
    auto middle = clocks.begin() + static_cast<std::ptrdiff_t>(clocks.size() / 2);
    std::nth_element(clocks.begin(), middle, clocks.end());
    medians[i] = *middle;
    return c.At(0, i) < (1 - c.rule.threshold) * medians[i] ? 1 : 0;
  };
  const Held held = c.Hold(slow);
  if (held.share < kMostOfTheTime || !held.now) return {};
  double sum = 0, count = 0;
  for (size_t i = c.first(); i < c.size(); ++i)
    if (!std::isnan(medians[i])) sum += medians[i], ++count;
  const double median = sum / count, clock = c.MeanWhile(0, slow);
  WhyFinding finding = c.Found(held,
                               "GPU " + c.subject.name + " runs at " + Whole(clock) + " MHz, the other " +
                                   std::to_string(others.size()) + " GPUs of job " + own.job + " at " +
                                   Whole(median) + ": where they work together, all wait for it.",
                               {0, 1}, {1 - clock / median, true});
  for (size_t i = 0; i < others.size(); ++i) {
    finding.evidence.push_back(c.Evidence(others[i][0]));
    finding.evidence.back().attributes[0].second = names[i];
  }
  return {std::move(finding), {}};
}

// Roles: 0 busy, 1 tensor, 2 device memory, 3 FP64, 4 SMs.
Verdict TensorLow(const RuleCase& c) {
  constexpr double kFull = 0.8, kMovesMemory = 0.5, kUsesFp64 = 0.1;
  auto low = [&](size_t i) {
    if (std::isnan(c.At(0, i)) || std::isnan(c.At(1, i)) || std::isnan(c.At(2, i))) return -1;
    if (c.At(3, i) > kUsesFp64) return 0;  // double precision has its own pipe
    return c.At(0, i) >= kFull && c.At(1, i) < c.rule.threshold && c.At(2, i) < kMovesMemory ? 1 : 0;
  };
  const Held held = c.Hold(low);
  if (held.share < kMostOfTheTime || !held.now) return {};
  std::string sentence = "Kernels run " + Percent(c.Mean(0)) + " of the time and use tensor cores in " +
                         Percent(c.Mean(1)) + " of the cycles, device memory in " + Percent(c.Mean(2)) + ".";
  WhyCost cost;
  if (double sm = c.Mean(4); !std::isnan(sm)) {
    cost = {1 - sm, false};
    sentence += " An SM has work in " + Percent(sm) + " of the cycles.";
  }
  return {c.Found(held, sentence, {0, 1, 2, 3, 4}, cost), {}};
}

Verdict MemoryBound(const RuleCase& c) {
  const Held held = c.Hold([&](size_t i) {
    if (std::isnan(c.At(0, i))) return -1;
    return c.At(0, i) > c.rule.threshold && !(c.At(1, i) >= c.At(0, i)) ? 1 : 0;
  });
  if (held.share < kMostOfTheTime || !held.now) return {};
  return {c.Found(held,
                  "Device memory moves data in " + Percent(c.Mean(0)) +
                      " of the cycles, of about 80 % that can be reached: it sets the speed.",
                  {0, 1}),
          {}};
}

// The share of their time in the engine for which requests wait: by Little's law the mean time in a place is
// as long as requests are there, whatever their rate. Time without a request has no share.
double WaitShare(const RuleCase& c, size_t waiting, size_t running) {
  double wait = c.Mean(waiting), run = c.Mean(running);
  return wait + run > 0 ? wait / (wait + run) : kNotMeasured;
}

// Roles: 0 usage, 1 preemptions, 2 waiting, 3 running.
Verdict KvCacheFull(const RuleCase& c) {
  const Held held = c.Hold([&](size_t i) { return Known(c.At(0, i), c.At(0, i) > c.rule.threshold); });
  if (held.share < kMostOfTheTime || !held.now) return {};
  std::string sentence = "The KV cache is " + Percent(c.Mean(0)) + " full";
  if (double waiting = c.Mean(2); waiting >= 1) sentence += ", and " + Whole(waiting) + " requests wait";
  return {c.Found(held, sentence + ".", {0, 1, 2, 3}, {WaitShare(c, 2, 3), true}), {}};
}

// Roles: 0 preemptions, 1 tokens computed again, 2 prompt tokens.
Verdict Preemptions(const RuleCase& c) {
  const double count = Growth(c, 0);
  const Held held = Growing(c, 0);
  if (count < c.rule.threshold) return {};
  WhyCost cost;
  if (double again = c.Mean(1), prompt = c.Mean(2); again + prompt > 0)
    cost = {again / (again + prompt), true};
  return {c.Found(held,
                  Whole(count) + " requests within a minute were put back to the queue to free KV cache, and "
                                 "are computed again.",
                  {0, 1, 2}, cost),
          {}};
}

Verdict QueueWait(const RuleCase& c) {
  const Held held = c.Hold([&](size_t i) {
    double waiting = c.At(0, i), running = c.At(1, i);
    if (std::isnan(waiting) || std::isnan(running)) return -1;
    return waiting >= 1 && waiting > c.rule.threshold * (waiting + running) ? 1 : 0;
  });
  if (held.share < kMostOfTheTime || !held.now) return {};
  const double share = WaitShare(c, 0, 1);
  return {c.Found(held,
                  Whole(c.Mean(0)) + " requests wait and " + Whole(c.Mean(1)) + " run: a request spends " +
                      Percent(share) + " of its time in the queue.",
                  {0, 1}, {share, false}),
          {}};
}

// Roles: 0 hits, 1 lookups. The last minute is compared with the time before it, as far as the samples reach.
Verdict PrefixHitsFall(const RuleCase& c) {
  constexpr size_t kLeastBefore = 120;  // two minutes: a ratio over less follows single conversations
  constexpr double kFewTokens = 50;     // a second
  std::vector<double> earlier;          // shares, a second each; their median is not moved by the fall itself
  double hits = 0, lookups = 0, lookups_before = 0;
  size_t known[2] = {};
  for (size_t i = 0; i < c.size(); ++i) {
    const double hit = c.At(0, i), lookup = c.At(1, i);
    if (std::isnan(hit) || std::isnan(lookup) || hit > lookup * 1.01) continue;
    const bool now = i >= c.first();
    ++known[now];
    if (now) {
      hits += hit, lookups += lookup;
    } else {
      lookups_before += lookup;
      if (lookup > 0) earlier.push_back(hit / lookup);
    }
  }
  if (known[0] < kLeastBefore) {
    return {{},
            "history too short: has " + std::to_string(known[0] + known[1]) + " s, needs " +
                std::to_string(kLeastBefore + static_cast<size_t>(c.rule.seconds)) + " s"};
  }
  if (known[1] < static_cast<size_t>(c.rule.least_seconds))
    return {{}, "hits and lookups are known together for " + std::to_string(known[1]) + " s"};
  if (lookups_before < kFewTokens * static_cast<double>(known[0]) ||
      lookups < kFewTokens * static_cast<double>(known[1]))
    return {};
  auto middle = earlier.begin() + static_cast<std::ptrdiff_t>(earlier.size() / 2);
  std::nth_element(earlier.begin(), middle, earlier.end());
  const double before = *middle, now = hits / lookups;
  if (before - now <= c.rule.threshold) return {};
  const Held held = c.Hold([&](size_t i) {
    return Known(c.At(0, i) + c.At(1, i), c.At(0, i) < (before - c.rule.threshold / 2) * c.At(1, i));
  });
  WhyFinding finding = c.Found(held,
                               "The prefix cache has " + Percent(now) + " of the prompt tokens, before " +
                                   Percent(before) + ": the others are computed again.",
                               {0, 1}, {(before - now) / (1 - now), true});
  return {std::move(finding), {}};
}

// Roles: 0 corrected, 1 uncorrected.
Verdict EccErrors(const RuleCase& c) {
  const double corrected = Growth(c, 0), uncorrected = Growth(c, 1);
  if (uncorrected >= 1) {
    return {c.Found(Growing(c, 1),
                    Whole(uncorrected) + " memory errors could not be corrected within 5 minutes.", {1, 0}),
            {}};
  }
  if (corrected < c.rule.threshold) return {};
  return {c.Found(Growing(c, 0),
                  Whole(corrected) + " memory errors were corrected within 5 minutes: more than " +
                      Whole(limits::kFullCorrectedPerHour) + " an hour announce some that cannot be.",
                  {0}),
          {}};
}

// Roles: 0 pending, 1 failed.
Verdict RowRemap(const RuleCase& c) {
  const Held held = c.Hold([&](size_t i) { return Known(c.At(0, i), c.At(0, i) >= 1 || c.At(1, i) >= 1); });
  if (held.share < kMostOfTheTime || !held.now) return {};
  return {c.Found(held,
                  c.Now(1) >= 1 ? "A faulty row of device memory could not be replaced."
                                : "A faulty part of device memory waits for a reset to be replaced, and is "
                                  "left out until then.",
                  {0, 1}),
          {}};
}

// Roles: 0 limit, 1 highest clock, 2 busy, 3 clock, 4 the driver's reason.
Verdict ClockLimit(const RuleCase& c) {
  const Held held = c.Hold([&](size_t i) {
    double limit = c.At(0, i), most = c.At(1, i), busy = c.At(2, i), clock = c.At(3, i), reason = c.At(4, i);
    if (std::isnan(limit) || std::isnan(most) || std::isnan(busy)) return -1;
    bool held_by_it = reason >= 1 || clock >= 0.97 * limit;
    return busy > limits::kBusyAbove && limit < (1 - c.rule.threshold) * most && held_by_it ? 1 : 0;
  });
  if (held.share < kMostOfTheTime || !held.now) return {};
  const double limit = c.Now(0), most = c.Now(1);
  return {c.Found(held,
                  "Clocks are set to at most " + Whole(limit) + " MHz; the board can run at " + Whole(most) +
                      " MHz.",
                  {0, 1, 2, 3, 4}, {1 - limit / most, true}),
          {}};
}

// Roles: 0 busy, 1 idle.
Verdict IdleAllocated(const RuleCase& c) {
  const GpuFacts& gpu = c.node.Gpu(c.subject.name);
  if (gpu.job.empty() && gpu.pids.empty()) return {};
  const Held held = c.Hold([&](size_t i) {
    if (double idle = c.At(1, i); !std::isnan(idle)) return idle >= 1 ? 1 : 0;
    return Known(c.At(0, i), c.At(0, i) < c.rule.threshold);
  });
  if (held.share < kMostOfTheTime || !held.now) return {};
  const double busy = c.Mean(0);
  std::string holder = !gpu.slurm_id.empty()  ? "Job " + gpu.job
                       : !gpu.job.empty()     ? "Pod " + gpu.job
                       : gpu.pids.size() == 1 ? "Process " + gpu.pids[0]
                                              : std::to_string(gpu.pids.size()) + " processes";
  std::string verb = gpu.job.empty() && gpu.pids.size() > 1 ? " hold" : " holds";
  return {c.Found(held, holder + verb + " the GPU; kernels run " + Percent(busy) + " of the time.", {0, 1},
                  {1 - busy, false}),
          {}};
}

// "process 4711 (python3)" of a series' attributes.
std::string ProcessText(const AttributeSet& set) {
  const std::string name = set.Text("process.executable.name");
  return "process " + set.Text("process.pid") + (name.empty() ? "" : " (" + name + ")");
}

// "rank 3 of communicator 0xab on node-1".
std::string RankText(const AttributeSet& set) {
  const std::string name = set.Text("nccl.communicator.name"), host = set.Text("nccl.host");
  return "rank " + set.Text("nccl.rank") + " of communicator " +
         (name.empty() ? set.Text("nccl.communicator") : name) + (host.empty() ? "" : " on " + host);
}

// "0.3 ms", "20 ms".
std::string Milliseconds(double seconds) {
  const long tenths = std::lround(seconds * 1e4);
  if (tenths >= 100) return Whole(seconds * 1e3) + " ms";
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " ms";
}

// Roles: 0 time in the phase data_loading, 1 confidence. Of several processes on the GPU the one that waits
// most.
Verdict DataWait(const RuleCase& c) {
  std::map<std::string, std::pair<double, const SeriesWindow*>> shares;  // by pid; several sources add up
  for (const Track& track : c.node.Each(c.subject, kDataLoading[0])) {
    auto& [share, window] = shares[track.latest->series.attributes.Text("process.pid")];
    share += track.Sum(static_cast<size_t>(c.rule.seconds)) / c.rule.seconds;
    window = track.latest;
  }
  const auto most = std::ranges::max_element(shares, {}, [](const auto& one) { return one.second.first; });
  if (most == shares.end() || most->second.first <= c.rule.threshold) return {};
  const Held held = c.Hold([&](size_t i) { return Known(c.At(0, i), c.At(0, i) > 0); });
  if (!held.now) return {};
  const double share = std::min(most->second.first, 1.0);
  std::string who = ProcessText(most->second.second->series.attributes);
  who[0] = 'P';
  return {c.Found(held, who + " waits for its next batch " + Percent(share) + " of the time.", {0, 1},
                  {share, false}),
          {}};
}

// Roles: 0 straggler, 1 lateness, 2 lost time.
Verdict LateRank(const RuleCase& c) {
  const Held held = c.Hold([&](size_t i) { return Known(c.At(0, i), c.At(0, i) > 0); });
  if (held.share < kMostOfTheTime || !held.now) return {};
  const SeriesWindow* late = nullptr;
  double lateness = kNotMeasured, lost = kNotMeasured;
  size_t others = 0;
  for (const Track& track : c.node.Each(c.subject, kStraggler[0])) {
    if (!(track.Now() > 0)) continue;
    const AttributeSet& set = track.latest->series.attributes;
    const auto of_this = [&](const WhyInput& input) {
      for (const Track& one : c.node.Each(c.subject, input)) {
        const AttributeSet& other = one.latest->series.attributes;
        if (other.Text("nccl.rank") == set.Text("nccl.rank") &&
            other.Text("nccl.communicator") == set.Text("nccl.communicator"))
          return one.Mean(static_cast<size_t>(c.rule.seconds));
      }
      return kNotMeasured;
    };
    const double own = of_this(kLateness[0]);
    if (late) ++others;
    if (late && !(own > lateness)) continue;
    late = track.latest, lateness = own, lost = of_this(kLostTime[0]);
  }
  if (!late) return {};
  std::string sentence = RankText(late->series.attributes);
  sentence[0] = 'R';
  sentence += std::isnan(lateness)
                  ? " arrives late"
                  : " arrives " + Milliseconds(lateness) + " later than the median of the ranks";
  if (others > 0) sentence += ", and " + std::to_string(others) + " others are late, too";
  return {c.Found(held, sentence + ": all others wait for it.", {0, 1, 2},
                  {std::isnan(lost) ? kNotMeasured : std::min(lost, 1.0), false}),
          {}};
}

// Roles: 0 hung, 1 ranks missing, 2 age.
Verdict HungCollective(const RuleCase& c) {
  const Held held = c.Hold([&](size_t i) { return Known(c.At(0, i), c.At(0, i) > 0); });
  if (held.share < kMostOfTheTime || !held.now) return {};
  std::string sentence = "A collective";
  for (const Track& track : c.node.Each(c.subject, kHung[0])) {
    if (!(track.Now() > 0)) continue;
    const AttributeSet& set = track.latest->series.attributes;
    const std::string name = set.Text("nccl.communicator.name");
    sentence += " of communicator " + (name.empty() ? set.Text("nccl.communicator") : name);
    break;
  }
  sentence += " hangs";
  if (double age = c.Now(2); age > 0) sentence += " for " + Whole(age) + " s";
  if (double missing = c.Now(1); missing > 0)
    sentence +=
        ": " + Whole(missing) + (missing > 1 ? " ranks have" : " rank has") + " not arrived or not answered";
  return {c.Found(held, sentence + ".", {0, 1, 2}, {1, false}), {}};
}

// ---- The table
// ----------------------------------------------------------------------------------------------

constexpr std::string_view kReasons =
    "NVML, clocks event reasons: docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html";
constexpr std::string_view kDcgm =
    "DCGM user guide, profiling metrics: "
    "docs.nvidia.com/datacenter/dcgm/latest/user-guide/feature-overview.html";
constexpr std::string_view kPsi = "Linux, pressure stall information: docs.kernel.org/accounting/psi.html";
constexpr std::string_view kVllm =
    "vLLM, optimization and tuning: docs.vllm.ai/en/stable/configuration/optimization/";
constexpr std::string_view kMemoryErrors =
    "NVIDIA GPU memory error management: docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/index.html";
constexpr std::string_view kClockFormula =
    "share of time held down × (1 − clock then / highest clock); at most, as work that waits for memory "
    "loses less";
constexpr std::string_view kUnknownCost = "unknown";

constexpr WhyRole kPowerCapRoles[] = {{kThrottled<"power_software">, kNeeded, kNotZero},
                                      {kClockNow, kOptional},
                                      {kClockMost, kOptional},
                                      {kLimitNow, kOptional},
                                      {kLimitDefault, kOptional},
                                      {kPower, kOptional}};
constexpr WhyRole kPowerBrakeRoles[] = {{kThrottled<"power_brake">, kNeeded, kNotZero},
                                        {kClockNow, kOptional},
                                        {kClockMost, kOptional},
                                        {kPower, kOptional},
                                        {kLimitNow, kOptional},
                                        {kLimitDefault, kOptional}};
template <const auto& throttled>
constexpr WhyRole kHeatRoles[] = {{throttled, kNeeded, kNotZero},
                                  {kClockNow, kOptional},
                                  {kClockMost, kOptional},
                                  {kCoreHeat, kOptional},
                                  {kMemoryHeat, kOptional},
                                  {kMemoryHeatLimit, kOptional},
                                  {kMargin, kOptional}};
constexpr WhyRole kPcieRoles[] = {{kWidth},          {kWidthMost},       {kGeneration},
                                  {kGenerationMost}, {kBusy, kOptional}, {kPcieBytes, kOptional}};
constexpr WhyRole kNumaRoles[] = {{kPagesLocal}, {kPagesOther}};
constexpr WhyRole kCpuRoles[] = {{kCpuSome}};
constexpr WhyRole kMemoryRoles[] = {{kMemorySome}, {kMemoryFull, kOptional}, {kOomKills, kOptional}};
constexpr WhyRole kStorageRoles[] = {{kIoSome}, {kIoFull, kOptional}, {kDiskBusy, kOptional}};
constexpr WhyRole kNvlinkRoles[] = {{kLinkErrors}};
constexpr WhyRole kSlowGpuRoles[] = {{kClockNow}, {kBusy}};
constexpr WhyRole kTensorRoles[] = {{kBusy}, {kTensor}, {kDram}, {kFp64, kOptional}, {kSm, kOptional}};
constexpr WhyRole kMemoryBoundRoles[] = {{kDram}, {kTensor, kOptional}};
constexpr WhyRole kKvRoles[] = {
    {kKvUsage}, {kPreempted, kOptional}, {kWaiting, kOptional}, {kRunning, kOptional}};
constexpr WhyRole kPreemptionRoles[] = {{kPreempted}, {kRecomputed, kOptional}, {kPrompt, kOptional}};
constexpr WhyRole kQueueRoles[] = {{kWaiting}, {kRunning}};
constexpr WhyRole kPrefixRoles[] = {{kHits}, {kLookups}};
constexpr WhyRole kEccRoles[] = {{kCorrected}, {kUncorrected, kOptional}};
constexpr WhyRole kRemapRoles[] = {{kRemapPending, kNeeded, kNotZero}, {kRemapFailed, kOptional}};
constexpr WhyRole kClockRoles[] = {
    {kClockSet}, {kClockMost}, {kBusy}, {kClockNow, kOptional}, {kClockReason, kOptional}};
constexpr WhyRole kIdleRoles[] = {{kBusy}, {kIdle, kOptional}};
constexpr WhyRole kDataWaitRoles[] = {{kDataLoading}, {kPhaseConfidence, kOptional}};
constexpr WhyRole kLateRankRoles[] = {{kStraggler}, {kLateness, kOptional}, {kLostTime, kOptional}};
constexpr WhyRole kHungRoles[] = {{kHung}, {kRanksMissing, kOptional}, {kPendingAge, kOptional}};

struct Row {
  WhyRule rule;
  Evaluator evaluator;
};
using enum WhyConfidence;
constexpr Row kRows[] = {
    {{"power_cap", "Power limit", WhyKind::kGpu, kPowerCapRoles, limits::kMostPowerCapped, kMinute,
      kMostOfAMinute, "the power limit holds the clock down for more than {p} of {d}", kHigh, kClockFormula,
      "Full load does this by design. Where the limit is below the board's default and the power budget "
      "allows it, raise it: "
      "nvidia-smi -i GPU -pl WATTS.",
      kReasons},
     PowerCap},
    {{"power_brake", "Power brake", WhyKind::kGpu, kPowerBrakeRoles, limits::kMostThrottled, kMinute,
      kMostOfAMinute, "the brake signal of the power supply holds the clock down for more than {p} of {d}",
      kHigh, kClockFormula, "Look at the power supplies and their cables, and at the rack's power budget.",
      kReasons},
     PowerBrake},
    {{"thermal_hardware", "Heat: hardware slow-down", WhyKind::kGpu, kHeatRoles<kThrottled<"temp_hardware">>,
      limits::kMostThrottled, kMinute, kMostOfAMinute,
      "the hardware holds the clock down for heat for more than {p} of {d}", kHigh, kClockFormula,
      "The hardware halves the clock or more. Look at fans, air flow, inlet temperature and the heat sink "
      "now.",
      kReasons},
     ThermalHardware},
    {{"thermal_software", "Heat: driver slow-down", WhyKind::kGpu, kHeatRoles<kThrottled<"temp_software">>,
      limits::kMostThrottled, kMinute, kMostOfAMinute,
      "the driver holds the clock down for heat for more than {p} of {d}, and the memory is not the hot part",
      kHigh, kClockFormula,
      "Look at fans, air flow and inlet temperature; compare with the other GPUs of the machine.", kReasons},
     ThermalSoftware},
    {{"thermal_memory", "Heat: memory", WhyKind::kGpu, kHeatRoles<kHeatOfMemory>, limits::kMostThrottled,
      kMinute, kMostOfAMinute,
      "the clock is held down for heat for more than {p} of {d}, and the memory is at its limit; without a "
      "limit: above 85 °C "
      "while the core is 5 °C or more below its own",
      kMedium, kClockFormula,
      "Look at the air flow of this slot and at the thermal pads; a lower power limit cools the memory, too.",
      kReasons},
     ThermalMemory},
    {{"pcie_slow", "PCIe below what both ends can", WhyKind::kGpu, kPcieRoles, limits::kBusyAbove,
      limits::kSlowLinkSeconds, 18,
      "fewer lanes than GPU and slot can use, or a lower generation while the GPU is more than {p} busy, for "
      "{d}",
      kHigh,
      "bytes a second × (1 / bandwidth now − 1 / bandwidth possible); at most, as kernels run during "
      "transfers",
      "Seat the board and its riser again, look at the width of the slot in the BIOS, then: gpulens events "
      "--gpu "
      "GPU.",
      "NVML, PCIe link: docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceQueries.html; rates: PCI-SIG"},
     PcieSlow},
    // Three pages in ten: one socket of two without any binding has five in ten, a bound program hardly any.
    {{"numa_remote", "Memory on the wrong NUMA node", WhyKind::kHost, kNumaRoles, 0.3, kMinute,
      kMostOfAMinute,
      "more than {p} of the pages are taken from another node than that of the processor, at 1,000 pages a "
      "second or more, for {d}",
      kLow, kUnknownCost,
      "Bind each program to the node of its GPU: numactl --cpunodebind=N --membind=N. gpu.topology.affinity "
      "has the nodes.",
      "Linux, numastat: docs.kernel.org/admin-guide/numastat.html"},
     NumaRemote},
    {{"cpu_pressure", "Host processors", WhyKind::kHost, kCpuRoles, limits::kMostCpuPressure, kMinute,
      kMostOfAMinute, "some program waits for a processor for more than {p} of {d}", kMedium,
      "the share itself; at most, as the program that waits may not be one of the GPU's",
      "Find who uses the processors; give programs of GPUs cores of their own, or fewer loader workers.",
      kPsi},
     CpuPressure},
    // A tenth: memory stalls stop programs altogether; systemd-oomd ends programs at 60 %.
    {{"memory_pressure", "Host memory", WhyKind::kHost, kMemoryRoles, 0.1, kMinute, kMostOfAMinute,
      "some program waits for memory for more than {p} of {d}, or the kernel ends one as memory ran out",
      kMedium, "the share itself; at most, as the program that waits may not be one of the GPU's",
      "Find who uses the memory; lower prefetching and pinned memory of loaders, or set limits.", kPsi},
     MemoryPressure},
    // A fifth: below that loaders that prefetch hide it.
    {{"storage_wait", "Storage", WhyKind::kHost, kStorageRoles, 0.2, kMinute, kMostOfAMinute,
      "some program waits for storage for more than {p} of {d}", kMedium,
      "the share itself; at most, as the program that waits may not be one of the GPU's",
      "Look at the busiest disk and file system; stage data sets locally, write checkpoints in the "
      "background.",
      kPsi},
     StorageWait},
    {{"nvlink_errors", "NVLink errors", WhyKind::kGpu, kNvlinkRoles, limits::kMostLinkErrors,
      limits::kRecentSeconds, 60, "more than {t} errors within {d}", kMedium, kUnknownCost,
      "Run NVIDIA's diagnostics (dcgmi diag -r 3), seat the board or its bridge again; gpulens events --gpu "
      "GPU has XIDs of links.",
      "NVML, NVLink error counters: docs.nvidia.com/deploy/nvml-api/group__NvLink.html"},
     NvlinkErrors},
    // A tenth: boards of one model differ by a few per cent under the same load.
    {{"slow_gpu", "One slow GPU among equals", WhyKind::kGpu, kSlowGpuRoles, 0.1, kMinute, kMostOfAMinute,
      "the clock is more than {p} below the median of the job's other GPUs of the model, while all are more "
      "than 50 % busy, "
      "for 80 % of {d}",
      kMedium, "1 − clock / median of the others; at most: it is lost where the GPUs work together",
      "Look for what holds this GPU down in the findings about it; leave it out of the job, or lower the "
      "clocks of all.",
      "NVIDIA, performance of collective operations depends on the slowest rank: "
      "docs.nvidia.com/deeplearning/nccl"},
     SlowGpu},
    // A tenth: matrix multiplications of useful size keep tensor pipes busy for a quarter of the cycles and
    // more.
    {{"tensor_low", "Tensor cores hardly used", WhyKind::kGpu, kTensorRoles, 0.1, kMinute, kMostOfAMinute,
      "80 % busy or more, tensor pipes below {p}, device memory below 50 %, FP64 at most 10 %, for 80 % of "
      "{d}",
      kLow, "1 − share of cycles in which an SM has work",
      "Many small kernels, or data types without tensor cores: larger batches, CUDA graphs, BF16 or FP8; "
      "profile one step.",
      kDcgm},
     TensorLow},
    // Of the cycles about 80 % are the most that is reached; 60 % are three quarters of that.
    {{"memory_bound", "Memory bandwidth", WhyKind::kGpu, kMemoryBoundRoles, 0.6, kMinute, kMostOfAMinute,
      "device memory is active in more than {p} of the cycles and more than tensor pipes, for 80 % of {d}",
      kMedium, kUnknownCost,
      "Decoding does this by nature: larger batches, smaller weights and KV cache (FP8, AWQ), fused kernels.",
      kDcgm},
     MemoryBound},
    {{"kv_cache_full", "KV cache full", WhyKind::kEngine, kKvRoles, limits::kKvCacheFull, kMinute,
      kMostOfAMinute, "more than {p} of the KV cache is in use for 80 % of {d}", kHigh,
      "waiting / (waiting + running requests); at most, as they may wait for more than the cache",
      "More memory for the cache (gpu_memory_utilization), shorter max_model_len, an FP8 KV cache, more "
      "replicas.",
      kVllm},
     KvCacheFull},
    // Three: one request that was put back is no state.
    {{"kv_preemptions", "Preemptions", WhyKind::kEngine, kPreemptionRoles, 3, kMinute, kMostOfAMinute,
      "{t} or more preemptions within {d}", kHigh, "tokens computed again / (those + prompt tokens); at most",
      "Lower max_num_seqs or max_num_batched_tokens, or give the KV cache more memory "
      "(gpu_memory_utilization).",
      kVllm},
     Preemptions},
    // A tenth of their time: less is not felt next to the time in which they run.
    {{"queue_wait", "Requests wait in the queue", WhyKind::kEngine, kQueueRoles, 0.1, kMinute, kMostOfAMinute,
      "one request or more waits, and more than {p} of all that are there, for 80 % of {d}", kHigh,
      "waiting / (waiting + running requests): the share of their time that requests spend in the queue",
      "More replicas, or fewer requests at once; see whether the KV cache is full and which clients send "
      "most.",
      "Little's law; vLLM, production metrics: docs.vllm.ai/en/latest/usage/metrics.html"},
     QueueWait},
    {{"prefix_hits_fall", "Prefix-cache hits fall", WhyKind::kEngine, kPrefixRoles, 0.2, kMinute,
      kMostOfAMinute,
      "the share of hits in {d} is more than {p} (of all lookups) below that of the time before, of which "
      "two minutes are known",
      kMedium,
      "(hits before − hits now) / (1 − hits now), of the time of prefill; at most, as decoding is not "
      "touched",
      "Look for new prompts, another order of system prompt and tools, or a router that no longer sends a "
      "conversation to one replica.",
      "vLLM, automatic prefix caching: docs.vllm.ai/en/latest/features/automatic_prefix_caching.html"},
     PrefixHitsFall},
    {{"ecc_errors", "Memory errors", WhyKind::kGpu, kEccRoles,
      limits::kFullCorrectedPerHour* limits::kRecentSeconds / 3600, limits::kRecentSeconds, 60,
      "{t} or more corrected errors within {d}, or one that could not be corrected", kMedium, kUnknownCost,
      "Drain the GPU when they go on; reset it after an uncorrected one: gpulens events --gpu GPU.",
      kMemoryErrors},
     EccErrors},
    {{"row_remap", "Memory waits to be replaced", WhyKind::kGpu, kRemapRoles, 1, 30, 24,
      "a row or page waits for a reset, or could not be replaced, for {d}", kHigh, kUnknownCost,
      "Drain the GPU and reset it (nvidia-smi --gpu-reset -i GPU); when a replacement failed, return the "
      "board.",
      kMemoryErrors},
     RowRemap},
    // A twentieth: steps of clocks are 15 MHz, and boards differ by more than one.
    {{"clock_limit", "Application clocks", WhyKind::kGpu, kClockRoles, 0.05, kMinute, kMostOfAMinute,
      "application clocks are more than {p} below the highest clock and hold the clock of a GPU that is "
      "busy, for 80 % of {d}",
      kHigh, "1 − limit / highest clock; at most, as work that waits for memory loses less",
      "If they were not set on purpose: nvidia-smi -i GPU -rac, or -rgc for locked clocks.", kReasons},
     ClockLimit},
    {{"idle_allocated", "Idle but allocated", WhyKind::kGpu, kIdleRoles, limits::kBusyAbove, kMinute,
      kMostOfAMinute,
      "a job, pod or process has the GPU, and it is idle (gpu.idle; without it: below {p} busy) for 80 % of "
      "{d}",
      kHigh, "1 − share of time in which a kernel runs",
      "Talk to its owner; end idle notebooks after a while, or share the GPU (MIG, time slicing).",
      "docs/alerts.md: GpuIdleButAllocated"},
     IdleAllocated},
    // A tenth: a loader that keeps up makes waits of a few per cent.
    {{"data_wait", "Waits for data", WhyKind::kGpu, kDataWaitRoles, 0.1, kMinute, 30,
      "a process on the GPU waits for its next batch for more than {p} of {d}", kHigh,
      "the share itself: the GPU has nothing to do meanwhile",
      "More loader workers, prefetching, pinned memory, data nearer to the machine; see what the workers "
      "wait for.",
      "docs/phases.md"},
     DataWait},
    {{"late_rank", "A late rank", WhyKind::kHost, kLateRankRoles, 1, 15, 10,
      "a rank on this machine is a straggler (nccl.rank.straggler) for 80 % of {d}", kHigh,
      "time that the other ranks waited for it alone, per second",
      "Look at what else this document finds about its GPU and machine; leave it out of the job when it "
      "stays.",
      "docs/stragglers.md"},
     LateRank},
    {{"hung_collective", "A collective hangs", WhyKind::kHost, kHungRoles, 1, 15, 10,
      "a collective hangs (nccl.communicator.hung) for 80 % of {d}", kHigh, "all of it: no rank moves",
      "The event nccl.hang names the rank, its machine and GPU with the evidence: gpulens events --name "
      "nccl.hang. Of PyTorch, after its timeout: gpulens flight-recorder /tmp/comm_lib_trace_rank_*",
      "docs/stragglers.md"},
     HungCollective},
};
constexpr auto kRules = [] {
  std::array<WhyRule, std::size(kRows)> rules{};
  for (size_t i = 0; i < rules.size(); ++i) rules[i] = kRows[i].rule;
  return rules;
}();

}  // namespace

Evaluator EvaluatorOf(size_t rule_index) noexcept { return kRows[rule_index].evaluator; }

}  // namespace why_detail

std::span<const WhyRule> WhyRules() noexcept { return why_detail::kRules; }

std::string WhyConditionText(const WhyRule& rule) {
  std::string out;
  std::string_view rest = rule.condition;
  while (!rest.empty()) {
    size_t open = std::min(rest.find('{'), rest.size());
    out += rest.substr(0, open);
    rest.remove_prefix(open);
    if (rest.empty()) break;
    if (rest.starts_with("{p}")) out += why_detail::Whole(rule.threshold * 100) + " %";
    else if (rest.starts_with("{t}")) out += why_detail::Whole(rule.threshold);
    else if (rule.seconds % 60 == 0 && rule.seconds > 60)
      out += std::to_string(rule.seconds / 60) + " minutes";
    else out += std::to_string(rule.seconds) + " s";
    rest.remove_prefix(3);
  }
  return out;
}

std::vector<std::string_view> WhyMetrics() {
  std::set<std::string_view> names = {kGpuProcessMemoryUsed.name};  // which processes a GPU has
  for (const WhyRule& rule : WhyRules())
    for (const WhyRole& role : rule.roles)
      for (const WhyInput& input : role.any_of) names.insert(input.metric->name);
  return {names.begin(), names.end()};
}

}  // namespace gpulens
