// Any bytes as a kubeconfig.
#include "base/check.h"
#include "sources/kubelet/api/api_server.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto server = gpulens::kubelet::ParseKubeconfig({reinterpret_cast<const char*>(data), size}, "/home");
  if (server) {
    CHECK(!server->url.host.empty());
    CHECK(server->token.empty() || server->token_file.empty());
    CHECK(server->tls.certificate.empty() == server->tls.key.empty());
  }
  return 0;
}
