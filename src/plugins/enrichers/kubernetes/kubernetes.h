// GPUs, their slices and processes under the names of the pods that use them. docs/kubernetes.md is the
// manual.
//
// Each Fetch asks the kubelet which container holds which device, reads what the node's files tell, and takes
// what the watch of the API server has brought, where that is allowed. Any of them may be missing: then less
// is said.
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
#include "sources/kubelet/api/api_call.h"
#include "sources/kubelet/api/pod_watch.h"
#include "sources/kubelet/parse/node_files.h"

namespace gpulens::kubernetes {

struct Options {
  std::string root = "/";          // where the host's /proc and /var are found
  std::string node;                // the name of this node; empty: not known
  std::string socket, checkpoint;  // paths; the checkpoint's below the root
  Duration kubelet_timeout = std::chrono::seconds(1);
  std::vector<std::string> labels;
  std::unique_ptr<kubelet::ApiAccess> api;  // null: the API server is not asked
};

// Fetch on the I/O loop; Describe, Resource and generation on any thread. Not destroyed during a Fetch.
class KubernetesEnricher final : public Enricher {
 public:
  // What was told before holds for so long while the kubelet does not answer, where it is confirmed.
  static constexpr Duration kRemembered = std::chrono::seconds(60);

  KubernetesEnricher(Options options, Env& env);
  ~KubernetesEnricher() override;

  // Not ok when the kubelet has not answered; what the other sources told is used all the same.
  void Fetch(Instant deadline, std::function<void(Status)> done) override;
  uint64_t generation() const noexcept override { return generation_; }
  AttributeSet Describe(const Entity& entity) const override;
  // Of the node as a whole: k8s.node.name, cloud.availability_zone, cloud.region, as far as they are known.
  AttributeSet Resource() const override;

  // One for each of: the kubelet, the API server where it is asked, an id or a claim that leads to no GPU, a
  // device that two pods seem to hold, processes that are hidden.
  uint64_t missing() const override;

  // The same, apart.
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
  const Options options_;
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
