#include "plugins/sinks/file/log_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/files.h"
#include "base/log.h"
#include "base/result.h"

namespace gpulens {
namespace {

constexpr mode_t kMode = 0640;
// A line that is torn by a crash is looked for in this much of the end.
constexpr size_t kLongestLine = 1 << 20;

Status WriteError(const std::string& path, int error) {
  Status status = ErrnoStatus("write " + path, error);
  if (error == EFBIG) status.code = Code::kExhausted;  // RLIMIT_FSIZE, or the largest file there can be
  return status;
}

std::string FolderOf(const std::string& path) {
  size_t slash = path.rfind('/');
  if (slash == path.npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Status OpenError(const std::string& path, int error) {
  if (error == ELOOP)
    return {Code::kInvalidArgument,
            path + " is a symbolic link, which is not followed: name the file itself"};
  if (error == ENXIO) return {Code::kInvalidArgument, path + " is not a regular file"};
  Status status = ErrnoStatus("open " + path, error);
  struct stat info{};
  if (error == ENOENT && ::stat(FolderOf(path).c_str(), &info) != 0)
    status.detail += ": the folder " + FolderOf(path) + " does not exist; create it first";
  return status;
}

// When the file was made; now where the file system does not say.
int64_t BirthOf(int fd, Instant now) noexcept {
  struct statx info{};
  if (::statx(fd, "", AT_EMPTY_PATH, STATX_BTIME, &info) != 0 || !(info.stx_mask & STATX_BTIME))
    return now.unix_ns;
  return info.stx_btime.tv_sec * 1'000'000'000 + info.stx_btime.tv_nsec;
}

void SyncFolder(const std::string& path) noexcept {
  UniqueFd folder(::open(FolderOf(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder) ::fsync(folder.get());
}

}  // namespace

Status LogFile::Open(Instant now) {
  if (fd_ && StillThere()) return Ok();
  fd_.reset();
  torn_ = false;
  // O_NONBLOCK: a pipe at this path must not make us wait for a reader.
  constexpr int kFlags = O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  UniqueFd fd(::open(options_.path.c_str(), kFlags | O_EXCL, kMode));
  bool made = static_cast<bool>(fd);
  if (!fd && errno == EEXIST) fd.reset(::open(options_.path.c_str(), kFlags & ~O_CREAT));
  if (!fd) return OpenError(options_.path, errno);
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0) return ErrnoStatus("stat " + options_.path, errno);
  if (!S_ISREG(info.st_mode)) return {Code::kInvalidArgument, options_.path + " is not a regular file"};
  fd_ = std::move(fd);
  size_ = static_cast<uint64_t>(info.st_size);
  begun_unix_ns_ = made ? now.unix_ns : BirthOf(fd_.get(), now);
  if (made && options_.sync != SyncPolicy::kNone) SyncFolder(options_.path);
  Status status = CheckContent();
  if (!status) fd_.reset();
  return status;
}

// Our lines begin with a brace. A last line without an end was torn by a crash and would spoil the next.
Status LogFile::CheckContent() {
  if (size_ == 0) return Ok();
  char first = 0, last = 0;
  if (::pread(fd_.get(), &first, 1, 0) != 1 ||
      ::pread(fd_.get(), &last, 1, static_cast<off_t>(size_ - 1)) != 1)
    return ErrnoStatus("read " + options_.path, errno);
  if (first != '{')
    return {Code::kInvalidArgument, options_.path + " exists and does not contain JSON lines"};
  if (last == '\n') return Ok();
  std::string end(std::min<uint64_t>(size_, kLongestLine), '\0');
  ssize_t count = ::pread(fd_.get(), end.data(), end.size(), static_cast<off_t>(size_ - end.size()));
  if (count != static_cast<ssize_t>(end.size())) return ErrnoStatus("read " + options_.path, errno);
  size_t newline = end.rfind('\n');
  if (newline == end.npos && end.size() < size_)
    return {Code::kDataLoss, options_.path + " ends with a line of more than 1 MiB: move it away"};
  size_ = newline == end.npos ? 0 : size_ - end.size() + newline + 1;
  torn_ = true;
  return MendEnd();
}

Status LogFile::MendEnd() {
  if (!torn_) return Ok();
  if (::ftruncate(fd_.get(), static_cast<off_t>(size_)) != 0)
    return ErrnoStatus("truncate a torn line of " + options_.path, errno);
  torn_ = false;
  return Ok();
}

// False when somebody moved or deleted the file. Notices also when it was emptied.
bool LogFile::StillThere() noexcept {
  struct stat ours{}, there{};
  if (::fstat(fd_.get(), &ours) != 0 || ::lstat(options_.path.c_str(), &there) != 0) return false;
  if (ours.st_dev != there.st_dev || ours.st_ino != there.st_ino) return false;
  if (!torn_) size_ = static_cast<uint64_t>(ours.st_size);
  return true;
}

void LogFile::RotateIfDue(size_t coming, Instant now) {
  if (size_ == 0) {
    begun_unix_ns_ = now.unix_ns;
    return;
  }
  bool large = options_.rotate_size != 0 && size_ + coming > options_.rotate_size;
  bool old = options_.rotate_age.count() > 0 && now.unix_ns - begun_unix_ns_ >= options_.rotate_age.count();
  if (!large && !old) return;
  Status status = Rotate();
  // Losing readings would be worse than a large file.
  if (!status) Log(LogLevel::kWarn, "file", "rotate", status.detail, options_.path);
}

Status LogFile::Rotate() {
  if (options_.sync != SyncPolicy::kNone) RETURN_IF_ERROR(SyncNow());
  // Up to the first number that is free; the last file is replaced when none is.
  int last = 1;
  while (last < options_.keep && ::access(Numbered(last).c_str(), F_OK) == 0) ++last;
  for (int i = last; i > 1; --i) {
    if (::rename(Numbered(i - 1).c_str(), Numbered(i).c_str()) != 0)
      return ErrnoStatus("rename " + Numbered(i - 1), errno);
  }
  bool gone = options_.keep == 0 ? ::unlink(options_.path.c_str()) == 0
                                 : ::rename(options_.path.c_str(), Numbered(1).c_str()) == 0;
  if (!gone) return ErrnoStatus("rotate " + options_.path, errno);
  fd_.reset();
  return Ok();
}

Status LogFile::WriteWhole(std::string_view lines) {
  size_t done = 0;
  while (done < lines.size()) {
    ssize_t count = ::write(fd_.get(), lines.data() + done, lines.size() - done);
    if (count > 0) {
      done += static_cast<size_t>(count);
    } else if (count == 0 || errno != EINTR) {
      Status status = WriteError(options_.path, count == 0 ? ENOSPC : errno);
      torn_ = done != 0;
      if (Status mended = MendEnd(); !mended) status.detail += "; " + mended.detail;
      return status;
    }
  }
  size_ += lines.size();
  return Ok();
}

Status LogFile::Append(std::string_view lines, Instant now) {
  RETURN_IF_ERROR(Open(now));
  RETURN_IF_ERROR(MendEnd());
  if (lines.empty()) return Ok();
  RotateIfDue(lines.size(), now);
  RETURN_IF_ERROR(Open(now));
  RETURN_IF_ERROR(WriteWhole(lines));
  bool due = options_.sync == SyncPolicy::kAlways ||
             (options_.sync == SyncPolicy::kInterval &&
              now.boot_ns - synced_boot_ns_ >= options_.sync_interval.count());
  if (!due) return Ok();
  synced_boot_ns_ = now.boot_ns;
  return SyncNow();
}

Status LogFile::SyncNow() {
  if (!fd_ || ::fdatasync(fd_.get()) == 0) return Ok();
  Status status = WriteError(options_.path, errno);
  // After a failed sync the kernel has forgotten what it could not write: begin with a fresh descriptor.
  fd_.reset();
  return status;
}

}  // namespace gpulens
