#include "delivery/queue_folders.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "base/fd.h"
#include "base/files.h"
#include "delivery/lock_holder.h"
#include "delivery/log_folder.h"
#include "delivery/position_file.h"
#include "delivery/segment_file.h"

namespace gpulens {
namespace {

constexpr size_t kMostReadersOfFolder = 64;
constexpr size_t kMostSegments = 1 << 20;

// A reader with its place: all below `from` is done, and `done` as in PositionFile.
struct Precedence {
  size_t reader = 0;
  uint64_t from = 0, done = 0;

  bool Waits(uint64_t id) const noexcept {
    if (id < from) return false;
    return id == from || id - from > 64 || ((done >> (id - from - 1)) & 1) == 0;
  }
  // All from `first` on waits for it.
  bool WholeFrom(uint64_t first) const noexcept { return from <= first && (done == 0 || first > from + 64); }
};

struct Found {
  uint64_t id = 0, file_bytes = 0;
};

class Looker {
 public:
  Looker(const QueueLook& look, int folder, QueueFolder& out) : look_(look), folder_(folder), out_(out) {}

  void Run() {
    if (Status listed = List(); !listed) out_.problems.push_back(listed.detail);
    if (others_ != 0)
      out_.problems.push_back(std::to_string(others_) + (others_ == 1 ? " file does not belong to the queue"
                                                                      : " files do not belong to the queue"));
    std::sort(positions_.begin(), positions_.end());
    std::sort(segments_.begin(), segments_.end(), [](const Found& a, const Found& b) { return a.id < b.id; });
    out_.segments = segments_.size();
    for (const std::string& file : positions_) Read(file);
    // As RequestLog has it: what has no position of its owner belongs to the owner whole.
    if (!has_owner_ && !owner_gone_ && !out_.owner.empty() && !segments_.empty()) {
      precedences_.push_back({out_.readers.size(), 0, 0});
      out_.readers.push_back({out_.owner, IsConfigured(out_.owner)});
    }
    if (!look_.count) precedences_.clear();
    if (look_.leftovers_only)
      std::erase_if(precedences_, [&](const Precedence& one) { return out_.readers[one.reader].configured; });
    Count();
    std::sort(out_.readers.begin(), out_.readers.end(),
              [](const QueueReader& a, const QueueReader& b) { return a.sink < b.sink; });
  }

 private:
  bool IsConfigured(const std::string& sink) const {
    return std::find(look_.configured.begin(), look_.configured.end(), sink) != look_.configured.end();
  }

  Status List() {
    bool too_many = false;
    Status listed = ForEachName(folder_, [&](std::string_view name) {
      if (name == kLockName) return true;
      if (name == kOwnerGoneName) {
        owner_gone_ = true;
        return true;
      }
      if (const auto id = IdOfSegmentName(name); id && *id < kMaxRecordId) {
        struct stat info{};
        if (::fstatat(folder_, std::string(name).c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return true;
        segments_.push_back({*id, S_ISREG(info.st_mode) ? static_cast<uint64_t>(info.st_size) : 0});
        out_.file_bytes += segments_.back().file_bytes;
        too_many = segments_.size() == kMostSegments;
        return !too_many;
      }
      const std::string_view position = kPositionName;
      const bool ours = name == position ||
                        (name.starts_with(position) && name[position.size()] == '.' &&
                         IsSinkFile(name.substr(position.size() + 1)) && name.find(".unknown") == name.npos);
      if (ours && positions_.size() < kMostReadersOfFolder) positions_.emplace_back(name);
      else ++others_;
      return true;
    });
    if (too_many) return {Code::kExhausted, "there are too many segments to read all of them"};
    return listed;
  }

  void Read(const std::string& file) {
    has_owner_ |= file == kPositionName;
    const std::string sink = ReaderOfPosition(file, out_.owner);
    auto position = PositionFile::OpenToRead(folder_, file);
    if (!position && position.error().code == Code::kUnavailable && !Is(file)) return;  // removed meanwhile
    if (sink.empty()) {
      out_.problems.push_back("the owner of the file `position` is unknown");
      return;
    }
    out_.readers.push_back({sink, IsConfigured(sink)});
    const size_t reader = out_.readers.size() - 1;
    if (!position) {
      out_.problems.push_back(position.error().detail);
      return;
    }
    if (position->foreign()) {
      out_.problems.push_back(file + " is damaged: all records count as waiting for " + sink);
      precedences_.push_back({reader, 0, 0});
    } else if (position->last() || file == kPositionName) {
      // An empty file of another than the owner says that it begins at the end.
      precedences_.push_back({reader, position->last().value_or(0), position->done()});
    }
  }

  bool Is(const std::string& file) const noexcept {
    struct stat info{};
    return ::fstatat(folder_, file.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0;
  }

  void Count() {
    size_t damaged = 0;
    for (size_t i = 0; i < segments_.size(); ++i) {
      const uint64_t limit = i + 1 < segments_.size() ? segments_[i + 1].id : kMaxRecordId;
      const bool wanted = std::any_of(precedences_.begin(), precedences_.end(),
                                      [&](const Precedence& one) { return one.from < limit; });
      if (wanted) damaged += CountSegment(segments_[i], limit);
    }
    if (damaged != 0)
      out_.problems.push_back(std::to_string(damaged) +
                              (damaged == 1 ? " segment is damaged" : " segments are damaged"));
  }

  // True: a part of it cannot be read.
  bool CountSegment(const Found& segment, uint64_t limit) {
    QueueCounts::Segment local;
    QueueCounts::Segment* known = &local;
    if (look_.counts) {
      known = &look_.counts->segments[{out_.path, segment.id}];
      known->look = look_.counts->look;
    }
    const bool fresh = known->file_bytes == 0 || known->file_bytes != segment.file_bytes;
    const bool whole = std::all_of(precedences_.begin(), precedences_.end(), [&](const Precedence& one) {
      return one.from >= limit || one.WholeFrom(segment.id);
    });
    if (fresh || !whole) {
      *known = {segment.file_bytes, 0, 0, 0, false, known->look};
      Scan(segment, limit, *known);
    }
    if (!whole) return known->damaged;
    for (const Precedence& one : precedences_) {
      if (one.from < limit) Add(one, known->records, known->bytes, known->first_unix_ns);
    }
    return known->damaged;
  }

  // Fills `all`, and adds record by record for readers that stand inside the segment.
  void Scan(const Found& segment, uint64_t limit, QueueCounts::Segment& all) {
    auto file = SegmentReader::Open(folder_, NameOfSegment(segment.id).data());
    if (!file) {
      if (!Is(NameOfSegment(segment.id).data())) return;  // delivered and removed meanwhile
      all.damaged = true;
      if (refused_++ == 0) out_.problems.push_back(file.error().detail);
      return;
    }
    const SegmentVerdict verdict = file->ReadHeader(limit);
    if (verdict != SegmentVerdict::kGood) {
      all.damaged = verdict != SegmentVerdict::kTorn;
      return;
    }
    const bool whole = std::all_of(precedences_.begin(), precedences_.end(), [&](const Precedence& one) {
      return one.from >= limit || one.WholeFrom(segment.id);
    });
    while (const auto record = file->Next()) {
      if (all.records++ == 0) all.first_unix_ns = record->head.unix_ns;
      all.bytes += record->head.size();
      if (whole) continue;
      for (const Precedence& one : precedences_) {
        if (one.Waits(record->head.id)) Add(one, 1, record->head.size(), record->head.unix_ns);
      }
    }
    all.damaged = file->tail() == SegmentReader::Tail::kDamaged;
  }

  void Add(const Precedence& one, uint64_t records, uint64_t bytes, int64_t unix_ns) {
    if (records == 0) return;
    QueueReader& reader = out_.readers[one.reader];
    if (reader.records == 0) reader.oldest_unix_ns = unix_ns;
    reader.records += records;
    reader.bytes += bytes;
  }

  const QueueLook& look_;
  const int folder_;
  QueueFolder& out_;
  std::vector<std::string> positions_;
  std::vector<Found> segments_;
  std::vector<Precedence> precedences_;
  size_t others_ = 0, refused_ = 0;
  bool has_owner_ = false, owner_gone_ = false;
};

}  // namespace

void QueueCounts::Sweep() {
  std::erase_if(segments, [this](const auto& one) { return one.second.look != look; });
}

QueueFolder LookAtQueue(const QueuePlace& place, const QueueLook& look) {
  QueueFolder out;
  out.path = place.folder;
  out.owner = place.owner;
  struct stat info{};
  const int flags = place.follow ? 0 : AT_SYMLINK_NOFOLLOW;
  if (::fstatat(AT_FDCWD, place.folder.c_str(), &info, flags) != 0) {
    if (errno != ENOENT) out.problems.push_back(ErrnoStatus("stat", errno).detail);
    return out;
  }
  if (!S_ISDIR(info.st_mode)) {
    out.problems.push_back(S_ISLNK(info.st_mode) ? "it is a symbolic link, which is not followed"
                                                 : "it is not a folder");
    return out;
  }
  const UniqueFd folder(
      ::open(place.folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | (place.follow ? 0 : O_NOFOLLOW)));
  if (!folder) {
    out.problems.push_back(ErrnoStatus("open", errno).detail);
    return out;
  }
  Looker(look, folder.get(), out).Run();
  const auto holder = look.query_use ? LockHolder(folder.get()) : std::nullopt;
  out.in_use = holder.has_value();
  out.holder = holder.value_or(0);
  return out;
}

}  // namespace gpulens
