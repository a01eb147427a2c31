#include "agent/status/query_status.h"

#include <sys/socket.h>

#include <condition_variable>
#include <mutex>

#include "agent/control/control_socket.h"
#include "base/fd.h"
#include "base/result.h"
#include "net/client/http_client.h"
#include "net/io_loop.h"
#include "net/message/address.h"

namespace gpulens {
namespace {

constexpr Duration kTimeout = std::chrono::seconds(5);
constexpr size_t kStatusLimit = 1 << 20;
// Where the packaged service has its socket, for root, whose own agent has it there, too.
constexpr const char* kServiceSocket = "/run/gpulens/gpulens.sock";

// Whether something takes connections there. The loopback interface answers at once.
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

QueriedStatus QueryRunningAgent(const Config& config) {
  QueriedStatus asked;
  std::string own = config.Group("control").Text("socket");
  if (own.empty()) own = DefaultControlSocket();
  std::vector<std::string> sockets;
  if (own != "none") {
    if (!own.empty()) sockets.push_back(own);
    if (own != kServiceSocket) sockets.push_back(kServiceSocket);
  }
  auto take = [&](Result<StatusReport> report, const std::string& at) {
    if (report) {
      asked.report = std::move(*report);
      asked.refusal.clear();
      asked.at = at;
      return true;
    }
    if (report.error().code == Code::kUnavailable) return false;
    if (asked.at.empty()) {
      asked.at = at;
      asked.refusal = report.error().detail;
    }
    return false;
  };
  // The first is this user's; that of the service is asked when nobody answers elsewhere.
  if (!sockets.empty() && take(QueryBySocket(sockets[0]), sockets[0])) return asked;
  for (const std::string& address : config.Group("http").Texts("listen")) {
    Result<Endpoint> endpoint = ParseListenAddress(address);
    if (!endpoint || !endpoint->IsLoopback() || !Listens(*endpoint)) continue;
    std::string base = "http://" + endpoint->ToString() + "/";
    Result<StatusReport> report = QueryByHttp(base);
    if (!report && report.error().code == Code::kUnavailable)
      report = Status{Code::kDataLoss, report.error().detail};
    if (take(std::move(report), base)) return asked;
  }
  for (size_t i = 1; i < sockets.size(); ++i) {
    if (take(QueryBySocket(sockets[i]), sockets[i])) return asked;
  }
  return asked;
}

}  // namespace gpulens
