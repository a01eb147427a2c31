// The library's lists of the processes that use a GPU, whichever version of the functions it has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "reader/process/library_caller.h"
#include "sources/nvml/nvml_slices.h"
#include "sources/nvml/reader/nvml_abi.h"
#include "sources/nvml/reader/nvml_library.h"
#include "sources/nvml/reader_protocol.h"

namespace gpulens::nvml {

inline constexpr size_t kProcessLists = 3;  // by ProcessType

// Used by one thread; `caller` outlives it. Allocates only while there are more processes than before.
class ProcessLister {
 public:
  // `avoid_v3`: this driver's _v3 functions write a layout of their own.
  explicit ProcessLister(NvmlCaller& caller, bool avoid_v3 = false) noexcept
      : caller_(caller), avoid_v3_(avoid_v3) {}

  // Of a GPU or a MIG device. The library's code; `found` has its list when that is kSuccess.
  int Read(Device device, ProcessType list);
  const std::vector<GpuProcess>& found() const noexcept { return found_; }

 private:
  void Take(ProcessType list, size_t count, bool v1);

  NvmlCaller& caller_;
  const bool avoid_v3_;
  std::vector<std::byte> buffer_;
  std::vector<GpuProcess> found_;
};

// What each process has used of a GPU that is not split: SM, memory controller and video engines.

// Used by one thread; `caller` outlives it. Allocates only while there are more processes than before.
class ShareReader {
 public:
  explicit ShareReader(NvmlCaller& caller) noexcept : caller_(caller) {}

  void Reset(Device gpu);
  // The samples of the last `window` before `unix_ns`, one per process: the newest. True when the library
  // sent; a process that is not in the list was idle.
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

  NvmlCaller& caller_;
  Device gpu_ = nullptr;
  reader::QueryBackoff info_, samples_list_;
  std::vector<ProcessUtilizationInfo> infos_;
  std::vector<ProcessUtilizationSample> samples_;
  std::vector<Newest> newest_;
  std::vector<ProcessShare> shares_;
};

}  // namespace gpulens::nvml
