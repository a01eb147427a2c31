// The l9gpu project's flag of a rank: an operation took it much longer than its peers. That rank waited for
// the others, so it is not the culprit: see nccl.rank.lateness.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "base/clock.h"
#include "sources/nccl_files/inspector_line.h"

namespace gpulens {

// Compares the ranks of one operation: of one communicator, kind and sequence number. Not thread-safe.
class SlowestRule {
 public:
  struct Options {
    double threshold_us = 1e6;  // longer than the median by more than this …
    double ratio = 10;          // … or by this factor, and by least_us
    double least_us = 1000;
    Duration wait = std::chrono::minutes(1);  // for the ranks of an operation
    size_t operations = 16'384;               // that wait
  };
  explicit SlowestRule(const Options& options) : options_(options) {}

  // Lines without a communicator are compared by kind and size, with those of the same Evaluate.
  void Add(const nccl_files::InspectorRecord& record, Instant now);
  // Calls `found` with each rank of the operations that got records since the last call. One that is alone is
  // not slower than its peers.
  void Evaluate(Instant now, const std::function<void(uint64_t communicator, int32_t rank,
                                                      const std::string& operation, bool slowest)>& found);

 private:
  using Key = std::tuple<uint64_t, std::string, int64_t, int64_t>;  // communicator, operation, sequence, size
  struct Part {
    int32_t rank = 0;
    double duration_us = 0;
  };
  struct Waiting {
    std::vector<Part> parts;
    int32_t ranks = 0;
    bool touched = false;
    Instant since;
  };
  const Options options_;
  std::map<Key, Waiting> waiting_;
};

}  // namespace gpulens
