#include "wire/packing.h"

#include <libdeflate.h>
#include <zstd.h>
#include <zstd_errors.h>
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

namespace {

// Its authors' default: requests of ours are 4 % smaller than by 1, at about the same speed.
constexpr int kLevel = 3;
// Largest window, as a power of two, that every HTTP client must support (RFC 9659).
constexpr int kMostWindow = 23;

}  // namespace

struct ZstdCompressor::Impl {
  Impl() {
    CHECK(context != nullptr);
    CHECK(!ZSTD_isError(ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, kLevel)));
    CHECK(!ZSTD_isError(ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1)));
    CHECK(!ZSTD_isError(ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, kMostWindow - 2)));
  }
  ~Impl() { ZSTD_freeCCtx(context); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  ZSTD_CCtx* context = ZSTD_createCCtx();
  // As large as what is packed, but never filled: only what the packed bytes take is ever touched.
  std::unique_ptr<char[]> room;
  size_t room_size = 0;
};

ZstdCompressor::ZstdCompressor() = default;
ZstdCompressor::~ZstdCompressor() = default;

void ZstdCompressor::Compress(std::string_view bytes, std::string& out) {
  if (!impl_) impl_ = std::make_unique<Impl>();
  const size_t most = ZSTD_compressBound(bytes.size());
  if (most > impl_->room_size) {
    impl_->room_size = most + most / 8;
    impl_->room = std::make_unique_for_overwrite<char[]>(impl_->room_size);
  }
  const size_t size =
      ZSTD_compress2(impl_->context, impl_->room.get(), impl_->room_size, bytes.data(), bytes.size());
  CHECK(!ZSTD_isError(size));
  out.assign(impl_->room.get(), size);
}

// The size in a frame's head is the sender's word, so the room grows step by step up to the limit instead.
// One byte more than the limit distinguishes the exact size from a larger one.
Status Unzstd(std::string_view bytes, size_t limit, std::string& out) {
  out.clear();
  const std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> context(ZSTD_createDCtx(), &ZSTD_freeDCtx);
  CHECK(context != nullptr);
  CHECK(!ZSTD_isError(ZSTD_DCtx_setParameter(context.get(), ZSTD_d_windowLogMax, kMostWindow)));
  auto fail = [&](Code code, std::string what) {
    out.clear();
    return Status{code, std::move(what)};
  };
  ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
  size_t made = 0, wanted = 1;  // 0: a frame has just ended
  while (in.pos < in.size || wanted != 0) {
    if (made == out.size())
      out.resize(std::min(limit + 1, std::max<size_t>({out.size() * 4, bytes.size() * 4, 64 << 10})));
    ZSTD_outBuffer room{out.data(), out.size(), made};
    const size_t before = in.pos;
    wanted = ZSTD_decompressStream(context.get(), &room, &in);
    if (ZSTD_isError(wanted)) {
      const bool window = ZSTD_getErrorCode(wanted) == ZSTD_error_frameParameter_windowTooLarge;
      return window ? fail(Code::kExhausted, "the zstd body needs a window of more than 8 MiB")
                    : fail(Code::kDataLoss, "the zstd body is damaged");
    }
    if (room.pos > limit)
      return fail(Code::kExhausted, "the body decompresses to more than " + std::to_string(limit) + " bytes");
    if (in.pos == before && room.pos == made && wanted != 0)
      return fail(Code::kDataLoss, "the zstd body is truncated");
    made = room.pos;
  }
  out.resize(made);
  return Ok();
}

namespace {

// Index into kOtlpPackings.
constexpr size_t kGzipPacking = 1;
constexpr size_t kKeptBytes = size_t{4} << 20;

}  // namespace

std::string_view OtlpPacker::Pack(std::string_view bytes, size_t packing) {
  if (packing == 0) return bytes;
  if (packed_.capacity() > kKeptBytes) std::string().swap(packed_);
  if (packing == kGzipPacking) gzip_.Compress(bytes, packed_);
  else zstd_.Compress(bytes, packed_);
  return packed_;
}

Status UnpackOtlp(std::string_view bytes, size_t packing, size_t limit, std::string& out) {
  if (packing == kGzipPacking) return Gunzip(bytes, limit, out);
  if (packing > kGzipPacking) return Unzstd(bytes, limit, out);
  if (bytes.size() > limit) return {Code::kExhausted, "the request is too large"};
  out.assign(bytes);
  return Ok();
}

}  // namespace gpulens
