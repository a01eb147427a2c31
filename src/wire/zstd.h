// Zstandard (RFC 8878), for requests: a third smaller than quick gzip, and quicker.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include <gpulens/status.h>

namespace gpulens {

// Has no memory before the first call, and keeps it between calls. Not thread-safe.
class ZstdCompressor {
 public:
  ZstdCompressor();
  ~ZstdCompressor();
  // The whole of `bytes` as one frame with a checksum in `out` (cleared first).
  void Compress(std::string_view bytes, std::string& out);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Unpacks one or several frames, at most `limit` bytes. kDataLoss for bytes that are no Zstandard or are
// torn, kExhausted for a result larger than the limit (a bomb is never unpacked whole) and for a frame that
// wants a window of more than 8 MiB, which RFC 9659 forbids.
Status Unzstd(std::string_view bytes, size_t limit, std::string& out);

}  // namespace gpulens
