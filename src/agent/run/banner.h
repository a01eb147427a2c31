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
  std::string Found(const Pipeline::InstanceView& view) const;
  std::string Text() const;

  Env& env_;
  const Config& config_;
  const Pipeline& pipeline_;
  const Options options_;
  std::atomic<bool> printed_{false};
};

}  // namespace gpulens
