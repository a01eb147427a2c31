// A line of the files that NCCL Inspector writes in its JSON mode (formats v4.0 to v4.4, NCCL 2.28 and later;
// RCCL's port writes the same), and the flat lines that the l9gpu project reads. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <gpulens/status.h>

#include "job_page/job_page.h"

namespace gpulens::nccl_files {

// What the duration of a record was measured with.
enum class TimingSource : uint8_t {
  kUnknown,
  kKernelGpu,      // on the GPU: the duration of the collective
  kKernelCpu,      // on the host, from the first kernel to the last
  kCollectiveCpu,  // on the host, of the call: it may end before the collective does
};

// A collective or point-to-point operation of one rank that ended. Numbers that the line does not have are -1
// or NaN.
struct InspectorRecord {
  uint64_t communicator = 0;               // hash, equal on all ranks; 0: unknown
  std::string communicator_name;           // empty: unnamed
  int32_t rank = 0, ranks = 0, nodes = 0;  // ranks, nodes 0: unknown
  bool point_to_point = false;
  job_page::Function function = job_page::Function::kOther;
  std::string operation;  // as written: "AllReduce"
  int32_t peer = -1;
  int64_t sequence = -1;  // per communicator and operation
  int64_t bytes = -1;     // message size
  double duration_us = kNotMeasured;
  TimingSource timing = TimingSource::kUnknown;
  double bandwidth = kNotMeasured;      // bytes per second, of the algorithm
  double bus_bandwidth = kNotMeasured;  // bytes per second
  int64_t dumped_unix_us = -1;          // when the line was made, some time after the operation
  std::string host;
  int32_t pid = 0;  // in its namespace; 0: unknown
};

inline constexpr size_t kLongestLine = 64 << 10;

struct InspectorLine {
  enum class Kind : uint8_t {
    kOperation,
    // From v4.1 on, before what a process writes of one communicator: `record` has the communicator, the
    // rank and the process alone. From v4.3 on the operations that follow have these from here only.
    kMarker,
    kUnused,  // of Inspector, such as those of the network proxy
  };
  Kind kind = Kind::kOperation;
  InspectorRecord record;
  uint64_t overwritten = 0;  // kMarker: operations lost since the marker before, as Inspector's ring was full
};

// `marker` is the last marker of the same file, or null. kDataLoss: it is no such line, or an operation
// without communicator and rank. Texts of the result are printable.
Result<InspectorLine> ParseInspectorLine(std::string_view line, const InspectorRecord* marker = nullptr);

// By the name that NCCL gives it, "AllReduce"; kOther for one that is not known.
job_page::Function FunctionOfName(std::string_view name) noexcept;

}  // namespace gpulens::nccl_files
