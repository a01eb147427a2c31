#include "sources/kubelet/api/api_server.h"

#include "base/files.h"
#include "base/parse.h"
#include "base/result.h"
#include "net/address.h"
#include "net/client/http_client.h"

namespace gpulens::kubelet {
namespace {

constexpr size_t kMostToken = 64u << 10;

}  // namespace

Result<ApiServer> InClusterServer(std::string_view host, std::string_view port, const std::string& folder) {
  if (host.empty()) return Status{Code::kUnavailable, "this is no pod: KUBERNETES_SERVICE_HOST is not set"};
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
