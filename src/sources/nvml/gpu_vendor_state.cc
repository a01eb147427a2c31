#include "sources/nvml/gpu_vendor_state.h"

#include <algorithm>

#include "base/result.h"

namespace gpulens::nvml {
namespace {

constexpr size_t kMaxEvents = 512;

bool Before(const PartKey& a, const PartKey& b) noexcept {
  if (a.kind != b.kind) return a.kind < b.kind;
  return a.id != b.id ? a.id < b.id : a.sub < b.sub;
}

Part* FindPart(GpuParts& parts, const PartKey& key) noexcept {
  auto found =
      std::find_if(parts.list.begin(), parts.list.end(), [&](const Part& part) { return part.key == key; });
  return found == parts.list.end() ? nullptr : &*found;
}

template <class T>
void Copy(const WireArray<T>& from, std::vector<T>& to) {
  to.resize(from.size());
  for (size_t i = 0; i < from.size(); ++i) to[i] = from[i];
}

}  // namespace

GpuVendorState::GpuVendorState() {
  gpus_.reserve(kMaxGpus);
  events_.reserve(kMaxEvents);
}

void GpuVendorState::Forget(uint32_t device) {
  Gpu& gpu = gpus_.at(device);
  gpu.processes.clear();
  gpu.processes_boot_ns = 0;
  gpu.parts = {};
}

Status GpuVendorState::Take(const driver::VendorReport& report, Instant now) {
  ASSIGN_OR_RETURN(Report message, DecodeReport(report));
  Gpu& gpu = gpus_.at(report.device);
  if (const auto* values = std::get_if<PartReadings>(&message)) {
    Take(gpu, *values, now);
  } else if (const auto* list = std::get_if<ProcessList>(&message)) {
    gpu.processes_boot_ns = std::min(list->boot_ns, now.boot_ns);
    Copy(list->processes, gpu.processes);
  } else if (const auto* shares = std::get_if<ShareList>(&message)) {
    gpu.parts.shares_boot_ns = std::min(shares->boot_ns, now.boot_ns);
    Copy(shares->shares, gpu.parts.shares);
  } else if (const auto* parts = std::get_if<PartList>(&message)) {
    Take(gpu, *parts);
  } else if (const auto* part = std::get_if<PartFactsReport>(&message)) {
    Take(gpu, *part);
  } else if (const auto* events = std::get_if<EventList>(&message)) {
    Take(*events);
  }
  return Ok();
}

void GpuVendorState::Take(const EventList& list) {
  size_t count = list.events.size(), taken = std::min(count, kMaxEvents - events_.size());
  for (size_t i = 0; i < taken; ++i) events_.push_back(list.events[i]);
  events_reported_ += count;
  events_dropped_ += count - taken;
}

void GpuVendorState::TakeEvents(std::vector<DeviceEvent>& out) {
  out.assign(events_.begin(), events_.end());
  events_.clear();
}

void GpuVendorState::Take(Gpu& gpu, const PartList& list) {
  GpuParts& parts = gpu.parts;
  if (list.kind == PartKind::kMig) parts.mig_max = list.max;
  else parts.vgpu_host = true;
  auto listed = [&](const PartKey& key) {
    for (size_t i = 0; i < list.keys.size(); ++i) {
      if (list.keys[i] == key) return true;
    }
    return false;
  };
  std::erase_if(parts.list,
                [&](const Part& part) { return part.key.kind == list.kind && !listed(part.key); });
  for (size_t i = 0; i < list.keys.size(); ++i) {
    PartKey key = list.keys[i];
    auto after = std::find_if(parts.list.begin(), parts.list.end(),
                              [&](const Part& part) { return !Before(part.key, key); });
    if (after != parts.list.end() && after->key == key) continue;
    parts.list.insert(after, Part{})->key = key;
  }
}

void GpuVendorState::Take(Gpu& gpu, const PartFactsReport& report) {
  Part* part = FindPart(gpu.parts, report.key);
  if (!part) return;  // Its list was lost on the way; it is said again.
  bool same = part->facts.size() == report.fact_count;
  for (size_t i = 0; same && i < report.fact_count; ++i) {
    same = part->facts[i].first == report.facts[i].key && part->facts[i].second == report.facts[i].value;
  }
  if (same) return;
  part->facts.clear();
  for (size_t i = 0; i < report.fact_count; ++i)
    part->facts.emplace_back(report.facts[i].key, report.facts[i].value);
  part->values = {};  // They may be another instance's that had the same number.
}

void GpuVendorState::Take(Gpu& gpu, const PartReadings& report, Instant now) {
  for (size_t i = 0; i < report.readings.size(); ++i) {
    PartReading reading = report.readings[i];
    PartValues* values = nullptr;
    if (reading.key.kind == PartKind::kWhole) values = &gpu.parts.whole;
    else if (Part* part = FindPart(gpu.parts, reading.key)) values = &part->values;
    if (!values) continue;
    PartValue& value = (*values)[reading.field];
    value.status = reading.status;
    if (reading.status != ReadStatus::kOk) continue;
    value.boot_ns = std::min(reading.boot_ns, now.boot_ns);
    value.value = reading.value;
  }
}

}  // namespace gpulens::nvml
