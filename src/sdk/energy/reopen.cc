// A device that was lost comes back when its source is opened anew: after a driver was loaded again, a GPU
// was reset, the agent was restarted. What lies in between is a gap of its curve.
#include <algorithm>

#include "sdk/energy/engine.h"
#include "sdk/energy/verdict.h"

namespace gpulens::sdk {
namespace {

// A call that failed once is no loss.
constexpr int64_t kLostNs = 1'000'000'000;
constexpr int64_t kFirstPauseNs = 1'000'000'000, kLongestPauseNs = 60'000'000'000;

}  // namespace

bool Engine::Failing(size_t source, int64_t now_ns) const {
  return std::ranges::any_of(tracks_, [&](const Track& track) {
    return track.source == sources_[source] && track.users > 0 && track.failing_since_ns > 0 &&
           now_ns - track.failing_since_ns >= kLostNs;
  });
}

void Engine::ReopenWhatFails() {
  for (size_t i = 0; i < opened_sources_.size(); ++i) {
    const int64_t now_ns = Now();
    {
      std::lock_guard lock(mutex_);
      Opened& opened = opened_sources_[i];
      if (!Failing(i, now_ns)) {
        opened.next_try_ns = opened.pause_ns = 0;
        continue;
      }
      if (now_ns < opened.next_try_ns) continue;
      opened.pause_ns = std::clamp(2 * opened.pause_ns, kFirstPauseNs, kLongestPauseNs);
      opened.next_try_ns = now_ns + opened.pause_ns;
    }
    auto devices = OpenSource(*sources_[i]);
    std::lock_guard lock(mutex_);
    opened_sources_[i].status = devices.status();
    if (devices) TakeDevices(i, *std::move(devices));
  }
}

void Engine::TakeDevices(size_t source, std::vector<EnergyDevice> devices) {
  for (Track& track : tracks_) {
    if (track.source != sources_[source]) continue;
    const auto same = std::ranges::find(devices, track.device.id, &EnergyDevice::id);
    track.number = same == devices.end() ? Track::kGone : static_cast<size_t>(same - devices.begin());
    track.reopened = track.failing_since_ns > 0;
    if (same != devices.end()) same->id.clear();
  }
  // What is new is for monitors that begin from now on.
  for (size_t i = 0; i < devices.size() && tracks_.size() < kMostDevices; ++i) {
    if (!devices[i].id.empty()) tracks_.emplace_back(sources_[source], i, std::move(devices[i]), kReadings);
  }
}

std::string DeviceLedger::Comebacks() const {
  for (size_t i : selection_.shared) {
    if (std::string back = Comeback(tracks_[i]); !back.empty()) return back;
  }
  return {};
}

}  // namespace gpulens::sdk
