#include "sources/nccl_files/inspector_files.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/files.h"
#include "base/parse.h"
#include "base/result.h"
#include "base/text.h"

namespace gpulens::nccl_files {
namespace {

constexpr size_t kCompared = 256;
constexpr size_t kPiece = 256 << 10;  // of one read
// A file that is no longer in its place is kept so long for late bytes of its process.
constexpr Duration kKeptAfterMove = std::chrono::seconds(30);

std::string_view LastPart(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

// Whether the bytes before `offset` are others than were read there: the file was cut and has grown since.
bool WasReplaced(int fd, off_t offset, const std::string& last) {
  if (last.empty()) return false;
  std::array<char, kCompared> now{};
  const ssize_t got = ::pread(fd, now.data(), last.size(), offset - static_cast<off_t>(last.size()));
  return got >= 0 && std::string_view(now.data(), static_cast<size_t>(got)) != last;
}

}  // namespace

struct InspectorFiles::File {
  UniqueFd fd;
  dev_t device = 0;
  ino_t inode = 0;
  off_t offset = 0;
  bool skips = false;  // up to the end of a line that is too long, or was begun before
  std::string half;    // a line without its end
  std::string last;    // bytes before `offset`
  Instant seen;        // in its place
};

Result<std::vector<std::string>> FilesOfPlace(const std::string& place,
                                              std::initializer_list<std::string_view> ends, size_t most) {
  struct stat info{};
  const std::string_view pattern = LastPart(place);
  const bool is_pattern = pattern.find('*') != std::string_view::npos;
  if (!is_pattern) {
    if (::stat(place.c_str(), &info) != 0) return ErrnoStatus("open " + place, errno);
    if (!S_ISDIR(info.st_mode)) return std::vector<std::string>{place};
  }
  const std::string folder = is_pattern ? place.substr(0, place.size() - pattern.size()) : place + "/";
  std::vector<std::string> found;
  RETURN_IF_ERROR(ForEachName(folder.empty() ? "." : folder, [&](std::string_view name) {
    const bool wanted = is_pattern ? MatchesStars(pattern, name)
                                   : std::ranges::any_of(ends, [&](auto end) { return name.ends_with(end); });
    if (wanted) found.push_back(folder + std::string(name));
    return found.size() < most;
  }));
  std::ranges::sort(found);
  return found;
}

InspectorFiles::InspectorFiles(Options options) : options_(std::move(options)) {}
InspectorFiles::~InspectorFiles() = default;

Status InspectorFiles::Follow(const std::string& path, Instant now) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return errno == ENOENT ? Ok() : ErrnoStatus("open " + path, errno);
  if (!S_ISREG(info.st_mode)) return Ok();
  counts_.newest_unix_ns = std::max(
      counts_.newest_unix_ns, int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + int64_t{info.st_mtim.tv_nsec});
  for (const auto& file : files_) {
    if (file->device != info.st_dev || file->inode != info.st_ino) continue;
    file->seen = now;
    return Ok();
  }
  if (files_.size() >= options_.files) {
    ++counts_.not_followed;
    return Ok();
  }
  auto file = std::make_unique<File>();
  file->fd.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file->fd) return errno == ENOENT ? Ok() : ErrnoStatus("open " + path, errno);
  // It may have been replaced since.
  if (::fstat(file->fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) return Ok();
  file->device = info.st_dev;
  file->inode = info.st_ino;
  file->seen = now;
  if (!polled_ && !options_.from_start && info.st_size > 0) {
    // From the last byte on: unless that ends a line, the rest of one is skipped.
    file->offset = info.st_size - 1;
    file->skips = true;
  }
  files_.push_back(std::move(file));
  return Ok();
}

Status InspectorFiles::Find(Instant now) {
  counts_.not_followed = 0;
  Status worst;
  for (const std::string& place : options_.places) {
    auto found = FilesOfPlace(place, {".log", ".json", ".jsonl"}, 4 * options_.files);
    if (!found) {
      if (worst.ok() || found.error().code == Code::kPermissionDenied) worst = found.error();
      continue;
    }
    for (const std::string& path : *found) {
      if (Status status = Follow(path, now); !status) worst = std::move(status);
    }
  }
  polled_ = true;
  return worst;
}

void InspectorFiles::TakeLines(File& file, std::string_view bytes,
                               const std::function<void(InspectorRecord&&)>& take) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    std::string_view part = bytes.substr(0, end);
    bytes.remove_prefix(end == std::string_view::npos ? bytes.size() : end + 1);
    if (!file.skips && file.half.size() + part.size() > kLongestLine) {
      file.half.clear();
      file.skips = true;
      ++counts_.invalid;
    }
    if (end == std::string_view::npos) {
      if (!file.skips) file.half += part;
      return;
    }
    if (std::exchange(file.skips, false)) continue;
    std::string whole = std::exchange(file.half, {});
    if (!whole.empty()) part = whole += part;
    if (Trim(part).empty()) continue;
    auto record = ParseInspectorLine(part);
    if (!record) {
      ++counts_.invalid;
      continue;
    }
    ++counts_.records;
    take(*std::move(record));
  }
}

void InspectorFiles::ReadFile(File& file, size_t& budget,
                              const std::function<void(InspectorRecord&&)>& take) {
  struct stat info{};
  if (::fstat(file.fd.get(), &info) != 0) return;
  if (info.st_size < file.offset || WasReplaced(file.fd.get(), file.offset, file.last)) {
    file.offset = 0;
    file.last.clear();
    file.half.clear();
    file.skips = false;
    ++counts_.cut;
  }
  room_.resize(kPiece);
  while (budget > 0 && file.offset < info.st_size) {
    const ssize_t got = ::pread(file.fd.get(), room_.data(), std::min(budget, room_.size()), file.offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return;
    const auto size = static_cast<size_t>(got);
    file.offset += got;
    budget -= size;
    const std::string_view bytes = std::string_view(room_).substr(0, size);
    file.last = bytes.substr(size - std::min(size, kCompared));
    TakeLines(file, bytes, take);
  }
  counts_.waiting += static_cast<uint64_t>(std::max<off_t>(info.st_size - file.offset, 0));
}

Status InspectorFiles::Poll(Instant now, const std::function<void(InspectorRecord&&)>& take) {
  Status found = Find(now);
  counts_.waiting = 0;
  size_t budget = options_.bytes_a_poll;
  if (next_ >= files_.size()) next_ = 0;
  for (size_t i = 0; i < files_.size(); ++i) ReadFile(*files_[(next_ + i) % files_.size()], budget, take);
  ++next_;
  std::erase_if(files_, [&](const std::unique_ptr<File>& file) {
    struct stat info{};
    if (file->seen == now || ::fstat(file->fd.get(), &info) != 0) return false;
    return file->offset >= info.st_size && (info.st_nlink == 0 || now - file->seen > kKeptAfterMove);
  });
  counts_.files = files_.size();
  if (!found) return found;
  if (files_.empty()) return {Code::kUnavailable, "there is no file of NCCL Inspector yet"};
  return Ok();
}

}  // namespace gpulens::nccl_files
