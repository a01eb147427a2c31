#include "plugins/analyzers/gpu_events/recent_xids.h"

#include <algorithm>
#include <utility>

#include "catalog/gpu.h"

namespace gpulens {
namespace {

constexpr std::string_view kActionNames[] = {"none",  "restart_app",    "reset_gpu",         "reboot",
                                             "drain", "contact_vendor", "check_mechanicals", "unknown"};
constexpr uint8_t kUnknownAction = 7;
// A reset settles what asked for no more than a reset.
constexpr uint8_t kLastSettledByReset = 2;

uint8_t ActionOf(std::string_view name) noexcept {
  auto at = std::ranges::find(kActionNames, name);
  return at == std::end(kActionNames) ? kUnknownAction : static_cast<uint8_t>(at - std::begin(kActionNames));
}

}  // namespace

RecentXids::PerGpu& RecentXids::Of(size_t gpu) {
  if (gpus_.size() <= gpu) gpus_.resize(gpu + 1);
  return gpus_[gpu];
}

void RecentXids::Add(size_t gpu, int64_t at_boot_ns, std::string_view action) {
  if (gpu == GpuEventTable::kNone) return;
  std::vector<Happened>& xids = Of(gpu).xids;
  if (xids.size() >= kMaxPerGpu) xids.erase(xids.begin());
  xids.push_back({at_boot_ns, ActionOf(action)});
}

void RecentXids::Clear(size_t gpu, int64_t before_boot_ns) {
  for (size_t i = 0; i < gpus_.size(); ++i) {
    if (gpu == GpuEventTable::kNone || gpu == i)
      std::erase_if(gpus_[i].xids, [&](const Happened& xid) { return xid.at_ns <= before_boot_ns; });
  }
}

void RecentXids::ClearByReset(size_t gpu, int64_t before_boot_ns) {
  if (gpu == GpuEventTable::kNone) return;
  std::erase_if(Of(gpu).xids, [&](const Happened& xid) {
    return xid.at_ns <= before_boot_ns && xid.action <= kLastSettledByReset;
  });
}

void RecentXids::Remember(std::vector<Past> past) {
  past_ = std::move(past);
  std::ranges::sort(past_, {}, [](const Past& one) { return std::pair(one.boot_ns, one.kind); });
}

void RecentXids::Recall(size_t gpu, const std::string& uuid) {
  std::vector<Happened> since = std::move(Of(gpu).xids);
  gpus_[gpu].xids.clear();
  for (const Past& one : past_) {
    if (!one.gpu_uuid.empty() && one.gpu_uuid != uuid) continue;
    if (one.kind == Past::kXid) Add(gpu, one.boot_ns, one.action);
    else if (one.kind == Past::kReset) ClearByReset(gpu, one.boot_ns);
    else Clear(gpu, one.boot_ns);
  }
  gpus_[gpu].xids.insert(gpus_[gpu].xids.end(), since.begin(), since.end());
}

void RecentXids::WriteGpu(PerGpu& gpu, Instant now, FrameWriter& out) const {
  std::erase_if(gpu.xids, [&](const Happened& xid) { return now.boot_ns - xid.at_ns > window_ns_; });
  std::array<uint64_t, kActions> counts{};
  for (const Happened& xid : gpu.xids) ++counts[xid.action];
  for (size_t i = 0; i < kActions; ++i) {
    // The first stands from the start: it says that XIDs are watched, and that none came.
    if (i > 0 && counts[i] == 0 && !gpu.series[i]) continue;
    if (!gpu.series[i])
      gpu.series[i] = out.table().Declare(kGpuXidRecent, gpu.entity, {{"gpu.xid.action", kActionNames[i]}});
    out.Set(gpu.series[i], counts[i]);
  }
}

void RecentXids::Write(const GpuEventTable& table, bool watched, Instant now, FrameWriter& out) {
  if (gpus_.size() < table.size()) gpus_.resize(table.size());
  for (size_t i = 0; i < table.size(); ++i) {
    const KnownGpu& known = table[i];
    PerGpu& gpu = gpus_[i];
    if (!gpu.recalled && !known.uuid.empty()) {
      gpu.recalled = true;
      Recall(i, known.uuid);
    }
    if (gpu.entity && (!known.present || gpu.entity != known.entity)) {
      for (Series& series : gpu.series) {
        if (series) out.table().Retire(series);
        series = {};
      }
      gpu.entity = {};
    }
    if (!known.present || known.vendor != "nvidia" || !watched) continue;
    gpu.entity = known.entity;
    WriteGpu(gpu, now, out);
  }
}

}  // namespace gpulens
