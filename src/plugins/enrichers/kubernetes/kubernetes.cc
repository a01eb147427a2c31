#include "plugins/enrichers/kubernetes/kubernetes.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/workers.h"
#include "net/io_loop.h"
#include "plugins/gpu_pod_table.h"

namespace gpulens::kubernetes {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

// The first list of pods is worth so much waiting: without it all series would begin anew when it comes.
constexpr Duration kFirstListTime = seconds(1);
// What is left of a Fetch's time for the joining.
constexpr Duration kReserve = milliseconds(50);
constexpr Duration kApiTime = seconds(10);
constexpr Duration kNodeAgain = minutes(10), kSlicesAgain = minutes(5), kFailedAgain = minutes(1);
constexpr std::string_view kSliceVersions[] = {"v1", "v1beta2", "v1beta1"};
constexpr size_t kMostSliceBytes = 32u << 20, kMostNodeBytes = 8u << 20;
constexpr int kNotFound = 404;

Status StatusOf(const kubelet::ApiCall::Answer& answer, std::string_view what) {
  if (answer.failure == HttpFailure::kNone) return Ok();
  return {HttpFailureCode(answer.failure), std::string(what) + ": " + answer.detail};
}

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

KubernetesEnricher::KubernetesEnricher(Options options, Env& env)
    : env_(env),
      options_(std::move(options)),
      lookup_(options_.root),
      files_(options_.root, options_.checkpoint),
      grpc_(*env.io),
      rules_{.labels = options_.labels, .node = options_.node, .zone = {}, .region = {}},
      node_call_(*env.http),
      slices_call_(*env.http),
      table_(std::make_shared<const Table>()) {
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

// Joins on a worker, then asks for what comes next, on the loop.
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
  Status status = StatusOf(answer, "node " + options_.node);
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
  Status status = StatusOf(answer, "resource slices");
  if (status.ok()) {
    auto list = kubelet::ParseResourceSlices(answer.body);
    if (list) {
      slices_ = std::move(list->devices);
      return;
    }
    status = std::move(list).error();
  }
  next_slices_ns_ = env_.clock->Now().boot_ns + Duration(kFailedAgain).count();
  // A server of another version: the next one is asked at once.
  if (answer.status == kNotFound) {
    slices_version_ = (slices_version_ + 1) % std::size(kSliceVersions);
    if (slices_version_ != 0) next_slices_ns_ = 0;
  }
  Log(LogLevel::kInfo, "kubernetes", "slices", status.detail + "; devices of claims are not reported",
      "slices");
}

void KubernetesEnricher::TakeHolders() {
  const int64_t now_ns = env_.clock->Now().boot_ns;
  // Read after the kubelet has answered, so that they are not older than its answer.
  (void)files_.ReadCheckpoint().ok();
  files_.ReadLogs();
  Sources sources;
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

void KubernetesEnricher::Publish(Table table) {
  if (env_.gpu_pods) {
    GpuPodTable::List holdings = lookup_.Holdings(table);
    // The same list is left alone: whoever has it written need not compare.
    auto present = env_.gpu_pods->Get();
    if (!present || *present != holdings) env_.gpu_pods->Set(this, std::move(holdings));
  }
  std::vector<AttributeSet::Attribute> node;
  for (auto [key, value] : {std::pair<std::string_view, std::string_view>{"k8s.node.name", rules_.node},
                            {"cloud.availability_zone", rules_.zone},
                            {"cloud.region", rules_.region}}) {
    if (!value.empty()) node.push_back({key, value});
  }
  AttributeSet resource{std::span<const AttributeSet::Attribute>(node)};
  Gaps gaps{.kubelet_answers = kubelet_status_.ok() && have_holders_,
            .api_answers = watch_ && watch_->store().synced && watch_->status().ok(),
            .unknown_ids = table.unknown_ids,
            .unknown_claims = table.unknown_claims,
            .conflicts = table.conflicts};
  std::lock_guard lock(mutex_);
  gaps_ = gaps;
  bool same = *table_ == table && resource_ == resource;
  if (same) return;
  table_ = std::make_shared<const Table>(std::move(table));
  resource_ = std::move(resource);
  ++generation_;
}

// What stands in the way, a line for each; the log limits how often. That the kubelet fails is Fetch's
// status.
void KubernetesEnricher::Report() {
  if (watch_ && !watch_->status().ok())
    Log(LogLevel::kWarn, "kubernetes", "api",
        watch_->status().detail + "; owners and labels are not reported", "api");
  else if (!api_status_.ok()) Log(LogLevel::kWarn, "kubernetes", "api", api_status_.detail, "api");
  Gaps now = gaps();
  // After the agent's start the pods are known before the GPUs: what is not here twice is told.
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
  std::shared_ptr<const Table> table;
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
  std::shared_ptr<const Table> table;
  Gaps now;
  {
    std::lock_guard lock(mutex_);
    table = table_;
    now = gaps_;
  }
  now.unresolved = lookup_.CountUnresolved(*table);
  return now;
}

}  // namespace gpulens::kubernetes
