// The first and the last lines that a person sees of `gpulens agent`: what was found, what was not,
// where to look, and how it ended. Under a service manager the same facts are log lines.
#pragma once

#include <atomic>
#include <string>

#include "pipeline/pipeline.h"

namespace gpulens {

// AfterTick comes from a worker, Farewell from the main thread when no more ticks come.
class Banner {
 public:
  struct Options {
    std::string config_file;
    Instant started;
    bool quiet = false;
  };

  Banner(Env& env, const Config& config, const Pipeline& pipeline, Options options);

  // Prints once, when every source has answered or two seconds have passed.
  void AfterTick();
  void Farewell() const;

 private:
  struct Summary {
    std::string found, absent;  // names of collectors
    uint64_t series = 0;
  };
  std::string Found(const Pipeline::InstanceView& view) const;
  Summary Summarize() const;
  // `up`: for how long the agent has run.
  std::string Text(std::string_view up) const;

  Env& env_;
  const Config& config_;
  const Pipeline& pipeline_;
  const Options options_;
  std::atomic<bool> printed_{false};
};

}  // namespace gpulens
