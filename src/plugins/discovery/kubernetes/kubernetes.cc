// Finds the pods of namespaces by their labels, at the API server: each ready one is a target.

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "base/files.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/result.h"
#include "base/text.h"
#include "base/threads.h"
#include "net/client/http_client.h"
#include "net/io_loop.h"
#include "net/message/address.h"
#include "plugins/plugin.h"
#include "sources/kubelet/api/api_server.h"
#include "sources/kubelet/parse/api_objects.h"

namespace gpulens {
namespace {

using std::chrono::seconds;

constexpr size_t kMostFound = 5000, kMostListBytes = 64u << 20;
constexpr Duration kListTime = seconds(10);
constexpr std::string_view kAll = "*";

constexpr std::string_view kKinds[] = {"auto", "prometheus", "engine", "gpu"};
constexpr OptionSpec kOptions[] = {
    {.key = "selector",
     .type = OptionType::kText,
     .help = "Label selector of the pods, as kubectl takes it: app=chat,tier in (a,b).",
     .required = true},
    TextsOption("namespaces", "[]", "Namespaces of the pods; *: all; []: the one of the agent's own pod."),
    IntOption("port", "8000", "Port of the pods' pages.", 1, 65535),
    TextOption("path", "/metrics", "Path of the pods' pages."),
    TextOption("kind", "engine", "The kind of the targets.", kKinds),
    TimeOption("target_interval", {}, "Between two scrapes of a pod; default: that of targets.", 0.1, 86400),
    TextsOption("pod_labels", "[]",
                "Labels of the pods that become attributes k8s.pod.label.<key>; * matches any text."),
    TextOption("kubeconfig", {}, "kubeconfig file, for use outside of a pod."),
    TimeOption("refresh", "5s", "How often the pods are listed.", 0.1, 86400),
};
using Options = OptionsOf<kOptions>;

bool IsNamespace(std::string_view name) {
  const auto good = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; };
  return !name.empty() && name.size() <= 63 && std::ranges::all_of(name, good);
}

void CheckOptions(const Config& config, ConfigFaults& faults) {
  const Options options(config);
  for (const std::string& name : options.Texts("namespaces"))
    if (name != kAll && !IsNamespace(name))
      faults.Refuse(config, "namespaces", "\"" + Printable(name.substr(0, 80)) + "\" is not a namespace");
  if (!options.Text("path").starts_with('/')) faults.Refuse(config, "path", "a path starts with /");
}

// The lists that are requested. Without a namespace it is that of the service account.
Result<std::vector<std::string>> Paths(const Options& options) {
  std::vector<std::string> names = options.Texts("namespaces");
  if (names.empty()) {
    ASSIGN_OR_RETURN(const std::string own,
                     ReadFile(std::string(kubelet::kServiceAccount) + "/namespace", 256));
    names.emplace_back(Trim(own));
  }
  const std::string query = "?resourceVersion=0&labelSelector=" + PercentEncoded(options.Text("selector"));
  std::vector<std::string> paths;
  for (const std::string& name : names)
    paths.push_back((name == kAll ? "/api/v1/pods" : "/api/v1/namespaces/" + name + "/pods") + query);
  return paths;
}

// Stages of a Fetch: Begin on a worker, a list after the other on the loop, Parse on a worker. Targets is
// called between two.
class KubernetesDiscovery final : public Discovery {
 public:
  KubernetesDiscovery(const Config& config, Env& env) : config_(config), env_(env), call_(*env.http) {}

  void Fetch(Instant deadline, std::function<void(Status)> done) override {
    deadline_ = deadline;
    done_ = std::move(done);
    if (!env_.workers->Post([this] { Begin(); })) End({Code::kExhausted, "the work queue is full"});
  }
  std::vector<FoundTarget> Targets() const override { return targets_; }

 private:
  void Begin() {
    const Status status = Connect();
    env_.io->Post([this, status] { status ? Next() : End(status); });
  }
  // The files of a service account may appear after the agent has started.
  Status Connect() {
    const Options options(config_);
    if (!access_) {
      ASSIGN_OR_RETURN(paths_, Paths(options));
      ASSIGN_OR_RETURN(kubelet::ApiServer server, kubelet::FindApiServer(options.Text("kubeconfig")));
      access_ = std::make_unique<kubelet::ApiAccess>(std::move(server));
    }
    return access_->Refresh();
  }
  void Next() {
    if (answers_.size() == paths_.size()) {
      if (!env_.workers->Post([this] { End(Parse()); })) End({Code::kExhausted, "the work queue is full"});
      return;
    }
    const Duration left = deadline_ - env_.clock->Now();
    call_.Start(*access_, {.target = paths_[answers_.size()],
                           .timeout = std::clamp<Duration>(left, std::chrono::milliseconds(1), kListTime),
                           .most_bytes = kMostListBytes});
    call_.WakeAtEnd([this] {
      answers_.push_back(call_.Take());
      Next();
    });
  }
  Status Parse() {
    std::vector<FoundTarget> found;
    for (size_t i = 0; i < answers_.size(); ++i) {
      const kubelet::ApiCall::Answer& answer = answers_[i];
      const std::string what = "pods of " + paths_[i].substr(0, paths_[i].find('?'));
      RETURN_IF_ERROR(answer.ToStatus(what));
      ASSIGN_OR_RETURN(kubelet::PodList list, kubelet::ParsePodList(answer.body));
      for (const kubelet::Pod& pod : list.pods) Add(pod, found);
    }
    targets_ = std::move(found);
    return Ok();
  }
  // One that is not ready gets no requests, and one that is being stopped counts as no replica any more.
  void Add(const kubelet::Pod& pod, std::vector<FoundTarget>& found) const {
    if (!pod.ready || pod.deleting || pod.ended() || pod.ip.empty()) return;
    if (found.size() >= kMostFound)
      return Log(LogLevel::kWarn, "discovery", "kubernetes_limit",
                 "more than 5000 pods; the rest is left out");
    const auto ip = ParseIp(pod.ip);
    if (!ip) return;
    const Options options(config_);
    FoundTarget target;
    target.name = pod.name;
    const bool ipv6 = pod.ip.find(':') != std::string::npos;
    target.url = "http://" + (ipv6 ? "[" + pod.ip + "]" : pod.ip) + ":" +
                 std::to_string(options.Int("port")) + options.Text("path");
    target.options["kind"] = options.Text("kind");
    if (const Duration interval = options.Time("target_interval"); interval > Duration(0))
      target.options["interval"] =
          std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(interval).count()) + "ms";
    const auto set = [&](std::string_view key, std::string_view value) {
      if (!value.empty()) target.attributes[std::string(key)] = value;
    };
    set("k8s.namespace.name", pod.name_space);
    set("k8s.pod.name", pod.name);
    set("k8s.node.name", pod.node);
    set("k8s.deployment.name", pod.deployment());
    if (pod.owner_kind == "StatefulSet") set("k8s.statefulset.name", pod.owner_name);
    for (const auto& [key, value] : pod.labels)
      for (const std::string& pattern : options.Texts("pod_labels"))
        if (MatchesStars(pattern, key)) set("k8s.pod.label." + key, value);
    found.push_back(std::move(target));
  }
  void End(const Status& status) {
    answers_.clear();
    if (!status)
      Log(LogLevel::kWarn, "discovery", "kubernetes_failed",
          status.detail + "; the last known pods are kept");
    std::exchange(done_, nullptr)(status);
  }

  const Config config_;
  Env& env_;
  std::vector<std::string> paths_;
  std::unique_ptr<kubelet::ApiAccess> access_;
  kubelet::ApiCall call_;
  Instant deadline_;
  std::function<void(Status)> done_;
  std::vector<kubelet::ApiCall::Answer> answers_;
  std::vector<FoundTarget> targets_;
};

Result<std::unique_ptr<Discovery>> Create(const Config& config, Env& env) {
  if (!env.io || !env.http || !env.workers) return Status{Code::kUnavailable, "there is no network here"};
  return std::unique_ptr<Discovery>(std::make_unique<KubernetesDiscovery>(config, env));
}

std::vector<Finding> Probe(const Config& config, Env&) {
  const auto server = kubelet::FindApiServer(Options(config).Text("kubeconfig"));
  if (!server) return {{Finding::kNotHere, "kubernetes", "", server.error().detail, ""}};
  return {{Finding::kFound, "kubernetes", "pods from " + server->url.Shown(), "", ""}};
}

}  // namespace

extern const DiscoverySpec kubernetes_discovery;
const DiscoverySpec kubernetes_discovery{.name = "kubernetes",
                                         .help = "Ready pods of namespaces, by their labels, as targets.",
                                         .on_by_default = false,
                                         .period = seconds(5),
                                         .options = kOptions,
                                         .create = &Create,
                                         .probe = &Probe,
                                         .check = &CheckOptions};

}  // namespace gpulens
