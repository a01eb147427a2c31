// Describes GPUs, their slices and processes by the pods that use them (docs/kubernetes.md).
//
// Each Fetch queries the kubelet for the containers that hold devices, reads the node's files, and takes the
// answers of the watch of the API server, where that is allowed. Each source is optional.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "net/grpc/grpc_client.h"
#include "plugins/enrichers/kubernetes/entity_lookup.h"
#include "plugins/enrichers/kubernetes/workloads.h"
#include "plugins/plugin.h"
#include "sources/kubelet/api/api_server.h"
#include "sources/kubelet/api/pod_watch.h"
#include "sources/kubelet/parse/node_files.h"

namespace gpulens::kubernetes {

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

  // One for each of: the kubelet, the API server where it is used, an id or a claim without a GPU, a device
  // that two pods seem to hold, hidden processes.
  uint64_t missing() const override;

  // The same, in parts.
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
  void Publish(Table table);
  void Report();

  Env& env_;
  const KubernetesOptions options_;
  EntityLookup lookup_;
  kubelet::NodeFiles files_;
  GrpcClient grpc_;
  // Of the present Fetch.
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
  std::shared_ptr<const Table> table_;  // never null
  AttributeSet resource_;
  Gaps gaps_;
  mutable std::atomic<uint64_t> generation_{1};
};

}  // namespace gpulens::kubernetes
