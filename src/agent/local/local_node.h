// A node that this process reads by itself, for commands without an agent: a pipeline with the collectors,
// analyzers, enrichers and discoveries of the configuration, without sinks, receivers, listeners or a state
// folder; its own history; and the pages of /api about them.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <gpulens/status.h>

#include "base/clock.h"
#include "config/loader.h"

namespace gpulens {

// Thread-safe.
class LocalNode {
 public:
  // Starts collecting, and returns when every collector has answered, at most `wait` later. `schema` made
  // `config`, and outlives the node. `demo`: GPUs, engines and their owners are simulated. kExhausted: no
  // thread could be started.
  static Result<std::unique_ptr<LocalNode>> Start(const Schema& schema, const Config& config, bool demo,
                                                  Duration wait = std::chrono::seconds(3));
  ~LocalNode();
  LocalNode(const LocalNode&) = delete;
  LocalNode& operator=(const LocalNode&) = delete;

  // The page as JSON: Api::Get.
  Result<std::string> Get(std::string_view target) const;

 private:
  class Impl;
  explicit LocalNode(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace gpulens
