#include "sources/nvml/nvml_source.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include "base/result.h"

namespace gpulens::nvml {
namespace {

constexpr size_t kMaxEvents = 512;

bool Before(const SliceKey& a, const SliceKey& b) noexcept {
  if (a.kind != b.kind) return a.kind < b.kind;
  return a.id != b.id ? a.id < b.id : a.sub < b.sub;
}

GpuSlice* FindSlice(GpuSlices& slices, const SliceKey& key) noexcept {
  auto found = std::find_if(slices.list.begin(), slices.list.end(),
                            [&](const GpuSlice& slice) { return slice.key == key; });
  return found == slices.list.end() ? nullptr : &*found;
}

template <class T>
void Copy(const WireArray<T>& from, std::vector<T>& to) {
  to.resize(from.size());
  for (size_t i = 0; i < from.size(); ++i) to[i] = from[i];
}

std::string Hex(const char* key, uint64_t mask) {
  char text[20];
  std::snprintf(text, sizeof text, "%llx", static_cast<unsigned long long>(mask));
  return std::string(key) + "=" + text;
}

reader::SourceOptions WithArguments(const SourceOptions& options) {
  reader::SourceOptions out = options;
  out.arguments.push_back(Hex("--details", options.details));
  if (options.event_types != kUsualEvents) out.arguments.push_back(Hex("--events", options.event_types));
  return out;
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
  gpu.slices = {};
}

Status GpuVendorState::Take(const reader::VendorReport& report, Instant now) {
  ASSIGN_OR_RETURN(NvmlReport message, DecodeReport(report));
  Gpu& gpu = gpus_.at(report.device);
  if (const auto* values = std::get_if<SliceReadings>(&message)) {
    Take(gpu, *values, now);
  } else if (const auto* list = std::get_if<ProcessList>(&message)) {
    gpu.processes_boot_ns = std::min(list->boot_ns, now.boot_ns);
    Copy(list->processes, gpu.processes);
  } else if (const auto* shares = std::get_if<ShareList>(&message)) {
    gpu.slices.shares_boot_ns = std::min(shares->boot_ns, now.boot_ns);
    Copy(shares->shares, gpu.slices.shares);
  } else if (const auto* slices = std::get_if<SliceList>(&message)) {
    Take(gpu, *slices);
  } else if (const auto* slice = std::get_if<SliceFactsReport>(&message)) {
    Take(gpu, *slice);
  } else if (const auto* events = std::get_if<EventList>(&message)) {
    Take(*events, now);
  }
  return Ok();
}

void GpuVendorState::Take(const EventList& list, Instant now) {
  size_t count = list.events.size(), taken = std::min(count, kMaxEvents - events_.size());
  for (size_t i = 0; i < taken; ++i) {
    DeviceEvent& event = events_.emplace_back(list.events[i]);
    event.boot_ns = std::min(event.boot_ns, now.boot_ns);
  }
  events_reported_ += count;
  events_dropped_ += count - taken;
}

void GpuVendorState::TakeEvents(std::vector<DeviceEvent>& out) {
  out.assign(events_.begin(), events_.end());
  events_.clear();
}

void GpuVendorState::Take(Gpu& gpu, const SliceList& list) {
  GpuSlices& slices = gpu.slices;
  if (list.kind == SliceKind::kMig) slices.mig_max = list.max;
  else slices.vgpu_host = true;
  auto listed = [&](const SliceKey& key) {
    for (size_t i = 0; i < list.keys.size(); ++i) {
      if (list.keys[i] == key) return true;
    }
    return false;
  };
  std::erase_if(slices.list,
                [&](const GpuSlice& slice) { return slice.key.kind == list.kind && !listed(slice.key); });
  for (size_t i = 0; i < list.keys.size(); ++i) {
    SliceKey key = list.keys[i];
    auto after = std::find_if(slices.list.begin(), slices.list.end(),
                              [&](const GpuSlice& slice) { return !Before(slice.key, key); });
    if (after != slices.list.end() && after->key == key) continue;
    slices.list.insert(after, GpuSlice{})->key = key;
  }
}

void GpuVendorState::Take(Gpu& gpu, const SliceFactsReport& report) {
  GpuSlice* slice = FindSlice(gpu.slices, report.key);
  if (!slice) return;  // Its list was lost on the way; it is sent again.
  bool same = slice->facts.size() == report.fact_count;
  for (size_t i = 0; same && i < report.fact_count; ++i) {
    same = slice->facts[i].first == report.facts[i].key && slice->facts[i].second == report.facts[i].value;
  }
  if (same) return;
  slice->facts.clear();
  for (size_t i = 0; i < report.fact_count; ++i)
    slice->facts.emplace_back(report.facts[i].key, report.facts[i].value);
  slice->values = {};  // They may be another instance's that had the same number.
}

void GpuVendorState::Take(Gpu& gpu, const SliceReadings& report, Instant now) {
  for (size_t i = 0; i < report.readings.size(); ++i) {
    SliceReading reading = report.readings[i];
    SliceValues* values = nullptr;
    if (reading.key.kind == SliceKind::kWhole) values = &gpu.slices.whole;
    else if (GpuSlice* slice = FindSlice(gpu.slices, reading.key)) values = &slice->values;
    if (!values) continue;
    SliceValue& value = (*values)[reading.field];
    value.status = reading.status;
    if (reading.status != ReadStatus::kOk) continue;
    value.boot_ns = std::min(reading.boot_ns, now.boot_ns);
    value.value = reading.value;
  }
}

NvmlSource::NvmlSource(const SourceOptions& options)
    : ReaderSource(NvmlVendor(), WithArguments(options), std::make_unique<GpuVendorState>()),
      vendor_state_(static_cast<GpuVendorState&>(vendor_state())) {}

}  // namespace gpulens::nvml
