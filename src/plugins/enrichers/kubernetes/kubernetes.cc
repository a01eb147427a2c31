#include "plugins/enrichers/kubernetes/kubernetes.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "base/files.h"
#include "base/log.h"
#include "base/result.h"
#include "base/text.h"
#include "base/threads.h"
#include "net/io_loop.h"
#include "plugins/gpu_pod_table.h"

namespace gpulens::kubernetes {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

// Maximum wait for the first list of pods: series without it would begin again when it comes.
constexpr Duration kFirstListTime = seconds(1);
// Time of a Fetch that is reserved for joining.
constexpr Duration kReserve = milliseconds(50);
constexpr Duration kApiTime = seconds(10);
constexpr Duration kNodeAgain = minutes(10), kSlicesAgain = minutes(5), kFailedAgain = minutes(1);
constexpr std::string_view kSliceVersions[] = {"v1", "v1beta2", "v1beta1"};
constexpr size_t kMostSliceBytes = 32u << 20, kMostNodeBytes = 8u << 20;
constexpr int kNotFound = 404;

Code CodeOf(const GrpcReply& reply) noexcept {
  switch (reply.code) {
    case GrpcCode::kDeadlineExceeded: return Code::kTimeout;
    case GrpcCode::kPermissionDenied:
    case GrpcCode::kUnauthenticated: return Code::kPermissionDenied;
    case GrpcCode::kUnavailable:
    case GrpcCode::kUnimplemented: return Code::kUnavailable;
    case GrpcCode::kResourceExhausted: return Code::kExhausted;
    default: return Code::kIo;
  }
}

}  // namespace

KubernetesEnricher::KubernetesEnricher(KubernetesOptions options, Env& env)
    : env_(env),
      options_(std::move(options)),
      lookup_(options_.root),
      files_(options_.root, options_.checkpoint),
      grpc_(*env.io),
      rules_{.labels = options_.labels, .node = options_.node, .zone = {}, .region = {}},
      node_call_(*env.http),
      slices_call_(*env.http),
      table_(std::make_shared<const WorkloadTable>()) {
  GrpcTarget target{
      .url = {}, .unix_socket = options_.socket, .answer_bytes = kubelet::kMostPodResourcesBytes};
  target.url.host = "localhost";
  target.url.port = 80;
  channel_ = grpc_.Open(std::move(target));
  if (options_.api && !options_.node.empty()) {
    watch_ = std::make_unique<kubelet::PodWatch>(*env.http, options_.node);
    api_status_ = options_.api->Refresh();
  }
  Publish({});
}

KubernetesEnricher::~KubernetesEnricher() {
  if (env_.gpu_pods) env_.gpu_pods->Clear(this);
}

void KubernetesEnricher::Fetch(Instant deadline, std::function<void(Status)> done) {
  const Instant now = env_.clock->Now();
  deadline_ = deadline;
  done_ = std::move(done);
  if (watch_ && api_status_.ok()) {
    watch_->Begin(*options_.api, now);
    StartApiCalls();
  }
  Duration left = std::max(deadline - now - kReserve, Duration(milliseconds(1)));
  GrpcCall call{.path = kubelet::kPodResourcesList,
                .headers = {},
                .message = nullptr,
                .gzip = false,
                .tls = nullptr,
                .timeout = std::min(options_.kubelet_timeout, left)};
  channel_->Call(std::move(call), [this](GrpcReply& reply) { OnKubelet(reply); });
}

void KubernetesEnricher::StartApiCalls() {
  const int64_t now_ns = env_.clock->Now().boot_ns;
  if (!node_call_.busy() && !node_call_.ended() && now_ns >= next_node_ns_) {
    node_call_.Start(
        *options_.api,
        {.target = "/api/v1/nodes/" + options_.node, .timeout = kApiTime, .most_bytes = kMostNodeBytes});
    next_node_ns_ = now_ns + Duration(kNodeAgain).count();
  }
  bool claims = table_->unknown_claims != 0 || !slices_.empty();
  if (claims && !slices_call_.busy() && !slices_call_.ended() && now_ns >= next_slices_ns_) {
    std::string version(kSliceVersions[slices_version_]);
    slices_call_.Start(*options_.api,
                       {.target = "/apis/resource.k8s.io/" + version +
                                  "/resourceslices?fieldSelector=spec.nodeName%3D" + options_.node,
                        .timeout = kApiTime,
                        .most_bytes = kMostSliceBytes});
    next_slices_ns_ = now_ns + Duration(kSlicesAgain).count();
  }
}

void KubernetesEnricher::OnKubelet(GrpcReply& reply) {
  reply_ = std::move(reply);
  if (!watch_ || !api_status_.ok()) return Work();
  if (watch_->first_list_busy()) return AwaitList(deadline_);
  watch_->TakeList();  // it may have come before the kubelet's answer
  Work();
}

void KubernetesEnricher::AwaitList(Instant deadline) {
  Duration left = std::min(kFirstListTime, deadline - env_.clock->Now() - kReserve);
  waiting_ = true;
  auto go_on = [this] {
    if (!std::exchange(waiting_, false)) return;
    env_.io->Cancel(timer_);
    watch_->WakeAtEnd({});
    watch_->TakeList();
    Work();
  };
  watch_->WakeAtEnd(go_on);
  timer_ = env_.io->After(std::max(left, Duration{}), go_on);
}

// Joins on a worker, then sends the next requests on the loop.
void KubernetesEnricher::Work() {
  node_answer_.reset();
  slices_answer_.reset();
  if (node_call_.ended()) node_answer_ = node_call_.Take();
  if (slices_call_.ended()) slices_answer_ = slices_call_.Take();
  bool posted = env_.workers && env_.workers->Post([this] {
    const Instant now = env_.clock->Now();
    if (watch_ && api_status_.ok()) watch_->Parse(now);
    if (node_answer_) TakeNode(*node_answer_);
    if (slices_answer_) TakeSlices(*slices_answer_);
    TakeHolders();
    if (watch_) api_status_ = options_.api->Refresh();
    env_.io->Post([this] { Finish(); });
  });
  if (posted) return;
  std::exchange(done_, nullptr)({Code::kExhausted, "the work queue is full"});
}

void KubernetesEnricher::TakeNode(const kubelet::ApiCall::Answer& answer) {
  Status status = answer.ToStatus("node " + options_.node);
  if (status.ok()) {
    auto node = kubelet::ParseNode(answer.body);
    if (node) {
      rules_.zone = std::move(node->zone);
      rules_.region = std::move(node->region);
      return;
    }
    status = std::move(node).error();
  }
  next_node_ns_ = env_.clock->Now().boot_ns + Duration(kFailedAgain).count();
  Log(LogLevel::kInfo, "kubernetes", "node", status.detail + "; zone and region are not reported", "node");
}

void KubernetesEnricher::TakeSlices(const kubelet::ApiCall::Answer& answer) {
  Status status = answer.ToStatus("resource slices");
  if (status.ok()) {
    auto list = kubelet::ParseResourceSlices(answer.body);
    if (list) {
      slices_ = std::move(list->devices);
      return;
    }
    status = std::move(list).error();
  }
  next_slices_ns_ = env_.clock->Now().boot_ns + Duration(kFailedAgain).count();
  // The server lacks this version: the next one is tried at once.
  if (answer.status == kNotFound) {
    slices_version_ = (slices_version_ + 1) % std::size(kSliceVersions);
    if (slices_version_ != 0) next_slices_ns_ = 0;
  }
  Log(LogLevel::kInfo, "kubernetes", "slices", status.detail + "; devices of claims are not reported",
      "slices");
}

void KubernetesEnricher::TakeHolders() {
  const int64_t now_ns = env_.clock->Now().boot_ns;
  // Read after the kubelet has answered, so that the files are not older than its answer.
  (void)files_.ReadCheckpoint().ok();
  files_.ReadLogs();
  WorkloadSources sources;
  sources.checkpoint = files_.checkpoint_known() ? &files_.checkpoint() : nullptr;
  sources.api = watch_ ? &watch_->store() : nullptr;
  sources.log_pods = &files_.pods();
  sources.log_containers = &files_.containers();
  sources.slices = &slices_;
  kubelet_status_ = reply_.code == GrpcCode::kOk ? Ok() : Status{CodeOf(reply_), reply_.message};
  if (kubelet_status_.ok()) {
    auto holders = kubelet::ParsePodResources(reply_.answer);
    if (holders) {
      holders_ = std::move(*holders);
      NoteUids(sources, holders_);
      have_holders_ = true;
      holders_at_ns_ = now_ns;
    } else {
      kubelet_status_ = std::move(holders).error();
    }
  }
  reply_ = {};
  if (!kubelet_status_.ok()) {
    kubelet_status_.detail = "kubelet (" + options_.socket + "): " + kubelet_status_.detail;
    sources.holders_are_old = true;
    if (now_ns - holders_at_ns_ > kRemembered.count()) have_holders_ = false;
  }
  sources.holders = have_holders_ ? &holders_ : nullptr;
  Publish(Join(sources, rules_));
}

void KubernetesEnricher::Publish(WorkloadTable table) {
  if (env_.gpu_pods) {
    GpuPodTable::List holdings = lookup_.Holdings(table);
    // An equal list is kept, so that readers need not compare.
    auto present = env_.gpu_pods->Get();
    if (!present || *present != holdings) env_.gpu_pods->Set(this, std::move(holdings));
  }
  std::vector<AttributeSet::Attribute> node;
  for (auto [key, value] : {std::pair<std::string_view, std::string_view>{"k8s.node.name", rules_.node},
                            {"cloud.availability_zone", rules_.zone},
                            {"cloud.region", rules_.region}}) {
    if (!value.empty()) node.push_back({key, value});
  }
  AttributeSet resource(node);
  Gaps gaps{.kubelet_answers = kubelet_status_.ok() && have_holders_,
            .api_answers = watch_ && watch_->store().synced && watch_->status().ok(),
            .unknown_ids = table.unknown_ids,
            .unknown_claims = table.unknown_claims,
            .conflicts = table.conflicts};
  std::lock_guard lock(mutex_);
  gaps_ = gaps;
  bool same = *table_ == table && resource_ == resource;
  if (same) return;
  table_ = std::make_shared<const WorkloadTable>(std::move(table));
  resource_ = std::move(resource);
  ++generation_;
}

// Logs each obstacle; the log limits how often. A failure of the kubelet is Fetch's status.
void KubernetesEnricher::Report() {
  if (watch_ && !watch_->status().ok())
    Log(LogLevel::kWarn, "kubernetes", "api",
        watch_->status().detail + "; owners and labels are not reported", "api");
  else if (!api_status_.ok()) Log(LogLevel::kWarn, "kubernetes", "api", api_status_.detail, "api");
  Gaps now = gaps();
  // After the agent's start the pods are known before the GPUs: only repeated gaps are logged.
  const bool unresolved = now.unresolved != 0 && std::exchange(was_unresolved_, now.unresolved != 0);
  if (now.unresolved == 0) was_unresolved_ = false;
  if (unresolved) {
    Log(LogLevel::kWarn, "kubernetes", "unresolved",
        std::to_string(now.unresolved) +
            " devices that pods hold are not among the GPUs that this agent reads: no series names "
            "those pods",
        "unresolved");
  }
  if (now.unknown_ids + now.unknown_claims + now.conflicts == 0) return;
  Log(LogLevel::kWarn, "kubernetes", "unknown",
      std::to_string(now.unknown_ids) + " device ids are in no known form, " +
          std::to_string(now.unknown_claims) + " claimed devices are in no resource slice, " +
          std::to_string(now.conflicts) + " devices seem to be held by two pods: their GPUs carry no pod",
      "unknown");
}

void KubernetesEnricher::Finish() {
  Report();
  if (watch_ && api_status_.ok()) watch_->End(*options_.api, env_.clock->Now());
  std::exchange(done_, nullptr)(kubelet_status_);
}

AttributeSet KubernetesEnricher::Describe(const Entity& entity) const {
  std::shared_ptr<const WorkloadTable> table;
  {
    std::lock_guard lock(mutex_);
    table = table_;
  }
  bool learned = false;
  AttributeSet out = lookup_.Describe(*table, entity, learned);
  if (learned) ++generation_;
  return out;
}

AttributeSet KubernetesEnricher::Resource() const {
  std::lock_guard lock(mutex_);
  return resource_;
}

uint64_t KubernetesEnricher::missing() const {
  Gaps now = gaps();
  return !now.kubelet_answers + (options_.api && !now.api_answers) + !lookup_.sees_processes() +
         now.unknown_ids + now.unknown_claims + now.conflicts + now.unresolved;
}

KubernetesEnricher::Gaps KubernetesEnricher::gaps() const {
  std::shared_ptr<const WorkloadTable> table;
  Gaps now;
  {
    std::lock_guard lock(mutex_);
    table = table_;
    now = gaps_;
  }
  now.unresolved = lookup_.CountUnresolved(*table);
  return now;
}

namespace {

constexpr std::string_view kApiServer[] = {"auto", "off"};
constexpr OptionSpec kOptions[] = {
    TextOption("node_name", {},
               "Name of this node; default: the variable NODE_NAME, K8S_NODE_NAME or MY_NODE_NAME."),
    TextOption("root", "/",
               "Root of the host's files: \"/host\" in a container that has them mounted there."),
    TextOption("pod_resources_socket", kubelet::kPodResourcesSocket, "The kubelet's PodResources socket."),
    TextOption("checkpoint", kubelet::kCheckpointFile,
               "The kubelet's device checkpoint, below `root`; it need not be there."),
    TimeOption("kubelet_timeout", "1s", "Timeout of one request to the kubelet.", 0.01, 30),
    TextOption("api_server", "auto",
               "Query the API server for owners, labels, zone and region; auto: where it is allowed.",
               kApiServer),
    TextOption("kubeconfig", {}, "kubeconfig file, for use outside of a pod."),
    TextsOption("pod_labels",
                "[app, app.kubernetes.io/name, app.kubernetes.io/instance, app.kubernetes.io/version, "
                "app.kubernetes.io/component, app.kubernetes.io/part-of, app.kubernetes.io/managed-by, "
                "ray.io/cluster, ray.io/node-type, ray.io/group, ray.io/is-ray-node]",
                "Labels of pods that become k8s.pod.label.<key>; a trailing * matches any text."),
    TimeOption(
        "interval", "5s",
        "How often the kubelet is queried: the longest time until the series of a new pod have its name.",
        0.1),
};
using Options = OptionsOf<kOptions>;

std::string NodeName(const Options& options) { return kubelet::NodeName(options.Text("node_name")); }

std::string RootOf(const Options& options, const Env& env) {
  const std::string& root = options.Text("root");
  return root == "/" ? env.root : root;
}

// Returns the path below the root where the host's is mounted, else unchanged.
std::string SocketPath(const Options& options, const Env& env) {
  const std::string &path = options.Text("pod_resources_socket"), root = RootOf(options, env);
  std::string below = root == "/" || root.empty() ? path : root + path;
  return ::access(below.c_str(), F_OK) == 0 ? below : path;
}

Result<kubelet::ApiServer> FindServer(const Options& options) {
  if (options.Text("api_server") == "off") return Status{Code::kUnavailable, "api_server is off"};
  return kubelet::FindApiServer(options.Text("kubeconfig"));
}

// Whether pods run here, by files: then the cgroups of processes identify pods also without the kubelet.
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
  const Options options(config);
  KubernetesOptions out{.root = RootOf(options, env),
                        .node = NodeName(options),
                        .socket = SocketPath(options, env),
                        .checkpoint = options.Text("checkpoint"),
                        .kubelet_timeout = options.Time("kubelet_timeout"),
                        .labels = options.Texts("pod_labels"),
                        .api = nullptr};
  auto server = FindServer(options);
  if (server) out.api = std::make_unique<kubelet::ApiAccess>(std::move(*server));
  else if (server.error().code == Code::kInvalidArgument) return std::move(server).error();
  if (!out.api && ::access(out.socket.c_str(), F_OK) != 0 && !HasPods(out.root))
    return Status{Code::kUnavailable, "not a node of Kubernetes: no " + out.socket};
  return std::unique_ptr<Enricher>(std::make_unique<KubernetesEnricher>(std::move(out), env));
}

Finding Found(Finding::Kind kind, std::string what, std::string why = {}, std::string remedy = {}) {
  return {kind, "kubernetes", std::move(what), std::move(why), std::move(remedy)};
}

void ProbeKubelet(const Options& config, const Env& env, std::vector<Finding>& out) {
  std::string socket = SocketPath(config, env);
  if (::access(socket.c_str(), F_OK) != 0) {
    out.push_back(Found(Finding::kNotHere, "",
                        "no " + socket + ": series of GPUs do not name the pods that hold them",
                        "mount /var/lib/kubelet/pod-resources into the pod, or name the socket: enrichers: "
                        "{kubernetes: {pod_resources_socket: …}}"));
  } else if (::access(socket.c_str(), W_OK) != 0) {
    out.push_back(Found(Finding::kNoPermission, "", socket + " may not be opened", "run the agent as root"));
  } else {
    out.push_back(Found(Finding::kFound, "the kubelet's PodResources at " + socket));
  }
}

// Returns the UUIDs of the GPUs of NVIDIA's driver; empty where they are unknown.
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

// Warns of devices in the kubelet's checkpoint that match no GPU of this node.
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
    if (!vendor && !kubelet::NamesGpu(entry.resource)) continue;
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
  out.push_back(Found(Finding::kWarning, "",
                      std::to_string(unnamed) + " devices held by pods match no GPU of this node (" +
                          example + "): no series names those pods",
                      "see gpulens_enricher_missing, and docs/kubernetes.md for the ids that are known"));
}

std::vector<Finding> Probe(const Config& config, Env& env) {
  std::vector<Finding> out;
  auto server = FindServer(config);
  std::string socket = SocketPath(config, env);
  if (!server && ::access(socket.c_str(), F_OK) != 0 && !HasPods(RootOf(config, env)))
    return {Found(Finding::kNotHere, "", "not a node of Kubernetes: no " + socket)};
  ProbeKubelet(config, env, out);
  ProbeDevices(RootOf(config, env), Options(config).Text("checkpoint"), out);
  if (!kubelet::SeesHostProcesses(RootOf(config, env))) {
    out.push_back(Found(Finding::kNoPermission, "",
                        "processes are not the host's: processes on GPUs cannot be assigned to pods",
                        "hostPID: true in the pod's spec"));
  }
  if (!server) {
    out.push_back(Found(Finding::kNotHere, "", server.error().detail + ": no owners, labels, zone and region",
                        "a service account that may list and watch pods and get nodes"));
  } else if (NodeName(config).empty()) {
    out.push_back(Found(Finding::kBroken, "",
                        "the API server is not queried, as the name of this node is unknown",
                        "NODE_NAME from spec.nodeName in the pod's spec"));
  } else {
    out.push_back(
        Found(Finding::kFound, "the API server at " + server->url.ToString() + ", node " + NodeName(config)));
  }
  return out;
}

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
