// Compression of pages and requests: gzip and Zstandard.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include <gpulens/status.h>

namespace gpulens {

// Allocates at the first call, and keeps its memory. Not thread-safe.
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

// Zstandard (RFC 8878), for requests: those of 8 GPUs are a quarter smaller than by quick gzip.
// Allocates at the first call, and keeps its memory. Not thread-safe.
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

// Packs OTLP requests by an index of kOtlpPackings, as configurations and records name it. Not thread-safe.
// Keeps its memory between calls, but not that of very large requests.
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
