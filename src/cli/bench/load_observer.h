// Who follows each request of a load run as it goes.
#pragma once

#include <span>

#include "cli/bench/load_record.h"

namespace gpulens {

// Called on the run's loop, of warm-up requests, too: once OnSent, at most once OnFirstToken, once OnEnded.
class LoadObserver {
 public:
  virtual ~LoadObserver() = default;
  virtual void OnSent(const LoadRequest& request) = 0;
  virtual void OnFirstToken(const LoadRequest& request) = 0;
  // `gap_seconds` are between its events that brought text.
  virtual void OnEnded(const LoadRequest& request, std::span<const double> gap_seconds) = 0;
};

}  // namespace gpulens
