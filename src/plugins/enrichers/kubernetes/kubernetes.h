// Describes GPUs, their slices and processes by the pods that use them (docs/kubernetes.md).
//
// Each Fetch queries the kubelet for the containers that hold devices, reads the node's files, and uses the
// answers of the watch of the API server, where that is allowed. Each source is optional. Join makes a table
// of the holders of GPUs of these answers, EntityLookup finds the workload of an entity in it.
//
// Order is never used: a device is joined by its UUID, its address or its number, a process by its cgroup.
// Where two sources contradict each other, or two pods seem to hold one whole device, it has no holder.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/attribute_set.h"
#include "core/layout.h"
#include "net/grpc/grpc_client.h"
#include "plugins/plugin.h"
#include "sources/kubelet/api/api_server.h"
#include "sources/kubelet/api/pod_watch.h"
#include "sources/kubelet/parse/node_files.h"
#include "sources/kubelet/parse/pod_resources.h"

namespace gpulens::kubernetes {

// Data of the sources. Null or empty: unknown.
struct WorkloadSources {
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
struct WorkloadTable {
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

  friend bool operator==(const WorkloadTable&, const WorkloadTable&) = default;
};

WorkloadTable Join(const WorkloadSources& sources, const NamingRules& rules);

// Sets the unambiguous uids of `holders`, a new answer of the kubelet.
void NoteUids(const WorkloadSources& sources, std::vector<kubelet::HolderPod>& holders);

// Returns the attributes of all of `holders`: of one, its own; of several, those they have in common, with
// gpu.allocation "shared" and k8s.pod.names, the list of their pods.
AttributeSet Describe(const WorkloadTable& table, WorkloadTable::Holders holders);
// Returns the attributes of a board whose holders have slices of it: gpu.allocation "shared", k8s.pod.names
// and those of the node. No pod, owner or label, even of a single holder: the board's readings are not its
// own.
AttributeSet DescribeSliced(const WorkloadTable& table, WorkloadTable::Holders holders);

// Finds the workload of an entity: a GPU, a part of one, a process. Reads nothing but the cgroup of a
// process. Thread-safe.
class EntityLookup {
 public:
  // `root` contains /proc, which is used only when it is the host's.
  explicit EntityLookup(std::string root);

  // Returns all attributes of the entity, including its parents'. A process is described by its own cgroup
  // and never by the GPU it uses. `learned` is set when the call changed the answers about another entity:
  // the GPU of a MIG slice.
  AttributeSet Describe(const WorkloadTable& table, const Entity& entity, bool& learned) const;
  bool sees_processes() const noexcept { return sees_processes_; }

  // Number of devices held by pods for which Describe was never called.
  uint64_t CountUnresolved(const WorkloadTable& table) const;
  // Returns, for each GPU, slice or partition for which Describe was called and each container that holds it:
  // the container's attributes, gpu.uuid, gpu.index, the slice's or partition's numbers, and gpu.allocation
  // ("exclusive", "shared", "mig", "partition"). Unsorted; at most kMostHoldings.
  std::vector<AttributeSet> Holdings(const WorkloadTable& table) const;
  static constexpr size_t kMostHoldings = 4096;

 private:
  // A GPU or a part of one.
  struct Place {
    enum class Kind { kGpu, kSlice, kPartition } kind = Kind::kGpu;
    std::vector<std::string> keys;  // of WorkloadTable::by_device
    std::string vendor, pci;        // of the board; empty: unknown
    AttributeSet identity;

    std::vector<std::string> KeysIn(const WorkloadTable& table) const;
    WorkloadTable::Holders HoldersIn(const WorkloadTable& table) const;
  };

  static Place PlaceOfGpu(const Entity& gpu);
  static Place PlaceOfSlice(const Entity& slice);
  static Place PlaceOfPartition(const Entity& partition);
  AttributeSet DescribeOwned(const WorkloadTable& table, const Entity& entity) const;
  AttributeSet DescribeGpu(const WorkloadTable& table, const Entity& gpu) const;
  AttributeSet DescribeSlice(const WorkloadTable& table, const Entity& slice, bool& learned) const;
  void Remember(const Place& place, const Entity& entity) const;

  const std::string root_;
  const bool sees_processes_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::set<std::string>> slices_;  // by the GPU's UUID: keys of its slices
  mutable std::map<std::string, Place> places_;                  // by a UUID, else by all that identifies it
};

struct KubernetesOptions {
  std::string root = "/";          // where the host's /proc and /var are found
  std::string node;                // name of this node; empty: unknown
  std::string socket, checkpoint;  // paths; the checkpoint's below the root
  Duration kubelet_timeout = std::chrono::seconds(1);
  std::vector<std::string> labels;
  std::unique_ptr<kubelet::ApiAccess> api;  // null: no API server
};

// Fetch on the I/O loop; Describe, Resource and generation on any thread. Not destroyed during a Fetch.
class KubernetesEnricher final : public Enricher {
 public:
  // Confirmed holders are kept for this long while the kubelet does not answer.
  static constexpr Duration kRemembered = std::chrono::seconds(60);

  KubernetesEnricher(KubernetesOptions options, Env& env);
  ~KubernetesEnricher() override;

  // Not ok when the kubelet has not answered; the other sources are used nevertheless.
  void Fetch(Instant deadline, std::function<void(Status)> done) override;
  uint64_t generation() const noexcept override { return generation_; }
  AttributeSet Describe(const Entity& entity) const override;
  // k8s.node.name, cloud.availability_zone and cloud.region, as far as they are known.
  AttributeSet Resource() const override;

  // Counts one for each of: the kubelet, the API server where it is used, an id or a claim without a GPU, a
  // device that two pods seem to hold, hidden processes.
  uint64_t missing() const override;

  // Components of missing().
  struct Gaps {
    bool kubelet_answers = false, api_answers = false;
    uint64_t unknown_ids = 0, unknown_claims = 0, conflicts = 0;
    uint64_t unresolved = 0;  // ids in a known form, of a device that no collector shows
  };
  Gaps gaps() const;

 private:
  void OnKubelet(GrpcReply& reply);
  void AwaitList(Instant deadline);
  void Work();
  void Finish();
  void StartApiCalls();
  void TakeNode(const kubelet::ApiCall::Answer& answer);
  void TakeSlices(const kubelet::ApiCall::Answer& answer);
  void TakeHolders();
  void Publish(WorkloadTable table);
  void Report();

  Env& env_;
  const KubernetesOptions options_;
  EntityLookup lookup_;
  kubelet::NodeFiles files_;
  GrpcClient grpc_;
  // Of the current Fetch.
  Instant deadline_;
  std::function<void(Status)> done_;
  IoLoop::TimerId timer_ = 0;
  GrpcReply reply_;
  std::optional<kubelet::ApiCall::Answer> node_answer_, slices_answer_;
  bool waiting_ = false;
  // Of the loop and, in a Fetch, of its worker.
  Status kubelet_status_, api_status_;
  std::vector<kubelet::HolderPod> holders_;
  bool have_holders_ = false;
  int64_t holders_at_ns_ = 0, next_node_ns_ = 0, next_slices_ns_ = 0;
  std::vector<kubelet::SliceDevice> slices_;
  size_t slices_version_ = 0;
  NamingRules rules_;
  kubelet::ApiCall node_call_, slices_call_;
  std::unique_ptr<kubelet::PodWatch> watch_;
  std::unique_ptr<GrpcChannel> channel_;
  bool was_unresolved_ = false;

  mutable std::mutex mutex_;
  std::shared_ptr<const WorkloadTable> table_;  // never null
  AttributeSet resource_;
  Gaps gaps_;
  mutable std::atomic<uint64_t> generation_{1};
};

}  // namespace gpulens::kubernetes
