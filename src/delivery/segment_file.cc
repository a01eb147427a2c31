#include "delivery/segment_file.h"

#include <fcntl.h>
#include <libdeflate.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/files.h"

namespace gpulens {
namespace {

// -1 and errno, or how much was read: less than `size` only at the end of the file.
ssize_t ReadAt(int fd, uint64_t offset, char* out, size_t size) noexcept {
  size_t done = 0;
  while (done < size) {
    ssize_t count = ::pread(fd, out + done, size - done, static_cast<off_t>(offset + done));
    if (count == 0) break;
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return -1;
    done += static_cast<size_t>(count);
  }
  return static_cast<ssize_t>(done);
}

// Errno, or 0. The pieces are changed.
int WriteAt(int fd, uint64_t offset, iovec* pieces, int count) noexcept {
  while (count > 0) {
    if (pieces->iov_len == 0) {
      ++pieces, --count;
      continue;
    }
    ssize_t written = ::pwritev(fd, pieces, count, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return written < 0 ? errno : ENOSPC;
    offset += static_cast<uint64_t>(written);
    for (auto left = static_cast<size_t>(written); left > 0;) {
      size_t part = std::min(left, pieces->iov_len);
      pieces->iov_base = static_cast<char*>(pieces->iov_base) + part;
      pieces->iov_len -= part;
      left -= part;
      if (pieces->iov_len == 0) ++pieces, --count;
    }
  }
  return 0;
}

iovec PieceOf(const char* bytes, size_t size) noexcept { return {const_cast<char*>(bytes), size}; }

constexpr std::string_view kSegmentMagic{"GPLNSSEG", 8};
constexpr uint32_t kVersion = 1;
constexpr size_t kCopyBytes = kSegmentHeaderBytes / 2;
constexpr size_t kSummedOfCopy = 40, kSummedOfHead = 40;

bool DecodeCopy(std::string_view copy, SegmentHeader& header) noexcept {
  const char* at = copy.data();
  if (!copy.starts_with(kSegmentMagic) || GetNumber<uint32_t>(at + 8) != kVersion) return false;
  if (GetNumber<uint32_t>(at + 40) != ChecksumOf(0, copy.substr(0, kSummedOfCopy))) return false;
  header.salt = GetNumber<uint32_t>(at + 12);
  header.first_id = GetNumber<uint64_t>(at + 16);
  std::memcpy(header.boot_id.data(), at + 24, header.boot_id.size());
  return header.first_id < kMaxRecordId;
}

bool IsZero(std::string_view bytes) noexcept {
  return std::ranges::all_of(bytes, [](char c) { return c == 0; });
}

}  // namespace

Result<SegmentWriter> SegmentWriter::Create(int folder, const char* name, const SegmentHeader& header) {
  UniqueFd fd(::openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, 0600));
  if (!fd) return ErrnoStatus(std::string("make ") + name, errno);
  return SegmentWriter(std::move(fd), header);
}

Status SegmentWriter::Append(RecordHead head, std::string_view body) {
  at_file_limit_ = false;
  if (broken_) return {Code::kIo, "the end of the segment could not be truncated"};
  std::array<char, kSegmentHeaderBytes> front{};
  std::array<char, kRecordHeadBytes> record{};
  head.length = static_cast<uint32_t>(body.size());
  head.body_sum = ChecksumOf(header_.salt, body);
  EncodeRecordHead(head, header_.salt, record);
  iovec pieces[3] = {PieceOf(front.data(), 0), PieceOf(record.data(), record.size()),
                     PieceOf(body.data(), body.size())};
  if (size_ == 0) {
    EncodeSegmentHeader(header_, front);
    pieces[0].iov_len = front.size();
  }
  uint64_t grown = size_ + pieces[0].iov_len + record.size() + body.size();
  if (int error = WriteAt(fd_.get(), size_, pieces, 3); error != 0) {
    TakeBack(size_);
    at_file_limit_ = error == EFBIG;
    Status status = ErrnoStatus("write a record", error);
    if (error == EFBIG) status.code = Code::kExhausted;
    return status;
  }
  size_ = grown;
  return Ok();
}

void SegmentWriter::TakeBack(uint64_t size) noexcept {
  size_ = size;
  if (::ftruncate(fd_.get(), static_cast<off_t>(size)) != 0) broken_ = true;
}

Status SegmentWriter::Sync() {
  return ::fdatasync(fd_.get()) == 0 ? Ok() : ErrnoStatus("sync records", errno);
}

UniqueFd SegmentWriter::Duplicate() const noexcept {
  return UniqueFd(::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0));
}

Result<SegmentReader> SegmentReader::Open(int folder, const char* name) {
  // O_NONBLOCK: a pipe of this name must not make us wait for a writer.
  UniqueFd fd(::openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (!fd) {
    Status status = ErrnoStatus(std::string("open ") + name, errno);
    if (errno == ELOOP) status.code = Code::kUnavailable;
    return status;
  }
  return Adopt(std::move(fd));
}

Result<SegmentReader> SegmentReader::Adopt(UniqueFd fd) {
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0) return ErrnoStatus("stat a segment", errno);
  if (!S_ISREG(info.st_mode)) return Status{Code::kUnavailable, "a segment is not a regular file"};
  return SegmentReader(std::move(fd), static_cast<uint64_t>(info.st_size));
}

SegmentState SegmentReader::ReadHeader(uint64_t id_limit) noexcept {
  id_limit_ = std::min(id_limit, kMaxRecordId);
  std::string_view bytes = Peek(0, std::min<uint64_t>(kSegmentHeaderBytes, end_));
  // An unreadable file is damaged, not torn.
  if (bytes.size() < std::min<uint64_t>(kSegmentHeaderBytes, end_)) return SegmentState::kDamaged;
  SegmentState state = DecodeSegmentHeader(bytes, header_);
  next_id_ = header_.first_id;
  return state;
}

// The bytes at `offset`, shorter than wanted at the end or where they cannot be read.
std::string_view SegmentReader::Peek(uint64_t offset, size_t wanted) noexcept {
  if (offset < buffered_at_ || offset + wanted > buffered_at_ + buffered_) {
    buffered_at_ = offset;
    buffered_ = 0;
    size_t size = offset < end_ ? std::min<uint64_t>(kBufferBytes, end_ - offset) : 0;
    ssize_t count = ReadAt(fd_.get(), offset, buffer_.get(), size);
    if (count > 0) buffered_ = static_cast<size_t>(count);
  }
  size_t begin = offset - buffered_at_;
  return {buffer_.get() + begin, std::min(wanted, buffered_ - begin)};
}

// Offset of the next marker, else the end.
uint64_t SegmentReader::FindMarker(uint64_t from) noexcept {
  while (from + kRecordHeadBytes <= end_) {
    size_t wanted = std::min<uint64_t>(kBufferBytes, end_ - from);
    // Buffered bytes after `from` are searched first, so that no byte is read twice.
    if (from >= buffered_at_ && from + kRecordHeadBytes <= buffered_at_ + buffered_)
      wanted = buffered_at_ + buffered_ - from;
    std::string_view bytes = Peek(from, wanted);
    if (bytes.size() < kRecordMarker.size()) return end_;
    size_t at = bytes.find(kRecordMarker);
    if (at != bytes.npos) return from + at;
    from += bytes.size() - kRecordMarker.size() + 1;
  }
  return end_;
}

// Ids go up by one; `skipped` bytes could have held so many records.
bool SegmentReader::Plausible(const RecordHead& head, uint64_t skipped) const noexcept {
  return head.id >= next_id_ && head.id < id_limit_ && head.id - next_id_ <= skipped / kRecordHeadBytes;
}

std::optional<SegmentReader::Record> SegmentReader::Next() noexcept {
  uint64_t good_until = offset_;
  while (offset_ + kRecordHeadBytes <= end_) {
    std::optional<RecordHead> head = DecodeRecordHead(Peek(offset_, kRecordHeadBytes), header_.salt);
    if (!head || !Plausible(*head, offset_ - good_until)) {
      offset_ = FindMarker(offset_ + 1);
      continue;
    }
    if (head->size() > end_ - offset_) {  // its sum is right, so it is the file that is too short
      tail_ = Tail::kTorn;
      offset_ = end_;
      return std::nullopt;
    }
    Record record{*head, offset_};
    offset_ += head->size();
    next_id_ = head->id + 1;
    return record;
  }
  ValidateTail(good_until);
  offset_ = std::max(offset_, end_);
  return std::nullopt;
}

// Too short for a record, or zeros, is what a crash leaves; anything else was a record once.
void SegmentReader::ValidateTail(uint64_t from) noexcept {
  if (from >= end_) return;
  tail_ = Tail::kTorn;
  if (end_ - from < kRecordHeadBytes) return;
  while (from < end_) {
    std::string_view bytes = Peek(from, std::min<uint64_t>(kBufferBytes, end_ - from));
    if (bytes.empty() || std::ranges::any_of(bytes, [](char c) { return c != 0; })) {
      tail_ = Tail::kDamaged;
      return;
    }
    from += bytes.size();
  }
}

uint64_t SegmentReader::GuessEnd(uint64_t first_id) noexcept {
  uint64_t end = first_id + 1;
  for (uint64_t at = FindMarker(0); at < end_; at = FindMarker(at + 1)) {
    const uint64_t id = IdOfRecordHead(Peek(at, kRecordHeadBytes));
    // Without its checksum a number is plausible when that many records fit into the bytes before it.
    if (id >= end && id - first_id <= at / kRecordHeadBytes) end = id + 1;
  }
  return end;
}

Status SegmentReader::ReadBody(const Record& record, std::string& body) {
  body.resize(record.head.length);
  uint64_t offset = record.offset + kRecordHeadBytes;
  ssize_t count = ReadAt(fd_.get(), offset, body.data(), body.size());
  if (count < 0) return {Code::kDataLoss, ErrnoStatus("read a record", errno).detail};
  if (static_cast<size_t>(count) == body.size() && ChecksumOf(header_.salt, body) == record.head.body_sum)
    return Ok();
  return {Code::kDataLoss, "a record on disk is damaged"};
}

uint32_t ChecksumOf(uint32_t salt, std::string_view bytes) noexcept {
  return libdeflate_crc32(salt, bytes.data(), bytes.size());
}

void EncodeSegmentHeader(const SegmentHeader& header, std::array<char, kSegmentHeaderBytes>& out) noexcept {
  out.fill(0);
  std::memcpy(out.data(), kSegmentMagic.data(), kSegmentMagic.size());
  PutNumber(out.data() + 8, kVersion);
  PutNumber(out.data() + 12, header.salt);
  PutNumber(out.data() + 16, header.first_id);
  std::memcpy(out.data() + 24, header.boot_id.data(), header.boot_id.size());
  PutNumber(out.data() + 40, ChecksumOf(0, {out.data(), kSummedOfCopy}));
  std::memcpy(out.data() + kCopyBytes, out.data(), kCopyBytes);
}

SegmentState DecodeSegmentHeader(std::string_view bytes, SegmentHeader& header) noexcept {
  if (bytes.size() < kSegmentHeaderBytes) {
    // Only beginnings of our own header: a short foreign file is not ours to remove.
    size_t common = std::min(bytes.size(), kSegmentMagic.size());
    bool ours = bytes.substr(0, common) == kSegmentMagic.substr(0, common) || IsZero(bytes);
    return ours ? SegmentState::kTorn : SegmentState::kForeign;
  }
  std::string_view first = bytes.substr(0, kCopyBytes), second = bytes.substr(kCopyBytes, kCopyBytes);
  if (DecodeCopy(first, header) || DecodeCopy(second, header)) return SegmentState::kGood;
  auto ours = [](std::string_view copy) {
    return copy.starts_with(kSegmentMagic) && GetNumber<uint32_t>(copy.data() + 8) == kVersion;
  };
  // Zeros are what a power cut leaves where data did not reach the disk.
  if (ours(first) || ours(second) || IsZero(bytes.substr(0, kSegmentHeaderBytes)))
    return SegmentState::kDamaged;
  return SegmentState::kForeign;
}

void EncodeRecordHead(const RecordHead& head, uint32_t salt,
                      std::array<char, kRecordHeadBytes>& out) noexcept {
  std::memcpy(out.data(), kRecordMarker.data(), kRecordMarker.size());
  PutNumber(out.data() + 4, head.length);
  PutNumber(out.data() + 8, head.id);
  PutNumber(out.data() + 16, head.unix_ns);
  PutNumber(out.data() + 24, head.boot_ns);
  PutNumber(out.data() + 32, head.items);
  PutNumber(out.data() + 36, head.body_sum);
  PutNumber(out.data() + 40, ChecksumOf(salt, {out.data(), kSummedOfHead}));
}

std::optional<RecordHead> DecodeRecordHead(std::string_view bytes, uint32_t salt) noexcept {
  if (bytes.size() < kRecordHeadBytes || !bytes.starts_with(kRecordMarker)) return std::nullopt;
  const char* at = bytes.data();
  if (GetNumber<uint32_t>(at + 40) != ChecksumOf(salt, bytes.substr(0, kSummedOfHead))) return std::nullopt;
  RecordHead head;
  head.length = GetNumber<uint32_t>(at + 4);
  head.id = GetNumber<uint64_t>(at + 8);
  head.unix_ns = GetNumber<int64_t>(at + 16);
  head.boot_ns = GetNumber<int64_t>(at + 24);
  head.items = GetNumber<uint32_t>(at + 32);
  head.body_sum = GetNumber<uint32_t>(at + 36);
  if (head.length > kMaxRecordBytes || head.id >= kMaxRecordId) return std::nullopt;
  return head;
}

uint64_t IdOfRecordHead(std::string_view bytes) noexcept {
  return bytes.size() < 16 ? 0 : GetNumber<uint64_t>(bytes.data() + 8);
}

}  // namespace gpulens
