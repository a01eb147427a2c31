// Parsers of the API server's pods, nodes and resource slices, and of the kubelet's /stats/summary and
// /metrics/cadvisor, for the few facts that are used. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

namespace gpulens::kubelet {

struct PodContainer {
  std::string name, id;  // id: 64 digits; empty before it first runs
  std::optional<uint64_t> restarts;
  std::optional<bool> ready;
  friend bool operator==(const PodContainer&, const PodContainer&) = default;
};

struct Pod {
  std::string name, name_space, uid, node;
  std::string phase;                   // "Pending", "Running", "Succeeded", "Failed", "Unknown"
  std::string owner_kind, owner_name;  // of the controlling owner; empty: none
  std::map<std::string, std::string> labels;
  std::vector<PodContainer> containers;                // init containers, too
  int64_t created_unix_ns = 0, scheduled_unix_ns = 0;  // 0: unknown; not scheduled yet
  std::string ip;                                      // empty: none yet
  bool ready = false;                                  // its condition Ready is true
  bool deleting = false;                               // it is being stopped

  bool ended() const noexcept { return phase == "Succeeded" || phase == "Failed"; }
  // The Deployment whose ReplicaSet owns the pod: a ReplicaSet is named after its Deployment and the label
  // pod-template-hash of the pod. Empty for all others, those of Argo Rollouts, too.
  std::string_view deployment() const noexcept;
  friend bool operator==(const Pod&, const Pod&) = default;
};

struct PodList {
  std::vector<Pod> pods;
  std::string resource_version;
  std::string next;  // the `continue` of a list that came in parts; empty: this was the last
};

inline constexpr size_t kMostPods = 100'000, kMostLabels = 256;

// Parses a PodList of the API server or of the kubelet's /pods. kDataLoss: another text.
Result<PodList> ParsePodList(std::string_view json);

// A line of a watch.
struct PodEvent {
  enum class Type : uint8_t {
    kChanged,  // added or changed: the pod as it is now
    kDeleted,
    kBookmark,  // only the version has moved
    kExpired,   // 410: that version is too old, list again
    kError,     // the server gives up for another reason: `why`
  };
  Type type = Type::kError;
  Pod pod;
  std::string resource_version, why;
};
// kDataLoss: another text. An event of an unknown type is a bookmark.
Result<PodEvent> ParsePodEvent(std::string_view line);

struct Node {
  std::string name, zone, region;
};
Result<Node> ParseNode(std::string_view json);

// A device of a DRA driver with the attributes that identify it.
struct SliceDevice {
  std::string driver, pool, device;
  std::string uuid, pci;  // empty: unknown
};
struct SliceList {
  std::vector<SliceDevice> devices;
  std::string next;
};
// Parses a ResourceSliceList of resource.k8s.io v1 or v1beta1/2. Devices without UUID and address are left
// out.
Result<SliceList> ParseResourceSlices(std::string_view json);

// Times are nanoseconds since 1970, 0: unknown.
struct UsageStats {
  int64_t cpu_time_ns = 0, memory_time_ns = 0;  // when each was read
  std::optional<uint64_t> cpu_nanocores, cpu_nanoseconds;
  std::optional<uint64_t> memory_bytes, working_set_bytes, rss_bytes, available_bytes;
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
// Pods and containers without a name are left out.
Result<StatsSummary> ParseStatsSummary(std::string_view json);

// One line of container_oom_events_total. `cgroup` distinguishes the runs of one container.
struct OomEvents {
  std::string name_space, pod, container, cgroup;
  double count = 0;
};
// Reads the lines about containers of pods, at most 16,384; `bad` counts malformed ones.
std::vector<OomEvents> ReadOomEvents(std::string_view page, size_t& bad);

}  // namespace gpulens::kubelet
