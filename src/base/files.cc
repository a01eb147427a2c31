#include "base/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "base/fd.h"
#include "base/result.h"

namespace gpulens {

Code CodeOfErrno(int error) noexcept {
  switch (error) {
    case 0: return Code::kOk;
    case ENOENT:
    case ENODEV:
    case ENXIO:
    case ENOTDIR:
    case EOPNOTSUPP:
    case ENOSYS: return Code::kUnavailable;
    case EACCES:
    case EPERM: return Code::kPermissionDenied;
    case EINVAL: return Code::kInvalidArgument;
    case ETIMEDOUT: return Code::kTimeout;
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case ENOMEM: return Code::kExhausted;
    default: return Code::kIo;
  }
}

Status ErrnoStatus(std::string_view what, int error) {
  std::string words = std::generic_category().message(error);
  if (!words.empty() && words[0] >= 'A' && words[0] <= 'Z') words[0] = static_cast<char>(words[0] + 32);
  return {CodeOfErrno(error), std::string(what) + ": " + words};
}

Status ReadFile(const char* path, std::string& out, size_t limit) {
  out.clear();
  UniqueFd fd(::open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY));
  if (!fd) return ErrnoStatus(std::string("open ") + path, errno);
  constexpr size_t kStep = 4096;
  size_t size = 0;
  while (true) {
    if (out.size() < size + kStep) out.resize(size + kStep > out.capacity() ? size + kStep : out.capacity());
    ssize_t count = ::read(fd.get(), out.data() + size, out.size() - size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      out.clear();
      return ErrnoStatus(std::string("read ") + path, errno);
    }
    size += static_cast<size_t>(count);
    if (size > limit) {
      out.clear();
      return {Code::kExhausted, std::string(path) + " is longer than " + std::to_string(limit) + " bytes"};
    }
    if (count == 0) break;
  }
  out.resize(size);
  return Ok();
}

Result<std::string> ReadFile(const std::string& path, size_t limit) {
  std::string out;
  RETURN_IF_ERROR(ReadFile(path.c_str(), out, limit));
  return out;
}

namespace {

Status WriteAll(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    ssize_t count = ::write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrnoStatus("write " + path, errno);
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return Ok();
}

}  // namespace

Status WriteFileAtomically(const std::string& path, std::string_view bytes) {
  std::string temporary = path + ".new";
  UniqueFd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd) return ErrnoStatus("open " + temporary, errno);
  Status written = WriteAll(fd.get(), bytes, temporary);
  if (written && ::rename(temporary.c_str(), path.c_str()) != 0) {
    written = ErrnoStatus("rename " + temporary, errno);
  }
  if (!written) ::unlink(temporary.c_str());
  return written;
}

Status MakeFoldersAbove(const std::string& path) {
  for (size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    std::string folder = path.substr(0, slash);
    if (::mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST) return ErrnoStatus("make " + folder, errno);
  }
  return Ok();
}

}  // namespace gpulens
