// What each process has used of a GPU that is not split: SM, memory controller and video engines.
#pragma once

#include <cstdint>
#include <vector>

#include "reader/process/query_backoff.h"
#include "sources/nvml/nvml_parts.h"
#include "sources/nvml/reader/nvml_library.h"
#include "sources/nvml/reader/parts_abi.h"

namespace gpulens::nvml {

// Used by one thread; `caller` outlives it. Allocates only while there are more processes than before.
class ShareReader {
 public:
  explicit ShareReader(Caller& caller) noexcept : caller_(caller) {}

  void Reset(Device gpu);
  // The samples of the last `window` before `unix_ns`, one per process: the newest. True when the library
  // told; a process that is not in the list was idle.
  bool Read(int64_t unix_ns, Duration window);
  const std::vector<ProcessShare>& shares() const noexcept { return shares_; }

 private:
  struct Newest {
    ProcessShare share;
    unsigned long long timestamp_us;
  };
  int ReadInfo(uint64_t since_us);
  int ReadSamples(uint64_t since_us);
  void Add(ProcessShare share, unsigned long long timestamp_us);

  Caller& caller_;
  Device gpu_ = nullptr;
  driver::QueryBackoff info_, samples_list_;
  std::vector<ProcessUtilizationInfo> infos_;
  std::vector<ProcessUtilizationSample> samples_;
  std::vector<Newest> newest_;
  std::vector<ProcessShare> shares_;
};

}  // namespace gpulens::nvml
