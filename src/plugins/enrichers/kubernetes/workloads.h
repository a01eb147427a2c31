// Who holds which GPU: what the kubelet, its checkpoint, the API server and the names of logs tell, joined.
// Pure.
//
// Never by order: a device is joined by its UUID, its address or its number, a process by its cgroup. Where
// two sources contradict each other, or one device seems to be held whole by two pods, nobody holds it.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/attribute_set.h"
#include "sources/kubelet/api/pod_watch.h"
#include "sources/kubelet/parse/node_files.h"
#include "sources/kubelet/parse/pod_resources.h"

namespace gpulens::kubernetes {

// What the sources told this time. Null or empty: not known.
struct Sources {
  const std::vector<kubelet::HolderPod>* holders = nullptr;
  const std::vector<kubelet::CheckpointEntry>* checkpoint = nullptr;
  const kubelet::PodWatch::Store* api = nullptr;  // null: not permitted; counts only when it is synced
  const std::vector<kubelet::LogPod>* log_pods = nullptr;
  const std::vector<kubelet::LogContainer>* log_containers = nullptr;
  const std::vector<kubelet::SliceDevice>* slices = nullptr;
  // The kubelet has not answered this time: `holders` is what it said before, with the uids of then. Then
  // only what the checkpoint or the API server confirm still holds.
  bool holders_are_old = false;
};

struct NamingRules {
  std::vector<std::string> labels;  // keys, or prefixes ending in "*"
  std::string node, zone, region;   // empty: not known
};

// A container of a pod, or, without a container, a pod as a whole.
struct Workload {
  std::string name;  // "namespace/pod", for lists
  AttributeSet attributes;
  friend bool operator==(const Workload&, const Workload&) = default;
};

// Immutable once made; shared between threads.
struct Table {
  using Holders = std::vector<uint32_t>;  // of `workloads`, ascending

  std::vector<Workload> workloads;
  std::map<std::string, Holders> by_device;         // DeviceId::Key
  std::map<std::string, uint32_t> by_container_id;  // 64 digits
  std::map<std::string, uint32_t> by_uid, by_name;  // by_name: "namespace/pod"
  // What could not be told: ids that lead to no device, claims without a slice, devices that two pods seem
  // to hold.
  uint64_t unknown_ids = 0, unknown_claims = 0, conflicts = 0;
  std::set<std::string> replicas;  // of `by_device`: keys held by one of several shares (time-slicing, HAMi)
  // Addresses held under a resource that says nothing of GPUs: perhaps of a network card, so that no GPU is
  // missed there.
  std::set<std::string> any_device;
  bool amd_partitions = false;  // an AMD address is then the first partition of its board

  friend bool operator==(const Table&, const Table&) = default;
};

Table Join(const Sources& sources, const NamingRules& rules);

// Writes the uids that the sources tell beyond doubt into `holders`, which have just come.
void NoteUids(const Sources& sources, std::vector<kubelet::HolderPod>& holders);

// What holds of all of `holders`: of one, its attributes; of several, those on which they agree, with
// gpu.allocation "shared" and k8s.pod.names, the list of their pods.
AttributeSet Describe(const Table& table, Table::Holders holders);
// Of a board whose holders have slices of it: gpu.allocation "shared", k8s.pod.names and what they say of the
// node. No pod, owner or label, even of a single holder: what is measured on the board is not its own.
AttributeSet DescribeSliced(const Table& table, Table::Holders holders);

}  // namespace gpulens::kubernetes
