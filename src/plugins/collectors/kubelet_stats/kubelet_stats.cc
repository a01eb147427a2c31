// What pods and containers use, from the kubelet of this node: /stats/summary, and the kills for want of
// memory from its /metrics/cadvisor.

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/files.h"
#include "base/log.h"
#include "base/result.h"
#include "base/workers.h"
#include "catalog/kubernetes.h"
#include "net/message/address.h"
#include "plugins/collectors/kubelet_stats/usage_series.h"
#include "plugins/plugin.h"
#include "plugins/remote_options.h"
#include "sources/kubelet/api/api_call.h"

namespace gpulens {
namespace {

using kubelet::ApiAccess;
using kubelet::ApiCall;
using kubelet::ApiServer;
using std::chrono::milliseconds;
using std::chrono::seconds;

// What is left of a run's time for the parsing.
constexpr Duration kMostReserve = milliseconds(500);
constexpr size_t kMostPageBytes = 64u << 20;

std::string ServiceAccount(std::string_view file) {
  return std::string(kubelet::kServiceAccount) + "/" + std::string(file);
}

// The kubelet of the configuration, or, in a pod, the one beside us.
Result<ApiServer> FindKubelet(const Config& config) {
  ApiServer server;
  std::string url = config.Text("url");
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
  const Config& transport = config.Group(kTransportKey);
  const Config& tls = transport.Group("tls");
  server.tls.ca.file = tls.Text("ca_file");
  server.tls.certificate.file = tls.Text("cert_file");
  server.tls.key.file = tls.Text("key_file");
  server.tls.server_name = tls.Text("server_name");
  server.tls.insecure_skip_verify = tls.Bool("insecure_skip_verify");
  if (server.tls.certificate.empty() != server.tls.key.empty())
    return Status{Code::kInvalidArgument, "tls.cert_file and tls.key_file must be set together"};
  server.token_file = transport.Text("bearer_token_file");
  // The account's token goes nowhere in the clear.
  if (in_pod && server.url.tls) {
    if (server.token_file.empty()) server.token_file = ServiceAccount("token");
    if (server.tls.ca.empty() && !server.tls.insecure_skip_verify)
      server.tls.ca.file = ServiceAccount("ca.crt");
  }
  return server;
}

class KubeletStats final : public Collector {
 public:
  KubeletStats(const Config& config, ApiServer server, Env& env)
      : env_(env),
        timeout_(RequestTimeout(config.Group(kTransportKey), seconds(10))),
        oom_(config.Bool("oom_kills")),
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
  // Of what came, on a worker: Collect finds numbers.
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
    if (answer.failure != HttpFailure::kNone)
      return {HttpFailureCode(answer.failure), access_.url().ToString() + "/stats/summary: " + answer.detail};
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
  Finding finding;
  finding.subject = "kubelet_stats";
  auto server = FindKubelet(config);
  if (server) {
    finding.what = server->url.ToString();
    return {finding};
  }
  finding.kind = server.error().code == Code::kUnavailable ? Finding::kNotHere : Finding::kBroken;
  finding.why = server.error().detail;
  finding.remedy =
      "collectors: {kubelet_stats: {url: \"https://NODE:10250\", transport: {bearer_token_file: …}}}";
  return {finding};
}

void Check(const Config& config, ConfigFaults& faults) {
  const Config& tls = config.Group(kTransportKey).Group("tls");
  if (tls.Text("cert_file").empty() != tls.Text("key_file").empty())
    faults.Refuse(tls, tls.Text("cert_file").empty() ? "key_file" : "cert_file",
                  "tls.cert_file and tls.key_file must be set together", "set both or neither");
}

// Those of kTransportOptions that a kubelet takes.
constexpr OptionSpec kKubeletTransport[] = {
    {.key = "timeout", .type = OptionType::kTime, .help = "Timeout of one request; default: 10s."},
    {.key = "bearer_token_file",
     .help = "A file with the token; default in a pod: its service account's. Read again when it changes."},
    {.key = "tls", .type = OptionType::kGroup, .help = "For https.", .children = kTlsOptions},
};
constexpr OptionSpec kOptions[] = {
    {.key = "url",
     .type = OptionType::kUrl,
     .help = "URL of the kubelet; default in a pod: https://$NODE_IP:10250, or the loopback address."},
    {.key = "oom_kills",
     .type = OptionType::kBool,
     .fallback = "true",
     .help = "Read OOM kills from /metrics/cadvisor."},
    {.key = kTransportKey,
     .type = OptionType::kGroup,
     .help = "How to connect: timeout, authentication, TLS.",
     .children = kKubeletTransport},
};

}  // namespace

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
