// Runs discoveries again and again, and tells when the set of what they found has changed.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "net/io_loop.h"
#include "plugins/plugin.h"

namespace gpulens {

// Thread-safe. The environment's loop and workers outlive it, and have ended when it is destroyed; without
// either of them nothing runs.
class DiscoveryRunner {
 public:
  // Calls `changed` on a worker, one call at a time of those that it makes.
  DiscoveryRunner(Env& env, std::span<const DiscoverySpec* const> specs, std::function<void()> changed);
  ~DiscoveryRunner();
  DiscoveryRunner(const DiscoveryRunner&) = delete;
  DiscoveryRunner& operator=(const DiscoveryRunner&) = delete;

  // Runs what `config` asks for: what is equal goes on with what it found, what is new looks at once.
  // kInvalidArgument when one cannot be made; then nothing has changed.
  Status Apply(const Config& config);
  // No look and no call after those under way.
  void Stop();
  // What stands now, in the order of the specs.
  std::vector<FoundTarget> found() const;

 private:
  struct Running;
  void Looked(Running& running, const Status& status);
  void ReportChanged();

  Env& env_;
  const std::span<const DiscoverySpec* const> specs_;
  const std::function<void()> changed_;

  mutable std::mutex mutex_;  // guards what follows
  std::vector<std::shared_ptr<Running>> running_;
  std::vector<std::shared_ptr<Running>> leaving_;  // their last look is not over
  bool unreported_ = false, reporting_ = false, stopped_ = false;
};

// Whether `config` asks for this discovery.
bool Wanted(const DiscoverySpec& spec, const Config& config);

}  // namespace gpulens
