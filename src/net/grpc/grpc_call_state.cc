#include "net/grpc/grpc_call_state.h"

#include <utility>

#include "base/parse.h"
#include "base/text.h"
#include "base/version.h"

namespace gpulens {
namespace {

constexpr size_t kLongestDetails = 8u << 10;

std::string Lower(std::string_view text) {
  std::string small(text);
  for (char& c : small) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return small;
}

}  // namespace

GrpcCode GrpcCodeOfReset(uint32_t error) noexcept {
  switch (error) {
    case 7: return GrpcCode::kUnavailable;         // REFUSED_STREAM
    case 8: return GrpcCode::kCancelled;           // CANCEL
    case 11: return GrpcCode::kResourceExhausted;  // ENHANCE_YOUR_CALM
    case 12: return GrpcCode::kPermissionDenied;   // INADEQUATE_SECURITY
    default: return GrpcCode::kInternal;
  }
}

GrpcCallState::GrpcCallState(GrpcCall call, const HttpUrl& url, bool unix_socket, size_t answer_bytes)
    : path(call.path),
      headers(call.headers),
      message(std::move(call.message)),
      gzip(call.gzip),
      tls(std::move(call.tls)),
      timeout(std::max(call.timeout, Duration::zero())),
      scheme_(url.tls ? "https" : "http"),
      authority_(unix_socket ? "localhost" : url.Authority()),
      answer_bytes_(answer_bytes),
      reader_(answer_bytes) {}

Http2Fields GrpcCallState::Fields(Duration left) const {
  Http2Fields fields;
  fields.Add(":method", "POST");
  fields.Add(":scheme", scheme_);
  fields.Add(":path", path);
  fields.Add(":authority", authority_);
  fields.Add("te", "trailers");
  fields.Add("content-type", "application/grpc");
  fields.Add("user-agent", "grpc-gpulens/" + std::string(Version()));
  fields.Add("grpc-timeout", GrpcTimeout(left));
  fields.Add("grpc-accept-encoding", "identity,gzip");
  if (gzip) fields.Add("grpc-encoding", "gzip");
  std::string_view rest = headers;
  while (!rest.empty()) {
    std::string_view line = TakeUntil(rest, '\n');
    const std::string_view name = TakeUntil(line, ':');
    if (!name.empty()) fields.Add(Lower(Trim(name)), Trim(line));
  }
  return fields;
}

void GrpcCallState::TakeStatus(const Http2Fields& fields) {
  const auto code = ReadGrpcCode(fields.Find("grpc-status"));
  if (!code) return;
  has_status_ = true;
  reply_.code = *code;
  reply_.message = Printable(DecodeGrpcMessage(fields.Find("grpc-message")));
  const std::string_view details = fields.Find("grpc-status-details-bin");
  if (details.size() > kLongestDetails) return;
  if (auto bytes = DecodeGrpcBinary(details)) reply_.details = *std::move(bytes);
}

void GrpcCallState::OnFields(const Http2Fields& fields, bool ended, bool too_large) {
  if (done_) return;
  if (too_large)
    return Fail(HttpFailure::kTooLarge, GrpcCode::kResourceExhausted,
                "the header fields of the response are too large");
  if (!has_head_) {
    const int status = ParseInt<int>(fields.Find(":status")).value_or(0);
    if (status / 100 == 1) return;
    has_head_ = true;
    reply_.http_status = status;
    content_type_ = Lower(fields.Find("content-type"));
    encoding_ = Lower(fields.Find("grpc-encoding"));
  }
  TakeStatus(fields);
  if (ended) Finish();
}

void GrpcCallState::OnData(std::string_view bytes) {
  // Other bodies are pages for humans.
  if (done_ || reply_.http_status != 200 || !content_type_.starts_with("application/grpc")) return;
  using State = GrpcMessageReader::State;
  const State state = reader_.Feed(bytes);
  if (state == State::kTooLarge)
    return Fail(HttpFailure::kTooLarge, GrpcCode::kResourceExhausted,
                "the response has " + std::to_string(reader_.announced()) + " bytes, above the limit");
  if (state == State::kBad)
    return Fail(HttpFailure::kProtocol, GrpcCode::kInternal,
                "the response has " + std::string(reader_.why()));
  // Some servers compress the response to a compressed request, even an empty one.
  if (state == State::kWhole && reader_.packed() && encoding_ != "gzip")
    return Fail(HttpFailure::kProtocol, GrpcCode::kInternal,
                "the response has an encoding that was not requested: " + Printable(encoding_));
}

void GrpcCallState::OnEnd() {
  if (!done_) Finish();
}

void GrpcCallState::OnReset(uint32_t error) {
  if (done_) return;
  if (error == 0) return Finish();
  Fail(HttpFailure::kProtocol, GrpcCodeOfReset(error),
       "the stream was reset, HTTP/2 error " + std::to_string(error));
}

void GrpcCallState::Finish() {
  if (!has_status_) {
    const int status = reply_.http_status;
    if (status != 200 && status != 0) {
      const bool auth = status == 401 || status == 403;
      return Fail(auth ? HttpFailure::kAuth : HttpFailure::kStatus, GrpcCodeOfHttp(status),
                  "answers HTTP " + std::to_string(status) + ", not gRPC");
    }
    if (status == 200 && !content_type_.starts_with("application/grpc"))
      return Fail(HttpFailure::kProtocol, GrpcCode::kUnknown,
                  "the response is not gRPC: " + Printable(content_type_));
    return Fail(HttpFailure::kProtocol, GrpcCode::kUnknown, "the response ended without a status");
  }
  if (reply_.code == GrpcCode::kOk && reader_.state() != GrpcMessageReader::State::kWhole)
    return Fail(HttpFailure::kProtocol, GrpcCode::kInternal, "the response ended without its message");
  if (reply_.code == GrpcCode::kOk && !TakeAnswer()) return;
  done_ = true;
}

// False when it cannot be decompressed and the call has failed. On this thread, as responses are small.
bool GrpcCallState::TakeAnswer() {
  if (!reader_.packed()) {
    reply_.answer = std::move(reader_.message());
    return true;
  }
  const size_t size = GrpcUnpackedSize(reader_.message());
  if (size > answer_bytes_) {
    Fail(HttpFailure::kTooLarge, GrpcCode::kResourceExhausted,
         "the response has " + std::to_string(size) + " bytes uncompressed, above the limit");
  } else if (!GrpcGunzip(reader_.message(), size, reply_.answer)) {
    Fail(HttpFailure::kProtocol, GrpcCode::kInternal, "the response cannot be decompressed");
  }
  return !done_;
}

void GrpcCallState::Fail(HttpFailure failure, GrpcCode code, std::string text) {
  if (done_) return;
  done_ = true;
  reply_.failure = failure;
  reply_.code = code;
  reply_.message = std::move(text);
  reply_.details.clear();
  reply_.answer.clear();
}

}  // namespace gpulens
