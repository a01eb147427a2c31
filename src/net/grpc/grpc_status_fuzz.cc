#include <algorithm>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "net/grpc/grpc_call_state.h"
#include "net/grpc/grpc_wire.h"

// The fields and bytes of a response, on the client's side and the server's: read within limits, and
// the same however it is cut.
namespace {

using namespace gpulens;

GrpcReply Reply(std::string_view bytes, size_t step) {
  GrpcCallState call({"/x", {}, nullptr, false, nullptr, std::chrono::seconds(1)}, {}, false, 1000);
  Http2Fields head, trailers;
  head.Add(":status", "200");
  head.Add("content-type", "application/grpc");
  head.Add("grpc-encoding", "gzip");
  const std::string_view fields = bytes.substr(0, bytes.find('\n'));
  if (fields.size() < bytes.size()) bytes.remove_prefix(fields.size() + 1);
  trailers.Add("grpc-status", fields.substr(0, 2));
  trailers.Add("grpc-message", fields);
  trailers.Add("grpc-status-details-bin", fields);
  call.OnFields(head, false, false);
  for (; !bytes.empty() && !call.done(); bytes.remove_prefix(std::min(step, bytes.size())))
    call.OnData(bytes.substr(0, step));
  call.OnFields(trailers, true, false);
  CHECK(call.done());
  return call.reply();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (auto timeout = ReadGrpcTimeout(bytes))
    CHECK(timeout->count() >= 0 && *timeout <= std::chrono::hours(24 * 365));
  if (auto wait = ReadGrpcRetryInfo(bytes)) CHECK(wait->count() >= 0 && *wait <= std::chrono::hours(24));
  if (auto binary = DecodeGrpcBinary(bytes)) CHECK(DecodeGrpcBinary(EncodeGrpcBinary(*binary)) == binary);
  CHECK(DecodeGrpcBinary(EncodeGrpcBinary(bytes)) == bytes);
  CHECK(DecodeGrpcMessage(bytes).size() <= 1000);
  if (size <= 1000) CHECK(DecodeGrpcMessage(EncodeGrpcMessage(bytes)) == bytes);
  std::string out;
  const size_t unpacked = GrpcUnpackedSize(bytes);
  if (unpacked <= 100'000 && GrpcGunzip(bytes, unpacked, out)) CHECK(out.size() == unpacked);
  const GrpcReply whole = Reply(bytes, size + 1), cut = Reply(bytes, size % 7 + 1);
  CHECK(whole.code == cut.code && whole.answer == cut.answer && whole.failure == cut.failure);
  CHECK(whole.answer.size() <= 1000);
  return 0;
}
