// The functions of the simulated library for GPM: what they report is the load of the profile between two
// samples, and its traffic.
#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "sources/nvml/reader/nvml_abi.h"
#include "sources/nvml/simulated/fake_call.h"

namespace gpulens::nvml {
struct GpmSampleHandle {
  bool taken = false;
  unsigned gpu = 0, instance = kNoFakeInstance;
  double seconds = 0, busy_seconds = 0;
  bool coherent = false;
  std::array<uint64_t, kFakeFlows> flows{};
};

namespace {

struct FakeGpmSpan {
  double busy;          // share of the span between two samples, 0 to 1
  double seconds;       // since the library was opened
  double busy_seconds;  // of these
};

constexpr double kCyclesPerSecond = 1.98e9;
constexpr unsigned kEngines = 7;  // decoders, and JPEG engines

// Hits in the cache, in %.
constexpr std::pair<unsigned, double> kHits[] = {{160, 12}, {162, 35}, {164, 61}};
// Cycles in which a unit is active, as a share of those in which the GPU is busy.
constexpr std::pair<unsigned, double> kUnits[] = {{249, 0.88}, {250, 0.52}, {251, 0},    {252, 0.5},
                                                  {253, 0.02}, {254, 0},    {257, 0.12}, {258, 0.01},
                                                  {259, 0.18}, {260, 0.06}};

// Single engines, caches and cycles.
// In the unit of the metric; nothing for metrics that these boards do not have: they have seven decoders and
// JPEG engines, one optical flow accelerator and no encoder.
std::optional<double> FakeGpmMore(unsigned metric, const FakeGpmSpan& span) noexcept {
  double busy = std::clamp(span.busy, 0.0, 1.0);
  if (metric >= 30 && metric < 30 + kEngines) return busy * 3;
  if (metric >= 40 && metric < 40 + kEngines) return 0;
  if (metric == 50) return 0;
  if (metric == 248) return span.seconds * kCyclesPerSecond;
  for (auto [id, percent] : kHits) {
    if (id == metric) return percent;
  }
  for (auto [id, share] : kUnits) {
    if (id == metric) return span.busy_seconds * share * kCyclesPerSecond;
  }
  return std::nullopt;
}

// Shares of a busy GPU that each unit is active, in %.
constexpr std::pair<unsigned, double> kShares[] = {{1, 100}, {2, 88},  {3, 45}, {4, 12}, {5, 52},
                                                   {6, 0},   {7, 50},  {8, 0},  {9, 2},  {10, 60},
                                                   {11, 1},  {12, 18}, {13, 6}};

int Take(const FakeView& view, unsigned instance, GpmSample sample) {
  if (!sample) return kInvalidArgument;
  if (view.model->architecture < kHopper) return kNotSupported;
  double load = -1;
  bool used = instance == kNoFakeInstance;
  for (const FakeMig& mig : view.profile->mig) {
    if (mig.instance != instance || !mig.when.Holds(view.index, view.since_open)) continue;
    load = std::max(load, mig.load);
    used = true;
  }
  if (!used) return kNotFound;
  if (instance != kNoFakeInstance && load < 0) {
    bool busy = std::any_of(view.processes.begin(), view.processes.end(),
                            [&](const GpuProcess& process) { return process.gpu_instance == instance; });
    if (!busy) load = 0;
  }
  sample->taken = true;
  sample->gpu = view.index;
  sample->instance = instance;
  sample->seconds = view.seconds;
  sample->busy_seconds = load >= 0 ? load * view.seconds : view.gpu->load.Integral(view.seconds);
  sample->coherent = view.model->coherent;
  sample->flows = view.flows;
  return kSuccess;
}

double MibPerSecond(const GpmMetricsGet& request, FakeFlow flow, double factor = 1) {
  auto bytes =
      request.newer->flows[static_cast<size_t>(flow)] - request.older->flows[static_cast<size_t>(flow)];
  return factor * static_cast<double>(bytes) / (request.newer->seconds - request.older->seconds) / (1 << 20);
}

int TakeMetric(const GpmMetricsGet& request, GpmMetric& metric) {
  double busy = (request.newer->busy_seconds - request.older->busy_seconds) /
                (request.newer->seconds - request.older->seconds);
  auto share = std::find_if(std::begin(kShares), std::end(kShares),
                            [&](const auto& known) { return known.first == metric.id; });
  if (share != std::end(kShares)) {
    metric.value = std::clamp(busy, 0.0, 1.0) * share->second;
    return kSuccess;
  }
  if (request.newer->instance != kNoFakeInstance) return kNotSupported;
  if (auto more = FakeGpmMore(metric.id, {busy, request.newer->seconds, request.newer->busy_seconds})) {
    metric.value = *more;
    return kSuccess;
  }
  switch (metric.id) {
    case 20: metric.value = MibPerSecond(request, FakeFlow::kPcieTx); return kSuccess;
    case 21: metric.value = MibPerSecond(request, FakeFlow::kPcieRx); return kSuccess;
    case 60: metric.value = MibPerSecond(request, FakeFlow::kNvlinkRx); return kSuccess;
    case 61: metric.value = MibPerSecond(request, FakeFlow::kNvlinkTx); return kSuccess;
    default: break;
  }
  if (metric.id < 100 || metric.id > 103 || !request.newer->coherent) return kNotSupported;
  bool tx = metric.id % 2 == 0;
  metric.value =
      MibPerSecond(request, tx ? FakeFlow::kPcieTx : FakeFlow::kPcieRx, metric.id >= 102 ? 3.6 : 4);
  return kSuccess;
}

}  // namespace

FAKE_API int nvmlGpmQueryDeviceSupport(Device device, GpmSupport* out) {
  return With(__func__, device, [&](const FakeView& view) -> int {
    if (!out || out->version != kGpmVersion) return kInvalidArgument;
    out->supported = view.model->architecture >= kHopper;
    return kSuccess;
  });
}
FAKE_API int nvmlGpmSampleAlloc(GpmSample* out) {
  if (!out) return kInvalidArgument;
  *out = new GpmSampleHandle;
  return kSuccess;
}
FAKE_API int nvmlGpmSampleFree(GpmSample sample) {
  if (!sample) return kInvalidArgument;
  delete sample;
  return kSuccess;
}
FAKE_API int nvmlGpmSampleGet(Device device, GpmSample sample) {
  return With(__func__, device, [&](const FakeView& view) { return Take(view, kNoFakeInstance, sample); });
}
FAKE_API int nvmlGpmMigSampleGet(Device device, unsigned instance, GpmSample sample) {
  return With(__func__, device, [&](const FakeView& view) -> int {
    return view.gpu->mig ? Take(view, instance, sample) : int{kNotSupported};
  });
}
FAKE_API int nvmlGpmMetricsGet(GpmMetricsGet* request) {
  if (!request || request->version != kGpmVersion) return kArgumentVersionMismatch;
  if (!request->older || !request->newer || request->count > kGpmRoom) return kInvalidArgument;
  const GpmSampleHandle &older = *request->older, &newer = *request->newer;
  bool pair = older.taken && newer.taken && older.gpu == newer.gpu && older.instance == newer.instance;
  if (!pair || newer.seconds <= older.seconds) return kInvalidArgument;
  int code = FakeWorld::Get().Enter(__func__, static_cast<int>(newer.gpu));
  if (code != kSuccess) return code;
  for (unsigned i = 0; i < request->count; ++i) {
    request->metrics[i].code = TakeMetric(*request, request->metrics[i]);
  }
  return kSuccess;
}

}  // namespace gpulens::nvml
