#include "sources/kubelet/api/api_server.h"

#include <cstdlib>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/parse.h"
#include "base/result.h"
#include "base/yaml/yaml.h"

namespace gpulens::kubelet {
namespace {

constexpr size_t kMostToken = 64u << 10;

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

constexpr size_t kMostKubeconfig = 1u << 20;

std::optional<std::string> DecodeBase64(std::string_view text) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  uint32_t bits = 0;
  int count = 0;
  while (text.ends_with('=')) text.remove_suffix(1);
  for (char c : text) {
    size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    out += static_cast<char>(bits >> count & 0xFF);
  }
  return out;
}

// The map under `inner` of the element of `list` that has this name; null when there is none.
const YamlNode& Named(const YamlNode& root, const char* list, const std::string& name, const char* inner) {
  static const YamlNode kNone;
  const YamlNode* elements = root.Find(list);
  if (!elements) return kNone;
  for (const YamlNode* element : elements->items) {
    const YamlNode* found = element->TextOf("name") == name ? element->Find(inner) : nullptr;
    if (found && found->kind == YamlNode::kMap) return *found;
  }
  return kNone;
}

// A file, or its bytes in base64 under the same name with "-data", which win.
Status ReadPem(const YamlNode& map, const std::string& key, const std::string& folder, PemSource& out) {
  std::string data = map.TextOf(key + "-data");
  if (!data.empty()) {
    auto text = DecodeBase64(data);
    if (!text) return {Code::kInvalidArgument, "kubeconfig: " + key + "-data is not base64"};
    out.text = std::move(*text);
    return Ok();
  }
  out.file = map.TextOf(key);
  if (!out.file.empty() && out.file.front() != '/') out.file = folder + "/" + out.file;
  return Ok();
}

Status ReadUser(const YamlNode& user, const std::string& folder, ApiServer& out) {
  for (const char* program : {"exec", "auth-provider"}) {
    if (user.Find(program))
      return {Code::kInvalidArgument,
              std::string("kubeconfig: users with ") + program + " are not supported; give one a token"};
  }
  out.token = user.TextOf("token");
  if (out.token.empty()) out.token_file = user.TextOf("tokenFile");
  if (!out.token_file.empty() && out.token_file.front() != '/')
    out.token_file = folder + "/" + out.token_file;
  RETURN_IF_ERROR(ReadPem(user, "client-certificate", folder, out.tls.certificate));
  RETURN_IF_ERROR(ReadPem(user, "client-key", folder, out.tls.key));
  if (out.tls.certificate.empty() != out.tls.key.empty())
    return {Code::kInvalidArgument, "kubeconfig: client-certificate and client-key must be set together"};
  return Ok();
}

Result<ApiServer> ReadKubeconfig(const YamlNode& root, const std::string& folder) {
  std::string current = root.TextOf("current-context");
  if (current.empty()) return Status{Code::kDataLoss, "kubeconfig: no current-context"};
  const YamlNode& context = Named(root, "contexts", current, "context");
  const YamlNode& cluster = Named(root, "clusters", context.TextOf("cluster"), "cluster");
  ApiServer out;
  std::string server = cluster.TextOf("server");
  if (server.empty()) return Status{Code::kDataLoss, "kubeconfig: the current context has no server"};
  ASSIGN_OR_RETURN(out.url, ParseHttpUrl(server));
  while (out.url.target.ends_with('/')) out.url.target.pop_back();
  RETURN_IF_ERROR(ReadPem(cluster, "certificate-authority", folder, out.tls.ca));
  out.tls.server_name = cluster.TextOf("tls-server-name");
  out.tls.insecure_skip_verify = cluster.TextOf("insecure-skip-tls-verify") == "true";
  RETURN_IF_ERROR(ReadUser(Named(root, "users", context.TextOf("user"), "user"), folder, out));
  return out;
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

Result<ApiServer> ParseKubeconfig(std::string_view yaml, const std::string& folder) {
  if (yaml.size() > kMostKubeconfig) return Status{Code::kExhausted, "kubeconfig: larger than 1 MiB"};
  YamlLimits limits;
  limits.values = kMostKubeconfig;
  std::vector<YamlProblem> problems;
  YamlTree tree = ParseYaml(yaml, limits, problems);
  for (const YamlProblem& problem : problems) {
    if (problem.kind == YamlProblem::kDuplicateKey) continue;  // the first one counts
    return Status{Code::kDataLoss, "kubeconfig: " + problem.Text()};
  }
  return ReadKubeconfig(tree.top(), folder);
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
  // A kubeconfig's server may have a path.
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
