#include "net/relay/upstream_connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <utility>

#include "net/relay/address_range.h"

namespace gpulens {
namespace {

constexpr int kUpstreamReadsPerTurn = 4;
constexpr int kMostInterim = 16;

}  // namespace

void UpstreamConnection::Begin(UpstreamUser& user, const UpstreamRequest& request) {
  user_ = &user;
  request_ = request;
  sent_ = 0;
  size_ = request.head.size();
  if (request.body) {
    for (std::string_view piece : *request.body) size_ += piece.size();
  }
  interim_ = 0;
  begun_ = head_done_ = paused_ = write_failed_ = extra_ = counted_ = false;
}

void UpstreamConnection::Open(UpstreamUser& user, const UpstreamRequest& request) {
  Begin(user, request);
  pool_.connections_.Add(*this, kConnecting);
  Ref<UpstreamConnection> self(this);
  const bool known =
      !pool_.addresses_.empty() && pool_.Now() - pool_.looked_up_ < pool_.options_.keep_addresses;
  if (pool_.literal_ || known) {
    // An address that the configuration names is allowed, whatever it is.
    addresses_ = known ? pool_.addresses_ : std::vector<Endpoint>{*pool_.literal_};
    // A failure at once must not be reported from inside Start.
    auto stream = Stream::Connect(pool_.loop_, addresses_[0], pool_.options_.tls, pool_.options_.url.host);
    if (stream) {
      next_address_ = 1;
      stream_ = *std::move(stream);
      stream_.SetHandler(this);
      return stream_.WaitWritable();
    }
    return pool_.loop_.Post([self] {
      if (!self->gone_) self->ConnectNext();
    });
  }
  pool_.loop_.Resolve(pool_.options_.url.host, pool_.options_.url.port,
                      [self](Result<std::vector<Endpoint>> found) {
                        if (!self->gone_) self->OnResolved(std::move(found));
                      });
}

void UpstreamConnection::OnResolved(Result<std::vector<Endpoint>> found) {
  if (!found) return Fail(RelayFailure::kResolve, found.error().detail);
  addresses_ = *std::move(found);
  std::erase_if(addresses_, [](const Endpoint& each) { return IsMetadataAddress(each); });
  if (addresses_.empty()) {
    return Fail(RelayFailure::kForbidden, pool_.options_.url.host +
                                              " resolves to a link-local or metadata address; "
                                              "write the address itself if that is meant");
  }
  pool_.addresses_ = addresses_;
  pool_.looked_up_ = pool_.Now();
  ConnectNext();
}

void UpstreamConnection::ConnectNext() {
  while (next_address_ < addresses_.size()) {
    const Endpoint& to = addresses_[next_address_++];
    auto stream = Stream::Connect(pool_.loop_, to, pool_.options_.tls, pool_.options_.url.host);
    if (!stream) {
      connect_error_ = stream.error().detail;
      continue;
    }
    stream_ = *std::move(stream);
    stream_.SetHandler(this);
    return stream_.WaitWritable();
  }
  pool_.addresses_.clear();
  Fail(RelayFailure::kConnect, pool_.authority_ + ": " + connect_error_);
}

bool UpstreamConnection::Reuse(UpstreamUser& user, const UpstreamRequest& request) {
  // What the other side has sent meanwhile, at most its end, is seen now rather than after the request.
  char byte;
  if (stream_.ReadSome({&byte, 1}).outcome != IoOutcome::kWouldBlock) return false;
  kept_before_ = true;
  Begin(user, request);
  pool_.connections_.Enter(*this, kAwaitsHead);
  Send();
  return true;
}

void UpstreamConnection::ReadOn() {
  if (!paused_ || gone_) return;
  paused_ = false;
  pool_.connections_.Enter(*this, kAwaitsBody);
  stream_.WaitReadable();
}

void UpstreamConnection::Cancel() {
  if (!user_) return;
  user_ = nullptr;
  Close();
}

void UpstreamConnection::Close() {
  if (std::exchange(gone_, true)) return;
  Ref<Connection> self(this);
  if (!std::exchange(counted_, true)) pool_.circuit_.OnAbandoned();
  stream_.Close();
  pool_.Forget(*this);
}

void UpstreamConnection::OnDeadline(Phase phase) {
  switch (phase) {
    case kConnecting:
      pool_.addresses_.clear();
      return Fail(RelayFailure::kConnectTimeout, pool_.authority_ + " did not take the connection in time");
    case kHandshake:
      return Fail(RelayFailure::kTlsTimeout, pool_.authority_ + " did not finish the TLS handshake in time");
    case kAwaitsHead: return Fail(RelayFailure::kHeadTimeout, pool_.authority_ + " did not answer in time");
    case kAwaitsBody:
      return Fail(RelayFailure::kIdleTimeout, pool_.authority_ + " stopped within its answer");
    default: return Close();
  }
}

void UpstreamConnection::OnWritable() {
  Ref<Connection> self(this);
  if (!gone_ && user_) Send();
}

void UpstreamConnection::Send() {
  while (sent_ < size_) {
    // A long body is written in several calls, each of as many pieces as fit.
    size_t skip = sent_, total = 0;
    std::array<std::string_view, Stream::kMaxPieces> pieces;
    size_t count = 0;
    const auto add = [&](std::string_view piece) {
      const size_t part = std::min(skip, piece.size());
      skip -= part;
      piece.remove_prefix(part);
      if (piece.empty()) return;
      pieces[count++] = piece;
      total += piece.size();
    };
    add(request_.head);
    if (request_.body) {
      for (size_t i = 0; i < request_.body->size() && count < pieces.size(); ++i) add((*request_.body)[i]);
    }
    const IoResult wrote = stream_.WriteSome({pieces.data(), count});
    if (wrote.outcome == IoOutcome::kFailed || wrote.outcome == IoOutcome::kClosed) {
      write_failed_ = true;
      // Not from inside Start.
      Ref<UpstreamConnection> self(this);
      return pool_.loop_.Post([self, user = user_] {
        if (!self->gone_ && self->user_ == user && self->write_failed_) self->SendFailed();
      });
    }
    if (!connected_ && stream_.handshake_done()) {
      connected_ = true;
      pool_.connections_.Enter(*this, kAwaitsHead);
    }
    if (wrote.outcome == IoOutcome::kWouldBlock) {
      // Writable, but not written: TCP is connected, and TLS shakes hands.
      if (!connected_ && phase() == kConnecting) pool_.connections_.Enter(*this, kHandshake);
      if (connected_) stream_.WaitReadable();
      return stream_.WaitWritable();
    }
    sent_ += wrote.bytes;
  }
  stream_.WaitReadable();
}

void UpstreamConnection::SendFailed() {
  const std::string error = stream_.error();
  if (!connected_) {
    if (error.starts_with("TLS")) return Fail(RelayFailure::kTls, pool_.authority_ + ": " + error);
    connect_error_ = error;
    // What was sent went nowhere.
    sent_ = 0;
    write_failed_ = false;
    stream_.Close();
    return ConnectNext();
  }
  if (head_done_) return;  // The answer is whole without the rest of the request; reading goes on.
  TakeLast();
}

// A server may refuse a request before it has read it, and close. Its answer lies here although writing
// failed.
void UpstreamConnection::TakeLast() {
  Ref<Connection> self(this);
  const std::string error = stream_.error();
  while (user_ && !stream_.is_tls() && !paused_) {
    const std::span<char> buffer = user_->ReadBuffer();
    const ssize_t n = ::recv(stream_.fd(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (n <= 0) break;
    Take(buffer.first(static_cast<size_t>(n)));
  }
  if (!user_ || paused_) return;
  if (head_done_) return Ended();
  Fail(RelayFailure::kClosed, pool_.authority_ + " closed the connection: " + error);
}

void UpstreamConnection::OnReadable() {
  Ref<Connection> self(this);
  if (gone_) return;
  if (!user_) {
    // A kept connection: with TLS bytes of the session may come, else only the end.
    char byte;
    if (stream_.ReadSome({&byte, 1}).outcome != IoOutcome::kWouldBlock) return Close();
    return stream_.WaitReadable();
  }
  if (write_failed_ && !head_done_) return;  // SendFailed comes
  if (write_failed_) return TakeLast();
  for (int i = 0; i < kUpstreamReadsPerTurn && user_ && !paused_; ++i) {
    const std::span<char> buffer = user_->ReadBuffer();
    const IoResult read = stream_.ReadSome(buffer);
    if (read.outcome == IoOutcome::kWouldBlock) break;
    if (read.outcome == IoOutcome::kClosed) return Ended();
    if (read.outcome == IoOutcome::kFailed) {
      if (head_done_) return Fail(RelayFailure::kCut, pool_.authority_ + ": " + stream_.error());
      return Fail(begun_ ? RelayFailure::kHead : RelayFailure::kClosed,
                  pool_.authority_ + ": " + stream_.error());
    }
    Take(buffer.first(read.bytes));
    if (read.bytes < buffer.size() && !stream_.is_tls()) break;
  }
  if (!gone_ && !paused_) stream_.WaitReadable();
}

void UpstreamConnection::Take(std::span<char> bytes) {
  begun_ = true;
  if (head_done_) return TakeBody(bytes);
  std::string joined;
  if (!head_bytes_.empty()) {
    head_bytes_.append(bytes.data(), bytes.size());
    joined.swap(head_bytes_);
    bytes = joined;
  }
  while (user_ && !head_done_) {
    if (!TakeHead(bytes)) return;
  }
  if (user_) TakeBody(bytes);
}

bool UpstreamConnection::TakeHead(std::span<char>& rest) {
  const RelayHeadStep step = ParseAnswerHead({rest.data(), rest.size()}, pool_.options_.limits, head_);
  if (step.state == RelayHeadStep::State::kMore) {
    head_bytes_.assign(rest.data(), rest.size());
    return false;
  }
  if (step.state == RelayHeadStep::State::kBad) {
    Fail(RelayFailure::kHead, pool_.authority_ + ": " + std::string(step.why));
    return false;
  }
  rest = rest.subspan(step.consumed);
  if (head_.status() < 200) {
    if (head_.status() == 101 || ++interim_ > kMostInterim) {
      Fail(RelayFailure::kHead, pool_.authority_ + ": unexpected interim answers");
      return false;
    }
    if (head_.status() != 100) user_->OnInterim(head_);
    return true;
  }
  head_done_ = true;
  const bool no_body = request_.head_only || head_.status() == 204 || head_.status() == 304;
  const RelayFraming framing = no_body ? RelayFraming::kNone : head_.framing();
  walk_.Begin(framing, head_.length());
  CountResult(head_.status() < 500);
  pool_.connections_.Enter(*this, kAwaitsBody);
  user_->OnAnswerHead(head_, framing);
  return true;
}

void UpstreamConnection::TakeBody(std::span<char> bytes) {
  const RelayBodyWalk::Step step = walk_.Take(bytes);
  const std::string_view payload(bytes.data(), step.payload);
  if (step.state == RelayBodyWalk::State::kBad) {
    const std::string why = pool_.authority_ + ": " + std::string(walk_.why());
    if (!payload.empty()) static_cast<void>(user_->OnAnswerBody(payload, false, {}));
    return Fail(RelayFailure::kBody, why);
  }
  if (step.state == RelayBodyWalk::State::kDone) {
    // Bytes behind an answer belong to no request.
    extra_ = step.consumed < bytes.size();
    UpstreamUser* user = Leave();
    static_cast<void>(user->OnAnswerBody(payload, true, walk_.trailers()));
    return;
  }
  const bool more = user_->OnAnswerBody(payload, false, {});
  if (!user_) return;
  paused_ = !more;
  pool_.connections_.Enter(*this, paused_ ? kPaused : kAwaitsBody);
}

// The other side has finished.
void UpstreamConnection::Ended() {
  Ref<Connection> self(this);
  if (!head_done_) {
    return Fail(begun_ ? RelayFailure::kHead : RelayFailure::kClosed,
                pool_.authority_ + (begun_ ? " closed the connection within the head of its answer"
                                           : " closed the connection without an answer"));
  }
  if (walk_.End() != RelayBodyWalk::State::kDone) {
    return Fail(RelayFailure::kCut, pool_.authority_ + " closed the connection within its answer");
  }
  extra_ = true;  // nothing more comes here
  UpstreamUser* user = Leave();
  static_cast<void>(user->OnAnswerBody({}, true, {}));
}

// The answer is whole: the user goes, and the connection is kept if another request may follow.
UpstreamUser* UpstreamConnection::Leave() {
  UpstreamUser* user = std::exchange(user_, nullptr);
  if (extra_ || sent_ < size_ || write_failed_ || !head_.keeps_alive()) {
    Close();
    return user;
  }
  request_ = {};
  pool_.Keep(*this);
  if (!gone_) stream_.WaitReadable();
  return user;
}

void UpstreamConnection::CountResult(bool good) {
  if (std::exchange(counted_, true)) return;
  if (good) pool_.circuit_.OnSuccess();
  else pool_.circuit_.OnFailure(pool_.Now());
}

void UpstreamConnection::Fail(RelayFailure failure, std::string detail) {
  Ref<Connection> self(this);
  UpstreamUser* user = std::exchange(user_, nullptr);
  const bool body_untouched = sent_ < size_ && sent_ <= request_.head.size();
  const bool repeat =
      kept_before_ && !begun_ && failure == RelayFailure::kClosed && (request_.repeatable || body_untouched);
  // A kept connection that was closed meanwhile is no fault of the server.
  if (!repeat) CountResult(false);
  if (failure == RelayFailure::kIdleTimeout) pool_.circuit_.OnFailure(pool_.Now());
  Close();
  if (user) user->OnAnswerFailed(failure, std::move(detail), repeat);
}

}  // namespace gpulens
