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

}  // namespace

// The size in a trailer is the sender's word, so the room grows step by step up to the limit instead. It is
// kept from member to member: thousands of empty ones must not each clear it.
Status Gunzip(std::string_view bytes, size_t limit, std::string& out) {
  out.clear();
  Decompressor decompressor;
  CHECK(decompressor.handle != nullptr);
  size_t made = 0;
  out.resize(std::min(limit, std::max<size_t>(bytes.size() * 8, 64 << 10)));
  do {
    size_t used = 0, more = 0;
    const libdeflate_result result = libdeflate_gzip_decompress_ex(
        decompressor.handle, bytes.data(), bytes.size(), out.data() + made, out.size() - made, &used, &more);
    if (result == LIBDEFLATE_INSUFFICIENT_SPACE && out.size() < limit) {
      out.resize(std::min(limit, out.size() * 4));
      continue;
    }
    if (result != LIBDEFLATE_SUCCESS) {
      out.clear();
      if (result != LIBDEFLATE_INSUFFICIENT_SPACE) return {Code::kDataLoss, "the gzip body is damaged"};
      return {Code::kExhausted, "the body decompresses to more than " + std::to_string(limit) + " bytes"};
    }
    made += more;
    bytes.remove_prefix(used);
  } while (!bytes.empty());
  out.resize(made);
  return Ok();
}

}  // namespace gpulens
