// One recording: a reader process with a recorder in it, watched until its time is over.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "sources/nvml/recording/recording.h"

namespace gpulens {

struct CaptureRequest {
  Duration length, every;
  std::string library;  // A name, a path or "simulated"; empty: the usual one.
  std::vector<unsigned> gpus;
};

struct CaptureOutcome {
  nvml::Recording recording;  // Identity kept.
  bool interrupted = false;
};

// What is told while it goes on.
struct CaptureProgress {
  Duration done{0};
  size_t gpus = 0;
};

// Blocks until it is over. `stopped` is asked often: true ends it early. A library that crashes or hangs ends
// nothing here: what went wrong stands in the recording's `trouble`. An error: nothing at all was recorded,
// with a sentence that says why; kInvalidArgument: a GPU was asked for that is not here. `every`: not below
// 100 ms.
Result<CaptureOutcome> Capture(const CaptureRequest& request, const std::function<bool()>& stopped,
                               const std::function<void(const CaptureProgress&)>& progress);

}  // namespace gpulens
