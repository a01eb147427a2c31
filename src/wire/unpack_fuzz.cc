#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "wire/packing.h"

// Bodies from outside, by their first byte packed by gzip or by Zstandard: unpacked within the limit or
// refused. What we pack comes back.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gpulens;
  if (size == 0) return 0;
  constexpr size_t kLimit = 64 << 10;
  const bool zstd = data[0] % 2 != 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  std::string out, packed;
  const Status status = zstd ? Unzstd(bytes, kLimit, out) : Gunzip(bytes, kLimit, out);
  CHECK(out.size() <= (status ? kLimit : 0));
  if (zstd) ZstdCompressor().Compress(bytes, packed);
  else GzipCompressor().Compress(bytes, packed);
  const Status back = zstd ? Unzstd(packed, size, out) : Gunzip(packed, size, out);
  CHECK(back.ok() && out == bytes);
  return 0;
}
