#include "net/tls.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "base/files.h"
#include "base/result.h"
#include "net/message/address.h"

namespace gpulens {
namespace {

using X509Ptr = std::unique_ptr<X509, decltype(&X509_free)>;
using BioPtr = std::unique_ptr<BIO, decltype(&BIO_free)>;
using KeyPtr = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

constexpr unsigned char kAlpnHttp1[] = "\x08http/1.1", kAlpnHttp2[] = "\x02h2";

// Its address as the app data of an SSL marks one that speaks HTTP/2.
char http2_mark;
bool SpeaksHttp2(const SSL* ssl) noexcept { return SSL_get_app_data(ssl) == &http2_mark; }

struct NamePair {
  const char* go;
  const char* openssl;
};
constexpr NamePair kCiphers[] = {
    {"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"},
    {"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"},
    {"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"},
    {"TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"},
    {"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"},
    {"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"},
    {"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", "ECDHE-ECDSA-CHACHA20-POLY1305"},
    {"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", "ECDHE-RSA-CHACHA20-POLY1305"},
    {"TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256", "ECDHE-ECDSA-AES128-SHA256"},
    {"TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256", "ECDHE-RSA-AES128-SHA256"},
    {"TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", "ECDHE-ECDSA-AES128-SHA"},
    {"TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA", "ECDHE-ECDSA-AES256-SHA"},
    {"TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", "ECDHE-RSA-AES128-SHA"},
    {"TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA", "ECDHE-RSA-AES256-SHA"},
    {"TLS_RSA_WITH_AES_128_GCM_SHA256", "AES128-GCM-SHA256"},
    {"TLS_RSA_WITH_AES_256_GCM_SHA384", "AES256-GCM-SHA384"},
    // Always on with TLS 1.3; accepted so that existing files load.
    {"TLS_AES_128_GCM_SHA256", nullptr},
    {"TLS_AES_256_GCM_SHA384", nullptr},
    {"TLS_CHACHA20_POLY1305_SHA256", nullptr},
};
constexpr NamePair kCurves[] = {
    {"CurveP256", "P-256"}, {"CurveP384", "P-384"}, {"CurveP521", "P-521"}, {"X25519", "X25519"}};

template <size_t N>
const NamePair* Find(const NamePair (&table)[N], const std::string& name) {
  auto* found = std::find_if(table, table + N, [&name](const NamePair& pair) { return name == pair.go; });
  return found == table + N ? nullptr : found;
}

std::string Where(const PemSource& source) {
  return source.file.empty() ? "the inline PEM text" : source.file;
}

Status BadPem(const PemSource& source, std::string_view what) {
  return {Code::kInvalidArgument, Where(source) + ": " + std::string(what) + ": " + TakeTlsErrors()};
}

Result<std::string> LoadPem(const PemSource& source) {
  if (source.file.empty()) return source.text;
  return ReadFile(source.file, 4 << 20);
}

BioPtr Memory(const std::string& text) {
  return {BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), &BIO_free};
}

// OpenSSL would prompt for the password of an encrypted key.
int NoPassword(char*, int, int, void*) { return 0; }

Status UseCertificate(SSL_CTX* context, const PemSource& certificate, const PemSource& key) {
  ASSIGN_OR_RETURN(std::string chain, LoadPem(certificate));
  BioPtr bio = Memory(chain);
  X509Ptr leaf(PEM_read_bio_X509(bio.get(), nullptr, NoPassword, nullptr), &X509_free);
  if (!leaf || SSL_CTX_use_certificate(context, leaf.get()) != 1)
    return BadPem(certificate, "no certificate");
  while (X509* next = PEM_read_bio_X509(bio.get(), nullptr, NoPassword, nullptr)) {
    SSL_CTX_add0_chain_cert(context, next);
  }
  ERR_clear_error();
  ASSIGN_OR_RETURN(std::string secret, LoadPem(key));
  KeyPtr private_key(PEM_read_bio_PrivateKey(Memory(secret).get(), nullptr, NoPassword, nullptr),
                     &EVP_PKEY_free);
  OPENSSL_cleanse(secret.data(), secret.size());
  if (!private_key) return BadPem(key, "no private key that can be read without a password");
  if (SSL_CTX_use_PrivateKey(context, private_key.get()) != 1 || SSL_CTX_check_private_key(context) != 1) {
    return BadPem(key, "the key does not belong to the certificate " + Where(certificate));
  }
  return Ok();
}

// Adds every certificate of `source` to the store; with `names`, also to the list sent to clients.
Status AddCa(SSL_CTX* context, const PemSource& source, bool names) {
  ASSIGN_OR_RETURN(std::string text, LoadPem(source));
  BioPtr bio = Memory(text);
  int count = 0;
  while (X509* found = PEM_read_bio_X509(bio.get(), nullptr, NoPassword, nullptr)) {
    X509Ptr certificate(found, &X509_free);
    ++count;
    if (X509_STORE_add_cert(SSL_CTX_get_cert_store(context), found) != 1) ERR_clear_error();
    if (names) SSL_CTX_add_client_CA(context, found);
  }
  if (count == 0) return BadPem(source, "no CA certificate");
  ERR_clear_error();
  return Ok();
}

Status SetVersions(SSL_CTX* context, TlsVersion min, TlsVersion max) {
  if (min > max) return {Code::kInvalidArgument, "min_version is above max_version"};
  auto number = [](TlsVersion v) { return v == TlsVersion::kTls12 ? TLS1_2_VERSION : TLS1_3_VERSION; };
  SSL_CTX_set_min_proto_version(context, number(min));
  SSL_CTX_set_max_proto_version(context, number(max));
  return Ok();
}

Status SetLists(SSL_CTX* context, const TlsServerOptions& options) {
  std::string ciphers, curves;
  for (const std::string& name : options.cipher_suites) {
    const NamePair* pair = Find(kCiphers, name);
    if (!pair) return {Code::kInvalidArgument, "cipher_suites: unknown suite " + name};
    if (pair->openssl) ciphers += (ciphers.empty() ? "" : ":") + std::string(pair->openssl);
  }
  for (const std::string& name : options.curves) {
    const NamePair* pair = Find(kCurves, name);
    if (!pair) return {Code::kInvalidArgument, "curve_preferences: unknown curve " + name};
    curves += (curves.empty() ? "" : ":") + std::string(pair->openssl);
  }
  if (ciphers.empty()) ciphers = "ECDHE+AESGCM:ECDHE+CHACHA20";
  if (SSL_CTX_set_cipher_list(context, ciphers.c_str()) != 1) {
    return {Code::kInvalidArgument, "cipher_suites: " + TakeTlsErrors()};
  }
  if (!curves.empty() && SSL_CTX_set1_groups_list(context, curves.c_str()) != 1) {
    return {Code::kInvalidArgument, "curve_preferences: " + TakeTlsErrors()};
  }
  return Ok();
}

bool SanAllowed(X509* certificate, const std::vector<std::string>& allowed) {
  auto* names =
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  bool found = false;
  for (int i = 0; names && i < sk_GENERAL_NAME_num(names) && !found; ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names, i);
    int type = 0;
    auto* value = static_cast<ASN1_STRING*>(GENERAL_NAME_get0_value(name, &type));
    if (type == GEN_DNS || type == GEN_EMAIL || type == GEN_URI) {
      std::string text(reinterpret_cast<const char*>(ASN1_STRING_get0_data(value)),
                       static_cast<size_t>(ASN1_STRING_length(value)));
      found = std::find(allowed.begin(), allowed.end(), text) != allowed.end();
    }
  }
  GENERAL_NAMES_free(names);
  for (size_t i = 0; i < allowed.size() && !found; ++i) {
    found = X509_check_ip_asc(certificate, allowed[i].c_str(), 0) == 1;
  }
  ERR_clear_error();
  return found;
}

int AcceptAnyCertificate(int, X509_STORE_CTX*) { return 1; }

int CheckSans(int preverified, X509_STORE_CTX* store) {
  if (!preverified || X509_STORE_CTX_get_error_depth(store) != 0) return preverified;
  auto* ssl = static_cast<SSL*>(X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
  auto* allowed = static_cast<const std::vector<std::string>*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
  if (allowed->empty() || SanAllowed(X509_STORE_CTX_get_current_cert(store), *allowed)) return 1;
  X509_STORE_CTX_set_error(store, X509_V_ERR_APPLICATION_VERIFICATION);
  return 0;
}

Status SetClientAuth(SSL_CTX* context, const TlsServerOptions& options) {
  bool verify = options.client_auth >= ClientAuth::kVerifyClientCertIfGiven;
  if (verify && options.client_ca.empty()) {
    return {Code::kInvalidArgument,
            "client_auth_type verifies client certificates, but client_ca_file is not set"};
  }
  if (!options.client_ca.empty()) {
    if (options.client_auth == ClientAuth::kNoClientCert) {
      return {Code::kInvalidArgument, "client_ca_file is set, but client_auth_type is NoClientCert"};
    }
    RETURN_IF_ERROR(AddCa(context, options.client_ca, true));
  }
  int mode = SSL_VERIFY_PEER;
  switch (options.client_auth) {
    case ClientAuth::kNoClientCert: mode = SSL_VERIFY_NONE; break;
    case ClientAuth::kRequireAnyClientCert:
    case ClientAuth::kRequireAndVerifyClientCert: mode |= SSL_VERIFY_FAIL_IF_NO_PEER_CERT; break;
    case ClientAuth::kRequestClientCert:
    case ClientAuth::kVerifyClientCertIfGiven: break;
  }
  SSL_CTX_set_verify(context, mode, verify ? CheckSans : AcceptAnyCertificate);
  return Ok();
}

// A server speaks one protocol on each socket. It refuses a client that offers no HTTP/2 where only that is
// spoken.
void ChooseProtocol(SSL_CTX* context) {
  auto choose = [](SSL* ssl, const unsigned char** out, unsigned char* out_size, const unsigned char* in,
                   unsigned int in_size, void*) {
    const bool http2 = SpeaksHttp2(ssl);
    unsigned char* chosen = nullptr;
    int result = SSL_select_next_proto(&chosen, out_size, http2 ? kAlpnHttp2 : kAlpnHttp1,
                                       http2 ? sizeof kAlpnHttp2 - 1 : sizeof kAlpnHttp1 - 1, in, in_size);
    *out = chosen;
    if (result == OPENSSL_NPN_NEGOTIATED) return SSL_TLSEXT_ERR_OK;
    return http2 ? SSL_TLSEXT_ERR_ALERT_FATAL : SSL_TLSEXT_ERR_NOACK;
  };
  SSL_CTX_set_alpn_select_cb(context, choose, nullptr);
}

void SetCommon(SSL_CTX* context) {
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context, 0);
}

Status AddMachineCa(SSL_CTX* context) {
  const char* chosen = ::getenv("SSL_CERT_FILE");
  for (const char* path : {chosen, "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                           "/etc/ssl/cert.pem"}) {
    if (path && ::access(path, R_OK) == 0) return AddCa(context, {.file = path, .text = {}}, false);
  }
  return {Code::kUnavailable,
          "no CA certificates on this machine: install ca-certificates, or set ca_file or SSL_CERT_FILE"};
}

// A socket BIO: OpenSSL's own uses write(2), which raises SIGPIPE.
int BioFd(BIO* bio) { return static_cast<int>(reinterpret_cast<intptr_t>(BIO_get_data(bio))); }

int BioRead(BIO* bio, char* into, int size) {
  BIO_clear_retry_flags(bio);
  ssize_t n = ::recv(BioFd(bio), into, static_cast<size_t>(size), 0);
  if (n == 0) BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_read(bio);
  return static_cast<int>(n);
}

int BioWrite(BIO* bio, const char* from, int size) {
  BIO_clear_retry_flags(bio);
  ssize_t n = ::send(BioFd(bio), from, static_cast<size_t>(size), MSG_NOSIGNAL);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_write(bio);
  return static_cast<int>(n);
}

long BioControl(BIO* bio, int command, long, void*) {
  if (command == BIO_CTRL_EOF) return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0;
  return command == BIO_CTRL_FLUSH;
}

BIO_METHOD* SocketBio() {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "gpulens socket");
    BIO_meth_set_read(made, BioRead);
    BIO_meth_set_write(made, BioWrite);
    BIO_meth_set_ctrl(made, BioControl);
    return made;
  }();
  return method;
}

}  // namespace

std::string TakeTlsErrors() {
  std::string words;
  while (unsigned long error = ERR_get_error()) {
    const char* reason = ERR_reason_error_string(error);
    if (!words.empty()) words += "; ";
    words += reason ? reason : "error " + std::to_string(error);
  }
  return words.empty() ? "no detail" : words;
}

bool TlsContext::KnownCipher(const std::string& name) { return Find(kCiphers, name) != nullptr; }
bool TlsContext::KnownCurve(const std::string& name) { return Find(kCurves, name) != nullptr; }

TlsContext::~TlsContext() { SSL_CTX_free(static_cast<SSL_CTX*>(context_)); }

Result<std::shared_ptr<const TlsContext>> TlsContext::Server(const TlsServerOptions& options) {
  std::shared_ptr<TlsContext> made(new TlsContext);
  SSL_CTX* context = SSL_CTX_new(TLS_server_method());
  if (!context) return Status{Code::kExhausted, "TLS context: " + TakeTlsErrors()};
  made->context_ = context;
  made->server_ = true;
  made->allowed_sans_ = options.client_allowed_sans;
  SSL_CTX_set_app_data(context, &made->allowed_sans_);
  SetCommon(context);
  // A client may close without close_notify; only for responses that would be a truncation.
  SSL_CTX_set_options(context, SSL_OP_IGNORE_UNEXPECTED_EOF);
  ChooseProtocol(context);
  if (options.prefer_server_ciphers) SSL_CTX_set_options(context, SSL_OP_CIPHER_SERVER_PREFERENCE);
  RETURN_IF_ERROR(SetVersions(context, options.min_version, options.max_version));
  RETURN_IF_ERROR(SetLists(context, options));
  RETURN_IF_ERROR(UseCertificate(context, options.certificate, options.key));
  RETURN_IF_ERROR(SetClientAuth(context, options));
  return std::shared_ptr<const TlsContext>(std::move(made));
}

Result<std::shared_ptr<const TlsContext>> TlsContext::Client(const TlsClientOptions& options) {
  std::shared_ptr<TlsContext> made(new TlsContext);
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  if (!context) return Status{Code::kExhausted, "TLS context: " + TakeTlsErrors()};
  made->context_ = context;
  made->server_name_ = options.server_name;
  made->verifies_ = !options.insecure_skip_verify;
  SetCommon(context);
  RETURN_IF_ERROR(SetVersions(context, options.min_version, options.max_version));
  if (!options.certificate.empty())
    RETURN_IF_ERROR(UseCertificate(context, options.certificate, options.key));
  if (made->verifies_) {
    RETURN_IF_ERROR(options.ca.empty() ? AddMachineCa(context) : AddCa(context, options.ca, false));
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  }
  return std::shared_ptr<const TlsContext>(std::move(made));
}

Result<SSL*> MakeTlsSession(const TlsContext& context, int fd, std::string_view host, bool http2) {
  SSL* ssl = SSL_new(static_cast<SSL_CTX*>(context.native()));
  BIO* bio = BIO_new(SocketBio());
  if (!ssl || !bio) {
    SSL_free(ssl);
    BIO_free(bio);
    return Status{Code::kExhausted, "TLS: " + TakeTlsErrors()};
  }
  BIO_set_data(bio, reinterpret_cast<void*>(static_cast<intptr_t>(fd)));
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl, bio, bio);
  if (http2) SSL_set_app_data(ssl, &http2_mark);
  if (context.server()) {
    SSL_set_accept_state(ssl);
    return ssl;
  }
  SSL_set_connect_state(ssl);
  std::string name(context.server_name().empty() ? host : std::string_view(context.server_name()));
  bool ok = !http2 || SSL_set_alpn_protos(ssl, kAlpnHttp2, sizeof kAlpnHttp2 - 1) == 0;
  if (!ok) {
    SSL_free(ssl);
    return Status{Code::kExhausted, "TLS: " + TakeTlsErrors()};
  }
  if (auto ip = ParseIp(name)) {
    if (context.verifies()) ok = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), ip->Host().c_str()) == 1;
  } else if (!name.empty()) {
    ok = SSL_set_tlsext_host_name(ssl, name.c_str()) == 1;
    if (ok && context.verifies()) ok = SSL_set1_host(ssl, name.c_str()) == 1;
  } else {
    ok = !context.verifies();
  }
  if (ok) return ssl;
  SSL_free(ssl);
  return Status{Code::kInvalidArgument, "TLS: no server name to check the certificate against"};
}

}  // namespace gpulens
