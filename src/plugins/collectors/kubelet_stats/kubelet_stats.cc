// Collector of the usage of pods and containers, from the kubelet of this node: /stats/summary, and OOM kills
// from its /metrics/cadvisor.

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/files.h"
#include "base/log.h"
#include "base/result.h"
#include "base/threads.h"
#include "catalog/kubernetes.h"
#include "net/message/address.h"
#include "plugins/collectors/kubelet_stats/kubelet_stats.h"
#include "plugins/plugin.h"
#include "plugins/remote_access.h"
#include "sources/kubelet/api/api_server.h"

namespace gpulens {
namespace {

using kubelet::UsageStats;

constexpr std::array<const MetricDesc*, 6> kNodeRows = {&kK8sNodeCpuTime,     &kK8sNodeCpuUsage,
                                                        &kK8sNodeMemoryUsage, &kK8sNodeMemoryWorkingSet,
                                                        &kK8sNodeMemoryRss,   &kK8sNodeMemoryAvailable};
constexpr std::array<const MetricDesc*, 6> kPodRows = {&kK8sPodCpuTime,     &kK8sPodCpuUsage,
                                                       &kK8sPodMemoryUsage, &kK8sPodMemoryWorkingSet,
                                                       &kK8sPodMemoryRss,   &kK8sPodMemoryAvailable};
constexpr std::array<const MetricDesc*, 6> kContainerRows = {
    &kContainerCpuTime,          &kContainerCpuUsage,  &kContainerMemoryUsage,
    &kContainerMemoryWorkingSet, &kContainerMemoryRss, &kContainerMemoryAvailable};

using kubelet::ApiAccess;
using kubelet::ApiCall;
using kubelet::ApiServer;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Reserved of a run's time for parsing.
constexpr Duration kMostReserve = milliseconds(500);
constexpr size_t kMostPageBytes = 64u << 20;

// Options of kTransportOptions that apply to a kubelet.
constexpr OptionSpec kKubeletTransport[] = {
    TimeOption("timeout", {}, "Timeout of one request; default: 10s."),
    TextOption("bearer_token_file", {},
               "A file with the token; default in a pod: its service account's. Read again when it changes."),
    GroupOption("tls", "For https.", kTlsOptions),
};
constexpr OptionSpec kOptions[] = {
    UrlOption("url", {},
              "URL of the kubelet; default in a pod: https://$NODE_IP:10250, or the loopback address."),
    BoolOption("oom_kills", true, "Read OOM kills from /metrics/cadvisor."),
    GroupOption(kTransportKey, "How to connect: timeout, authentication, TLS.", kKubeletTransport),
};
using Options = OptionsOf<kOptions>;
using Transport = OptionsOf<kKubeletTransport>;

std::string ServiceAccount(std::string_view file) {
  return std::string(kubelet::kServiceAccount) + "/" + std::string(file);
}

// The configured kubelet, or, in a pod, the one of this node.
Result<ApiServer> FindKubelet(const Options& options) {
  ApiServer server;
  std::string url = options.Text("url");
  const bool in_pod = MarkOf(ServiceAccount("token")).there();
  if (url.empty()) {
    if (!in_pod)
      return Status{Code::kUnavailable, "not a pod with a service account, and no url is configured"};
    const char* node = std::getenv("NODE_IP");
    std::string host = node && *node ? node : "127.0.0.1";
    if (host.find(':') != std::string::npos) host = "[" + host + "]";
    url = "https://" + host + ":10250";
  }
  ASSIGN_OR_RETURN(server.url, ParseHttpUrl(url));
  while (server.url.target.ends_with('/')) server.url.target.pop_back();
  const Transport transport = options.Group(kTransportKey);
  ReadTls(transport.Group("tls"), server.tls);
  if (server.tls.certificate.empty() != server.tls.key.empty())
    return Status{Code::kInvalidArgument, "tls.cert_file and tls.key_file must be set together"};
  server.token_file = transport.Text("bearer_token_file");
  // The account's token is never sent unencrypted.
  if (in_pod && server.url.tls) {
    if (server.token_file.empty()) server.token_file = ServiceAccount("token");
    if (server.tls.ca.empty() && !server.tls.insecure_skip_verify)
      server.tls.ca.file = ServiceAccount("ca.crt");
  }
  return server;
}

class KubeletStats final : public Collector {
 public:
  KubeletStats(const Options& options, ApiServer server, Env& env)
      : env_(env),
        timeout_(RequestTimeout(options.Group(kTransportKey), seconds(10))),
        oom_(options.Bool("oom_kills")),
        access_(std::move(server)),
        summary_(*env.http),
        cadvisor_(*env.http) {
    accessible_ = access_.Refresh();
  }

  bool fetches() const noexcept override { return true; }

  void Fetch(Instant deadline, std::function<void(Status)> done) override {
    if (!accessible_) return Parse(std::move(done));
    Duration left = deadline - env_.clock->Now();
    left -= std::min(left / 10, kMostReserve);
    Duration timeout = std::max(std::min(timeout_, left), Duration(milliseconds(1)));
    waiting_ = 1 + oom_;
    auto ended = [this, done = std::move(done)]() {
      if (--waiting_ == 0) Parse(done);
    };
    summary_.Start(
        access_, {.target = "/stats/summary", .timeout = timeout, .most_bytes = kubelet::kMostSummaryBytes});
    summary_.WakeAtEnd(ended);
    if (!oom_) return;
    cadvisor_.Start(access_,
                    {.target = "/metrics/cadvisor", .timeout = timeout, .most_bytes = kMostPageBytes});
    cadvisor_.WakeAtEnd(ended);
  }

  Status Collect(FrameWriter& out) override {
    if (!status_) return status_;
    series_.Write(stats_, out);
    if (have_events_) series_.WriteKills(events_, out);
    return Ok();
  }

 private:
  // Parses the answers on a worker, for Collect.
  void Parse(std::function<void(Status)> done) {
    summary_answer_ = summary_.ended() ? summary_.Take() : ApiCall::Answer{};
    cadvisor_answer_ = cadvisor_.ended() ? cadvisor_.Take() : ApiCall::Answer{};
    bool posted = env_.workers && env_.workers->Post([this, done] {
      status_ = accessible_.ok() ? ReadSummary() : accessible_;
      have_events_ = accessible_.ok() && oom_ && ReadEvents();
      accessible_ = access_.Refresh();
      done(status_);
    });
    if (!posted) done({Code::kExhausted, "the work queue is full"});
  }

  Status ReadSummary() {
    const ApiCall::Answer answer = std::move(summary_answer_);
    if (Status failed = answer.ToStatus(access_.url().ToString() + "/stats/summary"); !failed) return failed;
    ASSIGN_OR_RETURN(stats_, kubelet::ParseStatsSummary(answer.body));
    return Ok();
  }

  bool ReadEvents() {
    const ApiCall::Answer answer = std::move(cadvisor_answer_);
    if (answer.failure != HttpFailure::kNone) {
      Log(LogLevel::kInfo, "kubelet_stats", "cadvisor",
          access_.url().ToString() + "/metrics/cadvisor: " + answer.detail + "; OOM kills are not reported",
          "cadvisor");
      return false;
    }
    size_t bad = 0;
    events_ = kubelet::ReadOomEvents(answer.body, bad);
    if (bad != 0)
      Log(LogLevel::kWarn, "kubelet_stats", "cadvisor",
          std::to_string(bad) + " lines of container_oom_events_total cannot be parsed", "cadvisor");
    return true;
  }

  Env& env_;
  const Duration timeout_;
  const bool oom_;
  ApiAccess access_;
  Status accessible_, status_;
  int waiting_ = 0;
  ApiCall::Answer summary_answer_, cadvisor_answer_;
  kubelet::StatsSummary stats_;
  std::vector<kubelet::OomEvents> events_;
  bool have_events_ = false;
  UsageSeries series_;
  ApiCall summary_, cadvisor_;
};

Result<std::unique_ptr<Collector>> Create(const Config& config, Env& env) {
  if (!env.http || !env.io) return Status{Code::kUnavailable, "there is no network here"};
  ASSIGN_OR_RETURN(ApiServer server, FindKubelet(config));
  return std::unique_ptr<Collector>(std::make_unique<KubeletStats>(config, std::move(server), env));
}

std::vector<Finding> Probe(const Config& config, Env&) {
  auto server = FindKubelet(config);
  if (server) return {{Finding::kFound, "kubelet_stats", server->url.ToString(), "", ""}};
  const auto kind = server.error().code == Code::kUnavailable ? Finding::kNotHere : Finding::kBroken;
  return {{kind, "kubelet_stats", "", server.error().detail,
           "collectors: {kubelet_stats: {url: \"https://NODE:10250\", transport: {bearer_token_file: …}}}"}};
}

void Check(const Config& config, ConfigFaults& faults) {
  CheckTls(Transport(Options(config).Group(kTransportKey)).Group("tls"), faults);
}

}  // namespace

void UsageSeries::WriteUsage(const UsageStats& stats, const Level& level, Usage& usage, FrameWriter& out) {
  const Instant now = out.begun_at();
  // Values have the kubelet's times: it reads cgroups every ten seconds or so.
  auto read_at = [&](int64_t unix_ns) {
    int64_t age = unix_ns == 0 ? 0 : std::max<int64_t>(0, now.unix_ns - unix_ns);
    out.ReadAt(now + Duration(-age));
  };
  auto set = [&](size_t row, bool known, double value) {
    if (!known) return;
    Series& series = usage.series[row];
    SeriesTable::Form form;
    if (level.rows[row]->kind == Kind::kCounter) form.start_unix_ns = level.started_ns;
    if (!series) series = out.table().Declare(*level.rows[row], level.entity, {}, form);
    out.Set(series, value);
  };
  constexpr double kNano = 1e-9;
  read_at(stats.cpu_time_ns);
  set(0, stats.cpu_nanoseconds.has_value(), static_cast<double>(stats.cpu_nanoseconds.value_or(0)) * kNano);
  set(1, stats.cpu_nanocores.has_value(), static_cast<double>(stats.cpu_nanocores.value_or(0)) * kNano);
  read_at(stats.memory_time_ns);
  size_t row = 2;
  for (const auto& bytes :
       {stats.memory_bytes, stats.working_set_bytes, stats.rss_bytes, stats.available_bytes}) {
    set(row++, bytes.has_value(), static_cast<double>(bytes.value_or(0)));
  }
  out.ReadAt(now);
}

void UsageSeries::Write(const kubelet::StatsSummary& summary, FrameWriter& out) {
  ++round_;
  if (!node_ || node_name_ != summary.node) {
    if (node_) out.table().Retire(node_);
    node_name_ = summary.node;
    node_ = MakeRef<Entity>("k8s.node", AttributeSet({{"k8s.node.name", node_name_}}));
    node_usage_ = {};
  }
  WriteUsage(summary.node_usage, {kNodeRows, node_, summary.node_started_ns}, node_usage_, out);
  for (const kubelet::PodStats& pod : summary.pods) WritePod(pod, out);
  RetireGone(out);
}

void UsageSeries::WritePod(const kubelet::PodStats& stats, FrameWriter& out) {
  auto at = pods_.find(std::string_view(stats.uid));
  if (at == pods_.end()) at = pods_.emplace(stats.uid, Pod{}).first;
  Pod& pod = at->second;
  if (std::exchange(pod.seen, round_) == round_) return;  // twice in one summary
  if (!pod.entity) {
    pod.name = stats.name;
    pod.name_space = stats.name_space;
    pod.entity = MakeRef<Entity>("k8s.pod", AttributeSet({{"k8s.pod.name", pod.name},
                                                          {"k8s.namespace.name", pod.name_space},
                                                          {"k8s.pod.uid", at->first},
                                                          {"k8s.node.name", node_name_}}));
  }
  WriteUsage(stats.usage, {kPodRows, pod.entity, stats.started_ns}, pod.usage, out);
  struct Network {
    const MetricDesc* row;
    std::string_view direction;
    const std::optional<uint64_t>& count;
  };
  const Network network[] = {{&kK8sPodNetworkIo, "receive", stats.received_bytes},
                             {&kK8sPodNetworkIo, "transmit", stats.sent_bytes},
                             {&kK8sPodNetworkErrors, "receive", stats.receive_errors},
                             {&kK8sPodNetworkErrors, "transmit", stats.send_errors}};
  for (size_t i = 0; i < std::size(network); ++i) {
    if (!network[i].count) continue;
    if (!pod.network[i]) {
      pod.network[i] =
          out.table().Declare(*network[i].row, pod.entity, {{"network.io.direction", network[i].direction}},
                              {.shape = {}, .start_unix_ns = stats.started_ns});
    }
    out.Set(pod.network[i], *network[i].count);
  }
  for (const kubelet::ContainerStats& container : stats.containers) WriteContainer(container, pod, out);
}

void UsageSeries::WriteContainer(const kubelet::ContainerStats& stats, Pod& pod, FrameWriter& out) {
  auto at =
      std::ranges::find_if(pod.containers, [&](const Container& one) { return one.name == stats.name; });
  if (at == pod.containers.end()) {
    at = pod.containers.insert(pod.containers.end(), Container{});
    at->name = stats.name;
    at->entity =
        MakeRef<Entity>("k8s.container", AttributeSet({{"k8s.container.name", at->name}}), pod.entity);
  }
  if (std::exchange(at->seen, round_) == round_) return;
  if (std::exchange(at->started_ns, stats.started_ns) != stats.started_ns) {
    // The container restarted: its counters begin again, kills continue.
    for (Series& series : at->usage.series) out.table().Retire(std::exchange(series, Series{}));
  }
  WriteUsage(stats.usage, {kContainerRows, at->entity, stats.started_ns}, at->usage, out);
}

void UsageSeries::RetireGone(FrameWriter& out) {
  const auto retired = [&](const auto& one) {
    if (one.seen != round_) out.table().Retire(one.entity);
    return one.seen != round_;
  };
  for (auto& [uid, pod] : pods_) std::erase_if(pod.containers, retired);
  std::erase_if(pods_, [&](const auto& pod) { return retired(pod.second); });
}

UsageSeries::Container* UsageSeries::Find(const kubelet::OomEvents& events) {
  for (auto& [uid, pod] : pods_) {
    if (pod.name != events.pod || pod.name_space != events.name_space) continue;
    for (Container& one : pod.containers) {
      if (one.name == events.container) return &one;
    }
  }
  return nullptr;
}

// A restarted container has a new cgroup, whose count begins at 0: the growths of all add up.
void UsageSeries::WriteKills(const std::vector<kubelet::OomEvents>& events, FrameWriter& out) {
  ++kills_round_;
  for (const kubelet::OomEvents& one : events) {
    key_.clear();
    for (const std::string* part : {&one.name_space, &one.pod, &one.container, &one.cgroup}) {
      key_ += *part;
      key_ += '/';
    }
    auto at = kills_.find(std::string_view(key_));
    const bool added = at == kills_.end();
    if (added) at = kills_.emplace(key_, Count{}).first;
    double before = added && !kills_begun_ ? one.count : at->second.count;
    at->second = {one.count, kills_round_};
    Container* container = Find(one);
    if (!container) continue;
    container->kills_known = true;
    if (one.count > before) container->kills += static_cast<uint64_t>(one.count - before);
  }
  kills_begun_ = true;
  std::erase_if(kills_, [&](const auto& entry) { return entry.second.seen != kills_round_; });
  for (auto& [uid, pod] : pods_) {
    for (Container& one : pod.containers) {
      if (!one.kills_known) continue;
      out.DeclareAndSet(one.kills_series, kK8sContainerOomKills, one.entity, {}, one.kills);
    }
  }
}

extern const CollectorSpec kubelet_stats_collector;
const CollectorSpec kubelet_stats_collector{
    .name = "kubelet_stats",
    .help = "CPU, memory, network and kills of pods and containers, from the kubelet.",
    .period = seconds(30),
    .ttl = seconds(90),
    .options = kOptions,
    .metrics = kKubernetesUsageRows,
    .create = &Create,
    .probe = &Probe,
    .check = &Check};

}  // namespace gpulens
