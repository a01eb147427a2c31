#include "net/stream.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/basic_stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <cstring>

#include "base/files.h"
#include "base/result.h"

namespace gpulens {

namespace asio = boost::asio;
using boost::system::error_code;
using Descriptor = asio::posix::basic_stream_descriptor<asio::io_context::executor_type>;

constexpr size_t kRecord = 16384;  // bytes of a TLS record

class Stream::Core final : public RefCounted<Core> {
 public:
  Core(IoLoop& loop, int fd) : descriptor(loop.context().get_executor(), fd) {}
  ~Core() { SSL_free(ssl); }

  void Wait(bool reading);
  void Finish(bool reading);
  bool ConnectDone();
  IoResult Fail(std::string why);
  IoResult SslOutcome(int result, bool reading);
  IoResult ReadTls(std::span<char> into);
  IoResult WriteTls(std::span<const std::string_view> given);

  Descriptor descriptor;
  SSL* ssl = nullptr;
  std::shared_ptr<const TlsContext> context;  // the SSL's callbacks use it
  StreamHandler* handler = nullptr;
  std::string error;
  bool connecting = false;
  bool waiting_read = false, waiting_write = false;
  // The direction that the next read (write) waits for: a handshake swaps them.
  bool read_needs_write = false, write_needs_read = false;
  bool spoke_http = false, broken = false;
};

void Stream::Core::Finish(bool reading) {
  (reading ? waiting_read : waiting_write) = false;
  if (!handler) return;
  if (reading) handler->OnReadable();
  else handler->OnWritable();
}

void Stream::Core::Wait(bool reading) {
  bool& waiting = reading ? waiting_read : waiting_write;
  if (waiting || !descriptor.is_open()) return;
  waiting = true;
  Ref<Core> self(this);
  // A TLS client sends first, even if it only reads.
  bool must_begin = ssl && !connecting && !SSL_is_server(ssl) && SSL_in_before(ssl);
  if (broken || must_begin || (reading && ssl && SSL_pending(ssl) > 0)) {
    return asio::post(descriptor.get_executor(), [self, reading] { self->Finish(reading); });
  }
  bool on_write = connecting || (reading ? read_needs_write : !write_needs_read);
  auto direction = on_write ? Descriptor::wait_write : Descriptor::wait_read;
  descriptor.async_wait(direction, [self, reading](error_code code) {
    if (code != asio::error::operation_aborted) self->Finish(reading);
  });
}

IoResult Stream::Core::Fail(std::string why) {
  broken = true;
  error = std::move(why);
  return {IoOutcome::kFailed, 0};
}

// False while undecided; afterwards `broken` is set if it failed.
bool Stream::Core::ConnectDone() {
  if (!connecting) return true;
  sockaddr_storage peer{};
  socklen_t size = sizeof(peer);
  int code = 0;
  socklen_t code_size = sizeof(code);
  ::getsockopt(descriptor.native_handle(), SOL_SOCKET, SO_ERROR, &code, &code_size);
  if (code == 0 &&
      ::getpeername(descriptor.native_handle(), reinterpret_cast<sockaddr*>(&peer), &size) != 0) {
    return false;
  }
  connecting = false;
  if (code != 0) Fail(ErrnoStatus("connect", code).detail);
  return true;
}

IoResult Stream::Core::SslOutcome(int result, bool reading) {
  if (result > 0) return {IoOutcome::kOk, static_cast<size_t>(result)};
  int system_error = errno;
  switch (SSL_get_error(ssl, result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE: {
      bool wants_write = SSL_want_write(ssl);
      (reading ? read_needs_write : write_needs_read) = reading ? wants_write : !wants_write;
      return {IoOutcome::kWouldBlock, 0};
    }
    case SSL_ERROR_ZERO_RETURN: return {IoOutcome::kClosed, 0};
    case SSL_ERROR_SYSCALL:
      ERR_clear_error();
      if (system_error == 0) return Fail("TLS: the connection ended in the handshake");
      return Fail("TLS: " + ErrnoStatus("socket", system_error).detail);
    default: break;
  }
  spoke_http = ERR_GET_REASON(ERR_peek_error()) == SSL_R_HTTP_REQUEST;
  std::string why = "TLS: " + TakeTlsErrors();
  long verify = SSL_get_verify_result(ssl);
  if (verify != X509_V_OK) why += std::string(" (") + X509_verify_cert_error_string(verify) + ")";
  return Fail(std::move(why));
}

IoResult Stream::Core::ReadTls(std::span<char> into) {
  ERR_clear_error();
  errno = 0;
  read_needs_write = false;
  int result = SSL_read(ssl, into.data(), static_cast<int>(std::min<size_t>(into.size(), 1 << 30)));
  return SslOutcome(result, true);
}

IoResult Stream::Core::WriteTls(std::span<const std::string_view> given) {
  // A short head and its body form one record. A retry offers the same bytes first, as OpenSSL requires,
  // since the caller keeps their order.
  thread_local std::unique_ptr<char[]> record;
  std::array<std::string_view, kMaxPieces> left;
  std::copy(given.begin(), given.end(), left.begin());
  size_t first = 0, total = 0;
  while (first < given.size()) {
    std::string_view chunk = left[first].substr(0, kRecord);
    if (chunk.size() < kRecord && first + 1 < given.size()) {
      if (!record) record = std::make_unique<char[]>(kRecord);
      size_t filled = 0;
      for (size_t i = first; i < given.size() && filled < kRecord; ++i) {
        size_t part = std::min(left[i].size(), kRecord - filled);
        std::memcpy(record.get() + filled, left[i].data(), part);
        filled += part;
      }
      chunk = {record.get(), filled};
    }
    if (chunk.empty()) break;
    ERR_clear_error();
    errno = 0;
    write_needs_read = false;
    IoResult result = SslOutcome(SSL_write(ssl, chunk.data(), static_cast<int>(chunk.size())), false);
    if (result.outcome == IoOutcome::kWouldBlock && total > 0) break;
    if (result.outcome != IoOutcome::kOk) return result;
    total += result.bytes;
    for (size_t done = result.bytes; first < given.size(); ++first) {
      size_t part = std::min(done, left[first].size());
      left[first].remove_prefix(part);
      done -= part;
      if (!left[first].empty()) break;
    }
  }
  return {IoOutcome::kOk, total};
}

Stream::Stream() noexcept = default;
Stream::Stream(Ref<Core> core) noexcept : core_(std::move(core)) {}
Stream::Stream(Stream&&) noexcept = default;
Stream& Stream::operator=(Stream&& other) noexcept {
  if (this != &other) {
    Close();
    core_ = std::move(other.core_);
  }
  return *this;
}
Stream::~Stream() { Close(); }
Stream::operator bool() const noexcept { return core_ && core_->descriptor.is_open(); }

Result<Stream> Stream::Adopt(IoLoop& loop, UniqueFd socket, std::shared_ptr<const TlsContext> tls,
                             std::string_view server_name, Protocol protocol) {
  int fd = socket.get();
  int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) return ErrnoStatus("adopt a socket", errno);
  int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));  // fails on Unix sockets, harmlessly
  SSL* ssl = nullptr;
  if (tls) {
    ASSIGN_OR_RETURN(ssl, MakeTlsSession(*tls, fd, server_name, protocol == Protocol::kHttp2));
  }
  try {
    Ref<Core> core = MakeRef<Core>(loop, fd);
    socket.release();
    core->ssl = ssl;
    core->context = std::move(tls);
    return Stream(std::move(core));
  } catch (const std::exception& error) {
    SSL_free(ssl);
    return Status{Code::kExhausted, std::string("watch a socket: ") + error.what()};
  }
}

Result<Stream> Stream::Connect(IoLoop& loop, const Endpoint& to, std::shared_ptr<const TlsContext> tls,
                               std::string_view server_name, Protocol protocol) {
  sockaddr_storage address{};
  socklen_t size = to.ToSockaddr(address);
  if (size == 0) return Status{Code::kInvalidArgument, "connect: no address"};
  UniqueFd socket(::socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return ErrnoStatus("connect " + to.ToString(), errno);
  bool connecting = false;
  if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), size) != 0) {
    if (errno != EINPROGRESS) return ErrnoStatus("connect " + to.ToString(), errno);
    connecting = true;
  }
  ASSIGN_OR_RETURN(Stream stream, Adopt(loop, std::move(socket), std::move(tls), server_name, protocol));
  stream.core_->connecting = connecting;
  return stream;
}

void Stream::SetHandler(StreamHandler* handler) noexcept {
  if (core_) core_->handler = handler;
}
void Stream::WaitReadable() {
  if (core_) core_->Wait(true);
}
void Stream::WaitWritable() {
  if (core_) core_->Wait(false);
}

IoResult Stream::ReadSome(std::span<char> into) {
  if (!*this || core_->broken) return {};
  if (!core_->ConnectDone()) return {IoOutcome::kWouldBlock, 0};
  if (core_->broken) return {};
  if (core_->ssl) return core_->ReadTls(into);
  ssize_t n = ::recv(core_->descriptor.native_handle(), into.data(), into.size(), 0);
  if (n > 0) return {IoOutcome::kOk, static_cast<size_t>(n)};
  if (n == 0) return {IoOutcome::kClosed, 0};
  if (errno == EAGAIN || errno == EINTR) return {IoOutcome::kWouldBlock, 0};
  return core_->Fail(ErrnoStatus("read", errno).detail);
}

IoResult Stream::WriteSome(std::span<const std::string_view> pieces, bool more) {
  if (!*this || core_->broken) return {};
  if (!core_->ConnectDone()) return {IoOutcome::kWouldBlock, 0};
  if (core_->broken) return {};
  pieces = pieces.first(std::min(pieces.size(), kMaxPieces));
  if (core_->ssl) return core_->WriteTls(pieces);
  iovec vectors[kMaxPieces];
  for (size_t i = 0; i < pieces.size(); ++i) {
    vectors[i] = {const_cast<char*>(pieces[i].data()), pieces[i].size()};
  }
  msghdr message{};
  message.msg_iov = vectors;
  message.msg_iovlen = pieces.size();
  ssize_t n = ::sendmsg(core_->descriptor.native_handle(), &message, MSG_NOSIGNAL | (more ? MSG_MORE : 0));
  if (n >= 0) return {IoOutcome::kOk, static_cast<size_t>(n)};
  if (errno == EAGAIN || errno == EINTR) return {IoOutcome::kWouldBlock, 0};
  return core_->Fail(ErrnoStatus("write", errno).detail);
}

IoResult Stream::SendFile(int file, size_t offset, size_t bytes) {
  if (!*this || core_->broken || core_->ssl) return {};
  if (!core_->ConnectDone()) return {IoOutcome::kWouldBlock, 0};
  if (core_->broken) return {};
  // The loop's thread blocks SIGPIPE, which sendfile cannot suppress.
  auto from = static_cast<off_t>(offset);
  ssize_t n = ::sendfile(core_->descriptor.native_handle(), file, &from, bytes);
  if (n > 0) return {IoOutcome::kOk, static_cast<size_t>(n)};
  if (n == 0) return core_->Fail("send: the file is shorter than it was");
  if (errno == EAGAIN || errno == EINTR) return {IoOutcome::kWouldBlock, 0};
  return core_->Fail(ErrnoStatus("send", errno).detail);
}

void Stream::Shutdown() {
  if (!*this) return;
  if (core_->ssl && !core_->broken && SSL_is_init_finished(core_->ssl)) SSL_shutdown(core_->ssl);
  ERR_clear_error();
  ::shutdown(core_->descriptor.native_handle(), SHUT_WR);
}

void Stream::Close() {
  if (!core_) return;
  core_->handler = nullptr;
  if (core_->descriptor.is_open()) {
    if (core_->ssl && !core_->broken && SSL_is_init_finished(core_->ssl)) SSL_shutdown(core_->ssl);
    ERR_clear_error();
    error_code ignored;
    core_->descriptor.close(ignored);
  }
  core_ = nullptr;
}

bool Stream::is_tls() const noexcept { return core_ && core_->ssl; }
bool Stream::handshake_done() const noexcept {
  return core_ && !core_->connecting && (!core_->ssl || SSL_is_init_finished(core_->ssl));
}
bool Stream::agreed_http2() const noexcept {
  if (!core_ || !core_->ssl) return false;
  const unsigned char* chosen = nullptr;
  unsigned size = 0;
  SSL_get0_alpn_selected(core_->ssl, &chosen, &size);
  return std::string_view(reinterpret_cast<const char*>(chosen), size) == "h2";
}
bool Stream::peer_spoke_http() const noexcept { return core_ && core_->spoke_http; }

void Stream::PlainReply(std::string_view text) noexcept {
  if (*this) (void)!::send(fd(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

std::string Stream::error() const { return core_ ? core_->error : "closed"; }
int Stream::fd() const noexcept { return core_ ? core_->descriptor.native_handle() : -1; }

Endpoint Stream::local() const {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (!*this || ::getsockname(fd(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return {};
  return Endpoint::FromSockaddr(address, size);
}

Stream::Peer Stream::peer() const noexcept {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (!*this || ::getsockopt(fd(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return {};
  return {peer.pid, static_cast<int64_t>(peer.uid)};
}

}  // namespace gpulens
