#include "sources/host/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/files.h"
#include "base/result.h"
#include "sources/host/parse/scan.h"

namespace gpulens {
namespace {

constexpr size_t kFirstBuffer = 32 << 10;  // All files of a machine with some dozen CPUs fit.
constexpr size_t kMaxFile = 4 << 20;
constexpr int kTooLong = EFBIG;

// A process that ended answers ESRCH, an interface that is down EINVAL; neither is an error of ours.
Status FileError(std::string_view doing, std::string_view path, int error) {
  Status status = ErrnoStatus(std::string(doing) + " " + std::string(path), error);
  if (error == ESRCH || error == EINVAL) status.code = Code::kUnavailable;
  if (error == kTooLong) status.code = Code::kExhausted;
  return status;
}

// What getdents64 writes. glibc's readdir would allocate a stream for each listing.
struct RawEntry {
  uint64_t inode;
  int64_t offset;
  uint16_t size;
  uint8_t type;
  char name[1];
};
constexpr size_t kNameOffset = 19;

}  // namespace

HostFiles::HostFiles(std::string root, UniqueFd root_fd)
    : root_(std::move(root)), root_fd_(std::move(root_fd)), buffer_(kFirstBuffer, '\0') {
  // A unit of systemd sees every file system read-only, by mounts of its own; systemd sees the machine's.
  if (root_.empty() && !Exists("run/systemd/system")) return;
  if (Exists("proc/1/mountinfo")) mountinfo_ = "proc/1/mountinfo";
  if (root_.empty()) return;
  if (Exists("proc/1/net/dev")) net_ = "proc/1/net";
}

Result<HostFiles> HostFiles::Open(std::string root) {
  while (root.ends_with('/')) root.pop_back();
  const char* path = root.empty() ? "/" : root.c_str();
  UniqueFd fd(::open(path, O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return FileError("open", path, errno);
  return HostFiles(std::move(root), std::move(fd));
}

const char* HostFiles::Path(std::initializer_list<std::string_view> parts) {
  path_.clear();
  for (std::string_view part : parts) path_.append(part);
  return path_.c_str();
}

int HostFiles::ReadAll(int fd, std::string_view& text) {
  size_t size = 0;
  while (true) {
    if (size == buffer_.size()) {
      if (size >= kMaxFile) return kTooLong;
      buffer_.resize(size * 2);
    }
    ssize_t count = ::pread(fd, buffer_.data() + size, buffer_.size() - size, static_cast<off_t>(size));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    if (count == 0) break;
    size += static_cast<size_t>(count);
  }
  text = std::string_view(buffer_).substr(0, size);
  return 0;
}

int HostFiles::ReadPath(const char* path, std::string_view& text) {
  // Non-blocking: a pipe where a file should be must not stop us.
  UniqueFd fd(::openat(root_fd_.get(), path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  return fd ? ReadAll(fd.get(), text) : errno;
}

Status HostFiles::Read(const char* path, std::string_view& text) {
  int error = ReadPath(path, text);
  return error == 0 ? Ok() : FileError("read", path, error);
}

int HostFiles::ReadKept(KeptFile& file, std::string_view& text) {
  if (file.fd && ReadAll(file.fd.get(), text) == 0) return 0;
  file.fd.reset(::openat(root_fd_.get(), file.path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  int error = file.fd ? ReadAll(file.fd.get(), text) : errno;
  if (error != 0) file.fd.reset();
  return error;
}

Status HostFiles::Read(KeptFile& file, std::string_view& text) {
  int error = ReadKept(file, text);
  return error == 0 ? Ok() : FileError("read", file.path, error);
}

Status HostFiles::FindNumber(const char* path, std::optional<uint64_t>& value) {
  value.reset();
  std::string_view text;
  if (ReadPath(path, text) != 0) return Ok();
  uint64_t number = 0;
  RETURN_IF_ERROR(ParseScalar(path, text, number));
  value = number;
  return Ok();
}

std::optional<std::string_view> HostFiles::FindText(const char* path) {
  std::string_view text;
  if (ReadPath(path, text) != 0) return std::nullopt;
  return Trim(text);
}

bool HostFiles::Exists(const char* path) const noexcept {
  return ::faccessat(root_fd_.get(), path, F_OK, 0) == 0;
}

std::optional<std::string_view> HostFiles::FindLinkName(const char* path) {
  ssize_t size = ::readlinkat(root_fd_.get(), path, buffer_.data(), buffer_.size());
  if (size <= 0) return std::nullopt;
  auto target = std::string_view(buffer_).substr(0, static_cast<size_t>(size));
  return target.substr(target.rfind('/') + 1);
}

template <class Visit>
Status HostFiles::ForEachName(const char* path, Visit visit) {
  UniqueFd fd(::openat(root_fd_.get(), path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return FileError("open", path, errno);
  while (true) {
    long count = ::syscall(SYS_getdents64, fd.get(), buffer_.data(), buffer_.size());
    if (count < 0) return FileError("list", path, errno);
    if (count == 0) return Ok();
    for (size_t at = 0; at < static_cast<size_t>(count);) {
      RawEntry entry;
      std::memcpy(&entry, buffer_.data() + at, kNameOffset);
      std::string_view name(buffer_.data() + at + kNameOffset);
      at += entry.size;
      if (name != "." && name != "..") RETURN_IF_ERROR(visit(name));
    }
  }
}

Status HostFiles::List(const char* path, std::string_view prefix, NameList& out, size_t limit) {
  out.bytes_.clear();
  out.spans_.clear();
  RETURN_IF_ERROR(ForEachName(path, [&](std::string_view name) -> Status {
    if (!name.starts_with(prefix)) return Ok();
    if (out.spans_.size() == limit) return TooMany(path, "names", limit);
    out.spans_.push_back({static_cast<uint32_t>(out.bytes_.size()), static_cast<uint32_t>(name.size())});
    out.bytes_.append(name);
    return Ok();
  }));
  std::string_view bytes = out.bytes_;
  // Short names first: node2 before node10.
  std::sort(out.spans_.begin(), out.spans_.end(), [bytes](NameList::Span a, NameList::Span b) {
    std::string_view left = bytes.substr(a.begin, a.size), right = bytes.substr(b.begin, b.size);
    return left.size() != right.size() ? left.size() < right.size() : left < right;
  });
  return Ok();
}

Status HostFiles::Count(const char* path, uint64_t& count, size_t limit) {
  count = 0;
  return ForEachName(
      path, [&](std::string_view) { return count++ < limit ? Ok() : TooMany(path, "names", limit); });
}

void HostFiles::Shrink() {
  if (buffer_.size() <= kFirstBuffer) return;
  buffer_.resize(kFirstBuffer);
  buffer_.shrink_to_fit();
}

}  // namespace gpulens
