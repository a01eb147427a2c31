#include "net/auth/web_config.h"

#include <algorithm>
#include <array>

#include "base/files.h"
#include "base/parse.h"
#include "base/result.h"
#include "base/text.h"
#include "base/yaml/yaml.h"

namespace gpulens {
namespace {

using Words = std::span<const std::string_view>;

// Reads one file. Errors name file and line.
class WebConfigReader {
 public:
  explicit WebConfigReader(const std::string& path) : path_(path) {
    size_t slash = path.rfind('/');
    folder_ = slash == std::string::npos ? "" : path.substr(0, slash + 1);
  }

  Status Root(const YamlNode& node, WebConfig& out);

 private:
  Status Tls(const YamlNode& node, TlsServerOptions& out);
  Status TlsKey(const std::string& key, const YamlNode& value, TlsServerOptions& out);
  Status Http(const YamlNode& node, WebConfig& out);
  Status Users(const YamlNode& node, WebConfig& out);
  Status CheckTls(const YamlNode& node, const TlsServerOptions& tls) const;

  Status Error(const YamlNode& at, const std::string& what) const {
    return YamlError(path_ + ":", at.mark.line, what);
  }
  // Calls `each(key, value)` for each member of a map; an unknown key is an error.
  template <class Each>
  Status Map(const YamlNode& node, const std::string& name, Words known, Each each) const;
  Status Text(const YamlNode& node, const std::string& key, std::string& out) const;
  Status File(const YamlNode& node, const std::string& key, std::string& out) const;
  Status Bool(const YamlNode& node, const std::string& key, bool& out) const;
  Status List(const YamlNode& node, const std::string& key, std::vector<std::string>& out) const;
  Status OneOf(const YamlNode& node, const std::string& key, Words words, size_t& out) const;

  std::string path_, folder_;
};

std::string Shown(std::string_view text) { return Printable(text.substr(0, 100)); }

std::string Join(Words words) {
  std::string out;
  for (std::string_view word : words) out += (out.empty() ? "" : ", ") + std::string(word);
  return out;
}

template <class Each>
Status WebConfigReader::Map(const YamlNode& node, const std::string& name, Words known, Each each) const {
  if (node.kind == YamlNode::kNull) return Ok();
  if (node.kind != YamlNode::kMap) return Error(node, name + " must be a map of keys and values");
  for (const YamlNode::Member& member : node.members) {
    if (!known.empty() && std::find(known.begin(), known.end(), member.key) == known.end()) {
      std::string_view near = NearestWord(member.key, known);
      return YamlError(
          path_ + ":", member.key_mark.line,
          "unknown key " + Shown(member.key) +
              (near.empty() ? "; known: " + Join(known) : "; did you mean " + std::string(near) + "?"));
    }
    RETURN_IF_ERROR(each(member.key, *member.value));
  }
  return Ok();
}

Status WebConfigReader::Text(const YamlNode& node, const std::string& key, std::string& out) const {
  if (node.kind != YamlNode::kScalar) return Error(node, key + " must be text");
  out = node.text;
  return Ok();
}

Status WebConfigReader::File(const YamlNode& node, const std::string& key, std::string& out) const {
  RETURN_IF_ERROR(Text(node, key, out));
  if (!out.empty() && out[0] != '/') out = folder_ + out;
  return Ok();
}

Status WebConfigReader::Bool(const YamlNode& node, const std::string& key, bool& out) const {
  for (auto [yes, no] : {std::pair{"true", "false"}, {"yes", "no"}, {"on", "off"}, {"y", "n"}}) {
    out = EqualsIgnoringCase(node.text, yes);
    if (out || EqualsIgnoringCase(node.text, no)) return Ok();
  }
  return Error(node, key + " must be true or false");
}

Status WebConfigReader::List(const YamlNode& node, const std::string& key,
                             std::vector<std::string>& out) const {
  if (node.kind == YamlNode::kNull) return Ok();
  if (node.kind != YamlNode::kList) return Error(node, key + " must be a list");
  for (const YamlNode* item : node.items) {
    if (item->kind != YamlNode::kScalar) return Error(*item, key + ": an entry must be text");
    out.push_back(item->text);
  }
  return Ok();
}

Status WebConfigReader::OneOf(const YamlNode& node, const std::string& key, Words words, size_t& out) const {
  std::string text;
  RETURN_IF_ERROR(Text(node, key, text));
  auto found = std::find(words.begin(), words.end(), text);
  if (found == words.end()) return Error(node, key + ": " + Shown(text) + " is not one of " + Join(words));
  out = static_cast<size_t>(found - words.begin());
  return Ok();
}

Status WebConfigReader::TlsKey(const std::string& key, const YamlNode& value, TlsServerOptions& out) {
  static constexpr std::array<std::string_view, 2> kVersions = {"TLS12", "TLS13"};
  static constexpr std::array<std::string_view, 5> kAuth = {"NoClientCert", "RequestClientCert",
                                                            "RequireAnyClientCert", "VerifyClientCertIfGiven",
                                                            "RequireAndVerifyClientCert"};
  size_t index = 0;
  if (key == "cert_file") return File(value, key, out.certificate.file);
  if (key == "key_file") return File(value, key, out.key.file);
  if (key == "client_ca_file") return File(value, key, out.client_ca.file);
  if (key == "cert") return Text(value, key, out.certificate.text);
  if (key == "key") return Text(value, key, out.key.text);
  if (key == "client_ca") return Text(value, key, out.client_ca.text);
  if (key == "client_allowed_sans") return List(value, key, out.client_allowed_sans);
  if (key == "prefer_server_cipher_suites") return Bool(value, key, out.prefer_server_ciphers);
  if (key == "client_auth_type") {
    RETURN_IF_ERROR(OneOf(value, key, kAuth, index));
    out.client_auth = static_cast<ClientAuth>(index);
  } else if (key == "min_version" || key == "max_version") {
    RETURN_IF_ERROR(OneOf(value, key, kVersions, index));
    (key == "min_version" ? out.min_version : out.max_version) = static_cast<TlsVersion>(index);
  } else if (key == "cipher_suites") {
    RETURN_IF_ERROR(List(value, key, out.cipher_suites));
    for (const std::string& name : out.cipher_suites) {
      if (!TlsContext::KnownCipher(name)) return Error(value, key + ": unknown suite " + Shown(name));
    }
  } else if (key == "curve_preferences") {
    RETURN_IF_ERROR(List(value, key, out.curves));
    for (const std::string& name : out.curves) {
      if (!TlsContext::KnownCurve(name)) return Error(value, key + ": unknown curve " + Shown(name));
    }
  }
  return Ok();
}

Status WebConfigReader::Tls(const YamlNode& node, TlsServerOptions& out) {
  static constexpr std::string_view kKeys[] = {
      "cert_file",        "key_file",       "cert",          "key",
      "client_auth_type", "client_ca_file", "client_ca",     "client_allowed_sans",
      "min_version",      "max_version",    "cipher_suites", "prefer_server_cipher_suites",
      "curve_preferences"};
  RETURN_IF_ERROR(Map(node, "tls_server_config", kKeys, [&](const std::string& key, const YamlNode& value) {
    return TlsKey(key, value, out);
  }));
  return CheckTls(node, out);
}

Status WebConfigReader::CheckTls(const YamlNode& node, const TlsServerOptions& tls) const {
  auto both = [](const PemSource& s) { return !s.file.empty() && !s.text.empty(); };
  if (both(tls.certificate)) return Error(node, "cert and cert_file are both set");
  if (both(tls.key)) return Error(node, "key and key_file are both set");
  if (both(tls.client_ca)) return Error(node, "client_ca and client_ca_file are both set");
  if (tls.certificate.empty()) return Error(node, "tls_server_config needs cert_file");
  if (tls.key.empty()) return Error(node, "tls_server_config needs key_file");
  if (tls.min_version > tls.max_version) return Error(node, "min_version is above max_version");
  bool verify = tls.client_auth >= ClientAuth::kVerifyClientCertIfGiven;
  if (verify && tls.client_ca.empty()) {
    return Error(node, "client_auth_type verifies client certificates, but client_ca_file is not set");
  }
  if (!tls.client_ca.empty() && tls.client_auth == ClientAuth::kNoClientCert) {
    return Error(node, "client_ca_file is set, but client_auth_type is NoClientCert");
  }
  if (!tls.client_allowed_sans.empty() && !verify) {
    return Error(node, "client_allowed_sans needs a client_auth_type that verifies");
  }
  return Ok();
}

Status WebConfigReader::Http(const YamlNode& node, WebConfig& out) {
  static constexpr std::string_view kKeys[] = {"http2", "headers"};
  static constexpr std::string_view kHeaders[] = {"Content-Security-Policy",   "X-Frame-Options",
                                                  "X-Content-Type-Options",    "X-XSS-Protection",
                                                  "Strict-Transport-Security", "Cache-Control"};
  return Map(node, "http_server_config", kKeys, [&](const std::string& key, const YamlNode& value) {
    if (key == "http2") return Bool(value, key, out.http2);
    return Map(value, "headers", kHeaders, [&](const std::string& name, const YamlNode& text_node) {
      std::string text;
      RETURN_IF_ERROR(Text(text_node, name, text));
      if (std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; })) {
        return Error(text_node, name + ": a header value is one line of printable text");
      }
      out.headers.emplace_back(name, std::move(text));
      return Ok();
    });
  });
}

Status WebConfigReader::Users(const YamlNode& node, WebConfig& out) {
  return Map(node, "basic_auth_users", {}, [&](const std::string& name, const YamlNode& value) {
    std::string hash;
    RETURN_IF_ERROR(Text(value, "basic_auth_users: " + Shown(name), hash));
    if (name.find(':') != std::string::npos)
      return Error(value, "a user name cannot have a colon: " + Shown(name));
    if (!IsBcryptHash(hash)) {
      return Error(value, "the password of user " + Shown(name) +
                              " must be a bcrypt hash of cost 4 to 16, as `htpasswd -nBC 10 \"\"` makes");
    }
    out.users.emplace(name, std::move(hash));
    return Ok();
  });
}

Status WebConfigReader::Root(const YamlNode& node, WebConfig& out) {
  static constexpr std::string_view kKeys[] = {"tls_server_config", "http_server_config", "basic_auth_users",
                                               "bearer_token", "bearer_token_file"};
  RETURN_IF_ERROR(Map(node, "the web config", kKeys, [&](const std::string& key, const YamlNode& value) {
    if (key == "tls_server_config")
      return value.kind == YamlNode::kNull ? Ok() : Tls(value, out.tls.emplace());
    if (key == "http_server_config") return Http(value, out);
    if (key == "basic_auth_users") return Users(value, out);
    if (key == "bearer_token_file") return File(value, key, out.bearer_token_file);
    return Text(value, key, out.bearer_token);
  }));
  if (!out.bearer_token.empty() && !out.bearer_token_file.empty()) {
    return Error(node, "bearer_token and bearer_token_file are both set");
  }
  return Ok();
}

}  // namespace

std::vector<std::string> WebConfig::Files() const {
  std::vector<std::string> files;
  if (tls) files = {tls->certificate.file, tls->key.file, tls->client_ca.file};
  files.push_back(bearer_token_file);
  std::erase(files, "");
  return files;
}

Result<WebConfig> ParseWebConfig(std::string_view text, const std::string& path) {
  std::vector<YamlProblem> problems;
  const YamlTree tree = ParseYaml(text, {}, problems);
  for (const YamlProblem& problem : problems) {
    std::string what = problem.message;
    if (problem.kind == YamlProblem::kDuplicateKey) what = "duplicate key " + Shown(problem.key);
    if (problem.kind == YamlProblem::kKeyIsNotText) what = "a key must be text";
    return YamlError(path + ":", problem.mark.line, what);
  }
  WebConfig config;
  RETURN_IF_ERROR(WebConfigReader(path).Root(tree.top(), config));
  return config;
}

Result<WebConfig> LoadWebConfig(const std::string& path) {
  ASSIGN_OR_RETURN(std::string text, ReadFile(path, 1 << 20));
  return ParseWebConfig(text, path);
}

bool IsBcryptHash(std::string_view text) noexcept {
  if (text.size() != 60 || !text.starts_with("$2") || text[3] != '$' || text[6] != '$') return false;
  if (text[2] != 'a' && text[2] != 'b' && text[2] != 'y') return false;
  auto cost = ParseInt<int>(text.substr(4, 2));
  auto good = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '/';
  };
  return cost && *cost >= 4 && *cost <= 16 && std::all_of(text.begin() + 7, text.end(), good);
}

}  // namespace gpulens
