#include "delivery/position_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/files.h"

namespace gpulens {
namespace {

constexpr std::string_view kPositionMagic{"GPLNSPO1", 8};  // with the version
constexpr size_t kSumAt = 16, kNumberBytes = 24, kBootAt = 24, kBootSumAt = 40, kDoneAt = 48, kDoneSumAt = 56,
                 kSlotBytes = 60;
constexpr off_t kSlotDistance = 512;  // one sector each: a torn write costs one
using Slot = std::array<char, kSlotBytes>;

// Covers next_id and done. A sum over the whole slot would miss a changed number: the CRC of bytes followed
// by their own CRC is constant.
uint32_t DoneSum(const Slot& slot) noexcept {
  return ChecksumOf(ChecksumOf(0, {slot.data(), kSumAt}), {slot.data() + kDoneAt, 8});
}

Slot EncodeSlot(uint64_t next_id, const BootId& boot_id, uint64_t done) noexcept {
  Slot slot{};
  std::memcpy(slot.data(), kPositionMagic.data(), kPositionMagic.size());
  PutNumber(slot.data() + 8, next_id);
  PutNumber(slot.data() + kSumAt, ChecksumOf(0, {slot.data(), kSumAt}));
  std::memcpy(slot.data() + kBootAt, boot_id.data(), boot_id.size());
  PutNumber(slot.data() + kBootSumAt, ChecksumOf(0, {slot.data(), kBootSumAt}));
  PutNumber(slot.data() + kDoneAt, done);
  PutNumber(slot.data() + kDoneSumAt, DoneSum(slot));
  return slot;
}

bool SameBytes(const Slot& a, const Slot& b, size_t bytes) noexcept {
  return std::memcmp(a.data(), b.data(), bytes) == 0;
}

}  // namespace

std::string PositionNameOf(const std::string& reader, const std::string& owner) {
  if (reader == owner) return kPositionName;
  std::string name = std::string(kPositionName) + "." + reader;
  std::replace(name.begin(), name.end(), '/', '.');
  return name;
}

std::string ReaderOfPosition(const std::string& file, const std::string& owner) {
  if (file == kPositionName) return owner;
  std::string name = file.substr(std::min(file.size(), std::string_view(kPositionName).size() + 1));
  std::replace(name.begin(), name.end(), '.', '/');
  return name;
}

Result<PositionFile> PositionFile::OpenToRead(int folder, const std::string& name) {
  UniqueFd fd(::openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (!fd && errno == ELOOP) return Status{Code::kUnavailable, name + " is a symbolic link"};
  if (!fd) return ErrnoStatus("open " + name, errno);
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0) return ErrnoStatus("stat " + name, errno);
  if (!S_ISREG(info.st_mode)) return Status{Code::kUnavailable, name + " is not a regular file"};
  PositionFile file(std::move(fd), {});
  file.Load();
  return file;
}

Result<PositionFile> PositionFile::Open(int folder, const std::string& name, const BootId& boot_id) {
  constexpr int kFlags = O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  UniqueFd fd(::openat(folder, name.c_str(), kFlags, 0600));
  if (!fd) return ErrnoStatus("open " + name, errno);
  PositionFile file(std::move(fd), boot_id);
  file.Load();
  return file;
}

void PositionFile::Load() noexcept {
  for (unsigned i = 0; i < 2; ++i) {
    Slot slot{};
    const ssize_t count = ::pread(fd_.get(), slot.data(), slot.size(), static_cast<off_t>(i) * kSlotDistance);
    const uint64_t number = GetNumber<uint64_t>(slot.data() + 8);
    if (count < static_cast<ssize_t>(kNumberBytes) || number > kMaxRecordId ||
        !SameBytes(slot, EncodeSlot(number, {}, 0), kNumberBytes)) {
      // Never written, or a hole before the second slot.
      foreign_ |= count < 0 || std::any_of(slot.begin(), slot.end(), [](char c) { return c != 0; });
      continue;
    }
    Slot whole = slot;
    PutNumber(whole.data() + kDoneSumAt, DoneSum(slot));
    const uint64_t done = SameBytes(slot, whole, kSlotBytes) ? GetNumber<uint64_t>(slot.data() + kDoneAt) : 0;
    if (last_ && (number < *last_ || (number == *last_ && done <= done_))) continue;
    last_ = number;
    done_ = done;
    slot_ = 1 - i;
    const Slot known = EncodeSlot(number, boot_id_, 0);
    of_this_boot_ = boot_id_ != BootId{} && SameBytes(slot, known, kBootSumAt + 4);
  }
  if (last_) foreign_ = false;
}

Status PositionFile::Write(uint64_t next_id, uint64_t done) {
  const Slot slot = EncodeSlot(next_id, boot_id_, done);
  ssize_t count;
  do {
    count = ::pwrite(fd_.get(), slot.data(), slot.size(), static_cast<off_t>(slot_) * kSlotDistance);
  } while (count < 0 && errno == EINTR);
  if (count != static_cast<ssize_t>(slot.size()))
    return ErrnoStatus("write the delivered position", count < 0 ? errno : ENOSPC);
  slot_ = 1 - slot_;
  last_ = next_id;
  done_ = done;
  of_this_boot_ = boot_id_ != BootId{};
  return Ok();
}

Status PositionFile::Sync() {
  return ::fdatasync(fd_.get()) == 0 ? Ok() : ErrnoStatus("sync the delivered position", errno);
}

UniqueFd PositionFile::Duplicate() const noexcept { return UniqueFd(::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0)); }

}  // namespace gpulens
