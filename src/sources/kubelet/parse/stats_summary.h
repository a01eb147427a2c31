// What the kubelet answers to /stats/summary, and the kills by the OOM killer on its /metrics/cadvisor. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

namespace gpulens::kubelet {

// Absent: not told. Times are nanoseconds since 1970, 0: not told.
struct UsageStats {
  int64_t cpu_time_ns = 0, memory_time_ns = 0;  // when each was read
  std::optional<uint64_t> cpu_nanocores, cpu_nanoseconds;
  std::optional<uint64_t> memory_bytes, working_set_bytes, rss_bytes, available_bytes;
  std::optional<uint64_t> page_faults, major_page_faults;
};
struct ContainerStats {
  std::string name;
  int64_t started_ns = 0;
  UsageStats usage;
};
struct PodStats {
  std::string name, name_space, uid;
  int64_t started_ns = 0;
  UsageStats usage;
  std::optional<uint64_t> received_bytes, sent_bytes, receive_errors, send_errors;  // of its first interface
  std::vector<ContainerStats> containers;
};
struct StatsSummary {
  std::string node;
  int64_t node_started_ns = 0;
  UsageStats node_usage;
  std::vector<PodStats> pods;
};

inline constexpr size_t kMostSummaryBytes = 32u << 20;
// Pods without a name, containers without one are left out; what has no number has none here.
Result<StatsSummary> ParseStatsSummary(std::string_view json);

// One line of container_oom_events_total. `cgroup` tells apart the lives of one container.
struct OomEvents {
  std::string name_space, pod, container, cgroup;
  double count = 0;
};
// The lines about containers of pods; others of the page are passed over, and so are lines that make no
// sense, which `bad` counts. At most 16,384 are taken.
std::vector<OomEvents> ReadOomEvents(std::string_view page, size_t& bad);

}  // namespace gpulens::kubelet
