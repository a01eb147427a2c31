#include "net/testing/test_client.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/parse.h"
#include "net/tls.h"

namespace gpulens::testing {
namespace {

bool SameName(std::string_view a, std::string_view b) {
  return a.size() == b.size() && ::strncasecmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace

struct TestClient::Ssl {
  SSL_CTX* context = nullptr;
  SSL* ssl = nullptr;
  ~Ssl() {
    SSL_free(ssl);
    SSL_CTX_free(context);
  }
};

std::string Answer::Header(std::string_view name) const {
  std::string_view rest = head;
  TakeUntil(rest, '\n');
  while (!rest.empty()) {
    std::string_view value = TakeUntil(rest, '\n');
    std::string_view found = TakeUntil(value, ':');
    if (SameName(found, name)) return std::string(Trim(value));
  }
  return {};
}

TestClient::TestClient(const Endpoint& to) {
  sockaddr_storage address{};
  socklen_t size = to.ToSockaddr(address);
  fd_.reset(::socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  timeval deadline{10, 0};
  ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &deadline, sizeof(deadline));
  ::setsockopt(fd_.get(), SOL_SOCKET, SO_SNDTIMEO, &deadline, sizeof(deadline));
  int on = 1;
  ::setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  connected_ = ::connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), size) == 0;
}

TestClient::TestClient(const Endpoint& to, const Tls& tls) : TestClient(to) {
  if (!connected_) return;
  ssl_ = std::make_unique<Ssl>();
  ssl_->context = SSL_CTX_new(TLS_client_method());
  if (tls.max_version) SSL_CTX_set_max_proto_version(ssl_->context, tls.max_version);
  auto memory = [](const std::string& text) {
    return BIO_new_mem_buf(text.data(), static_cast<int>(text.size()));
  };
  if (!tls.ca.empty()) {
    BIO* bio = memory(tls.ca);
    X509* ca = PEM_read_bio_X509(bio, nullptr, nullptr, nullptr);
    X509_STORE_add_cert(SSL_CTX_get_cert_store(ssl_->context), ca);
    X509_free(ca);
    BIO_free(bio);
    SSL_CTX_set_verify(ssl_->context, SSL_VERIFY_PEER, nullptr);
  }
  if (!tls.certificate.key.empty()) {
    BIO* bio = memory(tls.certificate.certificate);
    X509* ours = PEM_read_bio_X509(bio, nullptr, nullptr, nullptr);
    SSL_CTX_use_certificate(ssl_->context, ours);
    X509_free(ours);
    BIO_free(bio);
    bio = memory(tls.certificate.key);
    EVP_PKEY* key = PEM_read_bio_PrivateKey(bio, nullptr, nullptr, nullptr);
    SSL_CTX_use_PrivateKey(ssl_->context, key);
    EVP_PKEY_free(key);
    BIO_free(bio);
  }
  ssl_->ssl = SSL_new(ssl_->context);
  SSL_set_fd(ssl_->ssl, fd_.get());
  connected_ = SSL_connect(ssl_->ssl) == 1;
  if (!connected_) error_ = TakeTlsErrors();
}

TestClient::TestClient(TestClient&&) noexcept = default;
TestClient::~TestClient() = default;

bool TestClient::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t n = ssl_ ? SSL_write(ssl_->ssl, bytes.data(), static_cast<int>(bytes.size()))
                     : ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

bool TestClient::Fill() {
  char buffer[16384];
  errno = 0;  // an end of the stream sets none
  ssize_t n =
      ssl_ ? SSL_read(ssl_->ssl, buffer, sizeof(buffer)) : ::recv(fd_.get(), buffer, sizeof(buffer), 0);
  if (n <= 0) {
    if (ssl_) error_ = TakeTlsErrors();
    return false;
  }
  received_.append(buffer, static_cast<size_t>(n));
  return true;
}

Answer TestClient::Read(bool head_only) {
  Answer answer;
  size_t end = 0;
  while ((end = received_.find("\r\n\r\n")) == std::string::npos) {
    if (!Fill()) return {};
  }
  answer.head = received_.substr(0, end + 2);
  received_.erase(0, end + 4);
  std::string_view line = answer.head;
  TakeUntil(line, ' ');
  int status = ParseInt<int>(TakeUntil(line, ' ')).value_or(0);
  if (status >= 100 && status < 200 && status != 101) return Read(head_only);
  size_t size = ParseInt<size_t>(answer.Header("Content-Length")).value_or(0);
  if (!head_only && status != 101) answer.body = ReadBytes(size);
  if (head_only || answer.body.size() == size || status == 101) answer.status = status;
  return answer;
}

std::string TestClient::ReadBytes(size_t size) {
  while (received_.size() < size && Fill()) {
  }
  std::string bytes = received_.substr(0, size);
  received_.erase(0, bytes.size());
  return bytes;
}

std::string TestClient::ReadAll() {
  while (Fill()) {
  }
  return std::move(received_);
}

bool TestClient::ReadsEnd() {
  if (!received_.empty() || Fill()) return false;
  return ssl_ || (errno != EAGAIN && errno != EWOULDBLOCK);
}

void TestClient::FinishSending() { ::shutdown(fd_.get(), SHUT_WR); }

std::string TestClient::PeerName() const {
  X509* certificate = ssl_ ? SSL_get1_peer_certificate(ssl_->ssl) : nullptr;
  if (!certificate) return {};
  char name[256] = {};
  X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name, sizeof(name));
  X509_free(certificate);
  return name;
}

Answer Fetch(const Endpoint& to, std::string_view method, std::string_view path, std::string_view fields) {
  TestClient client(to);
  client.Send(std::string(method) + " " + std::string(path) + " HTTP/1.1\r\nHost: test\r\n" +
              std::string(fields) + "\r\n");
  return client.Read(method == "HEAD");
}

void ShortPause() { ::poll(nullptr, 0, 5); }

}  // namespace gpulens::testing
