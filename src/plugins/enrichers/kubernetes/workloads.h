// Joins the kubelet's answer, its checkpoint, the API server's pods and the names of logs into the holders of
// GPUs. Pure.
//
// Never by order: a device is joined by its UUID, its address or its number, a process by its cgroup. Where
// two sources contradict each other, or two pods seem to hold one whole device, it has no holder.
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

// Data of the sources. Null or empty: unknown.
struct Sources {
  const std::vector<kubelet::HolderPod>* holders = nullptr;
  const std::vector<kubelet::CheckpointEntry>* checkpoint = nullptr;
  const kubelet::PodWatch::Store* api = nullptr;  // null: not permitted; counts only when it is synced
  const std::vector<kubelet::LogPod>* log_pods = nullptr;
  const std::vector<kubelet::LogContainer>* log_containers = nullptr;
  const std::vector<kubelet::SliceDevice>* slices = nullptr;
  // The kubelet has not answered: `holders` is its last answer, with the uids of then. Only holders that the
  // checkpoint or the API server confirm are kept.
  bool holders_are_old = false;
};

struct NamingRules {
  std::vector<std::string> labels;  // keys, or prefixes ending in "*"
  std::string node, zone, region;   // empty: unknown
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
  // Ids without a device, claims without a slice, devices that two pods seem to hold.
  uint64_t unknown_ids = 0, unknown_claims = 0, conflicts = 0;
  std::set<std::string> replicas;  // of `by_device`: keys held by one of several shares (time-slicing, HAMi)
  // Addresses held under a resource whose name does not mean GPUs: perhaps of a network card, so that no GPU
  // is missing.
  std::set<std::string> any_device;
  bool amd_partitions = false;  // an AMD address is then the first partition of its board

  friend bool operator==(const Table&, const Table&) = default;
};

Table Join(const Sources& sources, const NamingRules& rules);

// Sets the unambiguous uids of `holders`, a new answer of the kubelet.
void NoteUids(const Sources& sources, std::vector<kubelet::HolderPod>& holders);

// The attributes of all of `holders`: of one, its own; of several, those on which they agree, with
// gpu.allocation "shared" and k8s.pod.names, the list of their pods.
AttributeSet Describe(const Table& table, Table::Holders holders);
// The attributes of a board whose holders have slices of it: gpu.allocation "shared", k8s.pod.names and those
// of the node. No pod, owner or label, even of a single holder: the board's readings are not its own.
AttributeSet DescribeSliced(const Table& table, Table::Holders holders);

}  // namespace gpulens::kubernetes
