#include "agent/status/status_report.h"

#include <sys/socket.h>
#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "agent/control/control_socket.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/result.h"
#include "base/text.h"
#include "net/client/http_client.h"
#include "net/io_loop.h"

namespace gpulens {

namespace {

constexpr std::string_view kSchema = "gpulens.status/1";
constexpr std::string_view kKindNames[] = {"found", "absent", "no_permission", "broken", "warning"};
constexpr size_t kMostFindings = 1000;

void AppendField(std::string& out, std::string_view key, std::string_view value) {
  if (value.empty()) return;
  if (out.back() != '{') out += ',';
  AppendJsonString(out, key);
  out += ':';
  AppendJsonString(out, value);
}

}  // namespace

std::string_view FindingKindName(Finding::Kind kind) noexcept { return kKindNames[kind]; }

void AppendFindingJson(std::string& out, const Finding& finding) {
  out += '{';
  AppendField(out, "kind", FindingKindName(finding.kind));
  AppendField(out, "subject", finding.subject);
  AppendField(out, "what", finding.what);
  AppendField(out, "why", finding.why);
  AppendField(out, "do", finding.remedy);
  out += '}';
}

std::string StatusJson(const StatusReport& report) {
  std::string out = "{";
  AppendField(out, "schema", kSchema);
  out += ",\"pid\":" + std::to_string(report.pid);
  AppendField(out, "user", report.user);
  AppendField(out, "version", report.version);
  AppendField(out, "state_dir", report.state_dir);
  out += report.simulated ? ",\"simulated\":true" : ",\"simulated\":false";
  out += ",\"sinks\":[";
  for (const std::string& sink : report.sinks) {
    if (out.back() != '[') out += ',';
    AppendJsonString(out, sink);
  }
  out += "],\"sandbox\":";
  AppendSandboxJson(out, report.sandbox);
  out += ",\"findings\":[";
  for (const Finding& finding : report.findings) {
    if (out.back() != '[') out += ',';
    AppendFindingJson(out, finding);
  }
  return out + "]}";
}

Result<StatusReport> ParseStatus(std::string_view json) {
  ASSIGN_OR_RETURN(JsonDocument document, JsonDocument::Parse(json));
  if (document.Text("/schema") != kSchema) return Status{Code::kDataLoss, "not the status of an agent"};
  StatusReport report;
  report.pid = document.Integer("/pid").value_or(0);
  report.user = document.Text("/user").value_or("");
  report.version = document.Text("/version").value_or("");
  report.state_dir = document.Text("/state_dir").value_or("");
  report.simulated = document.Truth("/simulated").value_or(false);
  for (size_t i = 0, sinks = std::min(document.Size("/sinks"), kMostFindings); i < sinks; ++i)
    report.sinks.push_back(document.Text("/sinks/" + std::to_string(i)).value_or(""));
  report.sandbox = ParseSandbox(document);
  size_t count = std::min(document.Size("/findings"), kMostFindings);
  for (size_t i = 0; i < count; ++i) {
    std::string at = "/findings/" + std::to_string(i) + "/";
    auto text = [&](const char* key) { return document.Text(at + key).value_or(""); };
    Finding finding;
    finding.subject = text("subject");
    finding.what = text("what");
    finding.why = text("why");
    finding.remedy = text("do");
    std::string kind = text("kind");
    // A kind of a newer agent is at least a warning.
    finding.kind = Finding::kWarning;
    for (size_t k = 0; k < std::size(kKindNames); ++k) {
      if (kKindNames[k] == kind) finding.kind = static_cast<Finding::Kind>(k);
    }
    report.findings.push_back(std::move(finding));
  }
  return report;
}

namespace {

constexpr Duration kTimeout = std::chrono::seconds(5);
constexpr size_t kStatusLimit = 1 << 20;
// Socket of the packaged service, and of root's own agent.
constexpr const char* kServiceSocket = "/run/gpulens/gpulens.sock";

// Whether something accepts connections there. The loopback interface answers at once.
bool Listens(const Endpoint& endpoint) {
  sockaddr_storage to;
  socklen_t length = endpoint.ToSockaddr(to);
  UniqueFd fd(::socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return fd && ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), length) == 0;
}

Result<StatusReport> QueryBySocket(const std::string& path) {
  ASSIGN_OR_RETURN(std::string answer, QueryAgent(path, "agent status", kTimeout));
  if (!answer.starts_with("ok ")) return Status{Code::kUnavailable, answer};
  return ParseStatus(std::string_view(answer).substr(3));
}

Result<StatusReport> QueryByHttp(const std::string& base) {
  ASSIGN_OR_RETURN(HttpUrl url, ParseHttpUrl(base + "-/status"));
  ASSIGN_OR_RETURN(std::string body, ReadAgentPage(url, "application/json", kTimeout, kStatusLimit));
  return ParseStatus(body);
}

}  // namespace

Result<std::string> ReadAgentPage(const HttpUrl& url, std::string_view accept, Duration timeout,
                                  size_t limit) {
  std::string headers;
  if (!accept.empty()) RETURN_IF_ERROR(AddRequestField(headers, "Accept", accept));
  if (!url.user.empty()) AddBasicAuth(headers, url.user, url.password);
  HttpTarget target{url, "", {}};
  target.limits.body_bytes = limit;
  IoLoop io;
  HttpClient client(io);
  io.Start();
  std::unique_ptr<HttpChannel> channel = client.Open(std::move(target));
  std::mutex mutex;
  std::condition_variable wake;
  std::optional<HttpReply> reply;
  io.Call([&] {
    channel->Get({headers, nullptr, timeout, {}}, [&](HttpReply& answer) {
      std::lock_guard lock(mutex);
      reply = std::move(answer);
      wake.notify_all();
    });
  });
  {
    std::unique_lock lock(mutex);
    wake.wait(lock, [&] { return reply.has_value(); });
  }
  io.Call([&] { channel.reset(); });
  io.Stop();
  if (reply->failure != HttpFailure::kNone) return Status{HttpFailureCode(reply->failure), reply->detail};
  return std::string(reply->body);
}

std::vector<std::string> AgentAddresses(const Config& config) {
  std::vector<std::string> addresses;
  std::string own = config.Group("control").Text("socket");
  if (own.empty()) own = DefaultControlSocket();
  // The first is this user's; the service's is queried when no other agent answers.
  if (own != "none" && !own.empty()) addresses.push_back(own);
  for (const std::string& address : config.Group("http").Texts("listen")) {
    Result<Endpoint> endpoint = ParseListenAddress(address);
    if (endpoint && endpoint->IsLoopback() && endpoint->family != Endpoint::Family::kUnix &&
        Listens(*endpoint))
      addresses.push_back("http://" + endpoint->ToString() + "/");
  }
  if (own != "none" && own != kServiceSocket) addresses.push_back(kServiceSocket);
  return addresses;
}

QueriedStatus QueryRunningAgent(const Config& config) {
  QueriedStatus queried;
  for (const std::string& at : AgentAddresses(config)) {
    const bool http = at.starts_with("http://");
    Result<StatusReport> report = http ? QueryByHttp(at) : QueryBySocket(at);
    if (report) {
      queried.report = std::move(*report);
      queried.refusal.clear();
      queried.at = at;
      return queried;
    }
    // Something listens at an address of HTTP.
    if ((report.error().code == Code::kUnavailable && !http) || !queried.at.empty()) continue;
    queried.at = at;
    queried.refusal = report.error().detail;
  }
  return queried;
}

}  // namespace gpulens
