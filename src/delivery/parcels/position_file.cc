#include "delivery/parcels/position_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/files.h"

namespace gpulens {
namespace {

constexpr std::string_view kPositionMagic{"GPLNSPO1", 8};  // with the version
constexpr size_t kNumberBytes = 24, kBootAt = 24, kBootSumAt = 40, kSlotBytes = 44;
constexpr off_t kSlotDistance = 512;  // one sector each: a torn write costs one
using Slot = std::array<char, kSlotBytes>;

void PutSum(char* at, uint32_t sum) noexcept {
  for (size_t i = 0; i < 4; ++i) at[i] = static_cast<char>(sum >> (8 * i));
}

Slot Encode(uint64_t next_id, const BootId& boot_id) noexcept {
  Slot slot{};
  std::memcpy(slot.data(), kPositionMagic.data(), kPositionMagic.size());
  for (size_t i = 0; i < 8; ++i) slot[8 + i] = static_cast<char>(next_id >> (8 * i));
  PutSum(slot.data() + 16, ChecksumOf(0, {slot.data(), 16}));
  std::memcpy(slot.data() + kBootAt, boot_id.data(), boot_id.size());
  PutSum(slot.data() + kBootSumAt, ChecksumOf(0, {slot.data(), kBootSumAt}));
  return slot;
}

std::optional<uint64_t> Decode(const Slot& slot) noexcept {
  uint64_t next_id = 0;
  for (size_t i = 0; i < 8; ++i)
    next_id |= static_cast<uint64_t>(static_cast<unsigned char>(slot[8 + i])) << (8 * i);
  Slot whole = Encode(next_id, {});
  if (std::memcmp(slot.data(), whole.data(), kNumberBytes) != 0 || next_id > kMaxParcelId)
    return std::nullopt;
  return next_id;
}

}  // namespace

Result<PositionFile> PositionFile::Open(int folder, const BootId& boot_id) {
  constexpr int kFlags = O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  UniqueFd fd(::openat(folder, kPositionName, kFlags, 0600));
  if (!fd) return ErrnoStatus("open position", errno);
  PositionFile file(std::move(fd), boot_id);
  file.Load();
  return file;
}

void PositionFile::Load() noexcept {
  for (unsigned i = 0; i < 2; ++i) {
    Slot slot{};
    ssize_t count = ::pread(fd_.get(), slot.data(), slot.size(), static_cast<off_t>(i) * kSlotDistance);
    std::optional<uint64_t> number;
    if (count >= static_cast<ssize_t>(kNumberBytes)) number = Decode(slot);
    if (!number) {
      // Never written, or a hole in front of the second slot.
      foreign_ |= count < 0 || std::any_of(slot.begin(), slot.end(), [](char c) { return c != 0; });
    } else if (!last_ || *number > *last_) {
      last_ = number;
      slot_ = 1 - i;
      of_this_boot_ = boot_id_ != BootId{} && slot == Encode(*number, boot_id_);
    }
  }
  if (last_) foreign_ = false;
}

Status PositionFile::Write(uint64_t next_id) {
  Slot slot = Encode(next_id, boot_id_);
  ssize_t count;
  do {
    count = ::pwrite(fd_.get(), slot.data(), slot.size(), static_cast<off_t>(slot_) * kSlotDistance);
  } while (count < 0 && errno == EINTR);
  if (count != static_cast<ssize_t>(slot.size()))
    return ErrnoStatus("write how far was delivered", count < 0 ? errno : ENOSPC);
  slot_ = 1 - slot_;
  last_ = next_id;
  of_this_boot_ = boot_id_ != BootId{};
  return Ok();
}

Status PositionFile::Sync() {
  return ::fdatasync(fd_.get()) == 0 ? Ok() : ErrnoStatus("sync how far was delivered", errno);
}

UniqueFd PositionFile::Duplicate() const noexcept { return UniqueFd(::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0)); }

}  // namespace gpulens
