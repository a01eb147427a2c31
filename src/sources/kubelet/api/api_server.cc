#include "sources/kubelet/api/api_server.h"

#include <cstdlib>

#include "base/files.h"
#include "base/parse.h"
#include "base/result.h"
#include "net/client/http_client.h"
#include "net/message/address.h"

namespace gpulens::kubelet {
namespace {

constexpr size_t kMostToken = 64u << 10;

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace

Result<ApiServer> InClusterServer(std::string_view host, std::string_view port, const std::string& folder) {
  if (host.empty()) return Status{Code::kUnavailable, "not a pod: KUBERNETES_SERVICE_HOST is not set"};
  ApiServer out;
  bool bare_six = host.find(':') != std::string_view::npos && host.front() != '[';
  std::string name = bare_six ? "[" + std::string(host) + "]" : std::string(host);
  ASSIGN_OR_RETURN(out.url, ParseHttpUrl("https://" + name + ":" + std::string(port.empty() ? "443" : port)));
  out.token_file = folder + "/token";
  out.tls.ca.file = folder + "/ca.crt";
  if (!MarkOf(out.token_file).there())
    return Status{Code::kUnavailable, "this pod has no service account: no " + out.token_file};
  return out;
}

Result<ApiServer> FindApiServer(const std::string& kubeconfig) {
  if (kubeconfig.empty())
    return InClusterServer(Variable("KUBERNETES_SERVICE_HOST"), Variable("KUBERNETES_SERVICE_PORT"),
                           std::string(kServiceAccount));
  ASSIGN_OR_RETURN(std::string text, ReadFile(kubeconfig));
  size_t slash = kubeconfig.rfind('/');
  return ParseKubeconfig(text, slash == std::string::npos ? "." : kubeconfig.substr(0, slash));
}

std::string NodeNameFromEnvironment() {
  for (const char* name : {"NODE_NAME", "K8S_NODE_NAME", "MY_NODE_NAME"}) {
    if (std::string value = Variable(name); !value.empty()) return value;
  }
  return {};
}

ApiAccess::ApiAccess(ApiServer server) : server_(std::move(server)) {}

Status ApiAccess::Refresh() {
  RETURN_IF_ERROR(RefreshToken());
  return server_.url.tls ? RefreshTls() : Ok();
}

Status ApiAccess::RefreshToken() {
  std::string token = server_.token;
  if (!server_.token_file.empty()) {
    ASSIGN_OR_RETURN(std::string text, ReadFile(server_.token_file, kMostToken));
    token = Trim(text);
    if (token.empty()) return {Code::kUnavailable, server_.token_file + " is empty"};
  }
  if (!headers_.empty() && token == shown_token_) return Ok();
  std::string headers = "Accept: application/json\r\n";
  if (!token.empty()) RETURN_IF_ERROR(AddRequestField(headers, "Authorization", "Bearer " + token));
  headers_ = std::move(headers);
  shown_token_ = std::move(token);
  return Ok();
}

Status ApiAccess::RefreshTls() {
  std::vector<FileMark> marks;
  for (const PemSource* source : {&server_.tls.ca, &server_.tls.certificate, &server_.tls.key}) {
    if (!source->file.empty()) marks.push_back(MarkOf(source->file));
  }
  if (tls_ && marks == marks_) return Ok();
  ASSIGN_OR_RETURN(tls_, TlsContext::Client(server_.tls));
  marks_ = std::move(marks);
  return Ok();
}

}  // namespace gpulens::kubelet
