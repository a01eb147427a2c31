#include "delivery/log_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "base/files.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/result.h"

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
  std::ranges::replace(name, '/', '.');
  return name;
}

std::string ReaderOfPosition(const std::string& file, const std::string& owner) {
  if (file == kPositionName) return owner;
  std::string name = file.substr(std::min(file.size(), std::string_view(kPositionName).size() + 1));
  std::ranges::replace(name, '.', '/');
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
      foreign_ |= count < 0 || std::ranges::any_of(slot, [](char c) { return c != 0; });
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

namespace {

constexpr std::string_view kSuffix = ".seg";
constexpr size_t kDigits = 20;
constexpr int kNamesAside = 100;  // NAME.unknown, NAME.unknown.1, … before we leave it where it is

struct CloseFolder {
  void operator()(DIR* folder) const noexcept { ::closedir(folder); }
};

constexpr size_t kLocksLimit = 4 << 20;

// "1: FLOCK  ADVISORY  WRITE 4711 fe:00:11722774 0 EOF"
struct LockLine {
  int64_t pid = 0;
  uint64_t device = 0, inode = 0;
};

std::optional<LockLine> ParseLockLine(std::string_view line) {
  std::string_view words[6];
  for (std::string_view& word : words) {
    line = Trim(line);
    word = line.substr(0, line.find(' '));
    line.remove_prefix(word.size());
  }
  if (words[1] != "FLOCK" || words[3] != "WRITE") return std::nullopt;
  const size_t first = words[5].find(':'), last = words[5].rfind(':');
  if (first == words[5].npos || first == last) return std::nullopt;
  const auto pid = ParseInt<int64_t>(words[4]);
  const auto major = ParseInt<uint32_t>(words[5].substr(0, first), 16);
  const auto minor = ParseInt<uint32_t>(words[5].substr(first + 1, last - first - 1), 16);
  const auto inode = ParseInt<uint64_t>(words[5].substr(last + 1));
  if (!pid || !major || !minor || !inode) return std::nullopt;
  return LockLine{*pid, makedev(*major, *minor), *inode};
}

}  // namespace

std::optional<uint64_t> IdOfSegmentName(std::string_view name) noexcept {
  if (name.size() != kDigits + kSuffix.size() || !name.ends_with(kSuffix)) return std::nullopt;
  return ParseInt<uint64_t>(name.substr(0, kDigits));
}

SegmentName NameOfSegment(uint64_t first_id) noexcept {
  SegmentName name{};
  std::snprintf(name.data(), name.size(), "%020llu.seg", static_cast<unsigned long long>(first_id));
  return name;
}

Result<LogFolder> LogFolder::Open(const std::string& path) {
  RETURN_IF_ERROR(MakeFoldersAbove(path));
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return ErrnoStatus("make " + path, errno);
  LogFolder folder;
  folder.path_ = path;
  folder.fd_.reset(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.fd_) return ErrnoStatus("open " + path, errno);
  RETURN_IF_ERROR(folder.Lock());
  return folder;
}

Status LogFolder::Lock() {
  constexpr int kFlags = O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  lock_.reset(::openat(fd(), kLockName, kFlags, 0600));
  if (!lock_) return ErrnoStatus("open " + path_ + "/" + kLockName, errno);
  std::array<char, 24> text{};
  if (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return ErrnoStatus("lock " + path_, errno);
    ssize_t count = ::pread(lock_.get(), text.data(), text.size(), 0);
    auto pid = ParseInt<int>(Trim({text.data(), static_cast<size_t>(std::max<ssize_t>(count, 0))}));
    std::string holder = pid ? "process " + std::to_string(*pid) : "another process";
    return {Code::kUnavailable, "the folder " + path_ + " is in use by " + holder};
  }
  // Only for people: on a full disk the lock holds without it.
  int size = std::snprintf(text.data(), text.size(), "%d\n", static_cast<int>(::getpid()));
  if (::ftruncate(lock_.get(), 0) != 0 ||
      ::pwrite(lock_.get(), text.data(), static_cast<size_t>(size), 0) != size)
    Log(LogLevel::kDebug, "delivery", "lock_text", "the process id could not be written", path_);
  return Ok();
}

Status ForEachName(int folder, const std::function<bool(std::string_view)>& visit) {
  UniqueFd copy(::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!copy) return ErrnoStatus("list", errno);
  std::unique_ptr<DIR, CloseFolder> list(::fdopendir(copy.get()));
  if (!list) return ErrnoStatus("list", errno);
  copy.release();
  errno = 0;
  while (const dirent* entry = ::readdir(list.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != ".." && !visit(name)) return Ok();
    errno = 0;
  }
  return errno == 0 ? Ok() : ErrnoStatus("list", errno);
}

Result<std::vector<std::string>> LogFolder::List() const {
  std::vector<std::string> names;
  Status listed = ForEachName(fd(), [&](std::string_view name) { return names.emplace_back(name), true; });
  if (!listed) return Status{listed.code, listed.detail.insert(std::string_view("list").size(), " " + path_)};
  return names;
}

Result<std::vector<uint64_t>> LogFolder::ListSegments() const {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, List());
  std::vector<uint64_t> ids;
  for (const std::string& name : names) {
    const auto id = IdOfSegmentName(name);
    if (id && *id < kMaxRecordId) ids.push_back(*id);
    else if (id) RETURN_IF_ERROR(SetAside(name.c_str(), "no record has this number"));
  }
  std::ranges::sort(ids);
  return ids;
}

Result<std::vector<std::string>> LogFolder::ListPositions() const {
  ASSIGN_OR_RETURN(std::vector<std::string> names, List());
  std::erase_if(names, [](const std::string& name) {
    return !name.starts_with("position") || name.find(".unknown") != name.npos;
  });
  std::ranges::sort(names);
  return names;
}

bool LogFolder::Has(const char* name) const noexcept {
  struct stat info{};
  return ::fstatat(fd(), name, &info, AT_SYMLINK_NOFOLLOW) == 0;
}

bool LogFolder::Misses(const char* name) const noexcept {
  struct stat info{};
  return ::fstatat(fd(), name, &info, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT;
}

Status LogFolder::Mark(const char* name) const {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  const UniqueFd made(::openat(fd(), name, kFlags, 0600));
  return made ? Ok() : ErrnoStatus("make " + path_ + "/" + name, errno);
}

bool LogFolder::vanished() const noexcept {
  struct stat ours{}, there{};
  return ::fstat(fd(), &ours) != 0 || ours.st_nlink == 0 || ::stat(path_.c_str(), &there) != 0 ||
         ours.st_dev != there.st_dev || ours.st_ino != there.st_ino;
}

Status LogFolder::SetAside(const char* name, std::string_view why) const {
  for (int i = 0; i < kNamesAside; ++i) {
    std::string target = std::string(name) + ".unknown" + (i == 0 ? "" : "." + std::to_string(i));
    struct stat info{};
    // Only the holder of the lock makes names here, so a check before the rename is enough.
    if (::fstatat(fd(), target.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0) continue;
    if (::renameat(fd(), name, fd(), target.c_str()) != 0)
      return ErrnoStatus("set aside " + path_ + "/" + name, errno);
    Log(LogLevel::kWarn, "delivery", "set_aside",
        std::string(name) + " was renamed to " + target + ": " + std::string(why), path_ + "/" + name);
    return Ok();
  }
  return {Code::kExhausted, "too many files *.unknown in " + path_ + "; remove them"};
}

Status LogFolder::Remove(const char* name) const {
  if (::unlinkat(fd(), name, 0) == 0 || errno == ENOENT) return Ok();
  return ErrnoStatus("remove " + path_ + "/" + name, errno);
}

bool LogFolder::RemoveAll() const {
  auto names = List();
  if (!names) return false;
  for (const std::string& name : *names) {
    if (name.starts_with(kPositionName) || name == kOwnerGoneName || name == kLockName)
      static_cast<void>(Remove(name.c_str()));
  }
  return ::rmdir(path_.c_str()) == 0;
}

UniqueFd LogFolder::Duplicate() const noexcept { return UniqueFd(::fcntl(fd(), F_DUPFD_CLOEXEC, 0)); }

Status LogFolder::Sync() const { return ::fsync(fd()) == 0 ? Ok() : ErrnoStatus("sync " + path_, errno); }

std::optional<int64_t> LockHolder(int folder) {
  UniqueFd lock(::openat(folder, kLockName, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  struct stat info{};
  if (!lock || ::fstat(lock.get(), &info) != 0) return std::nullopt;
  char text[24] = {};
  const ssize_t count = ::pread(lock.get(), text, sizeof text, 0);
  const auto named = ParseInt<int64_t>(Trim({text, static_cast<size_t>(std::max<ssize_t>(count, 0))}));
  const auto locks = ReadFile("/proc/locks", kLocksLimit);
  if (!locks) return std::nullopt;
  for (std::string_view rest = *locks; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const auto one = ParseLockLine(line);
    // Some file systems have another device in this list than in stat(2).
    if (!one || one->inode != info.st_ino || (one->device != info.st_dev && one->pid != named)) continue;
    return std::max<int64_t>(one->pid, 0);
  }
  return std::nullopt;
}

}  // namespace gpulens
