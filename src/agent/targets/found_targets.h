// Runs discoveries, and adds the targets that they find to the list `targets` of the configuration.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "config/schema.h"
#include "net/io_loop.h"
#include "plugins/plugin.h"

namespace gpulens {

// Thread-safe. The environment's loop and workers outlive it, and have ended when it is destroyed; without
// either of them nothing runs.
class DiscoveryRunner {
 public:
  // Calls `changed` on a worker, one call at a time.
  DiscoveryRunner(Env& env, std::span<const DiscoverySpec* const> specs, std::function<void()> changed);
  ~DiscoveryRunner();
  DiscoveryRunner(const DiscoveryRunner&) = delete;
  DiscoveryRunner& operator=(const DiscoveryRunner&) = delete;

  // Runs the configured discoveries. Unchanged ones keep their targets; new ones run at once.
  // kInvalidArgument when one cannot be made; then nothing has changed.
  Status Apply(const Config& config);
  // Starts no further run and no further call.
  void Stop();
  // The current targets, in the order of the specs.
  std::vector<FoundTarget> found() const;

 private:
  struct Running;
  void OnResult(Running& running, const Status& status);
  void ReportChanged();

  Env& env_;
  const std::span<const DiscoverySpec* const> specs_;
  const std::function<void()> changed_;

  mutable std::mutex mutex_;  // guards what follows
  std::vector<std::shared_ptr<Running>> running_;
  std::vector<std::shared_ptr<Running>> leaving_;  // their last run is not over
  bool unreported_ = false, reporting_ = false, stopped_ = false;
};

// Whether `config` enables this discovery.
bool IsDiscoveryEnabled(const DiscoverySpec& spec, const Config& config);

// A target that is not added, and why.
struct RefusedTarget {
  std::string name, why;
};

// Returns `config`, which was loaded with `schema`, with the found targets after the configured ones. The
// first of several with one URL stays, so a configured one wins; taken names get a number. Targets with an
// option that the loader refuses and pages of this agent are refused. Reads the addresses of this machine.
Config WithFound(const Config& config, const Schema& schema, std::span<const FoundTarget> found,
                 std::vector<RefusedTarget>& refused);
// The same, and logs each refused target.
Config WithFound(const Config& config, const Schema& schema, std::span<const FoundTarget> found);

}  // namespace gpulens
