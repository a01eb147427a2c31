// The options of the enricher, where it finds what it asks, and what `gpulens doctor` says of it.

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <set>

#include "base/files.h"
#include "base/result.h"
#include "base/text.h"
#include "plugins/enrichers/kubernetes/kubernetes.h"
#include "sources/kubelet/parse/checkpoint.h"
#include "sources/kubelet/parse/device_id.h"
#include "sources/kubelet/parse/pod_resources.h"

namespace gpulens::kubernetes {
namespace {

std::string NodeName(const Config& config) {
  const std::string& told = config.Text("node_name");
  return told.empty() ? kubelet::NodeNameFromEnvironment() : told;
}

std::string RootOf(const Config& config, const Env& env) {
  const std::string& root = config.Text("root");
  return root == "/" ? env.root : root;
}

// Below the root where the host's is mounted, else as it is.
std::string SocketPath(const Config& config, const Env& env) {
  const std::string &path = config.Text("pod_resources_socket"), root = RootOf(config, env);
  std::string below = root == "/" || root.empty() ? path : root + path;
  return ::access(below.c_str(), F_OK) == 0 ? below : path;
}

Result<kubelet::ApiServer> FindServer(const Config& config) {
  if (config.Text("api_server") == "off") return Status{Code::kUnavailable, "api_server is off"};
  return kubelet::FindApiServer(config.Text("kubeconfig"));
}

// Whether pods run here, as far as files tell: then processes are told by their cgroups also while the
// kubelet does not answer.
bool HasPods(const std::string& root) {
  if (std::getenv("KUBERNETES_SERVICE_HOST")) return true;
  const std::string below = root == "/" ? std::string() : root;
  if (::access((below + "/var/lib/kubelet/pods").c_str(), F_OK) == 0) return true;
  for (const char* top : {"", "/systemd", "/memory", "/pids"}) {
    for (const char* name : {"/kubepods", "/kubepods.slice", "/kubelet.slice", "/kubelet"}) {
      if (::access((below + "/sys/fs/cgroup" + top + name).c_str(), F_OK) == 0) return true;
    }
  }
  return false;
}

Result<std::unique_ptr<Enricher>> Create(const Config& config, Env& env) {
  if (!env.http || !env.io) return Status{Code::kUnavailable, "there is no network here"};
  Options options;
  options.root = RootOf(config, env);
  options.node = NodeName(config);
  options.socket = SocketPath(config, env);
  options.checkpoint = config.Text("checkpoint");
  options.kubelet_timeout = config.Time("kubelet_timeout");
  options.labels = config.Texts("pod_labels");
  auto server = FindServer(config);
  if (server) options.api = std::make_unique<kubelet::ApiAccess>(std::move(*server));
  else if (server.error().code == Code::kInvalidArgument) return std::move(server).error();
  if (!options.api && ::access(options.socket.c_str(), F_OK) != 0 && !HasPods(options.root))
    return Status{Code::kUnavailable, "not a node of Kubernetes: no " + options.socket};
  return std::unique_ptr<Enricher>(std::make_unique<KubernetesEnricher>(std::move(options), env));
}

Finding Of(Finding::Kind kind, std::string what, std::string why = {}, std::string remedy = {}) {
  return {kind, "kubernetes", std::move(what), std::move(why), std::move(remedy)};
}

void ProbeKubelet(const Config& config, const Env& env, std::vector<Finding>& out) {
  std::string socket = SocketPath(config, env);
  if (::access(socket.c_str(), F_OK) != 0) {
    out.push_back(Of(Finding::kNotHere, "",
                     "no " + socket + ": series of GPUs do not name the pods that hold them",
                     "mount /var/lib/kubelet/pod-resources into the pod, or name the socket: enrichers: "
                     "{kubernetes: {pod_resources_socket: …}}"));
  } else if (::access(socket.c_str(), W_OK) != 0) {
    out.push_back(Of(Finding::kNoPermission, "", socket + " may not be opened", "run the agent as root"));
  } else {
    out.push_back(Of(Finding::kFound, "the kubelet's PodResources at " + socket));
  }
}

// The UUIDs of the GPUs that NVIDIA's driver shows; empty where it shows none, or not what they are.
std::set<std::string> DriverUuids(const std::string& root) {
  std::set<std::string> out;
  std::error_code error;
  const std::string folder = (root == "/" ? "" : root) + "/proc/driver/nvidia/gpus";
  for (const auto& gpu : std::filesystem::directory_iterator(folder, error)) {
    auto text = ReadFile(gpu.path().string() + "/information");
    size_t at = text ? text->find("GPU-") : std::string::npos;
    if (at == std::string::npos) return {};
    std::string uuid = text->substr(at, text->find_first_of(" \n", at) - at);
    if (uuid.find('?') != std::string::npos) return {};  // not until the GPU is first used
    out.insert(std::move(uuid));
  }
  return out;
}

// Devices that pods hold, as the kubelet's checkpoint has them, which lead to no GPU of this node.
void ProbeDevices(const std::string& root, const std::string& checkpoint, std::vector<Finding>& out) {
  auto text = ReadFile((root == "/" ? "" : root) + checkpoint, kubelet::kMostCheckpointBytes);
  auto entries =
      text ? kubelet::ParseCheckpoint(*text) : Result<std::vector<kubelet::CheckpointEntry>>(text.error());
  if (!entries) return;
  const std::set<std::string> here = DriverUuids(root);
  size_t unnamed = 0;
  std::string example;
  for (const kubelet::CheckpointEntry& entry : *entries) {
    auto vendor = kubelet::GpuVendorOf(entry.resource);
    if (!vendor && !kubelet::SaysGpu(entry.resource)) continue;
    for (const std::string& id : entry.ids) {
      auto device = vendor ? kubelet::ParseDeviceId(*vendor, id) : kubelet::ParseRenamedId(id);
      bool known = device && device->kind != kubelet::DeviceId::Kind::kPartition;
      if (known && device->kind == kubelet::DeviceId::Kind::kGpu && !here.empty())
        known = here.contains(device->uuid);
      if (known) continue;
      if (unnamed++ == 0) AppendPrintable(example, entry.resource + " " + id);
    }
  }
  if (unnamed == 0) return;
  out.push_back(Of(Finding::kWarning, "",
                   std::to_string(unnamed) + " devices held by pods match no GPU of this node (" + example +
                       "): no series names those pods",
                   "see gpulens_enricher_missing, and docs/kubernetes.md for the ids that are known"));
}

std::vector<Finding> Probe(const Config& config, Env& env) {
  std::vector<Finding> out;
  auto server = FindServer(config);
  std::string socket = SocketPath(config, env);
  if (!server && ::access(socket.c_str(), F_OK) != 0 && !HasPods(RootOf(config, env)))
    return {Of(Finding::kNotHere, "", "not a node of Kubernetes: no " + socket)};
  ProbeKubelet(config, env, out);
  ProbeDevices(RootOf(config, env), config.Text("checkpoint"), out);
  if (!kubelet::SeesHostProcesses(RootOf(config, env))) {
    out.push_back(Of(Finding::kNoPermission, "",
                     "processes are not the host's: processes on GPUs cannot be assigned to pods",
                     "hostPID: true in the pod's spec"));
  }
  if (!server) {
    out.push_back(Of(Finding::kNotHere, "", server.error().detail + ": no owners, labels, zone and region",
                     "a service account that may list and watch pods and get nodes"));
  } else if (NodeName(config).empty()) {
    out.push_back(Of(Finding::kBroken, "",
                     "the API server is not queried, as the name of this node is unknown",
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
     .help = "Name of this node; default: the variable NODE_NAME, K8S_NODE_NAME or MY_NODE_NAME."},
    {.key = "root",
     .fallback = "/",
     .help = "Root of the host's files: \"/host\" in a container that has them mounted there."},
    {.key = "pod_resources_socket",
     .fallback = kubelet::kPodResourcesSocket,
     .help = "The kubelet's PodResources socket."},
    {.key = "checkpoint",
     .fallback = kubelet::kCheckpointFile,
     .help = "The kubelet's device checkpoint, below `root`; it need not be there."},
    {.key = "kubelet_timeout",
     .type = OptionType::kTime,
     .fallback = "1s",
     .help = "Timeout of one request to the kubelet.",
     .min = 0.01,
     .max = 30},
    {.key = "api_server",
     .fallback = "auto",
     .help = "Query the API server for owners, labels, zone and region; auto: where it is allowed.",
     .allowed = kApiServer},
    {.key = "kubeconfig", .help = "kubeconfig file, for use outside of a pod."},
    {.key = "pod_labels",
     .type = OptionType::kTexts,
     .fallback = "[app, app.kubernetes.io/name, app.kubernetes.io/instance, app.kubernetes.io/version, "
                 "app.kubernetes.io/component, app.kubernetes.io/part-of, app.kubernetes.io/managed-by, "
                 "ray.io/cluster, ray.io/node-type, ray.io/group, ray.io/is-ray-node]",
     .help = "Labels of pods that become k8s.pod.label.<key>; a trailing * matches any text."},
    {.key = "interval",
     .type = OptionType::kTime,
     .fallback = "5s",
     .help =
         "How often the kubelet is queried: the longest time until the series of a new pod have its name.",
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
