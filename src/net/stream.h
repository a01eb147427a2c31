// One connected byte stream, plain or TLS, over TCP or a Unix socket, either side.
//
// Reads and writes never wait: they do what is possible now and say when it is not. A waiting stream
// holds no buffer, so an idle connection costs about half a kilobyte plain. TLS handshakes happen
// inside the first reads and writes.
#pragma once

#include <sys/types.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <gpulens/status.h>

#include "base/fd.h"
#include "base/ref.h"
#include "net/io_loop.h"
#include "net/message/address.h"
#include "net/tls.h"

namespace gpulens {

// Called on the loop when a wait ends. A callback may close or destroy the stream.
class StreamHandler {
 public:
  virtual void OnReadable() = 0;
  virtual void OnWritable() = 0;

 protected:
  ~StreamHandler() = default;
};

struct IoResult {
  enum class Outcome : uint8_t {
    kOk,          // `bytes` moved, at least one
    kWouldBlock,  // wait, then call again
    kClosed,      // reading: the other side has finished; nothing follows
    kFailed,      // broken; see Stream::error
  };
  Outcome outcome = Outcome::kFailed;
  size_t bytes = 0;
};

// Move-only. Used on the loop's thread only. Destruction closes.
class Stream {
 public:
  enum class Protocol : uint8_t { kHttp1, kHttp2 };
  // At most so many pieces are taken by one WriteSome.
  static constexpr size_t kMaxPieces = 64;

  // Takes over a connected socket and makes it non-blocking. With `tls`, this side accepts or connects
  // as the context says; `server_name` (client only) is sent and checked unless the context has its own. For
  // kHttp2 a client offers HTTP/2 alone by ALPN, and a server takes nothing else from one that offers at all.
  static Result<Stream> Adopt(IoLoop& loop, UniqueFd socket, std::shared_ptr<const TlsContext> tls = nullptr,
                              std::string_view server_name = {}, Protocol protocol = Protocol::kHttp1);
  // Starts to connect. WaitWritable fires once it is decided; a refusal then shows as kFailed.
  static Result<Stream> Connect(IoLoop& loop, const Endpoint& to,
                                std::shared_ptr<const TlsContext> tls = nullptr,
                                std::string_view server_name = {}, Protocol protocol = Protocol::kHttp1);

  Stream() noexcept;
  Stream(Stream&&) noexcept;
  Stream& operator=(Stream&&) noexcept;
  ~Stream();
  explicit operator bool() const noexcept;

  // Who is told when a wait ends; nullptr for nobody.
  void SetHandler(StreamHandler* handler) noexcept;
  // Asks for one OnReadable (OnWritable) call when ReadSome (WriteSome) is worth calling again; at once,
  // but never from inside, when bytes already lie here. Asking twice is asking once.
  void WaitReadable();
  void WaitWritable();

  // `into` should be 16 KiB or more with TLS: one record is read whole.
  IoResult ReadSome(std::span<char> into);
  // Writes the pieces in order, as far as possible. After kWouldBlock the same bytes come first again.
  // `more`: what follows at once, as SendFile, may go out in the same packet.
  IoResult WriteSome(std::span<const std::string_view> pieces, bool more = false);
  // Writes from a file, which nobody changes any more, without copying where the kernel can. Plain streams
  // only.
  IoResult SendFile(int file, size_t offset, size_t bytes);
  // No more writes: close_notify and FIN. Reading goes on.
  void Shutdown();
  void Close();

  bool is_tls() const noexcept;
  bool handshake_done() const noexcept;  // true for plain streams that are connected
  // Both sides have agreed on HTTP/2 by ALPN. False for plain streams.
  bool agreed_http2() const noexcept;
  // The other side spoke plain HTTP to a TLS server. PlainReply then writes unencrypted text to it.
  bool peer_spoke_http() const noexcept;
  void PlainReply(std::string_view text) noexcept;
  // Why the last call gave kFailed, for people.
  std::string error() const;
  int fd() const noexcept;
  Endpoint local() const;
  // Who connected to a Unix socket, as the kernel says.
  struct Peer {
    pid_t pid = 0;     // 0: not known
    int64_t uid = -1;  // -1: not known
  };
  Peer peer() const noexcept;

 private:
  class Core;
  explicit Stream(Ref<Core> core) noexcept;
  Ref<Core> core_;
};

}  // namespace gpulens
