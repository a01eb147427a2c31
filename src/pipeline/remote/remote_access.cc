#include "pipeline/remote/remote_access.h"

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

Status TwoWays(std::string_view one, std::string_view other) {
  return {Code::kInvalidArgument, std::string(one) + " and " + std::string(other) + " contradict each other"};
}

}  // namespace

Result<RemoteAccess> RemoteAccess::Make(const Config& remote, const HttpUrl& url, const Fields& fields) {
  RemoteAccess access;
  RETURN_IF_ERROR(access.SetPlain(remote, fields));
  const std::string &password = remote.Text("password"), &token = remote.Text("bearer_token");
  const std::string &password_file = remote.Text("password_file"),
                    &token_file = remote.Text("bearer_token_file");
  access.user_ = remote.Text("username").empty() ? url.user : remote.Text("username");
  access.bearer_ = !token.empty() || !token_file.empty();
  access.basic_ = !access.user_.empty() || !password.empty() || !password_file.empty();
  if (!password.empty() && !password_file.empty()) return TwoWays("password", "password_file");
  if (!token.empty() && !token_file.empty()) return TwoWays("bearer_token", "bearer_token_file");
  if (access.bearer_ && access.basic_) return TwoWays("bearer_token", "username");
  access.secret_ = access.bearer_ ? token : password.empty() ? url.password : password;
  access.secret_file_ = access.bearer_ ? token_file : password_file;
  access.wants_tls_ = url.tls;
  const Config& tls = remote.Group("tls");
  TlsClientOptions& options = access.tls_options_;
  options.ca.file = tls.Text("ca_file");
  options.certificate.file = tls.Text("cert_file");
  options.key.file = tls.Text("key_file");
  options.server_name = tls.Text("server_name");
  options.insecure_skip_verify = tls.Bool("insecure_skip_verify");
  if (options.certificate.empty() != options.key.empty()) {
    return Status{Code::kInvalidArgument, "tls.cert_file and tls.key_file belong together"};
  }
  for (const PemSource* source : {&options.ca, &options.certificate, &options.key}) {
    if (!source->file.empty()) access.tls_files_.push_back(source->file);
  }
  return access;
}

Status RemoteAccess::SetPlain(const Config& remote, const Fields& fields) {
  std::string& out = plain_headers_;
  bool accepts = false;
  for (const auto& [name, value] : remote.TextMap("headers")) {
    RETURN_IF_ERROR(AddRequestField(out, name, value));
    accepts |= IsHeader(name, "accept");
    bool secret = !remote.Text("username").empty() || !remote.Text("bearer_token").empty() ||
                  !remote.Text("bearer_token_file").empty();
    if (IsHeader(name, "authorization") && secret)
      return TwoWays("headers.Authorization", "username or bearer_token");
  }
  if (!accepts) out += fields.accept;
  out += fields.always;
  out += "User-Agent: gpulens/" + std::string(Version()) + "\r\n";
  return Ok();
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
