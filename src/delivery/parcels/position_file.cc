#include "delivery/parcels/position_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/files.h"
#include "delivery/parcels/segment_format.h"

namespace gpulens {
namespace {

constexpr std::string_view kMagic{"GPLNSPO1", 8};  // with the version
constexpr size_t kSlotBytes = 24;
constexpr off_t kSlotDistance = 512;  // one sector each: a torn write costs one
using Slot = std::array<char, kSlotBytes>;

Slot Encode(uint64_t next_id) noexcept {
  Slot slot{};
  std::memcpy(slot.data(), kMagic.data(), kMagic.size());
  for (size_t i = 0; i < 8; ++i) slot[8 + i] = static_cast<char>(next_id >> (8 * i));
  uint32_t sum = ChecksumOf(0, {slot.data(), 16});
  for (size_t i = 0; i < 4; ++i) slot[16 + i] = static_cast<char>(sum >> (8 * i));
  return slot;
}

std::optional<uint64_t> Decode(const Slot& slot) noexcept {
  uint64_t next_id = 0;
  for (size_t i = 0; i < 8; ++i)
    next_id |= static_cast<uint64_t>(static_cast<unsigned char>(slot[8 + i])) << (8 * i);
  if (slot != Encode(next_id) || next_id > kMaxParcelId) return std::nullopt;
  return next_id;
}

}  // namespace

Result<PositionFile> PositionFile::Open(int folder) {
  constexpr int kFlags = O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  UniqueFd fd(::openat(folder, kPositionName, kFlags, 0600));
  if (!fd) return ErrnoStatus("open position", errno);
  PositionFile file(std::move(fd));
  file.Load();
  return file;
}

void PositionFile::Load() noexcept {
  for (unsigned i = 0; i < 2; ++i) {
    Slot slot{};
    ssize_t count = ::pread(fd_.get(), slot.data(), slot.size(), static_cast<off_t>(i) * kSlotDistance);
    std::optional<uint64_t> number;
    if (count == static_cast<ssize_t>(slot.size())) number = Decode(slot);
    if (!number) {
      // Never written, or a hole in front of the second slot.
      foreign_ |= count < 0 || std::any_of(slot.begin(), slot.end(), [](char c) { return c != 0; });
    } else if (!last_ || *number > *last_) {
      last_ = number;
      slot_ = 1 - i;
    }
  }
  if (last_) foreign_ = false;
}

Status PositionFile::Write(uint64_t next_id) {
  Slot slot = Encode(next_id);
  ssize_t count;
  do {
    count = ::pwrite(fd_.get(), slot.data(), slot.size(), static_cast<off_t>(slot_) * kSlotDistance);
  } while (count < 0 && errno == EINTR);
  if (count != static_cast<ssize_t>(slot.size()))
    return ErrnoStatus("write how far was delivered", count < 0 ? errno : ENOSPC);
  slot_ = 1 - slot_;
  last_ = next_id;
  return Ok();
}

Status PositionFile::Sync() {
  return ::fdatasync(fd_.get()) == 0 ? Ok() : ErrnoStatus("sync how far was delivered", errno);
}

UniqueFd PositionFile::Duplicate() const noexcept { return UniqueFd(::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0)); }

}  // namespace gpulens
