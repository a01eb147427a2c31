// Where the API server is and how one gets in: as a pod (service account), or by a kubeconfig.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "base/files.h"
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

// By what Kubernetes gives every pod: the variables KUBERNETES_SERVICE_HOST and _PORT and the files of its
// service account in `folder`. kUnavailable: this is no pod, or one without an account.
Result<ApiServer> InClusterServer(std::string_view host, std::string_view port, const std::string& folder);

// The cluster and user of a kubeconfig's current context. Of users only tokens and certificates are taken:
// programs that print tokens (exec) and the old plugins are refused with kInvalidArgument. Relative paths
// start in `folder`. kDataLoss: no such file. At most 1 MiB.
Result<ApiServer> ParseKubeconfig(std::string_view yaml, const std::string& folder);

// By the kubeconfig at `kubeconfig`, or, when that is empty, as a pod.
Result<ApiServer> FindApiServer(const std::string& kubeconfig);
// The name of the node we run on, by what manifests call spec.nodeName of the downward API: NODE_NAME,
// K8S_NODE_NAME, MY_NODE_NAME. Empty: nobody told.
std::string NodeNameFromEnvironment();

// What a request needs, read again when a file behind it has changed: tokens of service accounts live for an
// hour. Not thread-safe; Refresh reads files, so it belongs on a worker.
class ApiAccess {
 public:
  explicit ApiAccess(ApiServer server);

  // Not ok: nothing can be asked now.
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

}  // namespace gpulens::kubelet
