// One segment on disk: the writer appends whole records, the reader finds the whole ones again whatever
// happened to the file. What the bytes mean: segment_format.h.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <gpulens/status.h>

#include "base/fd.h"
#include "delivery/segment_format.h"

namespace gpulens {

// Appends to a file that it made. A record is wholly in it or not at all: what a full disk cuts off is taken
// back. Not thread-safe.
class SegmentWriter {
 public:
  // The file appears empty; the header goes out with the first record. The name must be free.
  static Result<SegmentWriter> Create(int folder, const char* name, const SegmentHeader& header);

  // kExhausted when there is no room: disk, quota, file size limit.
  Status Append(RecordHead head, std::string_view body);
  // Forgets what lies behind `size`, after a sync that failed.
  void TakeBack(uint64_t size) noexcept;
  Status Sync();
  // A second descriptor of the file, to sync it without holding up its owner.
  UniqueFd Duplicate() const noexcept;

  uint64_t size() const noexcept { return size_; }
  // The end could not be taken back: nothing may be appended any more.
  bool broken() const noexcept { return broken_; }
  // The last failure was the limit on the size of one file; a new one may still take the record.
  bool at_file_limit() const noexcept { return at_file_limit_; }

 private:
  SegmentWriter(UniqueFd fd, const SegmentHeader& header) : fd_(std::move(fd)), header_(header) {}

  UniqueFd fd_;
  SegmentHeader header_;
  uint64_t size_ = 0;
  bool broken_ = false;
  bool at_file_limit_ = false;
};

// Walks over the records of a file in order. Holds one buffer of 4 KiB, whatever the size of the file. Always
// comes to an end: each step goes on in the file. Not thread-safe.
class SegmentReader {
 public:
  struct Record {
    RecordHead head;
    uint64_t offset = 0;  // of the head
  };
  enum class Tail : uint8_t { kClean, kTorn, kDamaged };

  // kUnavailable when the file is not there any more or is no regular file.
  static Result<SegmentReader> Open(int folder, const char* name);
  // Takes over a descriptor of a regular file.
  static Result<SegmentReader> Adopt(UniqueFd fd);

  // To be called first. Records are taken when their id is from the segment's first up to below `id_limit`.
  SegmentVerdict ReadHeader(uint64_t id_limit) noexcept;
  const SegmentHeader& header() const noexcept { return header_; }

  // The next record whose head is whole. Nothing at the end; then tail() says how the file ends.
  std::optional<Record> Next() noexcept;
  Tail tail() const noexcept { return tail_; }
  // kDataLoss when it is not what was written.
  Status ReadBody(const Record& record, std::string& body);

  // Of a file whose header says nothing: where the ids of its records seem to end when the first is
  // `first_id`. At least one further.
  uint64_t GuessEnd(uint64_t first_id) noexcept;

  // Only so much of the file counts: all of it at first; more when its writer has gone on.
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
