#include "sending/received_parts.h"

#include "base/result.h"
#include "wire/otlp_packing.h"

namespace gpulens {

Status ReceivedParts::Read(const OtlpEncoding& encoding, std::string_view body, uint32_t items,
                           const SplitRule* rule, const std::function<Status(const SplitPart& part)>& take,
                           uint32_t& left_out) {
  if (!rule) {
    whole_.items = items;
    RETURN_IF_ERROR(UnpackOtlp(body, encoding.packing, kUnpackedBytes, whole_.body));
    return take(whole_);
  }
  if (encoding.packing != 0) RETURN_IF_ERROR(UnpackOtlp(body, encoding.packing, kUnpackedBytes, plain_));
  uint32_t excluded = 0;
  RETURN_IF_ERROR(splitter_.Split(static_cast<OtlpSignal>(encoding.signal),
                                  encoding.packing == 0 ? body : std::string_view(plain_), *rule, parts_,
                                  excluded));
  left_out += excluded;
  for (const SplitPart& part : parts_) RETURN_IF_ERROR(take(part));
  return Ok();
}

}  // namespace gpulens
