// Segment of a request log: its format, a writer that appends whole records, and a reader that finds whole
// records in damaged files.
//
//   segment  = header header record*        two copies of the header, against damage of one
//   header   = magic[8] version:32 salt:32 first_id:64 boot_id[16] checksum:32 zero:32
//   record   = marker[4] length:32 id:64 unix_ns:64 boot_ns:64 items:32 body_sum:32 head_sum:32 body[length]
//
// Numbers are little-endian. Checksums are CRC-32 seeded with the salt, a random number of the segment, so
// that bytes inside a body cannot pass for a record. Heads have a checksum of their own: a damaged body costs
// one record.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <gpulens/status.h>

#include "base/fd.h"

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
  BootId boot_id{};  // of the start of the machine that wrote it; zeros: unknown
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

enum class SegmentState : uint8_t {
  kGood,
  kTorn,     // shorter than a header, after a crash
  kDamaged,  // ours, but neither copy of the header is whole
  kForeign,  // of another version, or not a segment
};

uint32_t ChecksumOf(uint32_t salt, std::string_view bytes) noexcept;

// Little-endian numbers of the files.
template <class Number>
void PutNumber(char* at, Number value) noexcept {
  for (size_t i = 0; i < sizeof value; ++i)
    at[i] = static_cast<char>(static_cast<uint64_t>(value) >> (8 * i));
}
template <class Number>
Number GetNumber(const char* at) noexcept {
  uint64_t value = 0;
  for (size_t i = 0; i < sizeof(Number); ++i)
    value |= static_cast<uint64_t>(static_cast<unsigned char>(at[i])) << (8 * i);
  return static_cast<Number>(value);
}

void EncodeSegmentHeader(const SegmentHeader& header, std::array<char, kSegmentHeaderBytes>& out) noexcept;
// `bytes`: the first kSegmentHeaderBytes of the file, or all of a shorter one.
SegmentState DecodeSegmentHeader(std::string_view bytes, SegmentHeader& header) noexcept;

void EncodeRecordHead(const RecordHead& head, uint32_t salt,
                      std::array<char, kRecordHeadBytes>& out) noexcept;
// Nothing for an invalid head, or one of another segment.
std::optional<RecordHead> DecodeRecordHead(std::string_view bytes, uint32_t salt) noexcept;

// The id of a head, without checking it; 0 when it is too short.
uint64_t IdOfRecordHead(std::string_view bytes) noexcept;

// Appends records to a new file. Each is written whole or not at all: partial writes of a full disk are
// truncated. Not thread-safe.
class SegmentWriter {
 public:
  // Creates an empty file of a new name; the header is written with the first record.
  static Result<SegmentWriter> Create(int folder, const char* name, const SegmentHeader& header);

  // kExhausted for a full disk, quota or file size limit.
  Status Append(RecordHead head, std::string_view body);
  // Truncates to `size`, after a failed sync.
  void TakeBack(uint64_t size) noexcept;
  Status Sync();
  // A second descriptor, to sync without blocking the owner.
  UniqueFd Duplicate() const noexcept;

  uint64_t size() const noexcept { return size_; }
  // Truncation failed: Append always fails.
  bool broken() const noexcept { return broken_; }
  // The last Append failed at the limit on the size of a file; a new file may take the record.
  bool at_file_limit() const noexcept { return at_file_limit_; }

 private:
  SegmentWriter(UniqueFd fd, const SegmentHeader& header) : fd_(std::move(fd)), header_(header) {}

  UniqueFd fd_;
  SegmentHeader header_;
  uint64_t size_ = 0;
  bool broken_ = false;
  bool at_file_limit_ = false;
};

// Reads the records of a file in order, with a buffer of 4 KiB. Terminates on any input. Not thread-safe.
class SegmentReader {
 public:
  struct Record {
    RecordHead head;
    uint64_t offset = 0;  // of the head
  };
  enum class Tail : uint8_t { kClean, kTorn, kDamaged };

  // kUnavailable when the file is gone or not a regular file.
  static Result<SegmentReader> Open(int folder, const char* name);
  // Takes over a descriptor of a regular file.
  static Result<SegmentReader> Adopt(UniqueFd fd);

  // Call first. Accepts records with ids from the segment's first to below `id_limit`.
  SegmentState ReadHeader(uint64_t id_limit) noexcept;
  const SegmentHeader& header() const noexcept { return header_; }

  // The next record with a valid head. Nothing at the end, whose state tail() then has.
  std::optional<Record> Next() noexcept;
  Tail tail() const noexcept { return tail_; }
  // kDataLoss when the body is damaged.
  Status ReadBody(const Record& record, std::string& body);

  // Estimates the end of the ids in a file without a valid header, whose first id is `first_id`. At least one
  // more than that.
  uint64_t GuessEnd(uint64_t first_id) noexcept;

  // Reads up to `end`: at first the size of the file at Open; more after its writer appended.
  void set_end(uint64_t end) noexcept { end_ = end; }
  uint64_t end() const noexcept { return end_; }

 private:
  static constexpr size_t kBufferBytes = 4096;
  SegmentReader(UniqueFd fd, uint64_t end)
      : fd_(std::move(fd)), end_(end), buffer_(std::make_unique<char[]>(kBufferBytes)) {}
  std::string_view Peek(uint64_t offset, size_t wanted) noexcept;
  uint64_t FindMarker(uint64_t from) noexcept;
  bool Plausible(const RecordHead& head, uint64_t skipped) const noexcept;
  void ValidateTail(uint64_t from) noexcept;

  UniqueFd fd_;
  uint64_t end_ = 0;
  uint64_t offset_ = kSegmentHeaderBytes;
  uint64_t next_id_ = 0, id_limit_ = kMaxRecordId;
  Tail tail_ = Tail::kClean;
  SegmentHeader header_;
  uint64_t buffered_at_ = 0;
  size_t buffered_ = 0;
  std::unique_ptr<char[]> buffer_;
};

}  // namespace gpulens
