#include "instruments/workers.h"

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <mutex>

#include "base/clock.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/ref.h"
#include "base/result.h"
#include "instruments/instrument_registry.h"
#include "instruments/worker_file.h"
#include "instruments/worker_totals.h"

namespace gpulens::instruments {
namespace {

constexpr uint64_t kEndedMagic = 0x0132646e6570671a;
constexpr const char* kEndedName = "ended";
constexpr const char* kSuffix = ".worker";
constexpr const char* kLockName = "lock";
constexpr const char* kStaleName = "stale";
constexpr size_t kFoldAt = 8;
constexpr size_t kMostEnded = size_t{256} << 20;
// A server whose workers have all ended may start others.
constexpr int64_t kStaleSeconds = 600;
// A file whose process was killed while it made it.
constexpr int64_t kUnmadeSeconds = 60;

// Read-only memory of a whole file.
class MappedFile {
 public:
  explicit MappedFile(int fd) noexcept {
    struct stat info{};
    if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size <= 0) return;
    void* at = ::mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) return;
    at_ = static_cast<const std::byte*>(at);
    bytes_ = static_cast<size_t>(info.st_size);
  }
  MappedFile(MappedFile&& other) noexcept
      : at_(std::exchange(other.at_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile() {
    if (at_) ::munmap(const_cast<std::byte*>(at_), bytes_);
  }
  const std::byte* at() const noexcept { return at_; }
  size_t bytes() const noexcept { return bytes_; }
  const WorkerHead* head() const noexcept {
    const auto* head = reinterpret_cast<const WorkerHead*>(at_);
    const bool made =
        bytes_ >= sizeof(WorkerHead) && head->magic.load(std::memory_order_acquire) == kWorkerMagic;
    return made ? head : nullptr;
  }

 private:
  const std::byte* at_ = nullptr;
  size_t bytes_ = 0;
};

struct Worker {
  std::string name;
  MappedFile file;
  bool ended = false;
};

bool HasEnded(const std::unique_ptr<Worker>& worker) noexcept { return worker->ended; }
using WorkerList = std::vector<std::unique_ptr<Worker>>;

// What `ended` has.
struct Ended {
  uint64_t generation = 0;
  std::vector<std::string> names;  // of files that it includes and that may still be there
  std::string totals;
};

// `totals` too, or the generation alone.
Result<Ended> ReadEnded(const std::string& path, bool whole) {
  Ended ended;
  Result<std::string> bytes = ReadFile(path + '/' + kEndedName, kMostEnded);
  if (!bytes) {
    if (bytes.error().code == Code::kUnavailable) return ended;
    return std::move(bytes).error();
  }
  RecordReader in(*bytes);
  const bool ours = in.Take<uint64_t>() == kEndedMagic;
  ended.generation = in.Take<uint64_t>();
  if (ours && whole) {
    const uint32_t names = in.Take<uint32_t>();
    for (uint32_t i = 0; i < names && in.ok(); ++i) ended.names.push_back(in.TakeText());
    ended.totals = in.TakeText();
  }
  if (!ours || !in.ok()) return Status{Code::kDataLoss, path + '/' + kEndedName + " is broken: remove it"};
  return ended;
}

UniqueFd OpenIn(int folder, const std::string& name, int flags) noexcept {
  return UniqueFd(
      ::openat(folder, name.c_str(), flags | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600));
}

// The workers' files but those of `without`, by their start: the same order for each reader.
Result<WorkerList> OpenWorkers(int folder, const std::string& path, const std::vector<std::string>& without) {
  std::vector<std::string> names;
  RETURN_IF_ERROR(ForEachName(path, [&](std::string_view name) {
    if (name.ends_with(kSuffix)) names.emplace_back(name);
    return true;
  }));
  WorkerList workers;
  for (std::string& name : names) {
    if (std::ranges::find(without, name) != without.end()) continue;
    const UniqueFd fd = OpenIn(folder, name, O_RDONLY);
    if (!fd) continue;
    // Whether it has ended is known before its counts are read, which are final then.
    const bool ended = ::flock(fd.get(), LOCK_SH | LOCK_NB) == 0;
    MappedFile file(fd.get());
    if (file.head())
      workers.push_back(std::make_unique<Worker>(Worker{std::move(name), std::move(file), ended}));
  }
  const auto order = [](const std::unique_ptr<Worker>& one) {
    return std::pair(one->file.head()->started_unix_ns, std::string_view(one->name));
  };
  std::ranges::sort(workers, {}, order);
  return workers;
}

bool AddAll(WorkerTotals& totals, const Ended& ended, const WorkerList& workers, bool ended_only) {
  if (!ended.totals.empty()) {
    RecordReader in(ended.totals);
    if (!totals.AddEncoded(in)) return false;
  }
  for (const auto& worker : workers) {
    // A file that is not ours adds nothing, or what came before its broken part.
    if (worker->ended || !ended_only)
      totals.AddWorker(worker->file.at(), worker->file.bytes(), worker->ended);
  }
  return true;
}

// Opens a folder of our own, which no one else may write.
Result<UniqueFd> OpenFolder(const std::string& path, bool make, int flags) {
  if (make && ::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return ErrnoStatus("make " + path, errno);
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags));
  struct stat info{};
  if (!fd || ::fstat(fd.get(), &info) != 0) return ErrnoStatus("open " + path, errno);
  const uid_t user = ::geteuid();
  if ((info.st_uid != user && user != 0) || (info.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return Status{Code::kPermissionDenied,
                  path + " must belong to this user, and others must not be able to write there"};
  return fd;
}

// Whether a running process has a file there.
bool AnyRuns(int folder, const std::string& path) {
  const auto workers = OpenWorkers(folder, path, {});
  return !workers || !std::ranges::all_of(*workers, &HasEnded);
}

int64_t AgeSeconds(int folder, const std::string& name) noexcept {
  struct stat info{};
  if (::fstatat(folder, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return -1;
  return RealClock().Now().unix_ns / 1'000'000'000 - int64_t{info.st_mtim.tv_sec};
}

}  // namespace

WorkersFolder& WorkersFolder::Instance() noexcept {
  static Immortal<WorkersFolder> folder;
  return *folder;
}

// The kernel gives each program that starts 16 random bytes, which its forks keep. Their hash, since the C
// library protects stacks with them.
std::string WorkersFolder::FamilyOfForks() {
  const auto* random = reinterpret_cast<const char*>(::getauxval(AT_RANDOM));
  if (!random) return {};
  Sha256 hash;
  hash.Add(std::string_view(random, 16));
  hash.Add("gpulens workers");
  return hash.Finish().substr(0, 32);
}

// Folders of servers that have ended: no worker runs there, and none did ten minutes ago.
void WorkersFolder::RemoveStale(const std::string& above, const std::string& own) const {
  std::vector<std::string> names;
  (void)ForEachName(above, [&](std::string_view name) {
    if (name != own) names.emplace_back(name);
    return names.size() < 256;
  });
  for (const std::string& name : names) {
    const std::string path = above + '/' + name;
    const auto folder = OpenFolder(path, false, O_NOFOLLOW);
    if (!folder || AnyRuns(folder->get(), path)) continue;
    const int64_t age = AgeSeconds(folder->get(), kStaleName);
    if (age < 0) {
      (void)OpenIn(folder->get(), kStaleName, O_WRONLY | O_CREAT);
      continue;
    }
    if (age < kStaleSeconds) continue;
    std::vector<std::string> files;
    (void)ForEachName(path, [&](std::string_view file) {
      files.emplace_back(file);
      return true;
    });
    for (const std::string& file : files) ::unlinkat(folder->get(), file.c_str(), 0);
    ::rmdir(path.c_str());
  }
}

// One process at a time, the others go on without. `ended` is written before the files go: readers skip those
// that it includes, and the next fold removes them if this process is killed in between.
void WorkersFolder::Fold() const {
  const int folder = folder_.get();
  const UniqueFd lock = OpenIn(folder, kLockName, O_RDWR | O_CREAT);
  if (!lock || ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) return;
  const auto before = ReadEnded(path_, true);
  if (!before) return;
  for (const std::string& name : before->names) ::unlinkat(folder, name.c_str(), 0);
  const auto workers = OpenWorkers(folder, path_, {});
  if (!workers) return;
  (void)ForEachName(path_, [&](std::string_view name) {
    const std::string file(name);
    const bool made = std::ranges::any_of(*workers, [&](const auto& one) { return one->name == file; });
    if (name.ends_with(kSuffix) && !made && AgeSeconds(folder, file) > kUnmadeSeconds)
      ::unlinkat(folder, file.c_str(), 0);
    return true;
  });
  if (static_cast<size_t>(std::ranges::count_if(*workers, &HasEnded)) < kFoldAt) return;
  WorkerTotals all;
  if (!AddAll(all, *before, *workers, false)) return;
  const NamedSeriesOf named = all.Named();
  WorkerTotals totals(&named);
  AddAll(totals, *before, *workers, true);
  RecordWriter sums, out;
  totals.Encode(sums);
  std::vector<std::string> names;
  for (const auto& worker : *workers) {
    if (worker->ended) names.push_back(worker->name);
  }
  out.Put(kEndedMagic);
  out.Put(before->generation + 1);
  out.Put(static_cast<uint32_t>(names.size()));
  for (const std::string& name : names) out.PutText(name);
  out.PutText(sums.bytes());
  if (out.bytes().size() > kMostEnded) return;
  if (!WriteFileAtomically(path_ + '/' + kEndedName, out.bytes(), {.mode = 0600, .sync = false})) return;
  for (const std::string& name : names) ::unlinkat(folder, name.c_str(), 0);
}

Status WorkersFolder::Prepare(const std::string& path, const std::string& family) {
  if (!path.empty()) {
    ASSIGN_OR_RETURN(folder_, OpenFolder(path, true, 0));
    path_ = path;
    return Ok();
  }
  const std::string own = family.empty() ? FamilyOfForks() : family;
  if (own.empty() || own.find('/') != own.npos || own.front() == '.')
    return {Code::kInvalidArgument, "name the folder of the workers: $GPULENS_WORKERS_DIR"};
  // In memory where the system has that: a slow disk would delay the threads that record.
  const std::string memory = ::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
  const std::string above = memory + "/gpulens-workers-" + std::to_string(::geteuid());
  RETURN_IF_ERROR(OpenFolder(above, true, O_NOFOLLOW).status());
  RemoveStale(above, own);
  path_ = above + '/' + own;
  ASSIGN_OR_RETURN(folder_, OpenFolder(path_, true, O_NOFOLLOW));
  return Ok();
}

Status WorkersFolder::Open(const std::string& path, const std::string& family) {
  static std::mutex* const mutex = new std::mutex;
  std::lock_guard lock(*mutex);
  if (open_) return Ok();
  RETURN_IF_ERROR(Prepare(path, family));
  const uint64_t registry = RegistryAccess::IdOf(Registry::Process());
  RETURN_IF_ERROR(
      InstrumentRegistry::Instance().Share(registry, [this]() -> Result<std::unique_ptr<WorkerFile>> {
        ::unlinkat(folder_.get(), kStaleName, 0);
        Fold();
        return WorkerFile::Create(folder_.get());
      }));
  open_.store(true, std::memory_order_release);
  return Ok();
}

Result<std::vector<Sample>> WorkersFolder::Read() const {
  if (!open()) return std::vector<Sample>();
  // Again where files were folded meanwhile: a file may have gone before it was opened.
  constexpr int kTries = 100;
  for (int tries = 0; tries < kTries; ++tries) {
    ASSIGN_OR_RETURN(const Ended ended, ReadEnded(path_, true));
    ASSIGN_OR_RETURN(const WorkerList workers, OpenWorkers(folder_.get(), path_, ended.names));
    WorkerTotals totals;
    if (!AddAll(totals, ended, workers, false))
      return Status{Code::kDataLoss, path_ + '/' + kEndedName + " is broken: remove it"};
    const NamedSeriesOf named = totals.Named();
    std::vector<Sample> samples;
    if (named.empty()) {
      samples = totals.Samples();
    } else {
      WorkerTotals within(&named);
      AddAll(within, ended, workers, false);
      samples = within.Samples();
    }
    ASSIGN_OR_RETURN(const Ended after, ReadEnded(path_, false));
    if (after.generation == ended.generation) return samples;
  }
  return Status{Code::kUnavailable, "workers end faster than their counts can be read"};
}

}  // namespace gpulens::instruments
