#include "sources/kubelet/api/api_server.h"

#include <cstdlib>
#include <utility>

#include "base/check.h"
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

std::string NodeName(const std::string& configured) {
  if (!configured.empty()) return configured;
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

void ApiCall::Start(const ApiAccess& access, Query query) {
  Cancel();
  HttpTarget target{.url = access.url(), .unix_socket = {}, .limits = {}};
  // A kubeconfig's server may stand behind a path.
  std::string base = target.url.has_path && target.url.target != "/" ? target.url.target : std::string();
  target.url.target = base + query.target;
  target.limits.body_bytes = query.most_bytes;
  channel_ = client_.Open(std::move(target));
  shared_ = std::make_shared<Shared>();
  shared_->most_bytes = query.most_bytes;
  HttpGet get{.headers = access.headers(), .tls = access.tls(), .timeout = query.timeout, .buffer = {}};
  if (query.stream) {
    get.on_body = [shared = shared_](std::string_view piece) {
      if (shared->stream.size() + piece.size() > shared->most_bytes) shared->overflowed = true;
      if (!shared->overflowed) shared->stream += piece;
    };
  }
  channel_->Get(std::move(get), [shared = shared_](HttpReply& reply) {
    shared->ended = true;
    shared->answer = {reply.failure, reply.detail, reply.status, std::move(reply.body)};
    if (auto wake = std::exchange(shared->wake, nullptr)) wake();
  });
}

ApiCall::Answer ApiCall::Take() {
  CHECK(ended());
  Answer answer = std::move(shared_->answer);
  shared_.reset();
  channel_.reset();
  return answer;
}

std::string ApiCall::TakeStream(bool& overflowed) {
  overflowed = shared_ && shared_->overflowed;
  return shared_ ? std::exchange(shared_->stream, {}) : std::string();
}

void ApiCall::WakeAtEnd(std::function<void()> wake) {
  if (shared_) shared_->wake = std::move(wake);
}

void ApiCall::Cancel() {
  if (shared_) shared_->wake = nullptr;
  shared_.reset();
  channel_.reset();
}

}  // namespace gpulens::kubelet
