#include "plugins/remote_access.h"

#include <algorithm>

#include "base/files.h"
#include "base/parse.h"
#include "base/result.h"
#include "base/version.h"
#include "net/client/http_client.h"

namespace gpulens {
namespace {

constexpr size_t kSecretBytes = 64u << 10;

bool IsHeader(const std::string& name, std::string_view lower) {
  return std::equal(name.begin(), name.end(), lower.begin(), lower.end(),
                    [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b; });
}

void RefuseBoth(const Config& transport, std::string_view one, std::string_view other, ConfigFaults& faults) {
  const std::string_view key = other.substr(0, other.find('.'));
  faults.Refuse(transport, key, std::string(one) + " and " + std::string(other) + " contradict each other",
                "remove one of them");
}

}  // namespace

void CheckRemote(const Config& transport, const HttpUrl& url, ConfigFaults& faults) {
  const auto has = [&](std::string_view key) { return !transport.Text(key).empty(); };
  for (std::string_view secret : {"password", "bearer_token"}) {
    const std::string file = std::string(secret) + "_file";
    if (has(secret) && has(file)) RefuseBoth(transport, secret, file, faults);
  }
  const std::string_view token = has("bearer_token") ? "bearer_token" : "bearer_token_file";
  for (std::string_view basic : {"username", "password", "password_file"}) {
    if (!has(token) || !has(basic)) continue;
    RefuseBoth(transport, token, basic, faults);
    break;
  }
  if (has(token) && !url.user.empty())
    faults.Refuse(transport, token, std::string(token) + " and the user in the URL contradict each other",
                  "remove one of them");
  const Config& tls = transport.Group("tls");
  if (tls.Text("cert_file").empty() != tls.Text("key_file").empty()) {
    const std::string_view given = tls.Text("cert_file").empty() ? "key_file" : "cert_file";
    faults.Refuse(tls, given, "tls.cert_file and tls.key_file must be set together", "set both or neither");
  }
  std::string ignored;
  for (const auto& [name, value] : transport.TextMap("headers")) {
    const Status status = AddRequestField(ignored, name, value);
    if (!status) faults.Refuse(transport, "headers", "headers: " + status.detail);
    if (IsHeader(name, "authorization") && (has("username") || has(token)))
      RefuseBoth(transport, has("username") ? "username" : token, "headers.Authorization", faults);
  }
}

Result<RemoteAccess> RemoteAccess::Make(const Config& transport, const HttpUrl& url, const Fields& fields) {
  ConfigFaults faults;
  CheckRemote(transport, url, faults);
  if (!faults.empty()) return Status{Code::kInvalidArgument, faults.faults().front().problem};
  RemoteAccess access;
  access.SetPlain(transport, fields);
  const std::string &password = transport.Text("password"), &token = transport.Text("bearer_token");
  const std::string &password_file = transport.Text("password_file"),
                    &token_file = transport.Text("bearer_token_file");
  access.user_ = transport.Text("username").empty() ? url.user : transport.Text("username");
  access.bearer_ = !token.empty() || !token_file.empty();
  access.basic_ = !access.user_.empty() || !password.empty() || !password_file.empty();
  access.secret_ = access.bearer_ ? token : password.empty() ? url.password : password;
  access.secret_file_ = access.bearer_ ? token_file : password_file;
  access.wants_tls_ = url.tls;
  const Config& tls = transport.Group("tls");
  TlsClientOptions& options = access.tls_options_;
  options.ca.file = tls.Text("ca_file");
  options.certificate.file = tls.Text("cert_file");
  options.key.file = tls.Text("key_file");
  options.server_name = tls.Text("server_name");
  options.insecure_skip_verify = tls.Bool("insecure_skip_verify");
  for (const PemSource* source : {&options.ca, &options.certificate, &options.key}) {
    if (!source->file.empty()) access.tls_files_.push_back(source->file);
  }
  return access;
}

void RemoteAccess::SetPlain(const Config& transport, const Fields& fields) {
  std::string& out = plain_headers_;
  bool accepts = false;
  for (const auto& [name, value] : transport.TextMap("headers")) {
    static_cast<void>(AddRequestField(out, name, value));  // CheckRemote has refused what cannot be one
    accepts |= IsHeader(name, "accept");
  }
  if (!accepts) out += fields.accept;
  out += fields.always;
  out += "User-Agent: gpulens/" + std::string(Version()) + "\r\n";
}

Status RemoteAccess::Refresh() {
  RETURN_IF_ERROR(RefreshSecret());
  return wants_tls_ ? RefreshTls() : Ok();
}

Status RemoteAccess::RefreshSecret() {
  std::string_view secret = secret_;
  if (!secret_file_.empty()) {
    RETURN_IF_ERROR(ReadFile(secret_file_.c_str(), scratch_, kSecretBytes));
    secret = Trim(scratch_);
  }
  if (shown_ && secret == shown_secret_) return Ok();
  headers_ = plain_headers_;
  if (basic_) AddBasicAuth(headers_, user_, secret);
  if (bearer_) RETURN_IF_ERROR(AddRequestField(headers_, "Authorization", "Bearer " + std::string(secret)));
  shown_secret_ = secret;
  shown_ = true;
  return Ok();
}

Status RemoteAccess::RefreshTls() {
  bool same = tls_ != nullptr;
  tls_marks_.resize(tls_files_.size());
  for (size_t i = 0; i < tls_files_.size(); ++i) {
    FileMark mark = MarkOf(tls_files_[i]);
    same &= mark == tls_marks_[i];
    tls_marks_[i] = mark;
  }
  if (same) return Ok();
  auto made = TlsContext::Client(tls_options_);
  if (!made) {
    tls_marks_.clear();  // Asked again next time, whatever is repaired meanwhile.
    return made.error();
  }
  tls_ = *std::move(made);
  return Ok();
}

}  // namespace gpulens
