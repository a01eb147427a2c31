#include "agent/found/discovery_runner.h"

#include <algorithm>

#include "base/log.h"
#include "base/result.h"
#include "base/workers.h"

namespace gpulens {
namespace {

// One look may take as long as this; the plugins bound their own waiting.
constexpr Duration kLookTime = std::chrono::seconds(30);

}  // namespace

struct DiscoveryRunner::Running {
  const DiscoverySpec* spec = nullptr;
  Config config;
  Duration period{};
  std::unique_ptr<Discovery> discovery;
  std::vector<FoundTarget> found;  // guarded by the runner's mutex
  bool busy = false, leaving = false;
};

bool Wanted(const DiscoverySpec& spec, const Config& config) {
  if (!config.Has("discovery") || !config.Group("discovery").Has(spec.name)) return false;
  const Config& own = config.Group("discovery").Group(spec.name);
  if (!own.Bool("enabled")) return false;
  if (spec.collector_switch.empty()) return true;
  const Config& collectors = config.Group("collectors");
  if (!own.Has("collector") || !collectors.Has(own.Text("collector"))) return false;
  const Config& collector = collectors.Group(own.Text("collector"));
  return collector.Bool("enabled") &&
         (!collector.Has(spec.collector_switch) || collector.Bool(spec.collector_switch));
}

DiscoveryRunner::DiscoveryRunner(Env& env, std::span<const DiscoverySpec* const> specs,
                                 std::function<void()> changed)
    : env_(env), specs_(specs), changed_(std::move(changed)) {}

// A callback that was never called may hold a Running; the plugin must not live as long.
DiscoveryRunner::~DiscoveryRunner() {
  for (auto* list : {&running_, &leaving_}) {
    for (const auto& running : *list) running->discovery.reset();
  }
}

Status DiscoveryRunner::Apply(const Config& config) {
  std::vector<std::shared_ptr<Running>> next, added, present;
  {
    std::lock_guard lock(mutex_);
    present = running_;
  }
  for (const DiscoverySpec* spec : specs_) {
    if (!Wanted(*spec, config)) continue;
    const Config& own = config.Group("discovery").Group(spec->name);
    auto old = std::find_if(present.begin(), present.end(),
                            [&](const auto& r) { return r->spec == spec && r->config == own; });
    if (old != present.end()) {
      next.push_back(*old);
      continue;
    }
    auto made = std::make_shared<Running>();
    made->spec = spec;
    made->config = own;
    made->period = own.Has("refresh") ? own.Time("refresh") : spec->period;
    ASSIGN_OR_RETURN(made->discovery, spec->create(own, env_));
    // Until it has looked, what its predecessor found stands.
    auto before =
        std::find_if(present.begin(), present.end(), [&](const auto& r) { return r->spec == spec; });
    if (before != present.end()) {
      std::lock_guard lock(mutex_);
      made->found = (*before)->found;
    }
    next.push_back(made);
    added.push_back(std::move(made));
  }
  {
    std::lock_guard lock(mutex_);
    if (stopped_) return Ok();
    std::erase_if(leaving_, [](const auto& r) { return !r->busy; });
    for (const auto& old : present) {
      if (std::find(next.begin(), next.end(), old) != next.end()) continue;
      old->leaving = true;
      leaving_.push_back(old);
    }
    running_ = std::move(next);
  }
  if (!env_.io || !env_.workers) return Ok();
  for (const auto& running : added) env_.io->Post([this, running] { Look(running); });
  return Ok();
}

void DiscoveryRunner::Look(const std::shared_ptr<Running>& running) {
  {
    std::lock_guard lock(mutex_);
    if (stopped_ || running->leaving) return;
    running->busy = true;
  }
  running->discovery->Fetch(env_.clock->Now() + kLookTime, [this, running](const Status& status) {
    env_.io->Post([this, running, status] { Finished(running, status); });
  });
}

void DiscoveryRunner::Finished(const std::shared_ptr<Running>& running, const Status& status) {
  std::vector<FoundTarget> found;
  if (status) found = running->discovery->Targets();
  else Log(LogLevel::kDebug, "discovery", "look_failed", status.detail, running->spec->name);
  {
    std::lock_guard lock(mutex_);
    running->busy = false;
    if (stopped_ || running->leaving) return;
    if (status && found != running->found) {
      running->found = std::move(found);
      untold_ = true;
    }
  }
  TellChanged();
  env_.io->After(running->period, [this, running] { Look(running); });
}

// A full queue is tried again after the next look.
void DiscoveryRunner::TellChanged() {
  {
    std::lock_guard lock(mutex_);
    if (!untold_ || telling_ || stopped_) return;
    untold_ = false;
    telling_ = true;
  }
  bool posted = env_.workers->Post([this] {
    changed_();
    std::lock_guard lock(mutex_);
    telling_ = false;
  });
  if (posted) return;
  std::lock_guard lock(mutex_);
  untold_ = true;
  telling_ = false;
}

void DiscoveryRunner::Stop() {
  std::lock_guard lock(mutex_);
  stopped_ = true;
}

std::vector<FoundTarget> DiscoveryRunner::found() const {
  std::lock_guard lock(mutex_);
  std::vector<FoundTarget> out;
  for (const auto& running : running_) out.insert(out.end(), running->found.begin(), running->found.end());
  return out;
}

}  // namespace gpulens
