// TLS settings, and the contexts made of them. The first context costs 4 MB of OpenSSL, so make them when
// needed. Certificates are files or PEM text, never both. OpenSSL stays inside the .cc files.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

struct ssl_st;

namespace gpulens {

enum class TlsVersion : uint8_t { kTls12, kTls13 };

// Client certificates that a server requires; names of Prometheus's exporter-toolkit.
enum class ClientAuth : uint8_t {
  kNoClientCert,
  kRequestClientCert,           // requested, not verified
  kRequireAnyClientCert,        // required, not verified
  kVerifyClientCertIfGiven,     // verified when present
  kRequireAndVerifyClientCert,  // required and verified
};

// PEM text, or the file that holds it.
struct PemSource {
  std::string file, text;
  bool empty() const noexcept { return file.empty() && text.empty(); }
};

struct TlsServerOptions {
  PemSource certificate, key;  // a chain, leaf first
  PemSource client_ca;
  ClientAuth client_auth = ClientAuth::kNoClientCert;
  std::vector<std::string> client_allowed_sans;  // DNS, email, URI or IP; empty: any
  TlsVersion min_version = TlsVersion::kTls12, max_version = TlsVersion::kTls13;
  std::vector<std::string> cipher_suites;  // TLS 1.2, Go's names; empty: OpenSSL's strong default
  std::vector<std::string> curves;         // CurveP256, CurveP384, CurveP521, X25519
  bool prefer_server_ciphers = true;
};

struct TlsClientOptions {
  PemSource ca;  // empty: the CA files of the machine
  PemSource certificate, key;
  std::string server_name;  // for SNI and the check of the name; empty: the host of the URL
  bool insecure_skip_verify = false;
  TlsVersion min_version = TlsVersion::kTls12, max_version = TlsVersion::kTls13;
};

// An immutable SSL_CTX. Thread-safe. Sessions are not resumed, so that changed rules hold for every new
// connection.
class TlsContext {
 public:
  // kUnavailable or kPermissionDenied for files, kInvalidArgument for their content; the detail names the
  // file.
  static Result<std::shared_ptr<const TlsContext>> Server(const TlsServerOptions& options);
  // Without a CA the first that exists of: SSL_CERT_FILE,
  // /etc/ssl/certs/ca-certificates.crt, /etc/pki/tls/certs/ca-bundle.crt, /etc/ssl/cert.pem.
  static Result<std::shared_ptr<const TlsContext>> Client(const TlsClientOptions& options);

  ~TlsContext();
  bool server() const noexcept { return server_; }
  bool verifies() const noexcept { return verifies_; }
  const std::string& server_name() const noexcept { return server_name_; }
  // The SSL_CTX*, for stream.cc.
  void* native() const noexcept { return context_; }

  // Go's and OpenSSL's names that `cipher_suites` and `curves` take, for error messages.
  static bool KnownCipher(const std::string& name);
  static bool KnownCurve(const std::string& name);

 private:
  TlsContext() = default;
  void* context_ = nullptr;
  bool server_ = false, verifies_ = false;
  std::string server_name_;
  std::vector<std::string> allowed_sans_;
};

// Takes the errors that OpenSSL has queued on this thread, as text.
std::string TakeTlsErrors();

// Makes the SSL of one connection on `fd`, for stream.cc; the caller frees it. It accepts or connects as the
// context requires. A client sends and checks the context's server name, or else `host`; kInvalidArgument
// when there is neither and the context verifies. With `http2` a client offers that alone, and a server
// accepts nothing else.
Result<ssl_st*> MakeTlsSession(const TlsContext& context, int fd, std::string_view host, bool http2);

}  // namespace gpulens
