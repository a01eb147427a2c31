#include "sdk/experiment/artifact_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "base/fd.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/parse.h"
#include "base/result.h"

namespace gpulens::experiments {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPiece = 1 << 20;
constexpr int kMostDepth = 32;

// Whether a relative path stays below its folder.
bool IsInside(std::string_view name) {
  if (!IsKey(name)) return false;
  while (!name.empty()) {
    std::string_view part = TakeUntil(name, '/');
    if (part.empty() || part == "." || part == "..") return false;
  }
  return true;
}

Status WriteAll(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return ErrnoStatus("write " + path, errno);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return Ok();
}

// Reads `row.path` once: sets its size and hash, and copies it to `copy` unless that is empty.
Status ReadThrough(ArtifactRow& row, const std::string& copy) {
  UniqueFd from(::open(row.path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!from) return ErrnoStatus("open " + row.path, errno);
  const std::string part = copy + ".part";
  UniqueFd to;
  if (!copy.empty()) {
    RETURN_IF_ERROR(MakeFoldersAbove(copy));
    to.reset(::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0640));
    if (!to) return ErrnoStatus("open " + part, errno);
  }
  Sha256 hash;
  std::string piece(kPiece, '\0');
  row.bytes = 0;
  Status status;
  while (status) {
    ssize_t got = ::read(from.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) status = ErrnoStatus("read " + row.path, errno);
    if (got <= 0) break;
    std::string_view bytes(piece.data(), static_cast<size_t>(got));
    hash.Add(bytes);
    row.bytes += got;
    if (to) status = WriteAll(to.get(), bytes, part);
  }
  if (to && status && std::rename(part.c_str(), copy.c_str()) != 0)
    status = ErrnoStatus("rename " + part, errno);
  if (to && !status) ::unlink(part.c_str());
  if (status) row.sha256 = hash.Finish();
  return status;
}

class ArtifactCopier {
 public:
  ArtifactCopier(const std::string& artifacts, int64_t unix_ns, const ArtifactLimits& limits)
      : artifacts_(artifacts), unix_ns_(unix_ns), limits_(limits) {}

  Status Keep(const std::string& path, const std::string& name, int depth) {
    struct stat info{};
    // Links within a folder are not followed: they may form cycles or lead out of it.
    if ((depth == 0 ? ::stat(path.c_str(), &info) : ::lstat(path.c_str(), &info)) != 0)
      return ErrnoStatus("open " + path, errno);
    if (S_ISDIR(info.st_mode)) return KeepFolder(path, name, depth);
    if (!S_ISREG(info.st_mode))
      return depth == 0 ? Status{Code::kInvalidArgument, path + " is not a file"} : Ok();
    if (rows_.size() == limits_.most_files)
      return {Code::kExhausted, "more than " + std::to_string(limits_.most_files) + " files"};
    ArtifactRow row;
    row.name = name, row.path = path, row.bytes = info.st_size, row.unix_ns = unix_ns_;
    row.copied = info.st_size <= limits_.most_copied;
    const std::string copy = row.copied ? artifacts_ + "/" + name : "";
    if (info.st_size <= std::max(limits_.most_copied, limits_.most_hashed))
      RETURN_IF_ERROR(ReadThrough(row, copy));
    if (row.copied) row.path = copy;
    rows_.push_back(std::move(row));
    return Ok();
  }
  std::vector<ArtifactRow> Take() { return std::move(rows_); }

 private:
  Status KeepFolder(const std::string& path, const std::string& name, int depth) {
    if (depth == kMostDepth) return {Code::kExhausted, path + " is too deep"};
    std::vector<std::string> names;
    std::error_code error;
    for (fs::directory_iterator entry(path, error); !error && entry != fs::directory_iterator();
         entry.increment(error))
      names.push_back(entry->path().filename());
    if (error) return ErrnoStatus("open " + path, error.value());
    std::ranges::sort(names);
    for (const std::string& each : names) {
      if (!IsInside(name + "/" + each))
        return {Code::kInvalidArgument, path + "/" + each + ": not a valid artifact name"};
      RETURN_IF_ERROR(Keep(path + "/" + each, name + "/" + each, depth + 1));
    }
    return Ok();
  }

  const std::string& artifacts_;
  const int64_t unix_ns_;
  const ArtifactLimits& limits_;
  std::vector<ArtifactRow> rows_;
};

}  // namespace

Result<std::vector<ArtifactRow>> KeepArtifact(const std::string& path, std::string name,
                                              const std::string& artifacts, int64_t unix_ns,
                                              const ArtifactLimits& limits) {
  std::error_code error;
  const std::string absolute = fs::canonical(path, error);
  if (error) return ErrnoStatus("open " + path, error.value());
  if (name.empty()) name = absolute.substr(absolute.rfind('/') + 1);
  if (!IsInside(name))
    return Status{Code::kInvalidArgument,
                  "\"" + name + "\" is not a valid artifact name: a path below the run's own"};
  ArtifactCopier copier(artifacts, unix_ns, limits);
  RETURN_IF_ERROR(copier.Keep(absolute, name, 0));
  return copier.Take();
}

}  // namespace gpulens::experiments
