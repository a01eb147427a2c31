// The bytes of a segment: a file of records that only grows at its end. Pure: no file is touched here.
//
//   segment  = header header record*        the header stands twice, so that one damage does not cost all
//   header   = magic[8] version:32 salt:32 first_id:64 boot_id[16] checksum:32 zero:32
//   record   = marker[4] length:32 id:64 unix_ns:64 boot_ns:64 items:32 body_sum:32 head_sum:32 body[length]
//
// Numbers are little-endian. Checksums are CRC-32 begun with the salt, a random number of the segment: what a
// stranger put into a record can look like a record, but not pass for one. A record's head has a sum of its
// own, so that a damaged body costs one parcel and the next is found at once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace gpulens {

inline constexpr size_t kSegmentHeaderBytes = 96;
inline constexpr size_t kRecordHeadBytes = 44;
inline constexpr uint32_t kMaxRecordBytes = 1u << 30;
inline constexpr uint64_t kMaxRecordId = uint64_t{1} << 62;
inline constexpr std::string_view kRecordMarker = "PRCL";

using BootId = std::array<char, 16>;

struct SegmentHeader {
  uint32_t salt = 0;
  uint64_t first_id = 0;
  BootId boot_id{};  // of the machine's start in which it was written; zeros: not known
};

struct RecordHead {
  uint64_t id = 0;
  uint32_t length = 0;
  uint32_t items = 0;
  int64_t unix_ns = 0;
  int64_t boot_ns = 0;
  uint32_t body_sum = 0;

  uint64_t size() const noexcept { return kRecordHeadBytes + length; }
};

enum class SegmentVerdict : uint8_t {
  kGood,
  kTorn,     // shorter than a header: a crash while it was made
  kDamaged,  // ours, but neither copy of the header is whole
  kForeign,  // another version, or not a segment at all
};

uint32_t ChecksumOf(uint32_t salt, std::string_view bytes) noexcept;

void EncodeSegmentHeader(const SegmentHeader& header, std::array<char, kSegmentHeaderBytes>& out) noexcept;
// `bytes` is the beginning of the file, at least kSegmentHeaderBytes of it when it has so many.
SegmentVerdict DecodeSegmentHeader(std::string_view bytes, SegmentHeader& header) noexcept;

void EncodeRecordHead(const RecordHead& head, uint32_t salt,
                      std::array<char, kRecordHeadBytes>& out) noexcept;
// Nothing when this is not a whole head, or one of another segment.
std::optional<RecordHead> DecodeRecordHead(std::string_view bytes, uint32_t salt) noexcept;

// The id in what may be a head, whatever its checksum says; 0 when it is too short.
uint64_t IdOfRecordHead(std::string_view bytes) noexcept;

}  // namespace gpulens
