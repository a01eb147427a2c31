#include <yaml-cpp/yaml.h>

#include <optional>

#include "base/result.h"
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

std::string TextOf(const YAML::Node& map, const char* key) {
  if (!map.IsMap()) return {};
  YAML::Node value = map[key];
  return value.IsDefined() && value.IsScalar() ? value.Scalar() : std::string();
}

// The map under `inner` of the element of `list` that has this name.
YAML::Node Named(const YAML::Node& root, const char* list, const std::string& name, const char* inner) {
  YAML::Node elements = root[list];
  if (elements.IsDefined() && elements.IsSequence()) {
    for (const YAML::Node& element : elements) {
      if (!element.IsMap() || TextOf(element, "name") != name) continue;
      YAML::Node found = element[inner];
      if (found.IsDefined() && found.IsMap()) return found;
    }
  }
  return YAML::Node(YAML::NodeType::Map);
}

// A file, or its bytes in base64 under the same name with "-data", which win.
Status ReadPem(const YAML::Node& map, const std::string& key, const std::string& folder, PemSource& out) {
  std::string data = TextOf(map, (key + "-data").c_str());
  if (!data.empty()) {
    auto text = DecodeBase64(data);
    if (!text) return {Code::kInvalidArgument, "kubeconfig: " + key + "-data is not base64"};
    out.text = std::move(*text);
    return Ok();
  }
  out.file = TextOf(map, key.c_str());
  if (!out.file.empty() && out.file.front() != '/') out.file = folder + "/" + out.file;
  return Ok();
}

Status ReadUser(const YAML::Node& user, const std::string& folder, ApiServer& out) {
  for (const char* program : {"exec", "auth-provider"}) {
    if (user[program].IsDefined())
      return {Code::kInvalidArgument,
              std::string("kubeconfig: users with ") + program + " are not supported; give one a token"};
  }
  out.token = TextOf(user, "token");
  if (out.token.empty()) out.token_file = TextOf(user, "tokenFile");
  if (!out.token_file.empty() && out.token_file.front() != '/')
    out.token_file = folder + "/" + out.token_file;
  RETURN_IF_ERROR(ReadPem(user, "client-certificate", folder, out.tls.certificate));
  RETURN_IF_ERROR(ReadPem(user, "client-key", folder, out.tls.key));
  if (out.tls.certificate.empty() != out.tls.key.empty())
    return {Code::kInvalidArgument, "kubeconfig: client-certificate and client-key must be set together"};
  return Ok();
}

Result<ApiServer> Read(const YAML::Node& root, const std::string& folder) {
  std::string current = root.IsMap() ? TextOf(root, "current-context") : std::string();
  if (current.empty()) return Status{Code::kDataLoss, "kubeconfig: no current-context"};
  YAML::Node context = Named(root, "contexts", current, "context");
  YAML::Node cluster = Named(root, "clusters", TextOf(context, "cluster"), "cluster");
  ApiServer out;
  std::string server = TextOf(cluster, "server");
  if (server.empty()) return Status{Code::kDataLoss, "kubeconfig: the current context has no server"};
  ASSIGN_OR_RETURN(out.url, ParseHttpUrl(server));
  while (out.url.target.ends_with('/')) out.url.target.pop_back();
  RETURN_IF_ERROR(ReadPem(cluster, "certificate-authority", folder, out.tls.ca));
  out.tls.server_name = TextOf(cluster, "tls-server-name");
  out.tls.insecure_skip_verify = TextOf(cluster, "insecure-skip-tls-verify") == "true";
  RETURN_IF_ERROR(ReadUser(Named(root, "users", TextOf(context, "user"), "user"), folder, out));
  return out;
}

}  // namespace

Result<ApiServer> ParseKubeconfig(std::string_view yaml, const std::string& folder) {
  if (yaml.size() > kMostBytes) return Status{Code::kExhausted, "kubeconfig: larger than 1 MiB"};
  try {
    return Read(YAML::Load(std::string(yaml)), folder);
  } catch (const YAML::Exception& error) {
    return Status{Code::kDataLoss, std::string("kubeconfig: ") + error.what()};
  }
}

}  // namespace gpulens::kubelet
