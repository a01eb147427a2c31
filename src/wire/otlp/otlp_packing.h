// Packs and unpacks OTLP requests by an index of kOtlpPackings, as configurations and records name it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <gpulens/status.h>

#include "wire/gzip.h"
#include "wire/zstd.h"

namespace gpulens {

// Not thread-safe. Keeps its memory between calls, but not that of very large requests.
class OtlpPacker {
 public:
  // The result lives until the next call; with no packing it is `bytes`.
  std::string_view Pack(std::string_view bytes, size_t packing);

 private:
  GzipCompressor gzip_;
  ZstdCompressor zstd_;
  std::string packed_;
};

// Replaces `out`. kDataLoss: the bytes are not packed so; kExhausted: more than `limit` bytes come of them.
Status UnpackOtlp(std::string_view bytes, size_t packing, size_t limit, std::string& out);

}  // namespace gpulens
