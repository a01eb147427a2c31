#include "plugins/remote_access.h"

#include <algorithm>

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

}  // namespace

void CheckTls(TlsOptions tls, ConfigFaults& faults) {
  const bool no_certificate = tls.Text("cert_file").empty();
  if (no_certificate == tls.Text("key_file").empty()) return;
  tls.Refuse(no_certificate ? TlsOptions::Key("key_file") : TlsOptions::Key("cert_file"), faults,
             "tls.cert_file and tls.key_file must be set together", "set both or neither");
}

void ReadTls(TlsOptions tls, TlsClientOptions& out) {
  out.ca.file = tls.Text("ca_file");
  out.certificate.file = tls.Text("cert_file");
  out.key.file = tls.Text("key_file");
  out.server_name = tls.Text("server_name");
  out.insecure_skip_verify = tls.Bool("insecure_skip_verify");
}

void CheckRemote(TransportOptions transport, const HttpUrl& url, ConfigFaults& faults) {
  using TextKey = TransportOptions::TextKey;
  const auto has = [&](TextKey option) { return !transport.Text(option).empty(); };
  const auto refuse = [&](TransportOptions::Key at, std::string_view one, std::string_view other) {
    transport.Refuse(at, faults, std::string(one) + " and " + std::string(other) + " contradict each other",
                     "remove one of them");
  };
  const auto refuse_both = [&](TextKey one, TextKey other) {
    if (has(one) && has(other)) refuse(other, one.key, other.key);
    return has(one) && has(other);
  };
  refuse_both("password", "password_file");
  refuse_both("bearer_token", "bearer_token_file");
  const TextKey token = has("bearer_token") ? TextKey("bearer_token") : TextKey("bearer_token_file");
  for (TextKey basic : {TextKey("username"), TextKey("password"), TextKey("password_file")}) {
    if (refuse_both(token, basic)) break;
  }
  if (has(token) && !url.user.empty()) refuse(token, token.key, "the user in the URL");
  CheckTls(transport.Group("tls"), faults);
  std::string ignored;
  for (const auto& [name, value] : transport.TextMap("headers")) {
    const Status status = AddRequestField(ignored, name, value);
    if (!status) transport.Refuse("headers", faults, "headers: " + status.detail);
    if (IsHeader(name, "authorization") && (has("username") || has(token)))
      refuse("headers", has("username") ? "username" : token.key, "headers.Authorization");
  }
}

Result<RemoteAccess> RemoteAccess::Make(TransportOptions transport, const HttpUrl& url,
                                        const Fields& fields) {
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
  TlsClientOptions& options = access.tls_options_;
  ReadTls(transport.Group("tls"), options);
  for (const PemSource* source : {&options.ca, &options.certificate, &options.key}) {
    if (!source->file.empty()) access.tls_files_.push_back(source->file);
  }
  return access;
}

void RemoteAccess::SetPlain(TransportOptions transport, const Fields& fields) {
  std::string& out = plain_headers_;
  bool accepts = false;
  for (const auto& [name, value] : transport.TextMap("headers")) {
    static_cast<void>(AddRequestField(out, name, value));  // CheckRemote has refused invalid ones
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
    tls_marks_.clear();  // Load the files again next time.
    return made.error();
  }
  tls_ = *std::move(made);
  return Ok();
}

}  // namespace gpulens
