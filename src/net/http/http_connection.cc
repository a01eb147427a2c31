#include "net/http/http_connection.h"

#include <utility>

namespace gpulens {

using Outcome = IoResult::Outcome;

namespace {

constexpr size_t kProgress = 64 << 10;
constexpr int kReadsPerTurn = 4;

bool KeepsAlive(const HttpRequest& request) {
  if (request.version_minor() >= 1) return !request.HeaderHasToken("Connection", "close");
  return request.HeaderHasToken("Connection", "keep-alive");
}

}  // namespace

HttpConnection::HttpConnection(HttpShared& shared, Stream stream, const Endpoint& peer,
                               std::shared_ptr<const WebRules> rules)
    : shared_(shared),
      stream_(std::move(stream)),
      peer_(peer),
      arrival_(ArrivalAt(stream_.local())),
      rules_(std::move(rules)) {}

void HttpConnection::Start() {
  stream_.SetHandler(this);
  shared_.connections.Add(*this, Phase::kRequest);
  shared_.stats.connections.fetch_add(1, std::memory_order_relaxed);
  stream_.WaitReadable();
}

void HttpConnection::Close() {
  if (gone_.exchange(true, std::memory_order_relaxed)) return;
  stream_.Close();
  slots_.clear();
  ForgetRequest();
  shared_.stats.connections.fetch_sub(1, std::memory_order_relaxed);
  shared_.connections.Remove(*this);
}

void HttpConnection::FinishAndClose() {
  finishing_ = true;
  if (lingering_ || !slots_.empty()) return;
  Close();
}

void HttpConnection::OnDeadline(Phase phase) {
  if (phase == Phase::kRequest) shared_.stats.Refused(Refusal::kTimeout);
  if (phase == Phase::kWrite) shared_.stats.Refused(Refusal::kSlow);
  bool begun = parser_ || !unparsed_.empty();
  if (phase != Phase::kRequest || !begun || !stream_.handshake_done()) return Close();
  Reject(408, "The request did not arrive in time.");
  Flush();
  Settle();
}

void HttpConnection::OnReadable() {
  Ref<Connection> self(this);
  busy_ = true;
  for (int i = 0; i < kReadsPerTurn && !gone() && (lingering_ || CanParse()); ++i) {
    IoResult read = stream_.ReadSome(shared_.buffer);
    if (read.outcome == Outcome::kWouldBlock) break;
    if (read.outcome == Outcome::kClosed) {
      PeerFinished();
      break;
    }
    if (read.outcome == Outcome::kFailed) {
      Broken();
      break;
    }
    if (lingering_) {
      Discard(read.bytes);
    } else {
      Parse({shared_.buffer.data(), read.bytes});
      Flush();
    }
    if (read.bytes < shared_.buffer.size()) break;
  }
  busy_ = false;
  Settle();
}

void HttpConnection::OnWritable() {
  Ref<Connection> self(this);
  busy_ = true;
  Flush();
  busy_ = false;
  Settle();
}

bool HttpConnection::CanParse() const noexcept {
  return !last_taken_ && !awaits_access_ && !finishing_ && !input_ended_ &&
         slots_.size() < shared_.limits.pipelined;
}

void HttpConnection::Parse(std::string_view fresh) {
  std::string joined;
  std::string_view bytes = fresh;
  if (!unparsed_.empty()) {
    unparsed_.append(fresh);
    joined.swap(unparsed_);
    bytes = joined;
  }
  bool more = false;
  while (!bytes.empty() && !more && !gone() && CanParse()) {
    if (!parser_) parser_ = std::move(shared_.spare_parser);
    if (!parser_) parser_ = std::make_unique<HttpParser>(shared_.limits);
    HttpParser::Step step = parser_->Feed(bytes);
    bytes.remove_prefix(step.consumed);
    if (step.state != HttpParser::State::kRejected && !CountBody(parser_->request().body().size())) {
      Reject(429, "Too many requests are arriving at once. Try again.");
      bytes = {};
    } else if (step.state == HttpParser::State::kDone) {
      CountBody(0);
      OnRequest();
    } else if (step.state == HttpParser::State::kRejected) {
      Reject(step.status, step.why);
      bytes = {};
    } else {
      more = true;
      if (!parser_->TakeExpectContinue()) continue;
      Slot& slot = slots_.emplace_back();
      slot.number = next_number_++;
      slot.ready = true;
      slot.head = "HTTP/1.1 100 Continue\r\n\r\n";
    }
  }
  if (gone()) return;
  held_ = !bytes.empty() && !more;
  unparsed_.assign(bytes);
}

void HttpConnection::OnRequest() {
  HttpRequest& request = parser_->request();
  request.remote_ = peer_;
  if (arrival_ == Arrival::kUnix) {
    const Stream::Peer who = stream_.peer();
    request.peer_pid_ = who.pid;
    request.peer_uid_ = who.uid;
  }
  request.tls_ = stream_.is_tls();
  Slot& slot = slots_.emplace_back();
  slot.number = next_number_++;
  slot.head_only = request.method() == "HEAD";
  slot.http10 = request.version_minor() == 0;
  slot.close = !KeepsAlive(request);
  last_taken_ |= slot.close;
  new_request_ = true;
  // Rules that change reach clients that never connect anew: the present ones hold for every request,
  // and a changed TLS context ends the connection, politely.
  if (shared_.authenticator) {
    auto rules = shared_.authenticator->Rules();
    if (rules->tls != rules_->tls) last_taken_ = slot.close = true;
    rules_ = std::move(rules);
  }
  const OriginCheck check = CheckOrigin(
      OriginOf(request), {.arrival = arrival_, .open = rules_->open(), .hosts = &rules_->allowed_hosts});
  if (check != OriginCheck::kAllowed) {
    shared_.stats.Refused(Refusal::kOrigin);
    return Deny(HttpResponse::Text(403, std::string(OriginRefusal(check))));
  }
  if (!shared_.authenticator || shared_.handler.IsForAll(request)) return Validate(Access::kGranted);
  Access access = shared_.authenticator->Check(
      request.Header("Authorization"), peer_,
      [self = Ref<HttpConnection>(this)](Access found) { self->OnAccess(found); });
  if (access != Access::kPending) return Validate(access);
  awaits_access_ = true;
}

void HttpConnection::OnAccess(Access access) {
  if (gone() || !awaits_access_) return;
  awaits_access_ = false;
  busy_ = true;
  Validate(access);
  Flush();
  busy_ = false;
  Settle();
}

void HttpConnection::Validate(Access access) {
  if (access != Access::kGranted) {
    bool busy = access == Access::kBusy;
    HttpResponse response = busy ? HttpResponse::Text(503, "Too many passwords are being checked. Try again.")
                                 : HttpResponse::Text(401, "Unauthorized");
    if (busy) response.AddHeader("Retry-After", "1");
    if (!busy && !rules_->challenge.empty()) response.AddHeader("WWW-Authenticate", rules_->challenge);
    shared_.stats.Refused(Refusal::kAuth);
    return Deny(std::move(response));
  }
  HttpResponder responder(shared_.loop, Ref<HttpConnection>(this), slots_.back().number);
  shared_.handler.Handle(parser_->request(), std::move(responder));
  if (!gone()) KeepParser();
}

void HttpConnection::Deny(HttpResponse response) {
  shared_.handler.Refuse(parser_->request(), response);
  Answer(slots_.back().number, std::move(response));
  KeepParser();
}

void HttpConnection::KeepParser() {
  if (!parser_) return;
  parser_->Reset();
  if (!shared_.spare_parser) shared_.spare_parser = std::move(parser_);
  parser_ = nullptr;
}

void HttpConnection::Reject(int status, std::string_view why) {
  if (status == 413) shared_.stats.Refused(Refusal::kBodySize);
  if (status == 429) shared_.stats.Refused(Refusal::kLimit);
  if (status == 414 || status == 431) shared_.stats.Refused(Refusal::kHeaderSize);
  last_taken_ = true;
  HttpResponse response = HttpResponse::Text(status, std::string(why));
  if (status == 429) response.AddHeader("Retry-After", "1");
  if (parser_) shared_.handler.Refuse(parser_->request(), response);
  ForgetRequest();
  Slot& slot = slots_.emplace_back();
  slot.number = next_number_++;
  slot.close = true;
  FillSlot(slot, std::move(response), true);
}

void HttpConnection::Answer(uint64_t number, HttpResponse response) {
  if (gone()) return;
  for (Slot& slot : slots_) {
    if (slot.number != number || slot.ready) continue;
    FillSlot(slot, std::move(response), &slot == &slots_.back());
    break;
  }
  if (busy_) return;
  Ref<Connection> self(this);
  Flush();
  Settle();
}

// A client may close its sending side and still read: what it asked for is answered.
void HttpConnection::PeerFinished() {
  input_ended_ = true;
  if (lingering_ || slots_.empty()) Close();
}

void HttpConnection::Broken() {
  if (!stream_.is_tls() || stream_.handshake_done()) return Close();
  shared_.stats.Refused(Refusal::kTls);
  if (!stream_.peer_spoke_http()) return Close();
  static const std::string kReply = [] {
    std::string text = "This port serves HTTPS. Use https://.\n";
    return "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: " +
           std::to_string(text.size()) + "\r\nConnection: close\r\n\r\n" + text;
  }();
  stream_.PlainReply(kReply);
  Close();
}

// The last thing every callback does: goes on with what was held back, asks for what is missing, and
// enters the phase that this makes.
void HttpConnection::Settle() {
  while (!gone() && held_ && CanParse()) {
    busy_ = true;
    Parse({});
    Flush();
    busy_ = false;
  }
  if (gone()) return;
  if (lingering_ || CanParse()) stream_.WaitReadable();
  if (lingering_) return;
  Phase phase = next_number_ > 0 ? Phase::kIdle : Phase::kRequest;
  if (!slots_.empty() && slots_.front().ready) {
    phase = Phase::kWrite;
  } else if (!slots_.empty()) {
    phase = Phase::kWork;
  } else if (parser_ || !unparsed_.empty()) {
    phase = Phase::kRequest;
  }
  bool progressed = phase == Phase::kWrite && progress_ >= kProgress;
  if (phase == this->phase() && !new_request_ && !progressed) return;
  new_request_ = false;
  progress_ = 0;
  shared_.connections.Enter(*this, phase);
}

}  // namespace gpulens
