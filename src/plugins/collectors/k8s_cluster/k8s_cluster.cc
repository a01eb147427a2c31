// How pods fare: phase, restarts, readiness and what scheduling took, from the API server. By default of this
// node's pods, so that every agent of a cluster tells its own; one agent alone may be asked for the whole
// cluster.

#include <algorithm>
#include <utility>

#include "base/result.h"
#include "base/workers.h"
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

// What is left of a run's time for the parsing.
constexpr Duration kMostReserve = milliseconds(500);
constexpr std::string_view kPageOfPods = "500";

std::string NodeName(const Config& config) { return kubelet::NodeName(config.Text("node_name")); }

// One list a run, which may come in parts: asked on the loop, parsed on a worker, in turns.
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
    bool plain = std::all_of(list->next.begin(), list->next.end(), [](char c) {
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

bool WantsCluster(const Config& config) { return config.Text("scope") == "cluster"; }

Result<std::unique_ptr<Collector>> Create(const Config& config, Env& env) {
  if (!env.http || !env.io) return Status{Code::kUnavailable, "there is no network here"};
  ASSIGN_OR_RETURN(kubelet::ApiServer server, kubelet::FindApiServer(config.Text("kubeconfig")));
  std::string node = WantsCluster(config) ? std::string() : NodeName(config);
  if (node.empty() && !WantsCluster(config))
    return Status{Code::kUnavailable,
                  "the name of this node is unknown; set NODE_NAME or collectors.k8s_cluster.node_name"};
  return std::unique_ptr<Collector>(std::make_unique<K8sCluster>(std::move(node), std::move(server), env));
}

std::vector<Finding> Probe(const Config& config, Env&) {
  Finding finding;
  finding.subject = "k8s_cluster";
  auto server = kubelet::FindApiServer(config.Text("kubeconfig"));
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

constexpr std::string_view kScopes[] = {"node", "cluster"};
constexpr OptionSpec kOptions[] = {
    {.key = "scope",
     .fallback = "node",
     .help = "Pods of this node, or of the cluster with unscheduled ones. Use cluster for one agent only.",
     .allowed = kScopes},
    {.key = "node_name",
     .help = "Name of this node; default: the variable NODE_NAME, K8S_NODE_NAME or MY_NODE_NAME."},
    {.key = "kubeconfig", .help = "kubeconfig file, for use outside of a pod."},
};

}  // namespace

void PodStateSeries::Write(const std::vector<kubelet::Pod>& pods, FrameWriter& out) {
  ++round_;
  for (const kubelet::Pod& pod : pods) WritePod(pod, out);
  for (auto at = pods_.begin(); at != pods_.end();) {
    One& one = at->second;
    std::erase_if(one.containers, [&](const Container& container) {
      bool gone = container.seen != round_;
      if (gone) out.table().Retire(container.entity);
      return gone;
    });
    bool gone = one.seen != round_;
    if (gone) out.table().Retire(one.entity);
    at = gone ? pods_.erase(at) : std::next(at);
  }
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
  if (one.entity && one.node != pod.node) Retire(one, out);  // it was given a node
  if (!one.entity) {
    one.node = pod.node;
    one.entity = MakePod(pod);
  }
  for (size_t i = 0; i < kPhases; ++i) {
    if (!one.phases[i])
      one.phases[i] = out.table().Declare(kK8sPodStatusPhase, one.entity,
                                          {{"k8s.pod.status.phase", kPhaseWords[i].second}});
    out.Set(one.phases[i], pod.phase == kPhaseWords[i].first ? 1 : 0);
  }
  if (pod.created_unix_ns != 0 && pod.scheduled_unix_ns >= pod.created_unix_ns) {
    if (!one.delay) one.delay = out.table().Declare(kK8sPodSchedulingDelay, one.entity);
    out.Set(one.delay, static_cast<double>(pod.scheduled_unix_ns - pod.created_unix_ns) * 1e-9);
  }
  for (const kubelet::PodContainer& container : pod.containers) WriteContainer(container, one, out);
}

void PodStateSeries::WriteContainer(const kubelet::PodContainer& container, One& one, FrameWriter& out) {
  auto at = std::find_if(one.containers.begin(), one.containers.end(),
                         [&](const Container& known) { return known.name == container.name; });
  if (at == one.containers.end()) {
    at = one.containers.insert(one.containers.end(), Container{});
    at->name = container.name;
    at->entity =
        MakeRef<Entity>("k8s.container", AttributeSet({{"k8s.container.name", at->name}}), one.entity);
  }
  if (std::exchange(at->seen, round_) == round_) return;
  if (container.restarts) {
    if (!at->restarts) at->restarts = out.table().Declare(kK8sContainerRestartCount, at->entity);
    out.Set(at->restarts, *container.restarts);
  }
  if (container.ready) {
    if (!at->ready) at->ready = out.table().Declare(kK8sContainerReady, at->entity);
    out.Set(at->ready, *container.ready ? 1 : 0);
  }
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
