#include "net/websocket/websocket_server.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include "base/parse.h"
#include "net/message/request_origin.h"
#include "net/stream.h"
#include "net/websocket/websocket_frame.h"

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

// The connection of one client. Lives on the loop's thread.
class WebSocketConnection final : public Connection, private StreamHandler {
 public:
  WebSocketConnection(WebSocketShared& shared, Stream stream, const Endpoint& peer,
                      std::shared_ptr<const WebRules> rules);

  void Start();
  // Instead of Start: `request` was received, and its origin and access are checked.
  void StartAfter(const HttpRequest& request, std::string early, bool room);
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
  bool IsHandshake(const HttpRequest& request);
  void Upgrade(const HttpRequest& request);
  void Refuse(int status, std::string sentence, std::string_view fields = {});
  void TakeFrames(std::string_view bytes);
  void SendClose(uint16_t code, std::string_view reason);
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
  bool head_only_ = false;    // of a request that is refused
  bool alive_ = true;         // the client sent something since the last ping
  bool pong_queued_ = false;  // one unsent pong answers all pings before it
  bool peer_closed_ = false;
};

namespace {

constexpr size_t kProgress = 64 << 10;
constexpr size_t kMaxDiscarded = 1 << 20;
constexpr int kReadsPerTurn = 4;

std::shared_ptr<const OutFrame> WholeFrame(std::string bytes, bool last) {
  return std::make_shared<const OutFrame>(OutFrame{std::move(bytes), {}, last});
}

// A Sec-WebSocket-Key is 16 bytes in base64.
bool IsKey(std::string_view key) {
  auto good = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '+' || c == '/';
  };
  return key.size() == 24 && key.ends_with("==") && std::all_of(key.begin(), key.end() - 2, good);
}

}  // namespace

WebSocketConnection::WebSocketConnection(WebSocketShared& shared, Stream stream, const Endpoint& peer,
                                         std::shared_ptr<const WebRules> rules)
    : shared_(shared),
      stream_(std::move(stream)),
      peer_(peer),
      rules_(std::move(rules)),
      reader_(shared.limits.client_message) {}

void WebSocketConnection::Start() {
  stream_.SetHandler(this);
  shared_.connections.Add(*this, Phase::kRequest);
  shared_.stats.connections.fetch_add(1, std::memory_order_relaxed);
  stream_.WaitReadable();
}

void WebSocketConnection::StartAfter(const HttpRequest& request, std::string early, bool room) {
  Ref<Connection> self(this);
  stream_.SetHandler(this);
  shared_.connections.Add(*this, Phase::kRequest);
  shared_.stats.connections.fetch_add(1, std::memory_order_relaxed);
  unparsed_ = std::move(early);
  head_only_ = request.method() == "HEAD";
  if (!room) {
    Refuse(503, "Too many clients are connected. Try again.", "Retry-After: 5\r\n");
  } else if (IsHandshake(request)) {
    Upgrade(request);
  }
  if (!gone_) Flush();
  if (!gone_) Settle();
}

void WebSocketConnection::Close() {
  if (std::exchange(gone_, true)) return;
  if (state_ == State::kOpen || state_ == State::kClosing) {
    std::erase(shared_.open, this);
    shared_.clients = shared_.open.size();
  }
  stream_.Close();
  queue_.clear();
  parser_ = nullptr;
  unparsed_ = {};
  shared_.stats.connections.fetch_sub(1, std::memory_order_relaxed);
  shared_.connections.Remove(*this);
}

void WebSocketConnection::FinishAndClose() {
  Ref<Connection> self(this);
  if (state_ == State::kHandshake || state_ == State::kAccess) return Close();
  if (state_ == State::kOpen) SendClose(CloseCode::kGoingAway, "the server is stopping");
  if (!gone_) Flush();
  if (!gone_) Settle();
}

void WebSocketConnection::Drop(Refusal why) {
  shared_.stats.Refused(why);
  Close();
}

void WebSocketConnection::OnDeadline(Phase phase) {
  if (phase == Phase::kRequest) return Drop(Refusal::kTimeout);
  if (phase == Phase::kWrite) return Drop(Refusal::kSlow);
  if (phase != Phase::kOpen) return Close();
  if (!std::exchange(alive_, false)) return Drop(Refusal::kTimeout);
  std::string ping;
  AppendFrameHead(ping, Opcode::kPing, 0);
  Queue(WholeFrame(std::move(ping), false));
  shared_.connections.Enter(*this, Phase::kOpen);
  Flush();
  Settle();
}

void WebSocketConnection::OnReadable() {
  Ref<Connection> self(this);
  for (int i = 0; i < kReadsPerTurn && !gone_ && state_ != State::kAccess; ++i) {
    IoResult read = stream_.ReadSome(shared_.buffer);
    if (read.outcome == IoOutcome::kWouldBlock) break;
    if (read.outcome != IoOutcome::kOk) {
      bool broken_tls = stream_.is_tls() && !stream_.handshake_done() && read.outcome == IoOutcome::kFailed;
      return broken_tls ? Drop(Refusal::kTls) : Close();
    }
    TakeBytes({shared_.buffer.data(), read.bytes});
    if (read.bytes < shared_.buffer.size()) break;
  }
  if (!gone_) Flush();
  if (!gone_) Settle();
}

void WebSocketConnection::OnWritable() {
  Ref<Connection> self(this);
  Flush();
  if (!gone_) Settle();
}

void WebSocketConnection::TakeBytes(std::string_view bytes) {
  switch (state_) {
    case State::kHandshake: return TakeHandshake(bytes);
    case State::kAccess: unparsed_.append(bytes); return;
    case State::kOpen:
    case State::kClosing: return TakeFrames(bytes);
    case State::kLingering: break;
  }
  discarded_ += bytes.size();
  if (discarded_ > kMaxDiscarded) Close();
}

void WebSocketConnection::TakeHandshake(std::string_view bytes) {
  std::string joined;
  if (!unparsed_.empty()) {
    unparsed_.append(bytes);
    joined.swap(unparsed_);
    bytes = joined;
  }
  if (!parser_) parser_ = std::make_unique<HttpParser>(shared_.limits.http);
  HttpParser::Step step = parser_->Feed(bytes);
  unparsed_.assign(bytes.substr(step.consumed));
  if (step.state == HttpParser::State::kMore) return;
  if (step.state == HttpParser::State::kDone) return OnRequest();
  if (step.status == 413) shared_.stats.Refused(Refusal::kBodySize);
  if (step.status == 414 || step.status == 431) shared_.stats.Refused(Refusal::kHeaderSize);
  Refuse(step.status, std::string(step.why));
}

// False: the client is refused.
bool WebSocketConnection::IsHandshake(const HttpRequest& request) {
  bool upgrades =
      request.HeaderHasToken("Upgrade", "websocket") && request.HeaderHasToken("Connection", "Upgrade");
  if (!upgrades) {
    std::string host(request.Header("Host"));
    Refuse(426,
           "This port serves WebSocket. Connect to " + std::string(stream_.is_tls() ? "wss://" : "ws://") +
               (host.empty() ? stream_.local().ToString() : host) + " with a WebSocket client.",
           "Upgrade: websocket\r\n");
    return false;
  }
  if (request.method() != "GET" || request.version_minor() < 1 ||
      !IsKey(request.Header("Sec-WebSocket-Key"))) {
    Refuse(400, "The WebSocket handshake is not valid.");
    return false;
  }
  if (request.Header("Sec-WebSocket-Version") != "13") {
    Refuse(426, "This server supports WebSocket version 13.", "Sec-WebSocket-Version: 13\r\n");
    return false;
  }
  return true;
}

void WebSocketConnection::OnRequest() {
  const HttpRequest& request = parser_->request();
  head_only_ = request.method() == "HEAD";
  if (!IsHandshake(request)) return;
  const OriginCheck check = CheckOrigin(OriginOf(request), {.arrival = ArrivalAt(stream_.local()),
                                                            .open = rules_->open(),
                                                            .hosts = &rules_->allowed_hosts,
                                                            .origins = &shared_.allowed_origins});
  if (check != OriginCheck::kAllowed) {
    shared_.stats.Refused(Refusal::kOrigin);
    return Refuse(403, std::string(OriginRefusal(check)));
  }
  if (!shared_.authenticator) return Upgrade(request);
  state_ = State::kAccess;
  Access access = shared_.authenticator->Check(request.Header("Authorization"), peer_,
                                               [self = Ref<WebSocketConnection>(this)](Access found) {
                                                 if (self->gone_ || self->state_ != State::kAccess) return;
                                                 self->OnAccess(found);
                                                 if (!self->gone_) self->Flush();
                                                 if (!self->gone_) self->Settle();
                                               });
  if (access != Access::kPending) OnAccess(access);
}

void WebSocketConnection::OnAccess(Access access) {
  if (access == Access::kGranted) return Upgrade(parser_->request());
  shared_.stats.Refused(Refusal::kAuth);
  if (access == Access::kBusy) return Refuse(503, "Too many passwords are being checked. Try again.");
  std::string challenge;
  if (!rules_->challenge.empty()) challenge = "WWW-Authenticate: " + rules_->challenge + "\r\n";
  Refuse(401, "Unauthorized", challenge);
}

void WebSocketConnection::Upgrade(const HttpRequest& request) {
  std::string head =
      "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: "
      "Upgrade\r\nSec-WebSocket-Accept: " +
      AcceptKey(request.Header("Sec-WebSocket-Key")) + "\r\n" + rules_->headers + "\r\n";
  shared_.stats.answers[1].fetch_add(1, std::memory_order_relaxed);
  parser_ = nullptr;
  state_ = State::kOpen;
  shared_.open.push_back(this);
  shared_.clients = shared_.open.size();
  SharedBytes text = shared_.first_frame ? shared_.first_frame() : SharedBytes();
  if (!text.bytes.empty()) {
    AppendFrameHead(head, Opcode::kText, text.bytes.size());
    shared_.frames.fetch_add(1, std::memory_order_relaxed);
  }
  Queue(std::make_shared<const OutFrame>(OutFrame{std::move(head), std::move(text), false}));
  std::string early = std::exchange(unparsed_, {});
  if (!early.empty()) TakeFrames(early);
}

void WebSocketConnection::Refuse(int status, std::string sentence, std::string_view fields) {
  shared_.stats.answers[static_cast<size_t>(status / 100) % 6].fetch_add(1, std::memory_order_relaxed);
  const HttpResponse response = HttpResponse::Text(status, std::move(sentence));
  std::string text =
      HttpHead(response, status == 426 ? "Connection: Upgrade, close\r\n" : "Connection: close\r\n", fields);
  if (!head_only_) text += response.body.bytes;
  parser_ = nullptr;
  unparsed_ = {};
  state_ = State::kLingering;
  Queue(WholeFrame(std::move(text), true));
}

void WebSocketConnection::TakeFrames(std::string_view bytes) {
  alive_ = true;
  while (!bytes.empty() && !gone_) {
    FrameReader::Event event = reader_.Next(bytes);
    switch (event.kind) {
      case FrameReader::Event::Kind::kPing: {
        if (pong_queued_ || state_ != State::kOpen) break;
        std::string pong;
        AppendFrameHead(pong, Opcode::kPong, event.payload.size());
        pong += event.payload;
        pong_queued_ = true;
        Queue(WholeFrame(std::move(pong), false));
        break;
      }
      case FrameReader::Event::Kind::kClose:
        peer_closed_ = true;
        if (state_ == State::kClosing) return queue_.empty() ? Linger() : void();
        return SendClose(event.code, {});
      case FrameReader::Event::Kind::kError: return SendClose(event.code, "the client broke the protocol");
      default: break;
    }
  }
}

void WebSocketConnection::SendClose(uint16_t code, std::string_view reason) {
  if (state_ != State::kOpen) return;
  state_ = State::kClosing;
  // After an error nothing more can be parsed: no answer is awaited.
  bool answered = peer_closed_ || code == CloseCode::kProtocolError || code == CloseCode::kBadData ||
                  code == CloseCode::kTooBig;
  Queue(WholeFrame(CloseFrame(code, reason), answered));
}

void WebSocketConnection::Push(const std::shared_ptr<const OutFrame>& frame) {
  if (gone_ || state_ != State::kOpen) return;
  Ref<Connection> self(this);
  bool too_much = queue_.size() >= shared_.limits.queued_frames ||
                  (!queue_.empty() && queued_bytes_ + frame->size() > shared_.limits.queued_bytes);
  if (too_much) return Drop(Refusal::kSlow);
  shared_.frames.fetch_add(1, std::memory_order_relaxed);
  Queue(frame);
  if (queue_.size() > 1) return;  // a wait is under way already
  Flush();
  if (!gone_) Settle();
}

void WebSocketConnection::Queue(std::shared_ptr<const OutFrame> frame) {
  queued_bytes_ += frame->size();
  queue_.push_back(std::move(frame));
}

void WebSocketConnection::Flush() {
  while (!gone_ && !queue_.empty()) {
    WritePieces pieces(sent_);
    for (const auto& frame : queue_) {
      if (pieces.full()) break;
      pieces.Add(frame->head);
      pieces.Add(frame->payload.bytes);
    }
    IoResult wrote = stream_.WriteSome(pieces.all());
    if (wrote.outcome == IoOutcome::kFailed || wrote.outcome == IoOutcome::kClosed) return Close();
    shared_.stats.bytes_sent.fetch_add(wrote.bytes, std::memory_order_relaxed);
    sent_ += wrote.bytes;
    progress_ += wrote.bytes;
    size_t done = 0;
    bool last = false;
    while (done < queue_.size() && sent_ >= queue_[done]->size()) {
      sent_ -= queue_[done]->size();
      queued_bytes_ -= queue_[done]->size();
      last |= queue_[done++]->last;
    }
    queue_.erase(queue_.begin(), queue_.begin() + static_cast<ptrdiff_t>(done));
    if (last) return Linger();
    if (wrote.bytes < pieces.total()) return stream_.WaitWritable();
  }
  pong_queued_ = false;
}

void WebSocketConnection::Linger() {
  if (state_ == State::kClosing || state_ == State::kOpen) {
    std::erase(shared_.open, this);
    shared_.clients = shared_.open.size();
  }
  state_ = State::kLingering;
  queue_.clear();
  stream_.Shutdown();
}

void WebSocketConnection::Settle() {
  if (state_ != State::kAccess) stream_.WaitReadable();
  Phase phase = Phase::kRequest;
  if (!queue_.empty() && state_ != State::kClosing) {
    phase = Phase::kWrite;
  } else if (state_ == State::kAccess) {
    phase = Phase::kWork;
  } else if (state_ == State::kOpen) {
    phase = Phase::kOpen;
  } else if (state_ == State::kClosing || state_ == State::kLingering) {
    phase = Phase::kLinger;
  }
  bool progressed = phase == Phase::kWrite && progress_ >= kProgress;
  if (phase == this->phase() && !progressed) return;
  progress_ = 0;
  shared_.connections.Enter(*this, phase);
}

class WebSocketServer::Core final : public Server::Core {
 public:
  Core(IoLoop& loop, FirstFrame first_frame, Options options)
      : Server::Core(
            {loop, options.authenticator, options.limits.http.connections, shared.stats, shared.connections}),
        shared{.loop = loop,
               .first_frame = std::move(first_frame),
               .authenticator = options.authenticator,
               .limits = options.limits,
               .allowed_origins = std::move(options.allowed_origins),
               .stats = {},
               .clients = 0,
               .frames = 0,
               .open = {},
               .buffer = {},
               .connections = {loop,
                               {options.limits.http.request_timeout, Duration(0), Duration(0),
                                options.limits.http.write_timeout, options.limits.close_timeout,
                                options.limits.ping_interval}}} {}
  ~Core() override { *alive = nullptr; }

  void SendAll(SharedBytes text) {
    OutFrame frame;
    AppendFrameHead(frame.head, Opcode::kText, text.bytes.size());
    frame.payload = std::move(text);
    auto shared_frame = std::make_shared<const OutFrame>(std::move(frame));
    // Backwards, since a slow client removes itself from the list.
    for (size_t i = shared.open.size(); i-- > 0;) {
      if (i < shared.open.size()) shared.open[i]->Push(shared_frame);
    }
  }

  void TakeOver(HttpUpgrade upgrade) {
    const bool room = Admit();
    MakeRef<WebSocketConnection>(shared, std::move(upgrade.stream), upgrade.peer, std::move(upgrade.rules))
        ->StartAfter(upgrade.request, std::move(upgrade.early), room);
  }

  WebSocketShared shared;
  // Posted tasks may run after the server is gone.
  std::shared_ptr<Core*> alive = std::make_shared<Core*>(this);

 private:
  void Serve(Stream stream, const Endpoint& peer, std::shared_ptr<const WebRules> rules) override {
    MakeRef<WebSocketConnection>(shared, std::move(stream), peer, std::move(rules))->Start();
  }
};

WebSocketServer::WebSocketServer(IoLoop& loop, FirstFrame first_frame, Options options)
    : Server(loop, std::make_unique<Core>(loop, std::move(first_frame), std::move(options))) {}

WebSocketServer::Core& WebSocketServer::core() const noexcept { return static_cast<Core&>(*core_); }

void WebSocketServer::TakeOver(HttpUpgrade upgrade) { core().TakeOver(std::move(upgrade)); }

void WebSocketServer::Broadcast(SharedBytes text) {
  if (loop_.InLoop()) return core().SendAll(std::move(text));
  loop_.Post([alive = core().alive, text = std::move(text)] {
    if (*alive) (*alive)->SendAll(text);
  });
}

size_t WebSocketServer::clients() const noexcept {
  return core().shared.clients.load(std::memory_order_relaxed);
}
uint64_t WebSocketServer::frames_sent() const noexcept {
  return core().shared.frames.load(std::memory_order_relaxed);
}
const ServerStats& WebSocketServer::stats() const noexcept { return core().shared.stats; }

}  // namespace gpulens
