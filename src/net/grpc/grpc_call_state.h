// One call of a client: makes its reply of the fields and bytes of the response. Internal to net/grpc; no
// I/O.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "net/grpc/grpc_client.h"
#include "net/grpc/grpc_wire.h"
#include "net/http2/http2_session.h"

namespace gpulens {

class GrpcCallState {
 public:
  GrpcCallState(GrpcCall call, const HttpUrl& url, bool unix_socket, size_t answer_bytes);

  // The fields of the request, with `left` as its timeout.
  Http2Fields Fields(Duration left) const;

  // Events of the stream; ignored once done().
  void OnFields(const Http2Fields& fields, bool ended, bool too_large);
  void OnData(std::string_view bytes);
  void OnEnd();
  void OnReset(uint32_t error);
  void Fail(HttpFailure failure, GrpcCode code, std::string message);

  bool done() const noexcept { return done_; }
  GrpcReply& reply() noexcept { return reply_; }

  // Used by the channel.
  const std::string path, headers;
  std::shared_ptr<const std::string> message;
  const bool gzip;
  const std::shared_ptr<const TlsContext> tls;
  const Duration timeout;
  int64_t begun_ns = 0;
  uint64_t received = 0;  // bytes of the connection received before the call was sent
  int32_t stream = 0;     // 0: not sent
  bool on_kept_connection = false, sent_again = false;
  IoLoop::TimerId deadline = 0;
  GrpcChannel::Done on_done;

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

// The code for a stream that ended with an HTTP/2 error.
GrpcCode GrpcCodeOfReset(uint32_t error) noexcept;

}  // namespace gpulens
