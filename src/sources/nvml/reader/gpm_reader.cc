#include "sources/nvml/reader/gpm_reader.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "sources/nvml/reader/nvml_library.h"

namespace gpulens::nvml {
namespace {

constexpr int64_t kShortestNs = 100'000'000;
// Above this a MIG instance has no slice of its own: buses and links belong to the whole GPU.
constexpr unsigned kLastOfInstance = 13;
constexpr unsigned kMetric[] = {
#define GPULENS_NVML_GPM_NUMBER(id, number) number,
    GPULENS_NVML_GPM_FIELDS(GPULENS_NVML_GPM_NUMBER)
#undef GPULENS_NVML_GPM_NUMBER
};
static_assert(std::size(kMetric) == kGpmFieldCount && std::size(kMetric) <= kGpmRoom);
// Where libraries of some age end, newest first.
constexpr unsigned kEnds[] = {209, 97, 21, 13};

// Whether a metric is a share of time or of lookups.
constexpr bool IsShare(unsigned metric) noexcept {
  return metric <= kLastOfInstance || (metric >= 30 && metric <= 51) || (metric >= 160 && metric <= 169);
}

// The library divides two readings of counters: a full share may come out a little above 100.
double Rounded(double value, unsigned metric) noexcept {
  return IsShare(metric) && value > 100 && value < 100.5 ? 100 : value;
}

}  // namespace

void GpmReader::Reset(Device device) {
  for (Pair& pair : pairs_) Free(pair);
  pairs_.clear();
  device_ = device;
  supported_ = reported_ = false;
  reads_ = 0;
  support_ = {};
  for (auto& metrics : metrics_) metrics = {};
  newest_metric_ = ~0U;
}

bool GpmReader::Supported() {
  if (supported_ || support_.Waits(caller_.now())) return supported_;
  GpmSupport answer{.version = kGpmVersion, .supported = 0};
  int code = caller_.Do(caller_.fn().GpmQuerySupport, device_, &answer);
  bool functions = caller_.fn().GpmAlloc && caller_.fn().GpmMetrics;
  supported_ = code == kSuccess && answer.supported && functions;
  ReadStatus status = supported_ ? ReadStatus::kOk : ReadStatus::kNotSupported;
  support_.Take(code == kSuccess ? status : ReadStatusOf(code), caller_.now());
  if (supported_ && !request_) request_ = std::make_unique_for_overwrite<GpmMetricsGet>();
  return supported_;
}

GpmReader::Pair& GpmReader::Find(const SliceKey& key) {
  for (Pair& pair : pairs_) {
    if (pair.key == key) return pair;
  }
  return pairs_.emplace_back(Pair{.key = key});
}

bool GpmReader::Allocate(Pair& pair) {
  for (GpmSample* sample : {&pair.older, &pair.spare}) {
    if (*sample || caller_.Do(caller_.fn().GpmAlloc, sample) == kSuccess) continue;
    *sample = nullptr;
    pair.again.Take(ReadStatus::kNotSupported, caller_.now());
    return false;
  }
  return true;
}

void GpmReader::Free(Pair& pair) {
  for (GpmSample* sample : {&pair.older, &pair.spare}) {
    if (*sample) caller_.Do(caller_.fn().GpmFree, *sample);
    *sample = nullptr;
  }
}

void GpmReader::KeepOnly(const std::vector<SliceKey>& present) {
  std::erase_if(pairs_, [&](Pair& pair) {
    if (std::find(present.begin(), present.end(), pair.key) != present.end()) return false;
    Free(pair);
    return true;
  });
}

void GpmReader::Read(const SliceKey& key, std::vector<SliceReading>& out) {
  if (!Supported()) return;
  Pair& pair = Find(key);
  if (key.kind != SliceKind::kMig && reads_ < kReadsToBegin) ++reads_;
  if (pair.again.Rests(caller_.now()) || !Allocate(pair)) return;
  int code = key.kind == SliceKind::kMig ? caller_.Do(caller_.fn().GpmTakeMig, device_, key.id, pair.spare)
                                         : caller_.Do(caller_.fn().GpmTake, device_, pair.spare);
  if (code != kSuccess) {
    pair.again.Take(ReadStatusOf(code), caller_.now());
    pair.older_ns = 0;  // A gap: no mean over it.
    return;
  }
  int64_t taken_ns = caller_.last_boot_ns();
  if (pair.older_ns != 0) {
    if (taken_ns - pair.older_ns < kShortestNs) return;
    Compute(pair, taken_ns, out);
  }
  std::swap(pair.older, pair.spare);
  pair.older_ns = taken_ns;
}

void GpmReader::Compute(Pair& pair, int64_t boot_ns, std::vector<SliceReading>& out) {
  bool instance = pair.key.kind == SliceKind::kMig;
  auto& metrics = metrics_[instance];
  GpmMetricsGet& request = *request_;
  request.version = kGpmVersion;
  request.older = pair.older;
  request.newer = pair.spare;
  request.count = 0;
  uint16_t fields[kGpmFieldCount];
  for (size_t i = 0; i < (more_ ? kGpmFieldCount : kGpmUsualCount); ++i) {
    if (metrics[i].Rests(boot_ns) || kMetric[i] > newest_metric_ ||
        (instance && kMetric[i] > kLastOfInstance))
      continue;
    fields[request.count] = static_cast<uint16_t>(i);
    GpmMetric& metric = request.metrics[request.count++];
    metric = GpmMetric{};
    metric.id = kMetric[i];
    metric.code = kUnknownError;
  }
  if (request.count == 0) return;
  int code = caller_.Do(caller_.fn().GpmMetrics, &request);
  if (code == nvml::kInvalidArgument) {
    const unsigned* end = std::find_if(std::begin(kEnds), std::end(kEnds),
                                       [&](unsigned number) { return number < newest_metric_; });
    if (end == std::end(kEnds)) pair.again.Take(ReadStatus::kNotSupported, boot_ns);
    else newest_metric_ = *end;
    return;
  }
  pair.again.Take(ReadStatusOf(code), boot_ns);
  if (code != kSuccess) return;
  reported_ = reported_ || !instance;
  for (unsigned i = 0; i < request.count; ++i) {
    const GpmMetric& metric = request.metrics[i];
    ReadStatus status = ReadStatusOf(metric.code);
    metrics[fields[i]].Take(status, boot_ns);
    if (status != ReadStatus::kOk) continue;
    out.push_back({.entity = index_,
                   .key = pair.key,
                   .field = fields[i],
                   .status = status,
                   .boot_ns = boot_ns,
                   .value = Rounded(metric.value, metric.id)});
  }
}

}  // namespace gpulens::nvml
