#include "delivery/queue_folders.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/fd.h"
#include "base/files.h"
#include "base/parse.h"
#include "base/result.h"
#include "delivery/log_folder.h"
#include "delivery/request_log.h"
#include "delivery/segment_file.h"

namespace gpulens {
namespace {

constexpr size_t kMostReadersOfFolder = 64;
constexpr size_t kMostSegments = 1 << 20;

// A reader with its position: all records below `from` are done; `done` as in PositionFile.
struct ReaderPosition {
  size_t reader = 0;
  uint64_t from = 0, done = 0;

  bool Waits(uint64_t id) const noexcept {
    if (id < from) return false;
    return id == from || id - from > 64 || ((done >> (id - from - 1)) & 1) == 0;
  }
  // Whether all records from `first` on wait for it.
  bool WholeFrom(uint64_t first) const noexcept { return from <= first && (done == 0 || first > from + 64); }
};

struct SegmentEntry {
  uint64_t id = 0, file_bytes = 0;
};

class QueueScanner {
 public:
  QueueScanner(const QueueScanOptions& options, int folder, QueueFolder& out)
      : options_(options), folder_(folder), out_(out) {}

  void Run() {
    if (Status listed = List(); !listed) out_.problems.push_back(listed.detail);
    if (others_ != 0)
      out_.problems.push_back(std::to_string(others_) + (others_ == 1 ? " file does not belong to the queue"
                                                                      : " files do not belong to the queue"));
    std::ranges::sort(positions_);
    std::ranges::sort(segments_, {}, &SegmentEntry::id);
    out_.segments = segments_.size();
    for (const std::string& file : positions_) Read(file);
    // As in RequestLog: without a position of the owner, all records wait for the owner.
    if (!has_owner_ && !owner_gone_ && !out_.owner.empty() && !segments_.empty()) {
      readers_at_.push_back({out_.readers.size(), 0, 0});
      out_.readers.push_back({out_.owner, IsConfigured(out_.owner)});
    }
    if (!options_.count) readers_at_.clear();
    if (options_.leftovers_only)
      std::erase_if(readers_at_,
                    [&](const ReaderPosition& one) { return out_.readers[one.reader].configured; });
    Count();
    std::ranges::sort(out_.readers, {}, &QueueReader::sink);
  }

 private:
  bool IsConfigured(const std::string& sink) const {
    return std::ranges::find(options_.configured, sink) != options_.configured.end();
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
      readers_at_.push_back({reader, 0, 0});
    } else if (position->last() || file == kPositionName) {
      // An empty file of a reader other than the owner is a position at the end.
      readers_at_.push_back({reader, position->last().value_or(0), position->done()});
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
      const bool wanted =
          std::ranges::any_of(readers_at_, [&](const ReaderPosition& one) { return one.from < limit; });
      if (wanted) damaged += CountSegment(segments_[i], limit);
    }
    if (damaged != 0)
      out_.problems.push_back(std::to_string(damaged) +
                              (damaged == 1 ? " segment is damaged" : " segments are damaged"));
  }

  // Returns whether a part of the segment cannot be read.
  bool CountSegment(const SegmentEntry& segment, uint64_t limit) {
    QueueCounts::Segment local;
    QueueCounts::Segment* known = &local;
    if (options_.counts) {
      known = &options_.counts->segments[{out_.path, segment.id}];
      known->scan = options_.counts->scan;
    }
    const bool fresh = known->file_bytes == 0 || known->file_bytes != segment.file_bytes;
    const bool whole = std::ranges::all_of(readers_at_, [&](const ReaderPosition& one) {
      return one.from >= limit || one.WholeFrom(segment.id);
    });
    if (fresh || !whole) {
      *known = {segment.file_bytes, 0, 0, 0, false, known->scan};
      Scan(segment, limit, *known);
    }
    if (!whole) return known->damaged;
    for (const ReaderPosition& one : readers_at_) {
      if (one.from < limit) Add(one, known->records, known->bytes, known->first_unix_ns);
    }
    return known->damaged;
  }

  // Fills `all`, and adds record by record for readers whose position is inside the segment.
  void Scan(const SegmentEntry& segment, uint64_t limit, QueueCounts::Segment& all) {
    auto file = SegmentReader::Open(folder_, NameOfSegment(segment.id).data());
    if (!file) {
      if (!Is(NameOfSegment(segment.id).data())) return;  // delivered and removed meanwhile
      all.damaged = true;
      if (refused_++ == 0) out_.problems.push_back(file.error().detail);
      return;
    }
    const SegmentState state = file->ReadHeader(limit);
    if (state != SegmentState::kGood) {
      all.damaged = state != SegmentState::kTorn;
      return;
    }
    const bool whole = std::ranges::all_of(readers_at_, [&](const ReaderPosition& one) {
      return one.from >= limit || one.WholeFrom(segment.id);
    });
    while (const auto record = file->Next()) {
      if (all.records++ == 0) all.first_unix_ns = record->head.unix_ns;
      all.bytes += record->head.size();
      if (whole) continue;
      for (const ReaderPosition& one : readers_at_) {
        if (one.Waits(record->head.id)) Add(one, 1, record->head.size(), record->head.unix_ns);
      }
    }
    all.damaged = file->tail() == SegmentReader::Tail::kDamaged;
  }

  void Add(const ReaderPosition& one, uint64_t records, uint64_t bytes, int64_t unix_ns) {
    if (records == 0) return;
    QueueReader& reader = out_.readers[one.reader];
    if (reader.records == 0) reader.oldest_unix_ns = unix_ns;
    reader.records += records;
    reader.bytes += bytes;
  }

  const QueueScanOptions& options_;
  const int folder_;
  QueueFolder& out_;
  std::vector<std::string> positions_;
  std::vector<SegmentEntry> segments_;
  std::vector<ReaderPosition> readers_at_;
  size_t others_ = 0, refused_ = 0;
  bool has_owner_ = false, owner_gone_ = false;
};

constexpr size_t kMostPlaces = 1024;
constexpr std::string_view kReceivedName = "received";

Status MarkOwnerGone(int folder, const QueuePlace& place) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  const UniqueFd mark(::openat(folder, kOwnerGoneName, kFlags, 0600));
  if (!mark) return ErrnoStatus("make " + place.folder + "/" + kOwnerGoneName, errno);
  return ::fsync(folder) == 0 ? Ok() : ErrnoStatus("sync " + place.folder, errno);
}

// Removes the position of a sink. For the owner the mark is made first: without it a missing position means
// that all records are still to be sent. It is made again afterwards, as an agent that started meanwhile
// removes it.
Status RemovePosition(int folder, const QueuePlace& place, const std::string& sink) {
  if (sink == place.owner) RETURN_IF_ERROR(MarkOwnerGone(folder, place));
  const std::string name = PositionNameOf(sink, place.owner);
  if (::unlinkat(folder, name.c_str(), 0) != 0 && errno != ENOENT)
    return ErrnoStatus("remove " + place.folder + "/" + name, errno);
  if (sink == place.owner) return MarkOwnerGone(folder, place);
  return ::fsync(folder) == 0 ? Ok() : ErrnoStatus("sync " + place.folder, errno);
}

// Gives files that root made here to the owner of the folder, so that the agent can use them.
void GiveToOwnerOf(int folder) {
  struct stat owner{};
  if (::geteuid() != 0 || ::fstat(folder, &owner) != 0 || owner.st_uid == 0) return;
  static_cast<void>(ForEachName(folder, [&](std::string_view name) {
    const std::string file(name);
    struct stat info{};
    if ((name.starts_with(kPositionName) || name == kOwnerGoneName || name == kLockName) &&
        ::fstatat(folder, file.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(info.st_mode) &&
        info.st_uid == 0 && info.st_nlink == 1) [[maybe_unused]]
      const int given = ::fchownat(folder, file.c_str(), owner.st_uid, owner.st_gid, AT_SYMLINK_NOFOLLOW);
    return true;
  }));
}

UniqueFd OpenFolder(const QueuePlace& place) {
  const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | (place.follow ? 0 : O_NOFOLLOW);
  return UniqueFd(::open(place.folder.c_str(), flags));
}

std::shared_ptr<RequestLog> OpenLog(const QueuePlace& place, const Clock& clock) {
  return RequestLog::Open({.folder = place.folder, .owner = place.owner}, clock);
}

constexpr Duration kScanInterval = std::chrono::seconds(60);
constexpr size_t kMostLeftovers = 64;

}  // namespace

void QueueCounts::Sweep() {
  std::erase_if(segments, [this](const auto& one) { return one.second.scan != scan; });
}

QueueFolder ScanQueue(const QueuePlace& place, const QueueScanOptions& options) {
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
  const UniqueFd folder = OpenFolder(place);
  if (!folder) {
    out.problems.push_back(ErrnoStatus("open", errno).detail);
    return out;
  }
  QueueScanner(options, folder.get(), out).Run();
  const auto holder = options.query_use ? LockHolder(folder.get()) : std::nullopt;
  out.in_use = holder.has_value();
  out.holder = holder.value_or(0);
  return out;
}

bool IsSinkFile(std::string_view name) noexcept {
  constexpr std::string_view kOthers = "_-.";
  return !name.empty() && name.front() != '.' && name.back() != '.' && std::ranges::all_of(name, [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           kOthers.find(c) != kOthers.npos;
  });
}

std::string OwnerOfQueueFolder(const std::string& name) {
  if (name == kReceivedName || !IsSinkFile(name)) return {};
  return ReaderOfPosition(std::string(kPositionName) + "." + name, {});
}

Result<std::vector<QueuePlace>> QueuePlacesIn(const std::string& root) {
  std::vector<QueuePlace> places;
  UniqueFd folder(::open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder && (errno == ENOENT || errno == ENOTDIR)) return places;
  if (!folder) return ErrnoStatus("open " + root, errno);
  bool too_many = false;
  Status listed = ForEachName(folder.get(), [&](std::string_view name) {
    too_many = places.size() == kMostPlaces;
    if (!too_many) places.push_back({root + "/" + std::string(name), OwnerOfQueueFolder(std::string(name))});
    return !too_many;
  });
  if (!listed) return Status{listed.code, root + ": " + listed.detail};
  if (too_many) return Status{Code::kExhausted, root + " holds more than 1,024 names"};
  std::ranges::sort(places, {}, &QueuePlace::folder);
  return places;
}

std::vector<QueuePlace> QueuePlacesNextTo(const std::string& folder, const std::string& owner) {
  std::vector<QueuePlace> places{{folder, owner, true}};
  const size_t slash = folder.rfind('/');
  const std::string parent = slash == folder.npos ? "." : folder.substr(0, slash + 1);
  const std::string name = slash == folder.npos ? folder : folder.substr(slash + 1);
  const std::string before = slash == folder.npos ? "" : parent;
  UniqueFd list(::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!list) return places;
  static_cast<void>(ForEachName(list.get(), [&](std::string_view other) {
    const auto is = [&](std::string_view base) {
      return other.size() > base.size() + 1 && other.starts_with(base) && other[base.size()] == '+' &&
             ParseInt<uint32_t>(other.substr(base.size() + 1));
    };
    if (is(name) || is(kReceivedName) || other == kReceivedName)
      places.push_back({before + std::string(other), {}});
    return places.size() < kMostPlaces;
  }));
  std::ranges::sort(places.begin() + 1, places.end(), {}, &QueuePlace::folder);
  return places;
}

QueuePlaces AllQueuePlaces(const std::string& root, const std::vector<QueuePlace>& chosen) {
  QueuePlaces all;
  const auto add = [&](const QueuePlace& place) {
    const bool known =
        std::ranges::any_of(all.places, [&](const QueuePlace& one) { return one.folder == place.folder; });
    if (!known) all.places.push_back(place);
  };
  // First, as the sink that names a folder is its owner.
  for (const QueuePlace& one : chosen) add({one.folder, one.owner, true});
  if (!root.empty()) {
    auto listed = QueuePlacesIn(root);
    if (!listed) all.status = listed.error();
    else
      for (const QueuePlace& one : *listed) add(one);
  }
  for (const QueuePlace& one : chosen)
    for (const QueuePlace& sibling : QueuePlacesNextTo(one.folder, one.owner)) add(sibling);
  return all;
}

Result<QueueDrop> DropFromQueue(const QueuePlace& place, const std::string& sink, const Clock& clock) {
  QueueScanOptions names;
  names.count = names.query_use = false;
  const QueueFolder before = ScanQueue(place, names);
  const bool known =
      std::ranges::any_of(before.readers, [&](const QueueReader& one) { return one.sink == sink; });
  if (!known && before.readers.empty() && !before.problems.empty())
    return Status{Code::kUnavailable, place.folder + ": " + before.problems.front()};
  if (!known) return Status{Code::kUnavailable, place.folder + " has no data for " + sink};
  const UniqueFd folder = OpenFolder(place);
  if (!folder) return ErrnoStatus("open " + place.folder, errno);
  Status removed = RemovePosition(folder.get(), place, sink);
  GiveToOwnerOf(folder.get());
  RETURN_IF_ERROR(removed);
  if (const auto holder = LockHolder(folder.get())) return QueueDrop{.in_use = true, .holder = *holder};
  const auto log = OpenLog(place, clock);
  if (Status opened = log->disk(); !opened) {
    // A process that has just started holds the lock: it has not seen the reader, and frees the space itself.
    if (const auto holder = LockHolder(folder.get())) return QueueDrop{.in_use = true, .holder = *holder};
    return Status{Code::kIo, "the space is not free yet: " + opened.detail};
  }
  QueueDrop dropped;
  log->Maintain();
  const bool wanted =
      std::ranges::any_of(before.readers, [&](const QueueReader& one) { return one.sink != sink; });
  if (!wanted) dropped.removed = log->RemoveIfDone();
  GiveToOwnerOf(folder.get());
  const QueueFolder after = ScanQueue(place, names);
  dropped.freed_bytes = before.file_bytes - std::min(before.file_bytes, after.file_bytes);
  return dropped;
}

bool RemoveAbandoned(const QueuePlace& place, const Clock& clock) {
  QueueScanOptions names;
  names.count = false;
  const QueueFolder seen = ScanQueue(place, names);
  if (!seen.readers.empty() || !seen.problems.empty() || seen.in_use || seen.segments == 0) return false;
  const auto log = OpenLog(place, clock);
  return log->disk() && log->RemoveIfDone();
}

std::vector<QueueLeftover> LeftoversIn(const std::vector<QueueFolder>& folders) {
  std::map<std::string, QueueLeftover> by_sink;
  for (const QueueFolder& folder : folders) {
    for (const QueueReader& reader : folder.readers) {
      if (reader.configured || reader.records == 0) continue;
      if (by_sink.size() == kMostLeftovers && !by_sink.contains(reader.sink)) continue;
      QueueLeftover& leftover = by_sink[reader.sink];
      leftover.sink = reader.sink;
      leftover.records += reader.records;
      leftover.bytes += reader.bytes;
    }
  }
  std::vector<QueueLeftover> leftovers;
  for (auto& [sink, leftover] : by_sink) leftovers.push_back(std::move(leftover));
  return leftovers;
}

std::vector<QueueLeftover> FindLeftovers(const std::vector<QueuePlace>& places,
                                         const std::vector<std::string>& configured, QueueCounts* counts) {
  const QueueScanOptions options{
      .configured = configured, .leftovers_only = true, .query_use = false, .counts = counts};
  std::vector<QueueFolder> folders;
  for (const QueuePlace& place : places) folders.push_back(ScanQueue(place, options));
  return LeftoversIn(folders);
}

void LeftoverWatch::SetWhere(Where where) {
  std::lock_guard lock(mutex_);
  where_ = std::move(where);
  due_ = true;
}

void LeftoverWatch::ScanIfDue(Instant now, Workers& workers) {
  {
    std::lock_guard lock(mutex_);
    if (scanning_ || (!due_ && now.boot_ns - scanned_boot_ns_ < kScanInterval.count())) return;
    scanning_ = true;
    due_ = false;
    scanned_boot_ns_ = now.boot_ns;
  }
  if (workers.Post([self = shared_from_this()] { self->Scan(); })) return;
  std::lock_guard lock(mutex_);
  scanning_ = false;
  due_ = true;
}

void LeftoverWatch::Scan() {
  std::unique_lock lock(mutex_);
  const Where where = where_;
  lock.unlock();
  ++counts_.scan;
  std::vector<QueueLeftover> found =
      FindLeftovers(AllQueuePlaces(where.root, where.chosen).places, where.configured, &counts_);
  counts_.Sweep();
  lock.lock();
  found_ = std::move(found);
  scanning_ = false;
}

std::vector<QueueLeftover> LeftoverWatch::found() const {
  std::lock_guard lock(mutex_);
  return found_;
}

}  // namespace gpulens
