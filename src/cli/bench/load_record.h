// What became of each request of a load run. Plain values; times are nanoseconds since the run's start.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace gpulens {

struct LoadRequest {
  enum class Outcome : uint8_t { kOk, kError, kCancelled };

  uint64_t number = 0;
  int64_t due_ns = 0;    // when it should have been sent; latencies count from here
  int64_t sent_ns = 0;   // when it was
  int64_t first_ns = 0;  // first token; 0: none, or the answer was not streamed
  int64_t last_ns = 0;   // last token
  int64_t done_ns = 0;
  uint64_t chunks = 0;  // events that brought text
  std::optional<uint64_t> prompt_tokens = {}, cached_tokens = {}, completion_tokens = {};
  std::string error = {};  // of kError: "HTTP 429", "timeout" …
  Outcome outcome = Outcome::kOk;
};

struct LoadRecord {
  static constexpr size_t kMostGaps = 4u << 20;

  struct Error {
    uint64_t count = 0;
    std::string detail;  // of the first one
  };

  std::vector<LoadRequest> requests;  // in the order in which they ended; warm-up included
  std::vector<double> gap_seconds;    // between events that brought text; not of the warm-up
  bool gaps_cut = false;              // there were more than kMostGaps
  std::map<std::string, Error> errors;
  bool stopped = false;  // before its plan was done
  int64_t start_ns = 0;  // the run's start, by the monotonic clock
};

}  // namespace gpulens
