#include "net/http/http_connection.h"

#include <sys/mman.h>
#include <unistd.h>

#include <utility>

namespace gpulens {

namespace {

constexpr size_t kProgress = 64 << 10;
constexpr int kReadsPerTurn = 4;
constexpr size_t kMaxDiscarded = 1 << 20;

bool KeepsAlive(const HttpRequest& request) {
  if (request.version_minor() >= 1) return !request.HeaderHasToken("Connection", "close");
  return request.HeaderHasToken("Connection", "keep-alive");
}

// Null on failure.
std::shared_ptr<const UniqueFd> MakeFile(std::string_view bytes) {
  UniqueFd file(::memfd_create("gpulens-page", MFD_CLOEXEC));
  while (file && !bytes.empty()) {
    ssize_t count = ::write(file.get(), bytes.data(), bytes.size());
    if (count <= 0) return nullptr;
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return file ? std::make_shared<const UniqueFd>(std::move(file)) : nullptr;
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
    if (read.outcome == IoOutcome::kWouldBlock) break;
    if (read.outcome == IoOutcome::kClosed) {
      PeerFinished();
      break;
    }
    if (read.outcome == IoOutcome::kFailed) {
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
  // Changed rules hold for the next request of every connection; a changed TLS context ends it after its
  // answer.
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
  if (!shared_.authenticator || shared_.handler.IsForAll(request)) return ApplyAccess(Access::kGranted);
  Access access = shared_.authenticator->Check(
      request.Header("Authorization"), peer_,
      [self = Ref<HttpConnection>(this)](Access found) { self->OnAccess(found); });
  if (access != Access::kPending) return ApplyAccess(access);
  awaits_access_ = true;
}

void HttpConnection::OnAccess(Access access) {
  if (gone() || !awaits_access_) return;
  awaits_access_ = false;
  busy_ = true;
  ApplyAccess(access);
  Flush();
  busy_ = false;
  Settle();
}

void HttpConnection::ApplyAccess(Access access) {
  if (access != Access::kGranted) {
    bool busy = access == Access::kBusy;
    HttpResponse response = busy ? HttpResponse::Text(503, "Too many passwords are being checked. Try again.")
                                 : HttpResponse::Text(401, "Unauthorized");
    if (busy) response.AddHeader("Retry-After", "1");
    if (!busy && !rules_->challenge.empty()) response.AddHeader("WWW-Authenticate", rules_->challenge);
    shared_.stats.Refused(Refusal::kAuth);
    return Deny(std::move(response));
  }
  if (slots_.size() == 1 && !finishing_ && parser_->request().HasHeader("Upgrade")) {
    upgrader_ = shared_.handler.UpgraderOf(parser_->request());
    if (upgrader_) {
      last_taken_ = true;
      return;
    }
  }
  HttpResponder responder(shared_.loop, Ref<HttpConnection>(this), slots_.back().number);
  shared_.handler.Handle(parser_->request(), std::move(responder));
  if (!gone()) KeepParser();
}

// The stream's handler is another object afterwards, so this is the last thing of a callback.
void HttpConnection::HandOver() {
  std::unique_ptr<HttpParser> parser = std::move(parser_);
  HttpUpgrade upgrade{.stream = std::move(stream_),
                      .peer = peer_,
                      .rules = rules_,
                      .request = parser->request(),
                      .early = std::move(unparsed_)};
  Close();
  upgrader_->TakeOver(std::move(upgrade));
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

// A client may close its sending side and still read its answers.
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

// Ends every callback: parses what was held back, waits for what is missing and enters the resulting phase.
void HttpConnection::Settle() {
  while (!gone() && held_ && CanParse()) {
    busy_ = true;
    Parse({});
    Flush();
    busy_ = false;
  }
  if (gone()) return;
  if (upgrader_) return HandOver();
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

void HttpConnection::FillSlot(Slot& slot, HttpResponse response, bool last) {
  slot.ready = true;
  slot.close |= response.close || (finishing_ && last);
  shared_.stats.answers[static_cast<size_t>(response.status / 100) % 6].fetch_add(1,
                                                                                  std::memory_order_relaxed);
  std::string_view connection;
  if (slot.close) connection = "Connection: close\r\n";
  else if (slot.http10) connection = "Connection: keep-alive\r\n";
  slot.head = HttpHead(response, rules_->headers, connection);
  if (slot.head_only || !HttpHasBody(response.status)) return;
  slot.body = std::move(response.body);
  if (!stream_.is_tls()) slot.file = shared_.files.For(slot.body);
}

// Writes what is ready in one call: heads and bodies of many answers, or one file.
IoResult HttpConnection::WriteReady(size_t& total) {
  const Slot& first = slots_.front();
  if (first.file && sent_ >= first.head.size()) {
    total = first.size() - sent_;
    return stream_.SendFile(first.file->get(), sent_ - first.head.size(), total);
  }
  WritePieces pieces(sent_);
  bool more = false;
  for (const Slot& slot : slots_) {
    if (!slot.ready || pieces.full()) break;
    more = slot.file != nullptr;
    pieces.Add(slot.head);
    if (!more) pieces.Add(slot.body.bytes);
    if (slot.close || more) break;
  }
  total = pieces.total();
  return stream_.WriteSome(pieces.all(), more);
}

void HttpConnection::Flush() {
  while (!gone() && !slots_.empty() && slots_.front().ready) {
    size_t total = 0;
    IoResult wrote = WriteReady(total);
    if (wrote.outcome == IoOutcome::kFailed || wrote.outcome == IoOutcome::kClosed) return Close();
    Sent(wrote.bytes);
    if (wrote.bytes < total) return stream_.WaitWritable();
  }
  if (gone() || lingering_ || !slots_.empty()) return;
  if (finishing_) return Linger();
  if (input_ended_) Close();
}

void HttpConnection::Sent(size_t bytes) {
  shared_.stats.bytes_sent.fetch_add(bytes, std::memory_order_relaxed);
  progress_ += bytes;
  sent_ += bytes;
  size_t done = 0;
  bool close = false;
  while (done < slots_.size() && !close && slots_[done].ready && sent_ >= slots_[done].size()) {
    sent_ -= slots_[done].size();
    close = slots_[done++].close;
  }
  slots_.erase(slots_.begin(), slots_.begin() + static_cast<ptrdiff_t>(done));
  if (close) Linger();
}

// Reads on for a while, since a reset for unread bytes would overtake the answer.
void HttpConnection::Linger() {
  slots_.clear();
  unparsed_ = {};
  last_taken_ = true;
  if (input_ended_) return Close();
  lingering_ = true;
  stream_.Shutdown();
  shared_.connections.Enter(*this, Phase::kLinger);
}

void HttpConnection::Discard(size_t bytes) {
  discarded_ += bytes;
  if (discarded_ > kMaxDiscarded) Close();
}

HttpBodyFiles::~HttpBodyFiles() {
  if (timer_) loop_.Cancel(timer_);
}

std::shared_ptr<const UniqueFd> HttpBodyFiles::For(const SharedBytes& body) {
  if (!body.owner || body.bytes.size() < kLeastBytes) return nullptr;
  for (Entry& entry : entries_) {
    // The address may have been reused: only the same owner is the same body.
    bool same = entry.data == body.bytes.data() && entry.size == body.bytes.size() &&
                !entry.owner.owner_before(body.owner) && !body.owner.owner_before(entry.owner);
    if (!same) continue;
    if (entry.sends++ != kPlainSends) return entry.file;
    entry.file = MakeFile(body.bytes);
    if (!timer_) timer_ = loop_.After(std::chrono::seconds(1), [this] { Forget(); });
    return entry.file;
  }
  entries_[next_] = {body.owner, body.bytes.data(), body.bytes.size(), 1, nullptr};
  next_ = (next_ + 1) % entries_.size();
  return nullptr;
}

void HttpBodyFiles::Forget() {
  timer_ = 0;
  bool any = false;
  for (Entry& entry : entries_) {
    if (entry.owner.expired()) entry = {};
    any |= entry.file != nullptr;
  }
  if (any) timer_ = loop_.After(std::chrono::seconds(1), [this] { Forget(); });
}

}  // namespace gpulens
