#include "net/tls_session.h"

#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>

#include "net/message/address.h"

namespace gpulens {
namespace {

// What is kept with an SSL that speaks HTTP/2: its address says so.
char kHttp2Mark;

// A socket BIO of our own: OpenSSL's writes with write(2), which raises SIGPIPE in the whole process.
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

bool SpeaksHttp2(const SSL* ssl) noexcept { return SSL_get_app_data(ssl) == &kHttp2Mark; }

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
  if (http2) SSL_set_app_data(ssl, &kHttp2Mark);
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
