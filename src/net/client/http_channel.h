// One request and its answer over a kept connection: what HttpChannel is made of. Internal to net/client.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/ref.h"
#include "net/client/http_client.h"
#include "net/stream.h"

namespace gpulens {

// Used on the loop's thread only. Whoever owns it calls Abandon before letting go.
class HttpChannel::Core final : public RefCounted<Core>, public StreamHandler {
 public:
  enum class Method : uint8_t { kGet, kPost };

  Core(IoLoop& loop, HttpTarget target) : loop_(loop), target_(std::move(target)), parser_(target_.limits) {}

  IoLoop& loop() noexcept { return loop_; }
  // A Get is a request without a body.
  void Start(Method method, HttpPost request, Done done);
  void Abandon();
  void OnReadable() override;
  void OnWritable() override;

 private:
  enum class Phase : uint8_t { kIdle, kResolving, kSending, kReceiving };

  // http_client.cc: from the request to a connection.
  void WriteHead(std::string_view method, std::string_view headers);
  void Connect();
  void TryNextAddress();
  // http_channel.cc: what goes over it, and the end.
  size_t RequestBytes() const noexcept { return head_.size() + (body_ ? body_->size() : 0); }
  void Send();
  IoResult WritePiece();
  void OnWriteError();
  void Receive();
  bool TakeSome(bool& nothing_left);
  bool TakeBytes(std::string_view bytes);
  bool Refused() const noexcept;
  void OnIdleEvent();
  bool Retry();
  void Broken();
  void Ended();
  void OnTimeout();
  void OnAnswer(bool clean);
  void Fail(HttpFailure failure, std::string detail);
  void Finish();

  IoLoop& loop_;
  const HttpTarget target_;
  HttpResponseParser parser_;
  Stream stream_;
  std::shared_ptr<const TlsContext> tls_;
  std::string head_;
  std::shared_ptr<const std::string> body_;
  size_t sent_ = 0;  // of head and body
  Phase phase_ = Phase::kIdle;
  bool post_ = false;
  bool reused_ = false;     // this request went out on a kept connection
  bool connected_ = false;  // the present stream has taken a byte
  uint64_t request_id_ = 0;
  IoLoop::TimerId deadline_ = 0, next_address_ = 0;
  std::vector<Endpoint> addresses_;
  size_t address_ = 0;
  int64_t timeout_ns_ = 0;
  std::string last_error_;
  std::string write_error_;  // why nothing can be sent any more, while what has come is still read
  HttpReply reply_;
  std::function<void(std::string_view)> on_body_;
  Done done_;
};

}  // namespace gpulens
