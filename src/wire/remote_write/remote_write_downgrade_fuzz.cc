#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "wire/remote_write/remote_write_request.h"
#include "wire/remote_write/remote_write_series.h"
#include "wire/remote_write/remote_write_testing.h"

// Any bytes of a queue are converted or refused, within bounds; the output can be unpacked.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  constexpr size_t kMost = 1u << 20;
  std::string plain, older, packed, again;
  const bool block = gpulens::SnappyUnpack(bytes, kMost, plain);
  CHECK(block ? plain.size() <= kMost : plain.empty());
  if (!gpulens::ToRemoteWrite1(block ? std::string_view(plain) : bytes, older)) {
    CHECK(older.empty());
    return 0;
  }
  gpulens::SnappyPack(older, packed);
  CHECK(gpulens::SnappyUnpack(packed, older.size(), again) && again == older);
  return 0;
}
