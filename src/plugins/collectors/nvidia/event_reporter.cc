#include "plugins/collectors/nvidia/event_reporter.h"

#include <algorithm>
#include <string_view>

namespace gpulens {
namespace {

// By DriverChange::Kind, under the catalogue's words.
constexpr std::string_view kChanges[] = {"started", "crashed", "hung", "killed", "stuck", "released"};

// Longer than a restart of the reader process takes: counters do not come and go with it.
constexpr Duration kWatchMaxAge = std::chrono::seconds(10);

}  // namespace

void EventReporter::Watch(bool works) {
  if (queue_ && works != reported_works_) queue_->Watches("nvml", works);
  reported_works_ = works;
}

void EventReporter::FollowNumbers(std::span<const nvml::Gpu> gpus) {
  for (size_t i = 0; i < gpus.size(); ++i) {
    std::string_view uuid = gpus[i].Fact("uuid");
    if (uuid.empty() || watches_[i].uuid() == uuid) continue;
    auto known = std::ranges::find(watches_, uuid, &GpuWatch::uuid);
    if (known != watches_.end()) std::swap(watches_[i], *known);
  }
}

void EventReporter::Report(nvml::NvmlSource& source, const EntityRef& driver,
                           std::span<const GpuSeries> series, Instant now) {
  source.TakeChanges(changes_);
  source.TakeEvents(events_);
  if (!queue_) return;
  const nvml::DriverState& state = source.driver();
  bool fresh = now.boot_ns - state.last_heartbeat_boot_ns < kWatchMaxAge.count();
  Watch(state.last_heartbeat_boot_ns != 0 && fresh && state.watched > 0);
  bool released = false;
  for (const nvml::DriverChange& change : changes_) {
    released = released || change.kind == nvml::DriverChange::kReleased;
    queue_->Report({.at = now + Duration(std::min<int64_t>(change.boot_ns - now.boot_ns, 0)),
                    .name = "gpulens.reader",
                    .entity = driver,
                    .attributes = AttributeSet({{"gpulens.change", kChanges[change.kind]}}),
                    .body = change.detail});
  }
  auto gpus = source.gpus();
  if (source.driver().up && first_gpus_ == 0) first_gpus_ = gpus.size();
  while (watches_.size() < gpus.size()) watches_.emplace_back(queue_);
  FollowNumbers(gpus);
  auto look = [&](size_t i) {
    return GpuWatch::Look{.gpu = gpus[i],
                          .entity = i < series.size() ? series[i].entity() : EntityRef(),
                          .now = now,
                          .at_start = i < first_gpus_,
                          .driver_unloaded = source.driver().fault == driver::Fault::kDriverNotLoaded,
                          .released = released};
  };
  for (const nvml::DeviceEvent& event : events_) {
    if (event.entity < gpus.size()) watches_[event.entity].Take(event, look(event.entity));
  }
  for (size_t i = 0; i < gpus.size(); ++i) watches_[i].See(look(i));
}

}  // namespace gpulens
