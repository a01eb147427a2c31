// One call of a client from its beginning to its reply: what the answer's fields and bytes make of it.
// Internal to net/grpc; pure.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "net/grpc/grpc_client.h"
#include "net/grpc/grpc_message.h"
#include "net/http2/http2_fields.h"

namespace gpulens {

class GrpcCallState {
 public:
  GrpcCallState(GrpcCall call, const HttpUrl& url, bool unix_socket, size_t answer_bytes);

  // The fields of the request; `left` of its time goes with it.
  Http2Fields Fields(Duration left) const;

  // What comes. Once done() nothing is taken any more.
  void OnFields(const Http2Fields& fields, bool ended, bool too_large);
  void OnData(std::string_view bytes);
  void OnEnd();
  void OnReset(uint32_t error);
  void Fail(HttpFailure failure, GrpcCode code, std::string message);

  bool done() const noexcept { return done_; }
  GrpcReply& reply() noexcept { return reply_; }

  // For the channel.
  const std::string path, headers;
  std::shared_ptr<const std::string> message;
  const bool gzip;
  const std::shared_ptr<const TlsContext> tls;
  const Duration timeout;
  int64_t begun_ns = 0;
  uint64_t heard = 0;  // bytes of the connection when the call was sent
  int32_t stream = 0;  // 0: not sent
  bool on_kept_connection = false, sent_again = false;
  IoLoop::TimerId deadline = 0;
  GrpcChannel::Done tell;

 private:
  void TakeStatus(const Http2Fields& fields);
  void Finish();
  bool TakeAnswer();

  const std::string scheme_, authority_;
  const size_t answer_bytes_;
  GrpcMessageReader reader_;
  GrpcReply reply_;
  std::string content_type_, encoding_;
  bool done_ = false, has_head_ = false, has_status_ = false;
};

// What the end of a stream by an HTTP/2 error means.
GrpcCode GrpcCodeOfReset(uint32_t error) noexcept;

}  // namespace gpulens
