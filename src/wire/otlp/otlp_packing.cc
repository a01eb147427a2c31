#include "wire/otlp/otlp_packing.h"

namespace gpulens {
namespace {

// Of kOtlpPackings.
constexpr size_t kGzipPacking = 1;
constexpr size_t kKeptBytes = size_t{4} << 20;

}  // namespace

std::string_view OtlpPacker::Pack(std::string_view bytes, size_t packing) {
  if (packing == 0) return bytes;
  if (packed_.capacity() > kKeptBytes) std::string().swap(packed_);
  if (packing == kGzipPacking) gzip_.Compress(bytes, packed_);
  else zstd_.Compress(bytes, packed_);
  return packed_;
}

Status UnpackOtlp(std::string_view bytes, size_t packing, size_t limit, std::string& out) {
  if (packing == kGzipPacking) return Gunzip(bytes, limit, out);
  if (packing > kGzipPacking) return Unzstd(bytes, limit, out);
  if (bytes.size() > limit) return {Code::kExhausted, "the request is too large"};
  out.assign(bytes);
  return Ok();
}

}  // namespace gpulens
