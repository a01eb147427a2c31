#include "plugins/analyzers/gpu_events/event_counters.h"

#include <algorithm>

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

}  // namespace

void EventCounters::CountXid(PerGpu& gpu, const Event& event) {
  int64_t code = IntOf(event, "gpu.xid.code", 0);
  ++gpu.xids;
  if (event.at.unix_ns >= gpu.last.unix_ns) gpu.last = {event.at.unix_ns, code};
  auto find = [&](int64_t wanted) { return std::ranges::find(gpu.codes, wanted, &CodeCount::code); };
  auto at = find(code);
  if (at == gpu.codes.end()) {
    // The last place is that of all others.
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

void EventCounters::Declare(PerGpu& gpu, const KnownGpu& known, Watched watched, SeriesTable& table) {
  gpu.entity = known.entity;
  if (watched.xids && known.vendor == "nvidia" && !gpu.xid_series) {
    gpu.xid_series = table.Declare(kGpuXidErrors, gpu.entity);
    auto before = remembered_.find(known.uuid);
    if (before != remembered_.end() && before->second.unix_ns > gpu.last.unix_ns) gpu.last = before->second;
  }
  for (CodeCount& code : gpu.codes) {
    if (code.series || !watched.xids) continue;
    AttributeSet extra = code.code == kOther ? AttributeSet({{"gpu.xid.code", std::string_view("other")}})
                                             : AttributeSet({{"gpu.xid.code", code.code}});
    code.series = table.Declare(kGpuXidCodeErrors, gpu.entity, extra);
  }
  // Gaudi cards have the vendor of other GPUs whose messages we do not know: theirs begin with the first
  // event.
  bool told = gpu.ras != decltype(gpu.ras){};
  if (watched.ras && (known.vendor == "amd" || told) && !gpu.ras_series[0]) {
    for (size_t i = 0; i < kGrades; ++i) {
      gpu.ras_series[i] = table.Declare(kGpuRasErrors, gpu.entity, {{"gpu.ras.severity", kGradeNames[i]}});
    }
  }
}

void EventCounters::WriteGpu(PerGpu& gpu, Watched watched, FrameWriter& out) {
  if (watched.xids && gpu.xid_series) {
    out.Set(gpu.xid_series, gpu.xids);
    if (gpu.last.unix_ns != 0) {
      // Not before there is one: a page of somebody else may know it.
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
    const KnownGpu& known = table[i];
    bool gone = !known.present && now.boot_ns - known.seen_boot_ns > kKeepGoneNs;
    if (gpu.entity && (gone || gpu.entity != known.entity)) Undeclare(gpu, out.table());
    if (gone) continue;
    Declare(gpu, known, watched, out.table());
    WriteGpu(gpu, watched, out);
  }
}

}  // namespace gpulens
