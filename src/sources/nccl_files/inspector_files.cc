#include "sources/nccl_files/inspector_files.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <utility>

#include "base/files.h"
#include "base/parse.h"
#include "base/result.h"
#include "base/text.h"

namespace gpulens::nccl_files {
namespace {

constexpr size_t kCompared = 256;
constexpr size_t kPiece = 256 << 10;  // of one read
// A page that was not written for so long is whole.
constexpr Duration kAtRest = std::chrono::seconds(1);
constexpr std::string_view kPageStart = "nccl_inspector_metrics_", kPageEnd = ".prom";
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

int64_t ModifiedNs(const struct stat& info) {
  return int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + int64_t{info.st_mtim.tv_nsec};
}

// The UUID in the name of a page; empty: it is none of Inspector's.
std::string_view UuidOfPage(std::string_view name) {
  if (!name.starts_with(kPageStart) || !name.ends_with(kPageEnd)) return {};
  name.remove_prefix(kPageStart.size());
  return name.size() > kPageEnd.size() ? name.substr(0, name.size() - kPageEnd.size()) : std::string_view();
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
  std::optional<InspectorRecord> marker;
};

struct InspectorFiles::PageFile {
  std::string path, gpu_uuid;
  // Of the last Poll.
  ino_t inode = 0;
  off_t size = 0;
  int64_t modified_ns = 0;
  Instant seen;
  bool changed = true;     // since the Poll before
  bool settled = false;    // it was read in this state, or need not be
  bool rewritten = false;  // since it was found
  bool shown = false;      // its values are in force
  Instant written;         // what was read last
  Duration interval{};     // between that and what was read before
};

Result<std::vector<std::string>> FilesOfPlace(const std::string& place, size_t most) {
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
    const bool has_lines = name.ends_with(".log") || name.ends_with(".json") || name.ends_with(".jsonl");
    const bool wanted = is_pattern ? MatchesStars(pattern, name) : has_lines || !UuidOfPage(name).empty();
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
  if (path.ends_with(kPageEnd)) {
    if (const std::string_view uuid = UuidOfPage(LastPart(path)); !uuid.empty())
      FollowPage(path, uuid, info, now);
    return Ok();
  }
  counts_.newest_unix_ns = std::max(counts_.newest_unix_ns, ModifiedNs(info));
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

void InspectorFiles::FollowPage(const std::string& path, std::string_view gpu_uuid, const struct stat& info,
                                Instant now) {
  counts_.newest_unix_ns = std::max(counts_.newest_unix_ns, ModifiedNs(info));
  auto file = std::ranges::find(pages_, path, &PageFile::path);
  if (file == pages_.end()) {
    if (pages_.size() >= options_.files) {
      ++counts_.not_followed;
      return;
    }
    file = pages_.emplace(file);
    file->path = path;
    file->gpu_uuid = gpu_uuid;
    const Duration age(std::max<int64_t>(now.unix_ns - ModifiedNs(info), 0));
    file->written = now + -age;
    file->changed = age < kAtRest;
    // Of a process that was killed: others remove their files.
    file->settled = age > kPageHold;
  } else if (file->seen == now) {
    return;  // of two places
  } else {
    file->changed =
        file->inode != info.st_ino || file->size != info.st_size || file->modified_ns != ModifiedNs(info);
    if (file->changed) {
      file->settled = false;
      file->rewritten = true;
    }
  }
  file->inode = info.st_ino;
  file->size = info.st_size;
  file->modified_ns = ModifiedNs(info);
  file->seen = now;
}

Status InspectorFiles::Find(Instant now) {
  counts_.not_followed = 0;
  Status worst;
  for (const std::string& place : options_.places) {
    auto found = FilesOfPlace(place, 4 * options_.files);
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

void InspectorFiles::TakeLines(File& file, std::string_view bytes, const TakeRecord& take) {
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
    auto line = ParseInspectorLine(part, file.marker ? &*file.marker : nullptr);
    if (!line) {
      ++counts_.invalid;
    } else if (line->kind == InspectorLine::Kind::kMarker) {
      counts_.overwritten += line->overwritten;
      file.marker = std::move(line->record);
    } else if (line->kind == InspectorLine::Kind::kOperation) {
      ++counts_.records;
      take(std::move(line->record));
    }
  }
}

void InspectorFiles::ReadFile(File& file, size_t& budget, const TakeRecord& take) {
  struct stat info{};
  if (::fstat(file.fd.get(), &info) != 0) return;
  if (info.st_size < file.offset || WasReplaced(file.fd.get(), file.offset, file.last)) {
    file.offset = 0;
    file.last.clear();
    file.half.clear();
    file.marker.reset();
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

Status InspectorFiles::ReadPage(PageFile& file, Instant now, const TakePage& take) {
  const UniqueFd fd(::open(file.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) return errno == ENOENT ? Ok() : ErrnoStatus("open " + file.path, errno);
  room_.resize(kLongestPage + 1);
  size_t size = 0;
  while (size < room_.size()) {
    const ssize_t got = ::pread(fd.get(), room_.data() + size, room_.size() - size, static_cast<off_t>(size));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus("read " + file.path, errno);
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  struct stat info{};
  // It is being written again: the next Poll sees that.
  if (::fstat(fd.get(), &info) != 0 || info.st_ino != file.inode || info.st_size != file.size ||
      ModifiedNs(info) != file.modified_ns)
    return Ok();
  file.settled = true;
  // Nothing yet: the last values hold.
  if (size == 0) return Ok();
  if (size > kLongestPage) {
    ++counts_.invalid;
    return Ok();
  }
  if (file.shown) file.interval = now - file.written;
  if (file.rewritten) file.written = now;
  file.shown = true;
  take({.path = file.path, .gpu_uuid = file.gpu_uuid, .text = std::string_view(room_).substr(0, size)});
  return Ok();
}

Status InspectorFiles::ReadPages(Instant now, const TakePage& take) {
  Status worst;
  for (PageFile& file : pages_) {
    if (file.seen == now && !file.changed && !file.settled) {
      if (Status status = ReadPage(file, now, take); !status) {
        worst = std::move(status);
        file.settled = true;
      }
    }
    const bool gone = file.seen != now;
    if (!gone && now - file.written <= std::max(kPageHold, 3 * file.interval)) continue;
    if (std::exchange(file.shown, false)) take({.path = file.path, .gpu_uuid = file.gpu_uuid, .text = {}});
  }
  std::erase_if(pages_, [&](const PageFile& file) { return file.seen != now; });
  return worst;
}

Status InspectorFiles::Poll(Instant now, const TakeRecord& take, const TakePage& take_page) {
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
  if (Status pages = ReadPages(now, take_page); !pages && found) found = std::move(pages);
  counts_.files = files_.size() + pages_.size();
  if (!found) return found;
  if (counts_.files == 0) return {Code::kUnavailable, "there is no file of NCCL Inspector yet"};
  return Ok();
}

}  // namespace gpulens::nccl_files
