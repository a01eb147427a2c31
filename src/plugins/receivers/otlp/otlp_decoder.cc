#include "plugins/receivers/otlp/otlp_decoder.h"

#include "base/result.h"
#include "wire/otlp/otlp_json.h"
#include "wire/packing.h"

namespace gpulens {
namespace {

OtlpMessage MessageOf(OtlpSignal signal) noexcept {
  switch (signal) {
    case OtlpSignal::kMetrics: return OtlpMessage::kMetrics;
    case OtlpSignal::kLogs: return OtlpMessage::kLogs;
    case OtlpSignal::kTraces: break;
  }
  return OtlpMessage::kTraces;
}

}  // namespace

Status OtlpDecoder::Decode(const OtlpCall& call, size_t most, Decoded& out) {
  const auto encoding = static_cast<OtlpEncoding>(call.format >> 8);
  const auto packing = static_cast<OtlpPacking>(call.format & 0xff);
  unpacked_.clear();
  if (packing == OtlpPacking::kGzip) RETURN_IF_ERROR(Gunzip(call.body, most, unpacked_));
  if (packing == OtlpPacking::kZstd) RETURN_IF_ERROR(Unzstd(call.body, most, unpacked_));
  out.request = packing == OtlpPacking::kPlain ? call.body : unpacked_;
  if (encoding == OtlpEncoding::kJson) {
    RETURN_IF_ERROR(OtlpFromJson(MessageOf(call.signal), out.request, most, transcoded_));
    out.request = transcoded_;
  }
  if (out.request.size() <= most) return Ok();
  return {Code::kExhausted, "the request has more than " + std::to_string(most) + " bytes"};
}

}  // namespace gpulens
