#include "net/grpc/grpc_message.h"

#include <libdeflate.h>

#include <algorithm>
#include <memory>

namespace gpulens {
namespace {

// A member without anything in it has as many; its last four say how large its content is.
constexpr size_t kSmallestMember = 18, kSizeBytes = 4;
// DEFLATE makes nothing smaller than by this factor, so a member that says more lies.
constexpr size_t kLargestRatio = 1032;
// A message has room made for it at once up to this size; a larger one grows as it comes.
constexpr size_t kMostAhead = size_t{1} << 20;

uint32_t LittleEndian(const char* bytes) noexcept {
  uint32_t value = 0;
  for (int i = 3; i >= 0; --i) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

}  // namespace

bool GrpcMessageReader::TakeHead() {
  if (static_cast<unsigned char>(head_[0]) > 1) {
    why_ = "a message with an unknown flag";
    state_ = State::kBad;
    return false;
  }
  packed_ = head_[0] == 1;
  for (size_t i = 1; i < kHeadBytes; ++i) announced_ = announced_ << 8 | static_cast<unsigned char>(head_[i]);
  if (announced_ <= limit_) return true;
  why_ = "a message above the limit";
  state_ = State::kTooLarge;
  return false;
}

GrpcMessageReader::State GrpcMessageReader::Feed(std::string_view bytes) {
  if (bytes.empty() || state_ == State::kTooLarge || state_ == State::kBad) return state_;
  if (state_ == State::kWhole) {
    why_ = "more than one message";
    return state_ = State::kBad;
  }
  if (head_size_ < kHeadBytes) {
    const size_t part = std::min(bytes.size(), kHeadBytes - head_size_);
    bytes.copy(head_ + head_size_, part);
    head_size_ += part;
    bytes.remove_prefix(part);
    if (head_size_ < kHeadBytes || !TakeHead()) return state_;
    // What a head announces is room that is taken, not yet memory: pages come with the bytes.
    message_.reserve(std::min(announced_, kMostAhead));
  }
  const size_t part = std::min(bytes.size(), announced_ - message_.size());
  message_.append(bytes.substr(0, part));
  bytes.remove_prefix(part);
  if (message_.size() < announced_) return state_;
  state_ = State::kWhole;
  return Feed(bytes);
}

std::string GrpcMessageHead(bool packed, size_t size) {
  std::string head(GrpcMessageReader::kHeadBytes, packed ? '\1' : '\0');
  for (size_t i = 1; i < head.size(); ++i) head[i] = static_cast<char>(size >> (8 * (4 - i)) & 0xff);
  return head;
}

size_t GrpcUnpackedSize(std::string_view packed) noexcept {
  return packed.size() < kSmallestMember ? 0 : LittleEndian(packed.data() + packed.size() - kSizeBytes);
}

bool GrpcGunzip(std::string_view packed, size_t size, std::string& out) {
  out.clear();
  if (packed.size() < kSmallestMember || size / kLargestRatio > packed.size()) return false;
  thread_local const std::unique_ptr<libdeflate_decompressor, decltype(&libdeflate_free_decompressor)>
      unpacker(libdeflate_alloc_decompressor(), &libdeflate_free_decompressor);
  if (!unpacker) return false;
  out.resize(size);
  size_t in_used = 0, out_used = 0;
  const auto result = libdeflate_gzip_decompress_ex(unpacker.get(), packed.data(), packed.size(), out.data(),
                                                    out.size(), &in_used, &out_used);
  if (result == LIBDEFLATE_SUCCESS && in_used == packed.size() && out_used == size) return true;
  out.clear();
  return false;
}

}  // namespace gpulens
