// gzip, as quickly as a scrape wants it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include <gpulens/status.h>

namespace gpulens {

// Has no memory before the first call, and keeps it between calls. Not thread-safe.
class GzipCompressor {
 public:
  // 1 is quickest, 12 smallest; 1 makes an exposition page about 15 times smaller.
  explicit GzipCompressor(int level = 1);
  ~GzipCompressor();
  // The whole of `bytes` as one gzip member in `out` (cleared first).
  void Compress(std::string_view bytes, std::string& out);

 private:
  struct Impl;
  const int level_;
  std::unique_ptr<Impl> impl_;
};

// Unpacks one or several gzip members, at most `limit` bytes. kDataLoss for bytes that are no gzip,
// kExhausted for a result larger than the limit (a bomb is never unpacked whole).
Status Gunzip(std::string_view bytes, size_t limit, std::string& out);

}  // namespace gpulens
