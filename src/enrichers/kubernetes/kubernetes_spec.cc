// The options of the enricher, where it finds what it asks, and what `gpulens doctor` says of it.

#include <unistd.h>

#include <cstdlib>

#include "base/files.h"
#include "base/result.h"
#include "enrichers/kubernetes/kubernetes.h"
#include "sources/kubelet/text/checkpoint.h"
#include "sources/kubelet/text/pod_resources.h"

namespace gpulens::kubernetes {
namespace {

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// What manifests call the downward API's spec.nodeName.
std::string NodeName(const Config& config) {
  if (!config.Text("node_name").empty()) return config.Text("node_name");
  for (const char* name : {"NODE_NAME", "K8S_NODE_NAME", "MY_NODE_NAME"}) {
    if (std::string value = Variable(name); !value.empty()) return value;
  }
  return {};
}

// Below the root where the host's is mounted, else as it is.
std::string SocketPath(const Config& config, const Env& env) {
  const std::string& path = config.Text("pod_resources_socket");
  std::string below = env.root == "/" || env.root.empty() ? path : env.root + path;
  return ::access(below.c_str(), F_OK) == 0 ? below : path;
}

Result<kubelet::ApiServer> FindServer(const Config& config) {
  if (config.Text("api_server") == "off") return Status{Code::kUnavailable, "api_server is off"};
  if (const std::string& path = config.Text("kubeconfig"); !path.empty()) {
    ASSIGN_OR_RETURN(std::string text, ReadFile(path));
    size_t slash = path.rfind('/');
    return kubelet::ParseKubeconfig(text, slash == std::string::npos ? "." : path.substr(0, slash));
  }
  return kubelet::InClusterServer(Variable("KUBERNETES_SERVICE_HOST"), Variable("KUBERNETES_SERVICE_PORT"),
                                  std::string(kubelet::kServiceAccount));
}

Result<std::unique_ptr<Enricher>> Create(const Config& config, Env& env) {
  if (!env.http || !env.io) return Status{Code::kUnavailable, "there is no network here"};
  Options options;
  options.node = NodeName(config);
  options.socket = SocketPath(config, env);
  options.checkpoint = config.Text("checkpoint");
  options.kubelet_timeout = config.Time("kubelet_timeout");
  options.labels = config.Texts("pod_labels");
  auto server = FindServer(config);
  if (server) options.api = std::make_unique<kubelet::ApiAccess>(std::move(*server));
  else if (server.error().code == Code::kInvalidArgument) return std::move(server).error();
  if (!options.api && ::access(options.socket.c_str(), F_OK) != 0)
    return Status{Code::kUnavailable, "this is no node of Kubernetes: no " + options.socket};
  return std::unique_ptr<Enricher>(std::make_unique<KubernetesEnricher>(std::move(options), env));
}

Finding Of(Finding::Kind kind, std::string what, std::string why = {}, std::string remedy = {}) {
  return {kind, "kubernetes", std::move(what), std::move(why), std::move(remedy)};
}

void ProbeKubelet(const Config& config, const Env& env, std::vector<Finding>& out) {
  std::string socket = SocketPath(config, env);
  if (::access(socket.c_str(), F_OK) != 0) {
    out.push_back(Of(Finding::kNotHere, "",
                     "no " + socket + ": GPUs are not named after the pods that hold them",
                     "mount /var/lib/kubelet/pod-resources into the pod, or name the socket: enrichers: "
                     "{kubernetes: {pod_resources_socket: …}}"));
  } else if (::access(socket.c_str(), W_OK) != 0) {
    out.push_back(Of(Finding::kNoPermission, "", socket + " may not be opened", "run the agent as root"));
  } else {
    out.push_back(Of(Finding::kFound, "the kubelet's PodResources at " + socket));
  }
}

std::vector<Finding> Probe(const Config& config, Env& env) {
  std::vector<Finding> out;
  auto server = FindServer(config);
  std::string socket = SocketPath(config, env);
  if (!server && ::access(socket.c_str(), F_OK) != 0 && Variable("KUBERNETES_SERVICE_HOST").empty())
    return {Of(Finding::kNotHere, "", "this is no node of Kubernetes: no " + socket)};
  ProbeKubelet(config, env, out);
  if (!kubelet::SeesHostProcesses(env.root)) {
    out.push_back(Of(Finding::kNoPermission, "",
                     "processes are not the host's: those on GPUs belong to no pod",
                     "hostPID: true in the pod's spec"));
  }
  if (!server) {
    out.push_back(Of(Finding::kNotHere, "", server.error().detail + ": no owners, labels, zone and region",
                     "a service account that may list and watch pods and get nodes"));
  } else if (NodeName(config).empty()) {
    out.push_back(Of(Finding::kBroken, "",
                     "the API server is not asked, for nobody told the name of this node",
                     "NODE_NAME from spec.nodeName in the pod's spec"));
  } else {
    out.push_back(
        Of(Finding::kFound, "the API server at " + server->url.ToString() + ", node " + NodeName(config)));
  }
  return out;
}

constexpr std::string_view kApiServer[] = {"auto", "off"};
constexpr OptionSpec kOptions[] = {
    {.key = "node_name",
     .help = "The name of this node; default: NODE_NAME, K8S_NODE_NAME or MY_NODE_NAME of the environment."},
    {.key = "pod_resources_socket",
     .fallback = kubelet::kPodResourcesSocket,
     .help = "The kubelet's PodResources socket."},
    {.key = "checkpoint",
     .fallback = kubelet::kCheckpointFile,
     .help = "The kubelet's device checkpoint, below `root`; it need not be there."},
    {.key = "kubelet_timeout",
     .type = OptionType::kTime,
     .fallback = "1s",
     .help = "How long the kubelet may take; an answer that comes later counts as none.",
     .min = 0.01,
     .max = 30},
    {.key = "api_server",
     .fallback = "auto",
     .help = "Whether the API server is asked for owners, labels, zone and region; auto: where we may.",
     .allowed = kApiServer},
    {.key = "kubeconfig", .help = "How to get in, outside of a pod."},
    {.key = "pod_labels",
     .type = OptionType::kTexts,
     .fallback = "[app, app.kubernetes.io/name, app.kubernetes.io/instance, app.kubernetes.io/version, "
                 "app.kubernetes.io/component, app.kubernetes.io/part-of, app.kubernetes.io/managed-by, "
                 "ray.io/cluster, ray.io/node-type, ray.io/group, ray.io/is-ray-node]",
     .help = "Labels of pods that become k8s.pod.label.<key>; a name that ends in * stands for all that "
             "begin so."},
    {.key = "interval",
     .type = OptionType::kTime,
     .fallback = "5s",
     .help = "How often the kubelet is asked: after so long at most, a pod's name stands on its series.",
     .min = 0.1},
};

}  // namespace
}  // namespace gpulens::kubernetes

namespace gpulens {

extern const EnricherSpec kubernetes_enricher;
const EnricherSpec kubernetes_enricher{
    .name = "kubernetes",
    .help = "Pods, their owners, labels and zone, for GPUs, MIG slices and processes.",
    .on_by_default = true,
    .period = std::chrono::seconds(5),
    .timeout = std::chrono::seconds(3),
    .options = kubernetes::kOptions,
    .create = &kubernetes::Create,
    .probe = &kubernetes::Probe};

}  // namespace gpulens
