// Access to the API server or the kubelet: where it is, as whom (service account of a pod, or kubeconfig),
// and single requests.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "base/files.h"
#include "net/client/http_client.h"
#include "net/message/address.h"
#include "net/tls.h"

namespace gpulens::kubelet {

// A plain value.
struct ApiServer {
  HttpUrl url;                    // https://host:port
  std::string token, token_file;  // at most one of them; the file is read again when it changes
  TlsClientOptions tls;
};

inline constexpr std::string_view kServiceAccount = "/var/run/secrets/kubernetes.io/serviceaccount";

// The server by what every pod has: the variables KUBERNETES_SERVICE_HOST and _PORT and the files of its
// service account in `folder`. kUnavailable: not a pod, or one without an account.
Result<ApiServer> InClusterServer(std::string_view host, std::string_view port, const std::string& folder);

// The cluster and user of a kubeconfig's current context. Users have tokens or certificates: programs that
// print tokens (exec) and the old plugins are refused with kInvalidArgument. Relative paths start in
// `folder`. kDataLoss: another text. At most 1 MiB.
Result<ApiServer> ParseKubeconfig(std::string_view yaml, const std::string& folder);

// By the kubeconfig at `kubeconfig`, or, when that is empty, as a pod.
Result<ApiServer> FindApiServer(const std::string& kubeconfig);
// `configured`, or when that is empty the name of this node from the variables in which manifests pass
// spec.nodeName: NODE_NAME, K8S_NODE_NAME, MY_NODE_NAME. Empty: unknown.
std::string NodeName(const std::string& configured);

// Headers and TLS of requests, read again when their files change: tokens of service accounts live for an
// hour. Not thread-safe; Refresh reads files, so it belongs on a worker.
class ApiAccess {
 public:
  explicit ApiAccess(ApiServer server);

  // Not ok: requests are impossible now.
  Status Refresh();
  const HttpUrl& url() const noexcept { return server_.url; }
  const std::string& headers() const noexcept { return headers_; }
  const std::shared_ptr<const TlsContext>& tls() const noexcept { return tls_; }

 private:
  Status RefreshToken();
  Status RefreshTls();

  const ApiServer server_;
  std::string headers_, shown_token_;
  std::shared_ptr<const TlsContext> tls_;
  std::vector<FileMark> marks_;
};

// One request, whose answer is kept until it is taken. Used on the loop's thread; made and destroyed on any.
// Destruction cancels a request in flight.
class ApiCall {
 public:
  struct Query {
    std::string target;  // "/api/v1/pods?…"
    Duration timeout{};
    size_t most_bytes = 64u << 20;  // of the answer; of a stream, of the part not yet taken
    bool stream = false;            // TakeStream returns the answer in pieces
  };
  struct Answer {
    HttpFailure failure = HttpFailure::kNone;
    std::string detail;
    int status = 0;
    std::string body;

    // A failure as "what: detail".
    Status ToStatus(std::string_view what) const {
      if (failure == HttpFailure::kNone) return Ok();
      return {HttpFailureCode(failure), std::string(what) + ": " + detail};
    }
  };

  explicit ApiCall(HttpClient& client) noexcept : client_(client) {}

  // Cancels a request in flight.
  void Start(const ApiAccess& access, Query query);
  bool busy() const noexcept { return shared_ && !shared_->ended; }
  // Ended, and its answer not taken yet.
  bool ended() const noexcept { return shared_ && shared_->ended; }
  // Of one that ended.
  Answer Take();
  // The next piece of a stream; it may end in the middle of a line. `overflowed`: lines were dropped, so the
  // stream must be read again.
  std::string TakeStream(bool& overflowed);
  // Calls `wake` once, from the loop, when the request ends. An empty one withdraws it.
  void WakeAtEnd(std::function<void()> wake);
  void Cancel();

 private:
  // State of the callbacks, which may come while a channel is being destroyed elsewhere. Used on the loop.
  struct Shared {
    bool ended = false, overflowed = false;
    size_t most_bytes = 0;
    Answer answer;
    std::string stream;
    std::function<void()> wake;
  };

  HttpClient& client_;
  std::shared_ptr<Shared> shared_;
  std::unique_ptr<HttpChannel> channel_;
};

}  // namespace gpulens::kubelet
