#include "net/relay/relay_connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/check.h"
#include "base/parse.h"

namespace gpulens {
namespace {

constexpr size_t kProgressBytes = 64 << 10;
constexpr int kClientReadsPerTurn = 4;
constexpr size_t kMostDiscardedBytes = 64u << 20;
constexpr size_t kKeptBytes = 4096;
constexpr size_t kFirstBodyBytes = 256 << 10;
constexpr int kMostAttempts = 16;

void ClearSmall(std::string& text) {
  text.clear();
  if (text.capacity() > kKeptBytes) text.shrink_to_fit();
}

bool IsOneOf(std::string_view name, std::span<const std::string_view> names) noexcept {
  return std::any_of(names.begin(), names.end(),
                     [name](std::string_view each) { return EqualsIgnoringCase(name, each); });
}

void AppendLength(std::string& out, uint64_t length) {
  out += "Content-Length: ";
  out += std::to_string(length);
  out += "\r\n";
}

}  // namespace

RelayConnection::RelayConnection(RelayShared& shared, Stream stream, const Endpoint& peer,
                                 std::shared_ptr<const WebRules> rules)
    : shared_(shared), stream_(std::move(stream)), peer_(peer), rules_(std::move(rules)) {}

void RelayConnection::Start() {
  stream_.SetHandler(this);
  shared_.connections.Add(*this, Phase::kRequest);
  shared_.stats.connections.fetch_add(1, std::memory_order_relaxed);
  stream_.WaitReadable();
}

// Calls of the policy's handle. Inside a callback they are noted and done when it has returned.

void RelayConnection::Answer(uint64_t number, HttpResponse response) {
  const bool open = state_ != State::kAnswer && state_ != State::kReply && state_ != State::kCut;
  if (Over(number) || !open || answer_) return;
  answer_ = std::move(response);
  Kick();
}

void RelayConnection::Forward(uint64_t number, const RelayForward& forward) {
  const bool open = state_ == State::kDecide || (state_ == State::kUpstream && busy_ > 0);
  if (Over(number) || !open || forward_ || answer_ || !forward.upstream) return;
  next_pool_ = forward.upstream;
  BuildRequest(forward);
  forward_ = true;
  Kick();
}

void RelayConnection::Resume(uint64_t number) {
  if (Over(number)) return;
  resume_ = true;
  Kick();
}

void RelayConnection::Abort(uint64_t number) {
  if (Over(number)) return;
  abort_ = true;
  Kick();
}

void RelayConnection::Kick() {
  if (busy_ > 0) return;
  Ref<RelayConnection> self(this);
  // Callbacks do not nest: all connections write by the same memory.
  if (shared_.busy > 0) {
    return shared_.loop.Post([self] {
      if (!self->gone_) self->Settle();
    });
  }
  Settle();
}

void RelayConnection::Proceed() {
  while (!gone_ && active_) {
    if (std::exchange(abort_, false)) return AbortNow();
    if (answer_) {
      HttpResponse response = *std::move(answer_);
      answer_.reset();
      forward_ = false;
      outcome_.end =
          outcome_.failure == RelayFailure::kNone ? RelayEnd::kAnswered : RelayEnd::kUpstreamFailed;
      return Reply(std::move(response), false);
    }
    if (std::exchange(forward_, false)) {
      StartUpstream(false);
    } else if (std::exchange(resume_, false)) {
      if (held_) ResumeNow();
    } else {
      return;
    }
  }
}

// Ends every callback: does what the policy called for, takes the next request, waits for what is missing and
// enters the resulting phase.
void RelayConnection::Settle() {
  Ref<Connection> self(this);
  do {
    if (std::exchange(look_again_, false)) TakeInput({});
    if (!gone_) Proceed();
    if (!gone_ && write_failed_ && !client_left_) ClientGone(RelayEnd::kClientGone);
  } while (!gone_ && (look_again_ || (active_ && (answer_ || forward_ || abort_ || (resume_ && held_)))));
  if (gone_ || client_left_) return;
  if (WantsInput()) stream_.WaitReadable();
  if (state_ == State::kLinger) return;
  Phase phase = blocked_ ? Phase::kWrite : Phase::kWork;
  if (state_ == State::kBody) phase = Phase::kRequest;
  if (state_ == State::kHead) phase = input_.empty() && number_ > 0 ? Phase::kIdle : Phase::kRequest;
  const bool counts = phase == Phase::kWrite || phase == Phase::kRequest;
  const bool again = std::exchange(new_phase_, false) || (counts && progress_ >= kProgressBytes);
  if (phase == this->phase() && !again) return;
  progress_ = 0;
  shared_.connections.Enter(*this, phase);
}

bool RelayConnection::WantsInput() const noexcept {
  if (state_ == State::kHead || state_ == State::kBody || state_ == State::kLinger) return true;
  return !input_ended_ && input_.size() < shared_.options.limits.pipelined_bytes;
}

void RelayConnection::OnReadable() {
  Ref<Connection> self(this);
  for (int i = 0; i < kClientReadsPerTurn && !gone_ && !client_left_ && WantsInput(); ++i) {
    const IoResult read = stream_.ReadSome(shared_.buffer);
    if (read.outcome == IoOutcome::kWouldBlock) break;
    if (read.outcome == IoOutcome::kClosed) {
      PeerFinished();
      break;
    }
    if (read.outcome == IoOutcome::kFailed) {
      Broken();
      break;
    }
    if (state_ == State::kLinger) {
      discarded_ += read.bytes;
      if (discarded_ > kMostDiscardedBytes) Close();
    } else {
      TakeInput({shared_.buffer.data(), read.bytes});
      if (!gone_ && active_ && (answer_ || forward_ || abort_)) Settle();
    }
    if (read.bytes < shared_.buffer.size() && !stream_.is_tls()) break;
  }
  Settle();
}

void RelayConnection::TakeInput(std::span<char> fresh) {
  std::string joined;
  std::span<char> bytes = fresh;
  const bool takes = state_ == State::kHead || state_ == State::kBody;
  if (!takes || !input_.empty()) {
    input_.append(fresh.data(), fresh.size());
    if (!takes) return;
    joined.swap(input_);
    bytes = joined;
  }
  while (!bytes.empty() && !gone_ && !answer_ && !abort_) {
    if (state_ == State::kBody) {
      TakeBody(bytes);
    } else if (state_ == State::kHead) {
      const RelayHeadStep step =
          ParseRequestHead({bytes.data(), bytes.size()}, shared_.options.limits.head, request_);
      if (step.state == RelayHeadStep::State::kMore) break;
      if (step.state == RelayHeadStep::State::kBad) {
        request_.Clear();
        ++number_;
        outcome_ = {};
        return Refuse(step.status, step.why);
      }
      bytes = bytes.subspan(step.consumed);
      BeginExchange(!bytes.empty());
    } else {
      break;
    }
  }
  if (gone_ || state_ == State::kLinger || close_) return;
  input_.append(bytes.data(), bytes.size());
}

void RelayConnection::BeginExchange(bool body_has_come) {
  const RelayLimits& limits = shared_.options.limits;
  ++number_;
  shared_.stats.requests.fetch_add(1, std::memory_order_relaxed);
  outcome_ = {};
  detail_.clear();
  attempts_ = 0;
  close_ = !request_.keeps_alive() || finishing_;
  new_phase_ = true;
  const RelayFraming framing = request_.framing();
  if (framing == RelayFraming::kLength && request_.length() > limits.body_bytes)
    return Refuse(413, "The request body is too large.");
  active_ = true;
  Call([&] { exchange_ = shared_.policy.Begin(Request(), RelayHandle(*this, number_)); });
  CHECK(exchange_);
  if (answer_ || abort_) {
    close_ |= framing != RelayFraming::kNone;  // what follows is a body that is not read
    return;
  }
  if (framing == RelayFraming::kNone) return RequestWhole();
  state_ = State::kBody;
  request_walk_.Begin(framing, request_.length());
  if (framing == RelayFraming::kLength)
    body_.reserve(static_cast<size_t>(std::min<uint64_t>(request_.length(), kFirstBodyBytes)));
  if (!request_.expects_continue() || body_has_come) return;
  pending_ += "HTTP/1.1 100 Continue\r\n\r\n";
  Flush();
}

void RelayConnection::TakeBody(std::span<char>& bytes) {
  const RelayLimits& limits = shared_.options.limits;
  const RelayBodyWalk::Step step = request_walk_.Take(bytes);
  if (body_.size() + step.payload > limits.body_bytes) return Refuse(413, "The request body is too large.");
  if (step.state == RelayBodyWalk::State::kBad) return Refuse(400, request_walk_.why());
  body_.append(bytes.data(), step.payload);
  bytes = bytes.subspan(step.consumed);
  progress_ += step.payload;
  counted_body_ += step.payload;
  const uint64_t arriving =
      shared_.stats.arriving.fetch_add(step.payload, std::memory_order_relaxed) + step.payload;
  if (arriving > limits.arriving_bytes)
    return Refuse(429, "Too many requests are arriving at once. Try again.");
  if (step.state == RelayBodyWalk::State::kDone) RequestWhole();
}

void RelayConnection::RequestWhole() {
  state_ = State::kDecide;
  Call([&] { exchange_->OnRequest(Request()); });
}

void RelayConnection::ReleaseBody() {
  shared_.stats.arriving.fetch_sub(std::exchange(counted_body_, 0), std::memory_order_relaxed);
  ClearSmall(body_);
  upstream_body_.clear();
}

// Answers of our own.

void RelayConnection::Refuse(int status, std::string_view why) {
  if (status == 413) shared_.stats.Refused(Refusal::kBodySize);
  if (status == 429 || status == 503) shared_.stats.Refused(Refusal::kLimit);
  if (status == 414 || status == 431) shared_.stats.Refused(Refusal::kHeaderSize);
  HttpResponse response = HttpResponse::Text(status, std::string(why));
  if (status == 429 || status == 503) response.AddHeader("Retry-After", "1");
  Call([&] { shared_.policy.Refuse(request_, response); });
  answer_.reset();
  forward_ = false;
  const bool failed = outcome_.failure != RelayFailure::kNone;
  outcome_.end = failed ? RelayEnd::kUpstreamFailed : RelayEnd::kRefused;
  // What follows a request that was not read to its end is no request.
  Reply(std::move(response), !failed);
}

void RelayConnection::Reply(HttpResponse response, bool close) {
  if (client_left_) {
    EndExchange(gone_end_);
    return Close();
  }
  if (upstream_) std::exchange(upstream_, nullptr)->Cancel();
  close_ |= close || response.close || finishing_ || input_ended_ || state_ == State::kBody;
  if (close_) input_.clear();
  state_ = State::kReply;
  ReleaseBody();
  outcome_.status = response.status;
  shared_.stats.answers[static_cast<size_t>(response.status / 100) % 6].fetch_add(1,
                                                                                  std::memory_order_relaxed);
  std::string_view connection;
  if (close_) connection = "Connection: close\r\n";
  else if (request_.version_minor() == 0) connection = "Connection: keep-alive\r\n";
  pending_ += HttpHead(response, rules_->headers, connection);
  chunked_ = false;
  shared_.pieces.clear();
  if (request_.method() != "HEAD" && HttpHasBody(response.status) && !response.body.bytes.empty())
    shared_.pieces.push_back(response.body.bytes);
  Flush();
  if (!blocked_ && !write_failed_) Written();
}

// Requests.

void RelayConnection::BuildRequest(const RelayForward& forward) {
  using Kind = RelayHead::Kind;
  std::string& out = upstream_head_;
  out.clear();
  upstream_body_.clear();
  if (forward.body) upstream_body_ = *forward.body;
  else if (!body_.empty()) upstream_body_.push_back(body_);
  uint64_t length = 0;
  for (std::string_view piece : upstream_body_) length += piece.size();

  out += request_.method();
  out += ' ';
  out += forward.target.empty() ? request_.target() : forward.target;
  out += " HTTP/1.1\r\n";
  const auto& trusted = shared_.options.trusted_peers;
  const bool trusts = std::any_of(trusted.begin(), trusted.end(),
                                  [this](const AddressRange& range) { return range.Contains(peer_); });
  size_t last_for = request_.field_count();  // the X-Forwarded-For that the peer is appended to
  for (size_t i = 0; trusts && i < request_.field_count(); ++i) {
    if (EqualsIgnoringCase(request_.field(i).name, "x-forwarded-for")) last_for = i;
  }
  bool has_host = false, has_length = false, has_te = false;
  const auto add_host = [&] {
    out += "Host: ";
    out += next_pool_->authority();
    out += "\r\n";
    has_host = true;
  };
  for (size_t i = 0; i < request_.field_count(); ++i) {
    const RelayHead::Field field = request_.field(i);
    switch (field.kind) {
      case Kind::kHop:
      case Kind::kExpect: continue;
      case Kind::kHost: add_host(); continue;
      case Kind::kContentLength:
        if (forward.body) continue;
        has_length = true;
        break;
      case Kind::kTe:
        if (request_.takes_trailers() && !std::exchange(has_te, true)) out += "TE: trailers\r\n";
        continue;
      case Kind::kForwarded:
        if (!trusts || IsOneOf(field.name, forward.drop)) continue;
        if (i != last_for) break;
        out += field.line.substr(0, field.line.size() - 2);
        out += ", ";
        out += peer_.Host();
        out += "\r\n";
        continue;
      case Kind::kPlain:
        if (IsOneOf(field.name, forward.drop)) continue;
        break;
    }
    out += field.line;
  }
  if (!has_host) add_host();
  if (trusts && last_for == request_.field_count()) out += "X-Forwarded-For: " + peer_.Host() + "\r\n";
  const std::string_view method = request_.method();
  const bool wants_length = length > 0 || request_.framing() != RelayFraming::kNone || method == "POST" ||
                            method == "PUT" || method == "PATCH";
  if (wants_length && !has_length) AppendLength(out, length);
  out += forward.fields;
  out += "\r\n";
}

void RelayConnection::StartUpstream(bool fresh) {
  if (upstream_) std::exchange(upstream_, nullptr)->Cancel();
  if (next_pool_) pool_ = std::move(next_pool_);
  state_ = State::kUpstream;
  ++attempts_;
  if (client_left_) {
    EndExchange(gone_end_);
    return Close();
  }
  if (!streaming_) {
    if (shared_.stats.streams.load(std::memory_order_relaxed) >= shared_.options.limits.streams)
      return AttemptFailed(RelayFailure::kStreams, "too many streams are open", false);
    shared_.stats.streams.fetch_add(1, std::memory_order_relaxed);
    streaming_ = true;
  }
  const bool repeatable = request_.method() == "GET" || request_.method() == "HEAD";
  const UpstreamRequest request{.head = upstream_head_,
                                .body = &upstream_body_,
                                .head_only = request_.method() == "HEAD",
                                .repeatable = repeatable};
  const RelayFailure failure = pool_->Start(*this, request, fresh, upstream_);
  if (failure == RelayFailure::kNone) return;
  AttemptFailed(
      failure,
      failure == RelayFailure::kBusy ? "all connections are in use" : "it failed too often just before",
      false);
}

void RelayConnection::AttemptFailed(RelayFailure failure, std::string detail, bool dispatched) {
  upstream_ = nullptr;
  outcome_.failure = failure;
  detail_ = std::move(detail);
  if (client_left_) {
    EndExchange(gone_end_);
    return Close();
  }
  Call([&] { exchange_->OnAttemptFailed({failure, detail_, dispatched}); });
  if (attempts_ >= kMostAttempts) forward_ = false;
  if (forward_ || answer_ || abort_) return;
  const int status = RelayFailureStatus(failure);
  Refuse(status, status == 504   ? "The upstream did not answer in time."
                 : status == 503 ? "The upstream takes no requests now. Try again."
                                 : "The upstream did not answer.");
}

void RelayConnection::OnAnswerFailed(RelayFailure failure, std::string detail, bool repeat) {
  Ref<Connection> self(this);
  const bool dispatched = upstream_ && upstream_->any_sent();
  upstream_ = nullptr;
  if (state_ == State::kUpstream) {
    if (repeat) StartUpstream(true);
    else AttemptFailed(failure, std::move(detail), dispatched);
  } else {
    outcome_.failure = failure;
    detail_ = std::move(detail);
    Cut(RelayEnd::kUpstreamFailed);
  }
  if (!gone_) Settle();
}

// Answers of an upstream.

void RelayConnection::OnInterim(const RelayHead& head) {
  if (client_left_ || request_.version_minor() == 0) return;
  pending_ += "HTTP/1.1 ";
  pending_ += head.status_and_reason();
  pending_ += "\r\n";
  for (size_t i = 0; i < head.field_count(); ++i) {
    if (head.field(i).kind == RelayHead::Kind::kPlain) pending_ += head.field(i).line;
  }
  pending_ += "\r\n";
  shared_.pieces.clear();
  Flush();
}

void RelayConnection::OnAnswerHead(const RelayHead& head, RelayFraming framing) {
  RelayPass pass;
  Call([&] { exchange_->OnUpstreamHead(head, pass); });
  if (forward_ || answer_ || abort_) {
    std::exchange(upstream_, nullptr)->Cancel();
    if (forward_ && attempts_ >= kMostAttempts) Refuse(502, "No upstream gave an answer that was taken.");
    return Settle();
  }
  state_ = State::kAnswer;
  outcome_.failure = RelayFailure::kNone;
  detail_.clear();
  outcome_.status = head.status();
  shared_.stats.answers[static_cast<size_t>(head.status() / 100) % 6].fetch_add(1, std::memory_order_relaxed);
  write_first_ = pass.write_first;
  held_ = answer_ended_ = end_passed_ = at_end_ = false;
  BuildHead(head, framing, pass);
  if (upstream_->sent()) ReleaseBody();
}

void RelayConnection::BuildHead(const RelayHead& head, RelayFraming framing, const RelayPass& pass) {
  using Kind = RelayHead::Kind;
  const bool no_body = framing == RelayFraming::kNone;
  has_length_ = no_body || (framing == RelayFraming::kLength && (pass.write_first || pass.same_length));
  declared_ = no_body ? 0 : head.length();
  chunked_ = !has_length_ && request_.version_minor() == 1;
  reset_ = !has_length_ && !chunked_;
  close_ |= reset_ || finishing_ || input_ended_;
  passes_trailers_ = chunked_ && request_.takes_trailers();
  if (client_left_) return;
  std::string& out = pending_;
  out += "HTTP/1.1 ";
  out += head.status_and_reason();
  out += "\r\n";
  bool length_passes = has_length_ && head.status() != 204;
  for (size_t i = 0; i < head.field_count(); ++i) {
    const RelayHead::Field field = head.field(i);
    if (field.kind == Kind::kHop || field.kind == Kind::kTe) continue;
    if (field.kind == Kind::kContentLength && !std::exchange(length_passes, false)) continue;
    if (!IsOneOf(field.name, pass.drop)) out += field.line;
  }
  out += pass.fields;
  if (chunked_) out += "Transfer-Encoding: chunked\r\n";
  if (close_) out += "Connection: close\r\n";
  else if (request_.version_minor() == 0) out += "Connection: keep-alive\r\n";
  out += "\r\n";
}

bool RelayConnection::OnAnswerBody(std::string_view piece, bool end, std::string_view trailers) {
  Ref<Connection> self(this);
  outcome_.received += piece.size();
  if (end) {
    upstream_ = nullptr;
    answer_ended_ = outcome_.answer_whole = true;
    if (passes_trailers_) AppendPassedTrailers(trailers_, trailers);
  }
  if (client_left_ && piece.size() > drain_left_) {
    EndExchange(gone_end_);
    Close();
    return false;
  }
  drain_left_ -= client_left_ ? piece.size() : 0;
  shared_.pieces.clear();
  RelayOutput output(shared_.pieces);
  if (write_first_) {
    if (!piece.empty()) shared_.pieces.push_back(piece);
    if (!end || !piece.empty()) Flush();
    output.open_ = false;
  }
  if (!piece.empty()) Call([&] { exchange_->OnBody(piece, output); });
  held_ |= output.hold_;
  if (end && !held_) EndAnswer();
  // Of a short answer that is held, the begin waits for the rest: one write for both.
  else if (!write_first_ && !(held_ && KeepBegin())) Flush();
  if (!gone_) Settle();
  return !gone_ && !blocked_ && !held_;
}

// The upstream's answer is whole and nothing of it is held.
void RelayConnection::EndAnswer() {
  if (!std::exchange(end_passed_, true)) {
    RelayOutput output(shared_.pieces);
    output.open_ = !write_first_;
    Call([&] { exchange_->OnBodyEnd(output); });
    held_ |= output.hold_;
    if (held_) return Flush();
  }
  std::string tail;
  if (chunked_) {
    tail = "0\r\n";
    tail += trailers_;
    tail += "\r\n";
    trailers_.clear();
  }
  at_end_ = true;
  Flush(tail);
  if (client_left_) {
    EndExchange(gone_end_);
    return Close();
  }
  // A policy that does not pass what it promised.
  if (has_length_ && outcome_.passed != declared_) {
    at_end_ = false;
    reset_ = true;
    return Cut(RelayEnd::kAborted);
  }
  if (!blocked_ && !write_failed_) Written();
}

void RelayConnection::ResumeNow() {
  held_ = false;
  shared_.pieces.clear();
  RelayOutput output(shared_.pieces);
  output.open_ = !write_first_;
  Call([&] { exchange_->OnResume(output); });
  held_ |= output.hold_;
  if (!held_ && answer_ended_) return EndAnswer();
  Flush();
  if (!held_ && !blocked_ && upstream_) upstream_->ReadOn();
}

void RelayConnection::AbortNow() {
  if (state_ == State::kReply || state_ == State::kCut) return;
  if (client_left_ || state_ != State::kAnswer) {
    EndExchange(client_left_ ? gone_end_ : RelayEnd::kAborted);
    return Close();
  }
  Cut(RelayEnd::kAborted);
}

// Ends an answer before its end, so that the client notices.
void RelayConnection::Cut(RelayEnd end) {
  if (upstream_) std::exchange(upstream_, nullptr)->Cancel();
  if (client_left_) {
    EndExchange(gone_end_);
    return Close();
  }
  outcome_.end = end;
  close_ = true;
  if (end == RelayEnd::kUpstreamFailed) {
    shared_.pieces.clear();
    RelayOutput output(shared_.pieces);
    Call([&] { exchange_->OnCut({outcome_.failure, detail_, true}, output); });
    // Bytes of ours would be taken for the upstream's.
    if (has_length_) shared_.pieces.clear();
    Flush();
  } else if (!blocked_ && !pending_.empty()) {
    shared_.pieces.clear();
    Flush();
  }
  state_ = State::kCut;
  if (!blocked_ && !write_failed_) Written();
}

// Writing.

// Adds the payload in shared_.pieces to a head that is not written yet. False: that is not so, or it is much.
bool RelayConnection::KeepBegin() {
  size_t payload = 0;
  for (std::string_view piece : shared_.pieces) payload += piece.size();
  if (blocked_ || chunked_ || client_left_ || pending_.empty() || payload > kKeptBytes) return false;
  for (std::string_view piece : shared_.pieces) pending_ += piece;
  outcome_.passed += payload;
  shared_.pieces.clear();
  return true;
}

// Writes what is pending, the payload in shared_.pieces with its frame, and `tail`. What does not fit waits.
void RelayConnection::Flush(std::string_view tail) {
  std::vector<std::string_view>& out = shared_.out;
  out.clear();
  size_t payload = 0;
  for (std::string_view piece : shared_.pieces) payload += piece.size();
  outcome_.passed += state_ == State::kAnswer ? payload : 0;
  if (client_left_ || write_failed_) return shared_.pieces.clear();
  if (pending_at_ < pending_.size()) out.push_back(std::string_view(pending_).substr(pending_at_));
  const size_t waiting = out.size();
  char frame[24];
  if (payload > 0) {
    if (chunked_) {
      char* end = std::to_chars(frame, frame + 16, payload, 16).ptr;
      *end++ = '\r';
      *end++ = '\n';
      out.emplace_back(frame, static_cast<size_t>(end - frame));
    }
    out.insert(out.end(), shared_.pieces.begin(), shared_.pieces.end());
    if (chunked_) out.emplace_back("\r\n");
  }
  shared_.pieces.clear();
  if (!tail.empty()) out.push_back(tail);
  if (blocked_) {
    for (size_t i = waiting; i < out.size(); ++i) pending_ += out[i];
    return;
  }
  size_t first = 0;
  while (first < out.size()) {
    const size_t count = std::min(out.size() - first, Stream::kMaxPieces);
    const std::span<const std::string_view> part(out.data() + first, count);
    size_t total = 0;
    for (std::string_view piece : part) total += piece.size();
    const IoResult wrote = stream_.WriteSome(part);
    if (wrote.outcome == IoOutcome::kFailed || wrote.outcome == IoOutcome::kClosed) {
      write_failed_ = true;
      return;
    }
    shared_.stats.bytes_sent.fetch_add(wrote.bytes, std::memory_order_relaxed);
    progress_ += wrote.bytes;
    size_t left = wrote.bytes;
    while (first < out.size() && left >= out[first].size()) left -= out[first++].size();
    if (left > 0) out[first].remove_prefix(left);
    if (wrote.bytes < total) break;
  }
  if (first == out.size()) {
    ClearSmall(pending_);
    pending_at_ = 0;
    return;
  }
  std::string rest;
  for (size_t i = first; i < out.size(); ++i) rest += out[i];
  pending_ = std::move(rest);
  pending_at_ = 0;
  blocked_ = true;
  stream_.WaitWritable();
}

void RelayConnection::OnWritable() {
  Ref<Connection> self(this);
  if (gone_ || client_left_) return;
  while (pending_at_ < pending_.size()) {
    const std::string_view rest = std::string_view(pending_).substr(pending_at_);
    const IoResult wrote = stream_.WriteSome({&rest, 1});
    if (wrote.outcome == IoOutcome::kFailed || wrote.outcome == IoOutcome::kClosed) {
      write_failed_ = true;
      return Settle();
    }
    shared_.stats.bytes_sent.fetch_add(wrote.bytes, std::memory_order_relaxed);
    pending_at_ += wrote.bytes;
    progress_ += wrote.bytes;
    if (wrote.bytes < rest.size()) {
      stream_.WaitWritable();
      return Settle();
    }
  }
  blocked_ = false;
  ClearSmall(pending_);
  pending_at_ = 0;
  Written();
  if (!gone_) Settle();
}

// All that was pending is written.
void RelayConnection::Written() {
  if (state_ == State::kReply) return AnswerDone(outcome_.end);
  if (state_ == State::kAnswer && at_end_) return AnswerDone(RelayEnd::kComplete);
  if (state_ == State::kAnswer && !held_ && upstream_) upstream_->ReadOn();
  if (state_ != State::kCut) return;
  EndExchange(outcome_.end);
  if (!reset_) return Linger();
  // Without a length or frames only a reset shows the client that the answer is not whole.
  const linger now{1, 0};
  ::setsockopt(stream_.fd(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
  Close();
}

void RelayConnection::AnswerDone(RelayEnd end) {
  EndExchange(end);
  request_.Clear();
  if (close_ || finishing_) return Linger();
  state_ = State::kHead;
  new_phase_ = true;
  look_again_ = !input_.empty();
}

// Ends.

// Reads on for a while, since a reset for unread bytes would overtake the answer.
void RelayConnection::Linger() {
  input_ = {};
  state_ = State::kLinger;
  if (input_ended_) return Close();
  stream_.Shutdown();
  shared_.connections.Enter(*this, Phase::kLinger);
}

void RelayConnection::PeerFinished() {
  input_ended_ = true;
  if (state_ == State::kReply || state_ == State::kCut) return;
  if (shared_.options.half_close && (state_ == State::kDecide || AtUpstream())) return;
  ClientGone(RelayEnd::kClientGone);
}

void RelayConnection::Broken() {
  if (!stream_.is_tls() || stream_.handshake_done()) return ClientGone(RelayEnd::kClientGone);
  shared_.stats.Refused(Refusal::kTls);
  if (stream_.peer_spoke_http()) {
    stream_.PlainReply(
        "HTTP/1.1 400 Bad Request\r\nContent-Length: 39\r\nConnection: close\r\n\r\n"
        "This port serves HTTPS. Use https://.\r\n");
  }
  Close();
}

void RelayConnection::ClientGone(RelayEnd end) {
  if (gone_ || client_left_) return;
  if (active_ && AtUpstream() && !answer_ended_) {
    RelayDrain drain;
    Call([&] { drain = exchange_->OnClientGone(); });
    if (drain.bytes > 0 && !abort_) {
      client_left_ = true;
      gone_end_ = end;
      drain_left_ = drain.bytes;
      stream_.Close();
      pending_ = {};
      input_ = {};
      blocked_ = false;
      shared_.connections.Enter(*this, Phase::kOpen);
      Ref<RelayConnection> self(this);
      drain_timer_ = shared_.loop.After(drain.time, [self] {
        self->drain_timer_ = 0;
        self->EndExchange(self->gone_end_);
        self->Close();
      });
      if (!held_ && upstream_) upstream_->ReadOn();
      return;
    }
  }
  EndExchange(end);
  Close();
}

void RelayConnection::EndExchange(RelayEnd end) {
  if (!std::exchange(active_, false)) return;
  std::unique_ptr<RelayExchange> exchange = std::move(exchange_);
  if (upstream_) std::exchange(upstream_, nullptr)->Cancel();
  next_pool_ = nullptr;
  // Not from inside a call of the pool, which this may be.
  if (pool_.unique()) shared_.loop.Post([pool = pool_] {});
  pool_ = nullptr;
  ReleaseBody();
  ClearSmall(upstream_head_);
  if (std::exchange(streaming_, false)) shared_.stats.streams.fetch_sub(1, std::memory_order_relaxed);
  if (drain_timer_) shared_.loop.Cancel(std::exchange(drain_timer_, 0));
  answer_.reset();
  forward_ = resume_ = abort_ = held_ = answer_ended_ = at_end_ = false;
  outcome_.end = end;
  outcome_.detail = detail_;
  if (!exchange) return;
  Call([&] {
    exchange->OnEnd(outcome_);
    exchange = nullptr;
  });
}

void RelayConnection::OnDeadline(Phase phase) {
  Ref<Connection> self(this);
  if (phase == Phase::kWrite) {
    shared_.stats.Refused(Refusal::kSlow);
    return ClientGone(RelayEnd::kClientSlow);
  }
  if (phase == Phase::kRequest) shared_.stats.Refused(Refusal::kTimeout);
  const bool begun = state_ == State::kBody || !input_.empty();
  if (phase != Phase::kRequest || !begun || !stream_.handshake_done()) return Close();
  if (state_ == State::kHead) {
    request_.Clear();
    outcome_ = {};
  }
  Refuse(408, "The request did not arrive in time.");
  if (!gone_) Settle();
}

void RelayConnection::FinishAndClose() {
  finishing_ = true;
  if (state_ == State::kHead) Close();
}

void RelayConnection::Close() {
  if (std::exchange(gone_, true)) return;
  Ref<Connection> self(this);
  EndExchange(client_left_ ? gone_end_ : RelayEnd::kStopped);
  stream_.Close();
  input_ = {};
  pending_ = {};
  shared_.stats.connections.fetch_sub(1, std::memory_order_relaxed);
  shared_.connections.Remove(*this);
}

}  // namespace gpulens
