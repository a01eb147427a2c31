#include "plugins/analyzers/gpu_events/event_counters.h"

#include <algorithm>
#include <utility>

#include "catalog/gpu.h"
#include "catalog/self.h"

namespace gpulens {
namespace {

constexpr std::string_view kGradeNames[] = {"corrected", "deferred", "fatal"};
constexpr int64_t kOther = -1;

int64_t IntOf(const Event& event, std::string_view key, int64_t fallback) {
  AttributeSet::Value value = event.attributes.Find(key, fallback);
  const int64_t* number = std::get_if<int64_t>(&value);
  return number ? *number : fallback;
}

constexpr std::string_view kActionNames[] = {"none",  "restart_app",    "reset_gpu",         "reboot",
                                             "drain", "contact_vendor", "check_mechanicals", "unknown"};
constexpr uint8_t kUnknownAction = 7;
// A reset settles actions up to a reset.
constexpr uint8_t kLastSettledByReset = 2;

uint8_t ActionOf(std::string_view name) noexcept {
  auto at = std::ranges::find(kActionNames, name);
  return at == std::end(kActionNames) ? kUnknownAction : static_cast<uint8_t>(at - std::begin(kActionNames));
}

}  // namespace

void EventCounters::CountXid(PerGpu& gpu, const Event& event) {
  int64_t code = IntOf(event, "gpu.xid.code", 0);
  ++gpu.xids;
  if (event.at.unix_ns >= gpu.last.unix_ns) gpu.last = {event.at.unix_ns, code};
  auto find = [&](int64_t value) { return std::ranges::find(gpu.codes, value, &CodeCount::code); };
  auto at = find(code);
  if (at == gpu.codes.end()) {
    // The last one is for all others.
    if (gpu.codes.size() + 1 >= kMaxCodes) code = kOther;
    at = find(code);
    if (at == gpu.codes.end()) at = gpu.codes.insert(at, {code, 0, {}});
  }
  ++at->count;
}

void EventCounters::Count(const Event& event, size_t gpu) {
  for (size_t i = 0; i < std::size(kEvents); ++i) events_[i] += kEvents[i]->name == event.name;
  if (gpu == GpuEventTable::kNone) return;
  if (gpus_.size() <= gpu) gpus_.resize(gpu + 1);
  if (event.name == kEventGpuXid.name) return CountXid(gpus_[gpu], event);
  if (event.name != kEventGpuRas.name) return;
  std::string grade = event.attributes.Text("gpu.ras.severity");
  for (size_t i = 0; i < kGrades; ++i) gpus_[gpu].ras[i] += kGradeNames[i] == grade;
}

void EventCounters::Undeclare(PerGpu& gpu, SeriesTable& table) {
  if (gpu.entity) table.Retire(gpu.entity);
  gpu.entity = {};
  gpu.xid_series = gpu.last_time = gpu.last_code = {};
  gpu.ras_series = {};
  for (CodeCount& code : gpu.codes) code.series = {};
}

void EventCounters::Declare(PerGpu& gpu, const TrackedGpu& tracked, Watched watched, SeriesTable& table) {
  gpu.entity = tracked.entity;
  if (watched.xids && tracked.vendor == "nvidia" && !gpu.xid_series) {
    gpu.xid_series = table.Declare(kGpuXidErrors, gpu.entity);
    auto before = remembered_.find(tracked.uuid);
    if (before != remembered_.end() && before->second.unix_ns > gpu.last.unix_ns) gpu.last = before->second;
  }
  for (CodeCount& code : gpu.codes) {
    if (code.series || !watched.xids) continue;
    AttributeSet extra = code.code == kOther ? AttributeSet({{"gpu.xid.code", std::string_view("other")}})
                                             : AttributeSet({{"gpu.xid.code", code.code}});
    code.series = table.Declare(kGpuXidCodeErrors, gpu.entity, extra);
  }
  // Gaudi cards have the vendor of GPUs without known messages: their counters begin with the first event.
  bool any = gpu.ras != decltype(gpu.ras){};
  if (watched.ras && (tracked.vendor == "amd" || any) && !gpu.ras_series[0]) {
    for (size_t i = 0; i < kGrades; ++i) {
      gpu.ras_series[i] = table.Declare(kGpuRasErrors, gpu.entity, {{"gpu.ras.severity", kGradeNames[i]}});
    }
  }
}

void EventCounters::WriteGpu(PerGpu& gpu, Watched watched, FrameWriter& out) {
  if (watched.xids && gpu.xid_series) {
    out.Set(gpu.xid_series, gpu.xids);
    if (gpu.last.unix_ns != 0) {
      // Not before there is one: another page may have it.
      if (!gpu.last_time) gpu.last_time = out.table().Declare(kGpuXidLastErrorTimestamp, gpu.entity);
      if (!gpu.last_code) gpu.last_code = out.table().Declare(kGpuXidLastErrorCode, gpu.entity);
      out.Set(gpu.last_time, static_cast<double>(gpu.last.unix_ns) * 1e-9);
      out.Set(gpu.last_code, gpu.last.code);
    }
    for (const CodeCount& code : gpu.codes) out.Set(code.series, code.count);
  }
  if (!watched.ras || !gpu.ras_series[0]) return;
  for (size_t i = 0; i < kGrades; ++i) out.Set(gpu.ras_series[i], gpu.ras[i]);
}

void EventCounters::Write(const GpuEventTable& table, Watched watched, Instant now, FrameWriter& out) {
  for (size_t i = 0; i < std::size(kEvents); ++i) {
    if (!event_series_[i])
      event_series_[i] = out.table().Declare(kSelfEvents, {}, {{"event", kEvents[i]->name}});
    out.Set(event_series_[i], events_[i]);
  }
  if (gpus_.size() < table.size()) gpus_.resize(table.size());
  for (size_t i = 0; i < gpus_.size(); ++i) {
    PerGpu& gpu = gpus_[i];
    const TrackedGpu& tracked = table[i];
    bool gone = !tracked.present && now.boot_ns - tracked.seen_boot_ns > kKeepGoneNs;
    if (gpu.entity && (gone || gpu.entity != tracked.entity)) Undeclare(gpu, out.table());
    if (gone) continue;
    Declare(gpu, tracked, watched, out.table());
    WriteGpu(gpu, watched, out);
  }
}

RecentXids::PerGpu& RecentXids::Of(size_t gpu) {
  if (gpus_.size() <= gpu) gpus_.resize(gpu + 1);
  return gpus_[gpu];
}

void RecentXids::Add(size_t gpu, int64_t at_boot_ns, std::string_view action) {
  if (gpu == GpuEventTable::kNone) return;
  std::vector<Xid>& xids = Of(gpu).xids;
  if (xids.size() >= kMaxPerGpu) xids.erase(xids.begin());
  xids.push_back({at_boot_ns, ActionOf(action)});
}

void RecentXids::Clear(size_t gpu, int64_t before_boot_ns) {
  for (size_t i = 0; i < gpus_.size(); ++i) {
    if (gpu == GpuEventTable::kNone || gpu == i)
      std::erase_if(gpus_[i].xids, [&](const Xid& xid) { return xid.at_ns <= before_boot_ns; });
  }
}

void RecentXids::ClearByReset(size_t gpu, int64_t before_boot_ns) {
  if (gpu == GpuEventTable::kNone) return;
  std::erase_if(Of(gpu).xids, [&](const Xid& xid) {
    return xid.at_ns <= before_boot_ns && xid.action <= kLastSettledByReset;
  });
}

void RecentXids::Remember(std::vector<Past> history) {
  past_ = std::move(history);
  std::ranges::sort(past_, {}, [](const Past& past) { return std::pair(past.boot_ns, past.kind); });
}

void RecentXids::Recall(size_t gpu, const std::string& uuid) {
  std::vector<Xid> since = std::move(Of(gpu).xids);
  gpus_[gpu].xids.clear();
  for (const Past& past : past_) {
    if (!past.gpu_uuid.empty() && past.gpu_uuid != uuid) continue;
    if (past.kind == Past::kXid) Add(gpu, past.boot_ns, past.action);
    else if (past.kind == Past::kReset) ClearByReset(gpu, past.boot_ns);
    else Clear(gpu, past.boot_ns);
  }
  gpus_[gpu].xids.insert(gpus_[gpu].xids.end(), since.begin(), since.end());
}

void RecentXids::WriteGpu(PerGpu& gpu, Instant now, FrameWriter& out) const {
  std::erase_if(gpu.xids, [&](const Xid& xid) { return now.boot_ns - xid.at_ns > window_ns_; });
  std::array<uint64_t, kActions> counts{};
  for (const Xid& xid : gpu.xids) ++counts[xid.action];
  for (size_t i = 0; i < kActions; ++i) {
    // The first exists from the start: XIDs are watched.
    if (i > 0 && counts[i] == 0 && !gpu.series[i]) continue;
    if (!gpu.series[i])
      gpu.series[i] = out.table().Declare(kGpuXidRecent, gpu.entity, {{"gpu.xid.action", kActionNames[i]}});
    out.Set(gpu.series[i], counts[i]);
  }
}

void RecentXids::Write(const GpuEventTable& table, bool watched, Instant now, FrameWriter& out) {
  if (gpus_.size() < table.size()) gpus_.resize(table.size());
  for (size_t i = 0; i < table.size(); ++i) {
    const TrackedGpu& tracked = table[i];
    PerGpu& gpu = gpus_[i];
    if (!gpu.recalled && !tracked.uuid.empty()) {
      gpu.recalled = true;
      Recall(i, tracked.uuid);
    }
    if (gpu.entity && (!tracked.present || gpu.entity != tracked.entity)) {
      for (Series& series : gpu.series) {
        if (series) out.table().Retire(series);
        series = {};
      }
      gpu.entity = {};
    }
    if (!tracked.present || tracked.vendor != "nvidia" || !watched) continue;
    gpu.entity = tracked.entity;
    WriteGpu(gpu, now, out);
  }
}

}  // namespace gpulens
