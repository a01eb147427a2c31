// Answers of NCCL's RAS (reliability, availability, serviceability), the service inside each NCCL process
// from 2.24 on: the state of all communicators of a job, and what happens to its processes. JSON needs
// NCCL 2.28.7. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "job_page/job_page.h"

namespace gpulens::nccl_ras {

struct RasRank {
  int32_t rank = 0;
  std::string host;
  int32_t pid = 0;                                      // in its namespace; 0: unknown
  int32_t cuda_device = -1;                             // ordinal; -1: unknown
  bool ready = true;                                    // it is initialised
  bool error = false;                                   // an asynchronous error, or it was aborted
  bool closing = false;                                 // finalised or destroyed
  std::array<uint64_t, job_page::kFunctions> counts{};  // collectives that it has called, by Function
  bool has_counts = false;
};
struct RasMissingRank {
  int32_t rank = 0;
  std::string host;
  int32_t pid = 0;
  bool unresponsive = false, dead = false;
};
struct RasCommunicator {
  uint64_t hash = 0;  // that of a job page and of NCCL Inspector
  int32_t size = 0;   // ranks
  std::vector<RasRank> ranks;
  std::vector<RasMissingRank> missing;
};
struct RasReport {
  std::string nccl_version;
  std::vector<RasCommunicator> communicators;
  uint64_t timeouts = 0;  // processes that did not answer the query in time
  uint64_t left_out = 0;  // ranks and communicators beyond a limit, or impossible
};

inline constexpr size_t kLongestReport = 10u << 20;
inline constexpr size_t kMostCommunicators = 4096, kMostRanks = 65'536;  // of a report

// kDataLoss: it is no report; kExhausted: longer than kLongestReport.
Result<RasReport> ParseRasReport(std::string_view json);

// Something that happened to a process of the job.
struct RasEvent {
  std::string group, name;  // "lifecycle", "PEER_DEAD"
  std::string host;
  int32_t pid = 0;
  std::string details;
};
Result<RasEvent> ParseRasEvent(std::string_view json);

// Removes the next whole JSON object from the front of `text`, with what is before it; empty: there is none
// yet. For a stream of objects, on one line or several.
std::string TakeJsonObject(std::string& text);

}  // namespace gpulens::nccl_ras
