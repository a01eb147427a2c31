// The figures of a load run. Pure.
#pragma once

#include <cstdint>
#include <optional>

#include <gpulens/stats.h>

#include "cli/bench/load_run.h"

namespace gpulens {

// A request is good when it keeps all that are given. Seconds.
struct LoadTargets {
  std::optional<double> ttft = {}, itl = {}, e2e = {};  // `itl`: the mean between its tokens
  bool any() const noexcept { return ttft || itl || e2e; }
};

// Figures of the answered requests after the warm-up; errors and cancelled ones are only counted.
struct LoadSummary {
  uint64_t ok = 0, errors = 0, cancelled = 0;
  uint64_t prompt_tokens = 0, cached_tokens = 0, completion_tokens = 0;
  bool prompt_tokens_known = false, cached_tokens_known = false;
  // Requests whose tokens the server did not report: their events are counted instead.
  uint64_t without_usage = 0;
  // Events that brought text, of the requests whose tokens are known: when fewer than tokens, several come at
  // once, and `itl` is the time between events.
  uint64_t chunks = 0, tokens_of_chunks = 0;
  int64_t begin_ns = 0, end_ns = 0;       // since the run's start
  double elapsed_seconds = kNotMeasured;  // from the first that was due to the last that ended
  double requests_per_second = kNotMeasured, output_tokens_per_second = kNotMeasured,
         total_tokens_per_second = kNotMeasured;
  Distribution ttft, itl, e2e;
  Distribution tpot;  // a request's time after its first token by its tokens after the first
  Distribution late;  // how long a request had to wait before it was sent
  // Of all that ended, errors and cancelled ones included.
  double good_ratio = kNotMeasured, good_per_second = kNotMeasured;
  // The request (in order of ends) from which the output rate was steady; empty: never, or, when
  // steady_validated is false, there were too few requests.
  std::optional<uint64_t> steady_since;
  bool steady_validated = false;
};

LoadSummary Summarize(const LoadRecord& record, uint64_t warmup, uint32_t concurrency,
                      const LoadTargets& targets = {});

}  // namespace gpulens
