#include "export/received_parts.h"

#include "base/result.h"
#include "wire/packing.h"

namespace gpulens {

Status ReceivedParts::Read(const Request& request, const SplitRule* rule,
                           const std::function<Status(const SplitPart& part)>& take, uint32_t& left_out) {
  const size_t packing = request.encoding.packing;
  if (!rule) {
    whole_.items = request.items;
    RETURN_IF_ERROR(UnpackOtlp(request.body, packing, kUnpackedBytes, whole_.body));
    return take(whole_);
  }
  std::string_view plain = request.body;
  if (packing != 0) {
    RETURN_IF_ERROR(UnpackOtlp(request.body, packing, kUnpackedBytes, plain_));
    plain = plain_;
  }
  uint32_t excluded = 0;
  RETURN_IF_ERROR(
      splitter_.Split(static_cast<OtlpSignal>(request.encoding.signal), plain, *rule, parts_, excluded));
  left_out += excluded;
  for (const SplitPart& part : parts_) RETURN_IF_ERROR(take(part));
  return Ok();
}

}  // namespace gpulens
