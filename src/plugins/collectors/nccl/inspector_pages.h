// The pages of NCCL Inspector's Prometheus mode, and their series: means by GPU, communicator, operation and
// range of message sizes. They have no sequence numbers, so no rank is found slow by them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/frame_writer.h"
#include "sources/nccl_files/inspector_files.h"

namespace gpulens {

// Means of the operations of one kind since the page before. Texts are empty and numbers -1 or NaN where the
// page has none.
struct InspectorMeans {
  std::string operation;  // "AllReduce", "Send"
  std::string communicator, communicator_name;
  std::string message_size;  // the range: "4-5GB"
  std::string algorithm, protocol, host, slurm_job;
  int32_t rank = -1, ranks = -1, nodes = -1;
  double duration_s = kNotMeasured;
  double bandwidth = kNotMeasured, bus_bandwidth = kNotMeasured;  // bytes per second

  bool IsSameKind(const InspectorMeans& other) const;
};

struct InspectorPageContent {
  static constexpr size_t kMost = 512;
  std::vector<InspectorMeans> means;  // at most kMost
  size_t invalid = 0;                 // lines that are none
  size_t not_taken = 0;               // samples of kinds above kMost
};

// Pure. Other families than Inspector's are passed over. kExhausted: a page above the limits.
Result<InspectorPageContent> ParseInspectorPage(std::string_view page);

// Not thread-safe.
class InspectorPages {
 public:
  // Takes a page for the next frame. It replaces the last one of its path; an empty one ends its series. Of
  // two pages with one kind the later one counts.
  void Take(const nccl_files::InspectorPage& page, FrameWriter& out);
  // The series whose page was not written again keep their values.
  void Keep(FrameWriter& out);
  // Lines and pages that are none, and samples above a limit, in total.
  uint64_t invalid() const noexcept { return invalid_; }
  uint64_t not_taken() const noexcept { return not_taken_; }

 private:
  struct Kind {
    std::string path, gpu_uuid;
    InspectorMeans means;
    EntityRef entity;
    Series duration, bandwidth, bus_bandwidth;
    bool is_on_page = false;
  };
  static void Set(Kind& kind, FrameWriter& out);

  static constexpr size_t kMostKinds = 2048;  // of all pages
  std::vector<Kind> kinds_;
  uint64_t invalid_ = 0, not_taken_ = 0;
};

}  // namespace gpulens
