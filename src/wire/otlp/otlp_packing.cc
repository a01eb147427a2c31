#include "wire/otlp/otlp_packing.h"

namespace gpulens {
namespace {

enum Packing : size_t { kNone, kGzip, kZstd };
constexpr size_t kKeptBytes = size_t{4} << 20;

}  // namespace

std::string_view OtlpPacker::Pack(std::string_view bytes, size_t packing) {
  if (packing == kNone) return bytes;
  if (packed_.capacity() > kKeptBytes) std::string().swap(packed_);
  if (packing == kGzip) gzip_.Compress(bytes, packed_);
  else zstd_.Compress(bytes, packed_);
  return packed_;
}

Status UnpackOtlp(std::string_view bytes, size_t packing, size_t limit, std::string& out) {
  if (packing == kGzip) return Gunzip(bytes, limit, out);
  if (packing == kZstd) return Unzstd(bytes, limit, out);
  if (bytes.size() > limit) return {Code::kExhausted, "the request is too large"};
  out.assign(bytes);
  return Ok();
}

}  // namespace gpulens
