#include "wire/gzip.h"

#include <libdeflate.h>

#include <algorithm>

#include "base/check.h"

namespace gpulens {

struct GzipCompressor::Impl {
  explicit Impl(int level) : compressor(libdeflate_alloc_compressor(level)) { CHECK(compressor != nullptr); }
  ~Impl() { libdeflate_free_compressor(compressor); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  libdeflate_compressor* compressor;
  // As large as the page, but never filled: only what the packed bytes take is ever touched.
  std::unique_ptr<char[]> room;
  size_t room_size = 0;
};

GzipCompressor::GzipCompressor(int level) : level_(level) {}
GzipCompressor::~GzipCompressor() = default;

void GzipCompressor::Compress(std::string_view bytes, std::string& out) {
  if (!impl_) impl_ = std::make_unique<Impl>(level_);
  size_t most = libdeflate_gzip_compress_bound(impl_->compressor, bytes.size());
  if (most > impl_->room_size) {
    impl_->room_size = most + most / 8;
    impl_->room = std::make_unique_for_overwrite<char[]>(impl_->room_size);
  }
  size_t size =
      libdeflate_gzip_compress(impl_->compressor, bytes.data(), bytes.size(), impl_->room.get(), most);
  CHECK(size != 0);
  out.assign(impl_->room.get(), size);
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
