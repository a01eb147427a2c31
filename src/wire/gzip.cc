#include "wire/gzip.h"

#include <libdeflate.h>

#include <algorithm>

#include "base/check.h"

namespace gpulens {

struct GzipCompressor::Impl {
  libdeflate_compressor* compressor;
};

GzipCompressor::GzipCompressor(int level) : impl_(new Impl{libdeflate_alloc_compressor(level)}) {
  CHECK(impl_->compressor != nullptr);
}

GzipCompressor::~GzipCompressor() { libdeflate_free_compressor(impl_->compressor); }

void GzipCompressor::Compress(std::string_view bytes, std::string& out) {
  out.resize(libdeflate_gzip_compress_bound(impl_->compressor, bytes.size()));
  size_t size =
      libdeflate_gzip_compress(impl_->compressor, bytes.data(), bytes.size(), out.data(), out.size());
  CHECK(size != 0);
  out.resize(size);
}

namespace {

struct Decompressor {
  libdeflate_decompressor* handle = libdeflate_alloc_decompressor();
  ~Decompressor() { libdeflate_free_decompressor(handle); }
};

// Unpacks one member behind what `out` holds. The size in the trailer is the sender's word, so the
// room grows step by step up to the limit instead.
Status UnpackMember(Decompressor& with, std::string_view& bytes, size_t limit, std::string& out) {
  size_t start = out.size();
  size_t room = std::min(limit - start, std::max<size_t>(bytes.size() * 8, 64 << 10));
  while (true) {
    out.resize(start + room);
    size_t used = 0, made = 0;
    libdeflate_result result = libdeflate_gzip_decompress_ex(with.handle, bytes.data(), bytes.size(),
                                                             out.data() + start, room, &used, &made);
    if (result == LIBDEFLATE_SUCCESS) {
      out.resize(start + made);
      bytes.remove_prefix(used);
      return Ok();
    }
    if (result != LIBDEFLATE_INSUFFICIENT_SPACE) return {Code::kDataLoss, "the gzip body is damaged"};
    if (start + room >= limit) {
      return {Code::kExhausted, "the body unpacks to more than " + std::to_string(limit) + " bytes"};
    }
    room = std::min(limit - start, room * 4);
  }
}

}  // namespace

Status Gunzip(std::string_view bytes, size_t limit, std::string& out) {
  out.clear();
  Decompressor decompressor;
  CHECK(decompressor.handle != nullptr);
  do {
    Status status = UnpackMember(decompressor, bytes, limit, out);
    if (!status) {
      out.clear();
      return status;
    }
  } while (!bytes.empty());
  return Ok();
}

}  // namespace gpulens
