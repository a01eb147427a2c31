// One client of a WebSocketServer. Inside src/net/websocket only; lives on the loop's thread.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "net/accept/connection_set.h"
#include "net/message/http_parser.h"
#include "net/stream.h"
#include "net/websocket/websocket_frame.h"
#include "net/websocket/websocket_server.h"

namespace gpulens {

// One encoded frame, shared by all clients it goes to.
struct OutFrame {
  std::string head;
  SharedBytes payload;
  bool last = false;  // the connection ends after it
  size_t size() const noexcept { return head.size() + payload.bytes.size(); }
};

class WebSocketConnection;

struct WebSocketShared {
  IoLoop& loop;
  WebSocketServer::FirstFrame first_frame;
  Authenticator* authenticator;
  WebSocketLimits limits;
  std::vector<std::string> allowed_origins;
  ServerStats stats;
  std::atomic<size_t> clients{0};
  std::atomic<uint64_t> frames{0};
  std::vector<WebSocketConnection*> open;
  std::array<char, 16384> buffer;
  ConnectionSet connections;  // last: its end closes them, and that uses the others
};

class WebSocketConnection final : public Connection, private StreamHandler {
 public:
  WebSocketConnection(WebSocketShared& shared, Stream stream, const Endpoint& peer,
                      std::shared_ptr<const WebRules> rules);

  void Start();
  // Queues the frame; drops the connection when too much is queued already.
  void Push(const std::shared_ptr<const OutFrame>& frame);

  void OnDeadline(Phase phase) override;
  void Close() override;
  void FinishAndClose() override;

 private:
  enum class State : uint8_t { kHandshake, kAccess, kOpen, kClosing, kLingering };

  void OnReadable() override;
  void OnWritable() override;

  void TakeBytes(std::string_view bytes);
  void TakeHandshake(std::string_view bytes);
  void OnRequest();
  void OnAccess(Access access);
  void Upgrade();
  void Refuse(int status, std::string sentence, std::string fields = {});
  void TakeFrames(std::string_view bytes);
  void SayClose(uint16_t code, std::string_view reason);
  void Queue(std::shared_ptr<const OutFrame> frame);
  void Drop(Refusal why);
  void Flush();
  void Linger();
  void Settle();

  WebSocketShared& shared_;
  Stream stream_;
  Endpoint peer_;
  std::shared_ptr<const WebRules> rules_;
  std::unique_ptr<HttpParser> parser_;  // until the handshake is over
  std::string unparsed_;
  FrameReader reader_;
  std::vector<std::shared_ptr<const OutFrame>> queue_;
  size_t queued_bytes_ = 0;
  size_t sent_ = 0;  // of the first frame
  size_t progress_ = 0;
  size_t discarded_ = 0;
  State state_ = State::kHandshake;
  bool gone_ = false;
  bool alive_ = true;         // something came since the last ping
  bool pong_queued_ = false;  // one unsent pong answers all pings before it
  bool peer_closed_ = false;
};

}  // namespace gpulens
