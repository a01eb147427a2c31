#include "net/client/http_channel.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <span>

#include "net/message/http_fields.h"

namespace gpulens {
namespace {

using Outcome = IoResult::Outcome;
using State = HttpResponseParser::State;

constexpr size_t kReadBytes = 64u << 10;
// One fast sender must not keep the loop from the others, nor one fast reader.
constexpr int kReadsPerTurn = 8;
constexpr int kWritesPerTurn = 8;
// So much is offered to one write; with TLS, where each comes after a look at what is there, one record.
constexpr size_t kPlainBytes = 256u << 10;
constexpr size_t kTlsBytes = 16u << 10;

// Shared by all channels of a loop: what is read is copied out at once.
char* ReadBuffer() {
  thread_local const std::unique_ptr<char[]> buffer(new char[kReadBytes]);
  return buffer.get();
}

}  // namespace

void HttpChannel::Core::OnWritable() {
  if (phase_ == Phase::kSending) Send();
}

void HttpChannel::Core::Send() {
  for (int i = 0; i < kWritesPerTurn; ++i) {
    // What has come is looked at before the first write on a kept connection, which may have ended, and, as
    // after a failed write nothing can be read from TLS, before each of its writes.
    bool nothing_came = false;
    bool look = post_ && connected_ && (sent_ == 0 || stream_.is_tls());
    if (look && !TakeSome(nothing_came)) return;
    if (phase_ != Phase::kSending) return stream_.WaitReadable();
    IoResult wrote = WritePiece();
    if (wrote.outcome == Outcome::kWouldBlock) break;
    if (wrote.outcome != Outcome::kOk) return OnWriteError();
    connected_ = true;
    sent_ += wrote.bytes;
    if (sent_ < RequestBytes()) continue;
    phase_ = Phase::kReceiving;
    return stream_.WaitReadable();
  }
  stream_.WaitWritable();
  // A body takes long, and may be answered before its end.
  if (post_ && connected_) stream_.WaitReadable();
}

IoResult HttpChannel::Core::WritePiece() {
  size_t room = stream_.is_tls() ? kTlsBytes : kPlainBytes;
  size_t of_head = std::min(sent_, head_.size());
  std::array<std::string_view, 2> pieces;
  size_t count = 0;
  std::string_view head = std::string_view(head_).substr(of_head, room);
  if (!head.empty()) pieces[count++] = head;
  std::string_view body = body_ ? std::string_view(*body_) : std::string_view{};
  body = body.substr(sent_ - of_head, room - head.size());
  if (!body.empty()) pieces[count++] = body;
  return stream_.WriteSome(std::span(pieces.data(), count));
}

// A server may answer and close before it has read all. The stream is broken then, but the kernel keeps what
// has come: it is read through another descriptor of the same socket. With TLS that cannot be: the keys are
// the stream's.
void HttpChannel::Core::OnWriteError() {
  if (!post_ || sent_ == 0 || stream_.is_tls()) return Broken();
  UniqueFd same(::fcntl(stream_.fd(), F_DUPFD_CLOEXEC, 0));
  if (!same) return Broken();
  auto rest = Stream::Adopt(loop_, std::move(same));
  if (!rest) return Broken();
  write_error_ = stream_.error();
  stream_ = std::move(*rest);
  stream_.SetHandler(this);
  phase_ = Phase::kReceiving;
  Receive();
}

void HttpChannel::Core::OnReadable() {
  if (phase_ == Phase::kReceiving || (phase_ == Phase::kSending && post_ && connected_)) Receive();
  else if (phase_ == Phase::kIdle) OnIdleEvent();
}

// On a kept connection nothing is expected but its end.
void HttpChannel::Core::OnIdleEvent() {
  char byte;
  IoResult read = stream_.ReadSome({&byte, 1});
  if (read.outcome == Outcome::kWouldBlock) stream_.WaitReadable();
  else stream_.Close();
}

void HttpChannel::Core::Receive() {
  bool nothing_left = false;
  for (int i = 0; i < kReadsPerTurn && !nothing_left; ++i) {
    if (!TakeSome(nothing_left)) return;
  }
  stream_.WaitReadable();
}

// One read. False: this connection is done with, or the whole request; then nothing here may be touched.
bool HttpChannel::Core::TakeSome(bool& nothing_left) {
  char* buffer = ReadBuffer();
  IoResult read = stream_.ReadSome({buffer, kReadBytes});
  nothing_left = read.outcome == Outcome::kWouldBlock;
  if (nothing_left) return true;
  // What lies on a kept connection before the request has begun is no answer to it.
  if (phase_ == Phase::kSending && sent_ == 0 && Retry()) return false;
  switch (read.outcome) {
    case Outcome::kClosed: return Ended(), false;
    case Outcome::kFailed: return Broken(), false;
    default: return TakeBytes({buffer, read.bytes});
  }
}

bool HttpChannel::Core::TakeBytes(std::string_view bytes) {
  size_t consumed = 0;
  State state = parser_.Feed(bytes, consumed);
  if (on_body_ && !Refused() && !parser_.body().empty()) {
    on_body_(parser_.body());
    parser_.body().clear();
  }
  if (state == State::kDone) return OnAnswer(consumed == bytes.size()), false;
  bool bad = state != State::kMore;
  // A refusal is known by its head. A Get wants no more of it; a Post reads on as far as that is possible.
  if (Refused() && (post_ ? bad : !bad)) return OnAnswer(false), false;
  if (bad) {
    bool large = state == State::kTooLarge;
    return Fail(large ? HttpFailure::kTooLarge : HttpFailure::kProtocol, parser_.why()), false;
  }
  // Whoever has refused does not want the rest of the request; others may have begun to answer already.
  if (phase_ == Phase::kSending && Refused()) phase_ = Phase::kReceiving;
  return true;
}

bool HttpChannel::Core::Refused() const noexcept {
  if (!parser_.head_done()) return false;
  return post_ ? parser_.status() / 100 != 2 : parser_.status() != 200;
}

bool HttpChannel::Core::Retry() {
  if (!reused_ || parser_.begun()) return false;
  reused_ = false;
  sent_ = 0;
  write_error_.clear();
  stream_.Close();
  Connect();
  return true;
}

void HttpChannel::Core::Broken() {
  if (Retry()) return;
  if (post_ && Refused()) return OnAnswer(false);
  std::string error = write_error_.empty() ? stream_.error() : write_error_;
  // Once a body is on its way it is no more about the handshake, unless TLS itself says so.
  bool cut = post_ && sent_ > 0 && error.starts_with("TLS: socket");
  if (error.starts_with("TLS: ") && !parser_.begun() && !cut) {
    return Fail(HttpFailure::kTls, std::move(error));
  }
  if (!connected_) {
    last_error_ = WithoutPrefix(std::move(error), "connect: ");
    return TryNextAddress();
  }
  Fail(HttpFailure::kProtocol, WithoutPrefix(WithoutPrefix(std::move(error), "read: "), "write: "));
}

void HttpChannel::Core::Ended() {
  if (Retry()) return;
  if (parser_.End() == State::kDone || (post_ && Refused())) return OnAnswer(false);
  if (!write_error_.empty() && !parser_.begun()) return Broken();
  Fail(HttpFailure::kProtocol, parser_.why());
}

void HttpChannel::Core::OnTimeout() {
  deadline_ = 0;
  if (post_ && Refused()) return OnAnswer(false);
  std::string within = " within " + std::to_string(timeout_ns_ / 1'000'000) + " ms";
  if (phase_ == Phase::kResolving) return Fail(HttpFailure::kTimeout, "the name was not resolved" + within);
  if (!connected_) return Fail(HttpFailure::kTimeout, "no connection" + within);
  if (post_ && sent_ < RequestBytes() && !parser_.begun()) {
    return Fail(HttpFailure::kTimeout, "only " + std::to_string(sent_) + " of " +
                                           std::to_string(RequestBytes()) + " bytes were accepted" + within);
  }
  Fail(HttpFailure::kTimeout, (parser_.begun() ? "incomplete response" : "no response") + within);
}

// `clean`: the connection is where the next request may begin, if all of this one is out.
void HttpChannel::Core::OnAnswer(bool clean) {
  reply_.status = parser_.status();
  reply_.content_type = parser_.content_type();
  reply_.gzip = parser_.gzip();
  reply_.retry_after = parser_.retry_after();
  reply_.kept = parser_.kept();
  reply_.body = std::move(parser_.body());
  if (Refused()) {
    bool auth = reply_.status == 401 || reply_.status == 403;
    reply_.failure = auth ? HttpFailure::kAuth : HttpFailure::kStatus;
    // What is posted to may be a webhook, whose path lets in whoever knows it.
    reply_.detail = DescribeStatus(reply_.status, parser_.location(), post_);
    if (!post_) {
      reply_.body.clear();
      clean = false;
    }
  } else {
    reply_.failure = HttpFailure::kNone;
    reply_.detail.clear();
  }
  if (!clean || !parser_.keeps_alive() || sent_ < RequestBytes()) stream_.Close();
  Finish();
}

// No answer that could be used.
void HttpChannel::Core::Fail(HttpFailure failure, std::string detail) {
  reply_.failure = failure;
  reply_.detail = std::move(detail);
  reply_.status = 0;
  reply_.content_type.clear();
  reply_.gzip = false;
  reply_.retry_after.clear();
  reply_.kept.clear();
  reply_.body = std::move(parser_.body());
  reply_.body.clear();
  stream_.Close();
  Finish();
}

void HttpChannel::Core::Finish() {
  loop_.Cancel(deadline_);
  loop_.Cancel(next_address_);
  deadline_ = next_address_ = 0;
  phase_ = Phase::kIdle;
  body_.reset();
  on_body_ = nullptr;
  if (stream_) stream_.WaitReadable();
  Ref<Core> self(this);  // `done` may destroy the channel
  Done done = std::exchange(done_, nullptr);
  done(reply_);
}

}  // namespace gpulens
