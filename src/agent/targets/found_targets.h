// Adds what discoveries found to the list `targets` of the configuration.
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
  // Calls `changed` on a worker, one call at a time of those that it makes.
  DiscoveryRunner(Env& env, std::span<const DiscoverySpec* const> specs, std::function<void()> changed);
  ~DiscoveryRunner();
  DiscoveryRunner(const DiscoveryRunner&) = delete;
  DiscoveryRunner& operator=(const DiscoveryRunner&) = delete;

  // Runs the configured discoveries. Unchanged ones keep their targets; new ones run at once.
  // kInvalidArgument when one cannot be made; then nothing has changed.
  Status Apply(const Config& config);
  // No look and no call after those under way.
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
  std::vector<std::shared_ptr<Running>> leaving_;  // their last look is not over
  bool unreported_ = false, reporting_ = false, stopped_ = false;
};

// Whether `config` enables this discovery.
bool IsDiscoveryEnabled(const DiscoverySpec& spec, const Config& config);

// One that is not taken, and why.
struct RefusedTarget {
  std::string name, why;
};

// `config`, which was loaded with `schema`, with the found targets after those that it has. The first of
// several with one URL stays, so a configured one wins; names that are taken get a number. Refused: an option
// that the loader refuses, a page of our own.
// Pure but for a look at this machine's addresses.
Config WithFound(const Config& config, const Schema& schema, std::span<const FoundTarget> found,
                 std::vector<RefusedTarget>& refused);
// The same, with a line of log for each that is refused.
Config WithFound(const Config& config, const Schema& schema, std::span<const FoundTarget> found);

}  // namespace gpulens
