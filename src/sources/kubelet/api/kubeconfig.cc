#include <optional>

#include "base/result.h"
#include "base/yaml/yaml.h"
#include "sources/kubelet/api/api_server.h"

namespace gpulens::kubelet {
namespace {

constexpr size_t kMostBytes = 1u << 20;

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

Result<ApiServer> Read(const YamlNode& root, const std::string& folder) {
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

Result<ApiServer> ParseKubeconfig(std::string_view yaml, const std::string& folder) {
  if (yaml.size() > kMostBytes) return Status{Code::kExhausted, "kubeconfig: larger than 1 MiB"};
  YamlLimits limits;
  limits.values = kMostBytes;
  std::vector<YamlProblem> problems;
  YamlTree tree = ParseYaml(yaml, limits, problems);
  for (const YamlProblem& problem : problems) {
    if (problem.kind == YamlProblem::kDuplicateKey) continue;  // the first one counts
    return Status{Code::kDataLoss, "kubeconfig: " + problem.Text()};
  }
  return Read(tree.top(), folder);
}

}  // namespace gpulens::kubelet
