// Collector of the state of pods from the API server: phase, restarts, readiness and the time of scheduling.
// By default of this node's pods, so that each agent of a cluster exports its own; a single agent may export
// the whole cluster.

#include <algorithm>
#include <utility>

#include "base/result.h"
#include "base/threads.h"
#include "catalog/kubernetes.h"
#include "net/io_loop.h"
#include "plugins/collectors/k8s_cluster/k8s_cluster.h"
#include "plugins/plugin.h"
#include "sources/kubelet/api/api_server.h"

namespace gpulens {
namespace {

constexpr std::pair<std::string_view, std::string_view> kPhaseWords[] = {{"Pending", "pending"},
                                                                         {"Running", "running"},
                                                                         {"Succeeded", "succeeded"},
                                                                         {"Failed", "failed"},
                                                                         {"Unknown", "unknown"}};

EntityRef MakePod(const kubelet::Pod& pod) {
  std::vector<AttributeSet::Attribute> own = {
      {"k8s.pod.name", pod.name}, {"k8s.namespace.name", pod.name_space}, {"k8s.pod.uid", pod.uid}};
  if (!pod.node.empty()) own.push_back({"k8s.node.name", pod.node});
  return MakeRef<Entity>("k8s.pod", AttributeSet(own));
}

using kubelet::ApiAccess;
using kubelet::ApiCall;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Reserved of a run's time for parsing.
constexpr Duration kMostReserve = milliseconds(500);
constexpr std::string_view kPageOfPods = "500";

constexpr std::string_view kScopes[] = {"node", "cluster"};
constexpr OptionSpec kOptions[] = {
    TextOption("scope", "node",
               "Pods of this node, or of the cluster with unscheduled ones. Use cluster for one agent only.",
               kScopes),
    TextOption("node_name", {},
               "Name of this node; default: the variable NODE_NAME, K8S_NODE_NAME or MY_NODE_NAME."),
    TextOption("kubeconfig", {}, "kubeconfig file, for use outside of a pod."),
};
using Options = OptionsOf<kOptions>;

std::string NodeName(const Options& options) { return kubelet::NodeName(options.Text("node_name")); }

// Reads one list per run, possibly in parts: requested on the loop, parsed on a worker.
class K8sCluster final : public Collector {
 public:
  K8sCluster(std::string node, kubelet::ApiServer server, Env& env)
      : env_(env), node_(std::move(node)), access_(std::move(server)), call_(*env.http) {
    accessible_ = access_.Refresh();
  }

  bool fetches() const noexcept override { return true; }

  void Fetch(Instant deadline, std::function<void(Status)> done) override {
    deadline_ = deadline;
    done_ = std::move(done);
    coming_.clear();
    Query({});
  }

  Status Collect(FrameWriter& out) override {
    if (!status_) return status_;
    series_.Write(pods_, out);
    return Ok();
  }

 private:
  void Query(const std::string& next) {
    Duration left = deadline_ - env_.clock->Now();
    left -= std::min(left / 10, kMostReserve);
    if (!accessible_) return Parse();
    if (left <= Duration{}) return Done({Code::kTimeout, "timeout of the list of pods"});
    // A node's list comes from the server's cache in one piece, a cluster's in parts.
    std::string target = "/api/v1/pods?";
    if (!node_.empty()) target += "fieldSelector=spec.nodeName%3D" + node_ + "&resourceVersion=0";
    else target += "limit=" + std::string(kPageOfPods);
    if (!next.empty()) target += "&continue=" + next;
    call_.Start(access_, {.target = target, .timeout = left});
    call_.WakeAtEnd([this] { Parse(); });
  }

  void Parse() {
    answer_ = call_.ended() ? call_.Take() : ApiCall::Answer{};
    bool posted = env_.workers && env_.workers->Post([this] {
      if (!accessible_) {
        Status status = std::exchange(accessible_, access_.Refresh());
        return Done(std::move(status));
      }
      Step();
    });
    if (!posted) Done({Code::kExhausted, "the work queue is full"});
  }

  void Step() {
    ApiCall::Answer answer = std::move(answer_);
    if (Status status = answer.ToStatus(access_.url().ToString() + ": list of pods"); !status)
      return Finish(std::move(status));
    auto list = kubelet::ParsePodList(answer.body);
    if (!list) return Finish(std::move(list).error());
    if (coming_.size() + list->pods.size() > kubelet::kMostPods)
      return Finish({Code::kExhausted, "the list of pods is too long"});
    std::move(list->pods.begin(), list->pods.end(), std::back_inserter(coming_));
    bool plain = std::ranges::all_of(list->next, [](char c) {
      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
             c == '_' || c == '=' || c == '.';
    });
    if (!plain) return Finish({Code::kDataLoss, "the list of pods has an invalid continue token"});
    if (!list->next.empty()) return env_.io->Post([this, next = list->next] { Query(next); });
    pods_.swap(coming_);
    Finish(Ok());
  }

  void Finish(Status status) {
    accessible_ = access_.Refresh();
    Done(std::move(status));
  }
  void Done(Status status) {
    status_ = status;
    std::exchange(done_, nullptr)(std::move(status));
  }

  Env& env_;
  const std::string node_;  // empty: all nodes
  ApiAccess access_;
  Status accessible_, status_;
  Instant deadline_;
  std::function<void(Status)> done_;
  ApiCall::Answer answer_;
  std::vector<kubelet::Pod> coming_, pods_;
  PodStateSeries series_;
  ApiCall call_;
};

bool WantsCluster(const Options& options) { return options.Text("scope") == "cluster"; }

Result<std::unique_ptr<Collector>> Create(const Config& config, Env& env) {
  if (!env.http || !env.io) return Status{Code::kUnavailable, "there is no network here"};
  ASSIGN_OR_RETURN(kubelet::ApiServer server, kubelet::FindApiServer(Options(config).Text("kubeconfig")));
  std::string node = WantsCluster(config) ? std::string() : NodeName(config);
  if (node.empty() && !WantsCluster(config))
    return Status{Code::kUnavailable,
                  "the name of this node is unknown; set NODE_NAME or collectors.k8s_cluster.node_name"};
  return std::unique_ptr<Collector>(std::make_unique<K8sCluster>(std::move(node), std::move(server), env));
}

std::vector<Finding> Probe(const Config& config, Env&) {
  Finding finding;
  finding.subject = "k8s_cluster";
  auto server = kubelet::FindApiServer(Options(config).Text("kubeconfig"));
  if (!server) {
    finding.kind = server.error().code == Code::kUnavailable ? Finding::kNotHere : Finding::kBroken;
    finding.why = server.error().detail;
    finding.remedy = "collectors: {k8s_cluster: {kubeconfig: /etc/kubernetes/agent.conf, node_name: …}}";
  } else if (!WantsCluster(config) && NodeName(config).empty()) {
    finding.kind = Finding::kBroken;
    finding.why = "the name of this node is unknown";
    finding.remedy = "NODE_NAME from spec.nodeName in the pod's spec";
  } else {
    finding.what =
        server->url.ToString() + (WantsCluster(config) ? ", all nodes" : ", node " + NodeName(config));
  }
  return {finding};
}

}  // namespace

void PodStateSeries::Write(const std::vector<kubelet::Pod>& pods, FrameWriter& out) {
  ++round_;
  for (const kubelet::Pod& pod : pods) WritePod(pod, out);
  const auto retired = [&](const auto& one) {
    if (one.seen != round_) out.table().Retire(one.entity);
    return one.seen != round_;
  };
  for (auto& [uid, pod] : pods_) std::erase_if(pod.containers, retired);
  std::erase_if(pods_, [&](const auto& pod) { return retired(pod.second); });
}

void PodStateSeries::Retire(One& one, FrameWriter& out) {
  for (const Container& container : one.containers) out.table().Retire(container.entity);
  out.table().Retire(one.entity);
  one = One{.seen = one.seen, .node = {}, .entity = {}, .phases = {}, .delay = {}, .containers = {}};
}

void PodStateSeries::WritePod(const kubelet::Pod& pod, FrameWriter& out) {
  auto at = pods_.find(std::string_view(pod.uid));
  if (at == pods_.end()) at = pods_.emplace(pod.uid, One{}).first;
  One& one = at->second;
  if (std::exchange(one.seen, round_) == round_) return;
  if (one.entity && one.node != pod.node) Retire(one, out);  // scheduled since
  if (!one.entity) {
    one.node = pod.node;
    one.entity = MakePod(pod);
  }
  for (size_t i = 0; i < kPhases; ++i) {
    out.DeclareAndSet(one.phases[i], kK8sPodStatusPhase, one.entity,
                      {{"k8s.pod.status.phase", kPhaseWords[i].second}},
                      pod.phase == kPhaseWords[i].first ? 1 : 0);
  }
  if (pod.created_unix_ns != 0 && pod.scheduled_unix_ns >= pod.created_unix_ns) {
    out.DeclareAndSet(one.delay, kK8sPodSchedulingDelay, one.entity, {},
                      static_cast<double>(pod.scheduled_unix_ns - pod.created_unix_ns) * 1e-9);
  }
  for (const kubelet::PodContainer& container : pod.containers) WriteContainer(container, one, out);
}

void PodStateSeries::WriteContainer(const kubelet::PodContainer& container, One& one, FrameWriter& out) {
  auto at = std::ranges::find_if(one.containers,
                                 [&](const Container& known) { return known.name == container.name; });
  if (at == one.containers.end()) {
    at = one.containers.insert(one.containers.end(), Container{});
    at->name = container.name;
    at->entity =
        MakeRef<Entity>("k8s.container", AttributeSet({{"k8s.container.name", at->name}}), one.entity);
  }
  if (std::exchange(at->seen, round_) == round_) return;
  if (container.restarts)
    out.DeclareAndSet(at->restarts, kK8sContainerRestartCount, at->entity, {}, *container.restarts);
  if (container.ready)
    out.DeclareAndSet(at->ready, kK8sContainerReady, at->entity, {}, *container.ready ? 1 : 0);
}

extern const CollectorSpec k8s_cluster_collector;
const CollectorSpec k8s_cluster_collector{
    .name = "k8s_cluster",
    .help = "Phase, restarts, readiness and scheduling of pods, from the API server.",
    .period = seconds(60),
    .ttl = seconds(180),
    .options = kOptions,
    .metrics = kKubernetesStateRows,
    .create = &Create,
    .probe = &Probe};

}  // namespace gpulens
