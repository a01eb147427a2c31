// A connected byte stream, plain or TLS, over TCP or a Unix socket, client or server.
//
// Reads and writes never wait. A waiting stream holds no buffer: an idle plain connection costs about half a
// kilobyte. TLS handshakes happen inside the first reads and writes.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <array>
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

enum class IoOutcome : uint8_t {
  kOk,          // `bytes` moved, at least one
  kWouldBlock,  // wait, then call again
  kClosed,      // reading: the peer has finished
  kFailed,      // broken; see Stream::error
};
struct IoResult {
  IoOutcome outcome = IoOutcome::kFailed;
  size_t bytes = 0;
};

// Move-only. Used on the loop's thread only. Destruction closes.
class Stream {
 public:
  enum class Protocol : uint8_t { kHttp1, kHttp2 };
  // Maximum number of pieces of one WriteSome.
  static constexpr size_t kMaxPieces = 64;

  // Takes over a connected socket and makes it non-blocking. With `tls` it accepts or connects as its context
  // requires; a client sends and checks `server_name` unless the context has its own. For kHttp2 a client
  // offers only HTTP/2 by ALPN, and a server accepts nothing else from a client that uses ALPN.
  static Result<Stream> Adopt(IoLoop& loop, UniqueFd socket, std::shared_ptr<const TlsContext> tls = nullptr,
                              std::string_view server_name = {}, Protocol protocol = Protocol::kHttp1);
  // Starts to connect. WaitWritable fires once that is decided; a failure then is kFailed.
  static Result<Stream> Connect(IoLoop& loop, const Endpoint& to,
                                std::shared_ptr<const TlsContext> tls = nullptr,
                                std::string_view server_name = {}, Protocol protocol = Protocol::kHttp1);

  Stream() noexcept;
  Stream(Stream&&) noexcept;
  Stream& operator=(Stream&&) noexcept;
  ~Stream();
  explicit operator bool() const noexcept;

  // Called when a wait ends; may be null.
  void SetHandler(StreamHandler* handler) noexcept;
  // Requests one OnReadable (OnWritable) call when ReadSome (WriteSome) can proceed; never called from
  // inside.
  void WaitReadable();
  void WaitWritable();

  // With TLS `into` should have 16 KiB or more: one record.
  IoResult ReadSome(std::span<char> into);
  // Writes the pieces in order, as far as possible. After kWouldBlock the same bytes must be given first
  // again. `more`: what follows at once, as by SendFile, may go into the same packet.
  IoResult WriteSome(std::span<const std::string_view> pieces, bool more = false);
  // Writes from an unchanging file, without copying where the kernel can. Plain streams only.
  IoResult SendFile(int file, size_t offset, size_t bytes);
  // Ends writing: close_notify and FIN. Reading goes on.
  void Shutdown();
  void Close();

  bool is_tls() const noexcept;
  bool handshake_done() const noexcept;  // true for plain streams that are connected
  // Whether ALPN chose HTTP/2. False for plain streams.
  bool agreed_http2() const noexcept;
  // Whether the peer sent plain HTTP to a TLS server. PlainReply then writes unencrypted text to it.
  bool peer_spoke_http() const noexcept;
  void PlainReply(std::string_view text) noexcept;
  // Human-readable reason of the last kFailed.
  std::string error() const;
  int fd() const noexcept;
  Endpoint local() const;
  // The process that connected to a Unix socket.
  struct Peer {
    pid_t pid = 0;     // 0: unknown
    int64_t uid = -1;  // -1: unknown
  };
  Peer peer() const noexcept;

 private:
  class Core;
  explicit Stream(Ref<Core> core) noexcept;
  Ref<Core> core_;
};

// Gathers pieces for WriteSome, without the first `skip` bytes of all.
class WritePieces {
 public:
  explicit WritePieces(size_t skip) noexcept : skip_(skip) {}

  // False while two more pieces fit.
  bool full() const noexcept { return count_ + 2 > pieces_.size(); }
  void Add(std::string_view piece) noexcept {
    const size_t part = std::min(skip_, piece.size());
    skip_ -= part;
    piece.remove_prefix(part);
    if (piece.empty()) return;
    pieces_[count_++] = piece;
    total_ += piece.size();
  }
  std::span<const std::string_view> all() const noexcept { return {pieces_.data(), count_}; }
  size_t total() const noexcept { return total_; }

 private:
  std::array<std::string_view, Stream::kMaxPieces> pieces_;
  size_t count_ = 0, total_ = 0, skip_;
};

}  // namespace gpulens
