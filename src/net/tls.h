// TLS settings as plain values, and the contexts made of them.
//
// Contexts are made when first needed: OpenSSL costs 4 MB once the first one exists. OpenSSL stays
// inside the .cc files. Certificates are files or PEM text, never both.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <gpulens/status.h>

namespace gpulens {

enum class TlsVersion : uint8_t { kTls12, kTls13 };

// What a server asks of its clients; the names of Prometheus's exporter-toolkit.
enum class ClientAuth : uint8_t {
  kNoClientCert,
  kRequestClientCert,           // asked for, not checked
  kRequireAnyClientCert,        // must be there, not checked
  kVerifyClientCertIfGiven,     // checked when there
  kRequireAndVerifyClientCert,  // must be there and good
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

// An immutable SSL_CTX. Thread-safe. Sessions are not resumed, so that changed rules for clients hold
// for every connection made after the change.
class TlsContext {
 public:
  // kUnavailable or kPermissionDenied for files, kInvalidArgument for what stands in them; the detail
  // names the file.
  static Result<std::shared_ptr<const TlsContext>> Server(const TlsServerOptions& options);
  // CA files are tried in this order when none is given: SSL_CERT_FILE,
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

// What OpenSSL has queued as errors on this thread, in words; clears the queue.
std::string TakeTlsErrors();

}  // namespace gpulens
