#include "agent/targets/discovery_runner.h"

#include <algorithm>

#include "base/log.h"
#include "base/result.h"
#include "base/workers.h"
#include "pipeline/repeated_fetch.h"

namespace gpulens {
namespace {

// One look may take as long as this; the plugins bound their own waiting.
constexpr Duration kLookTime = std::chrono::seconds(30);

}  // namespace

struct DiscoveryRunner::Running {
  const DiscoverySpec* spec = nullptr;
  Config config;
  std::unique_ptr<Discovery> discovery;
  std::unique_ptr<RepeatedFetch> fetch;  // null: nothing runs here
  std::vector<FoundTarget> found;        // guarded by the runner's mutex
};

bool Wanted(const DiscoverySpec& spec, const Config& config) {
  if (!config.Has("discovery") || !config.Group("discovery").Has(spec.name)) return false;
  return config.Group("discovery").Group(spec.name).Bool("enabled");
}

DiscoveryRunner::DiscoveryRunner(Env& env, std::span<const DiscoverySpec* const> specs,
                                 std::function<void()> changed)
    : env_(env), specs_(specs), changed_(std::move(changed)) {}

DiscoveryRunner::~DiscoveryRunner() = default;

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
    ASSIGN_OR_RETURN(made->discovery, spec->create(own, env_));
    if (env_.io && env_.workers) {
      const RepeatedFetch::Pace pace{own.Has("refresh") ? own.Time("refresh") : spec->period, kLookTime};
      made->fetch = std::make_unique<RepeatedFetch>(
          *made->discovery, pace, env_,
          [this, raw = made.get()](const Status& status) { Looked(*raw, status); });
    }
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
    std::erase_if(leaving_, [](const auto& r) { return !r->fetch || !r->fetch->busy(); });
    for (const auto& old : present) {
      if (std::find(next.begin(), next.end(), old) != next.end()) continue;
      if (old->fetch) old->fetch->Stop();
      leaving_.push_back(old);
    }
    running_ = std::move(next);
  }
  for (const auto& running : added) {
    if (running->fetch) running->fetch->Start();
  }
  return Ok();
}

void DiscoveryRunner::Looked(Running& running, const Status& status) {
  std::vector<FoundTarget> found;
  if (status) found = running.discovery->Targets();
  else Log(LogLevel::kDebug, "discovery", "look_failed", status.detail, running.spec->name);
  {
    std::lock_guard lock(mutex_);
    if (status && found != running.found) {
      running.found = std::move(found);
      unreported_ = true;
    }
  }
  ReportChanged();
}

// A full queue is tried again after the next look.
void DiscoveryRunner::ReportChanged() {
  {
    std::lock_guard lock(mutex_);
    if (!unreported_ || reporting_ || stopped_) return;
    unreported_ = false;
    reporting_ = true;
  }
  bool posted = env_.workers->Post([this] {
    changed_();
    std::lock_guard lock(mutex_);
    reporting_ = false;
  });
  if (posted) return;
  std::lock_guard lock(mutex_);
  unreported_ = true;
  reporting_ = false;
}

void DiscoveryRunner::Stop() {
  std::lock_guard lock(mutex_);
  stopped_ = true;
  for (const auto& running : running_) {
    if (running->fetch) running->fetch->Stop();
  }
}

std::vector<FoundTarget> DiscoveryRunner::found() const {
  std::lock_guard lock(mutex_);
  std::vector<FoundTarget> out;
  for (const auto& running : running_) out.insert(out.end(), running->found.begin(), running->found.end());
  return out;
}

}  // namespace gpulens
