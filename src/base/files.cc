#include "base/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
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

Status ReadUnlockedFile(const std::string& path, std::string& out, size_t limit) {
  const UniqueFd lock(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  if (!lock) return ErrnoStatus("open " + path, errno);
  if (::flock(lock.get(), LOCK_SH | LOCK_NB) != 0) return {Code::kTimeout, path + " is being written"};
  return ReadFile(path.c_str(), out, limit);
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

// ".gpulens-0123456789abcdef.new" in the folder of `path`.
Result<std::string> TemporaryFor(const std::string& path) {
  uint64_t random = 0;
  if (::getentropy(&random, sizeof random) != 0) return ErrnoStatus("getentropy", errno);
  char name[40];
  std::snprintf(name, sizeof name, ".gpulens-%016llx.new", static_cast<unsigned long long>(random));
  return path.substr(0, path.rfind('/') + 1) + name;
}

Status SyncFolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  // A folder may be writable without being readable.
  UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd || ::fsync(fd.get()) == 0 || errno == EINVAL || errno == EROFS) return Ok();
  return ErrnoStatus("fsync " + folder, errno);
}

}  // namespace

Status WriteFileAtomically(const std::string& path, std::string_view bytes, const WriteOptions& options) {
  ASSIGN_OR_RETURN(const std::string temporary, TemporaryFor(path));
  UniqueFd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, options.mode));
  if (!fd) return ErrnoStatus("open " + temporary, errno);
  Status written = WriteAll(fd.get(), bytes, temporary);
  struct stat old{};
  if (written && ::lstat(path.c_str(), &old) == 0 && S_ISREG(old.st_mode) &&
      ::fchmod(fd.get(), old.st_mode & 0777) != 0)
    written = ErrnoStatus("chmod " + temporary, errno);
  if (written && options.sync && ::fsync(fd.get()) != 0 && errno != EINVAL)
    written = ErrnoStatus("fsync " + temporary, errno);
  if (written && ::rename(temporary.c_str(), path.c_str()) != 0)
    written = ErrnoStatus("rename " + temporary + " to " + path, errno);
  if (!written) {
    ::unlink(temporary.c_str());
    return written;
  }
  return options.sync ? SyncFolderOf(path) : Ok();
}

Status MakeFoldersAbove(const std::string& path) {
  for (size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    std::string folder = path.substr(0, slash);
    if (::mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST) return ErrnoStatus("make " + folder, errno);
  }
  return Ok();
}

Status ForEachName(const std::string& folder, const std::function<bool(std::string_view name)>& visit) {
  std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(folder.c_str()), &::closedir);
  if (!dir) return ErrnoStatus("open " + folder, errno);
  while (const dirent* entry = ::readdir(dir.get())) {
    std::string_view name = entry->d_name;
    if (name != "." && name != ".." && !visit(name)) break;
  }
  return Ok();
}

namespace {

// A folder that a variable of the environment names, or "".
std::string FolderOf(const char* variable) {
  const char* value = std::getenv(variable);
  return value && *value == '/' ? value : "";
}

std::string UserSocket(std::string_view name) {
  const std::string folder = FolderOf("XDG_RUNTIME_DIR");
  return folder.empty() ? "" : folder + "/gpulens/" + std::string(name);
}

}  // namespace

std::string OwnAgentSocket(std::string_view name) {
  if (::geteuid() == 0) return "/run/gpulens/" + std::string(name);
  // The folder of a service is /run/gpulens, too.
  const std::string service = FolderOf("RUNTIME_DIRECTORY");
  return service.empty() ? UserSocket(name) : service + '/' + std::string(name);
}

std::string FindAgentSocket(std::string_view name) {
  const std::string machine = "/run/gpulens/" + std::string(name), user = UserSocket(name);
  const bool only_user =
      !user.empty() && ::access(machine.c_str(), F_OK) != 0 && ::access(user.c_str(), F_OK) == 0;
  return only_user ? user : machine;
}

}  // namespace gpulens
