#include "delivery/segment_format.h"

#include <libdeflate.h>

#include <algorithm>
#include <cstring>

namespace gpulens {
namespace {

constexpr std::string_view kSegmentMagic{"GPLNSSEG", 8};
constexpr uint32_t kVersion = 1;
constexpr size_t kCopyBytes = kSegmentHeaderBytes / 2;
constexpr size_t kSummedOfCopy = 40, kSummedOfHead = 40;

template <class T>
void Put(char* at, T value) noexcept {
  for (size_t i = 0; i < sizeof(T); ++i) at[i] = static_cast<char>(static_cast<uint64_t>(value) >> (8 * i));
}

template <class T>
T Get(const char* at) noexcept {
  uint64_t value = 0;
  for (size_t i = 0; i < sizeof(T); ++i)
    value |= static_cast<uint64_t>(static_cast<unsigned char>(at[i])) << (8 * i);
  return static_cast<T>(value);
}

bool DecodeCopy(std::string_view copy, SegmentHeader& header) noexcept {
  const char* at = copy.data();
  if (!copy.starts_with(kSegmentMagic) || Get<uint32_t>(at + 8) != kVersion) return false;
  if (Get<uint32_t>(at + 40) != ChecksumOf(0, copy.substr(0, kSummedOfCopy))) return false;
  header.salt = Get<uint32_t>(at + 12);
  header.first_id = Get<uint64_t>(at + 16);
  std::memcpy(header.boot_id.data(), at + 24, header.boot_id.size());
  return header.first_id < kMaxRecordId;
}

bool IsZero(std::string_view bytes) noexcept {
  return std::all_of(bytes.begin(), bytes.end(), [](char c) { return c == 0; });
}

}  // namespace

uint32_t ChecksumOf(uint32_t salt, std::string_view bytes) noexcept {
  return libdeflate_crc32(salt, bytes.data(), bytes.size());
}

void EncodeSegmentHeader(const SegmentHeader& header, std::array<char, kSegmentHeaderBytes>& out) noexcept {
  out.fill(0);
  std::memcpy(out.data(), kSegmentMagic.data(), kSegmentMagic.size());
  Put(out.data() + 8, kVersion);
  Put(out.data() + 12, header.salt);
  Put(out.data() + 16, header.first_id);
  std::memcpy(out.data() + 24, header.boot_id.data(), header.boot_id.size());
  Put(out.data() + 40, ChecksumOf(0, {out.data(), kSummedOfCopy}));
  std::memcpy(out.data() + kCopyBytes, out.data(), kCopyBytes);
}

SegmentVerdict DecodeSegmentHeader(std::string_view bytes, SegmentHeader& header) noexcept {
  if (bytes.size() < kSegmentHeaderBytes) {
    // Our own beginnings only: a short file of somebody else is not ours to remove.
    size_t common = std::min(bytes.size(), kSegmentMagic.size());
    bool ours = bytes.substr(0, common) == kSegmentMagic.substr(0, common) || IsZero(bytes);
    return ours ? SegmentVerdict::kTorn : SegmentVerdict::kForeign;
  }
  std::string_view first = bytes.substr(0, kCopyBytes), second = bytes.substr(kCopyBytes, kCopyBytes);
  if (DecodeCopy(first, header) || DecodeCopy(second, header)) return SegmentVerdict::kGood;
  auto ours = [](std::string_view copy) {
    return copy.starts_with(kSegmentMagic) && Get<uint32_t>(copy.data() + 8) == kVersion;
  };
  // Zeros are what a power cut leaves where data did not reach the disk.
  if (ours(first) || ours(second) || IsZero(bytes.substr(0, kSegmentHeaderBytes)))
    return SegmentVerdict::kDamaged;
  return SegmentVerdict::kForeign;
}

void EncodeRecordHead(const RecordHead& head, uint32_t salt,
                      std::array<char, kRecordHeadBytes>& out) noexcept {
  std::memcpy(out.data(), kRecordMarker.data(), kRecordMarker.size());
  Put(out.data() + 4, head.length);
  Put(out.data() + 8, head.id);
  Put(out.data() + 16, head.unix_ns);
  Put(out.data() + 24, head.boot_ns);
  Put(out.data() + 32, head.items);
  Put(out.data() + 36, head.body_sum);
  Put(out.data() + 40, ChecksumOf(salt, {out.data(), kSummedOfHead}));
}

std::optional<RecordHead> DecodeRecordHead(std::string_view bytes, uint32_t salt) noexcept {
  if (bytes.size() < kRecordHeadBytes || !bytes.starts_with(kRecordMarker)) return std::nullopt;
  const char* at = bytes.data();
  if (Get<uint32_t>(at + 40) != ChecksumOf(salt, bytes.substr(0, kSummedOfHead))) return std::nullopt;
  RecordHead head;
  head.length = Get<uint32_t>(at + 4);
  head.id = Get<uint64_t>(at + 8);
  head.unix_ns = Get<int64_t>(at + 16);
  head.boot_ns = Get<int64_t>(at + 24);
  head.items = Get<uint32_t>(at + 32);
  head.body_sum = Get<uint32_t>(at + 36);
  if (head.length > kMaxRecordBytes || head.id >= kMaxRecordId) return std::nullopt;
  return head;
}

uint64_t IdOfRecordHead(std::string_view bytes) noexcept {
  return bytes.size() < 16 ? 0 : Get<uint64_t>(bytes.data() + 8);
}

}  // namespace gpulens
