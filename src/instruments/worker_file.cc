#include "instruments/worker_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/clock.h"
#include "base/files.h"

namespace gpulens::instruments {
namespace {

constexpr size_t kLogBytes = 64 << 10;
size_t WholePages(size_t bytes) noexcept { return (bytes + PageBytes() - 1) / PageBytes() * PageBytes(); }

std::string NewName() {
  uint64_t random = 0;
  if (::getrandom(&random, sizeof random, 0) != sizeof random)
    random = static_cast<uint64_t>(RealClock().Now().unix_ns);
  char text[64];
  ::snprintf(text, sizeof text, "%d-%016llx.worker", ::getpid(), static_cast<unsigned long long>(random));
  return text;
}

}  // namespace

size_t PageBytes() noexcept {
  static const size_t bytes = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

void RecordWriter::PutFamily(const WorkerFamily& family) {
  Put(family.kind);
  Put(static_cast<uint8_t>(family.integer));
  Put(family.workers);
  for (const std::string* text : {&family.name, &family.unit, &family.description}) PutText(*text);
  PutAll(family.bounds);
}

WorkerFamily RecordReader::TakeFamily() {
  WorkerFamily family;
  family.kind = static_cast<InstrumentKind>(
      std::min(Take<uint8_t>(), static_cast<uint8_t>(InstrumentKind::kHistogram)));
  family.integer = Take<uint8_t>() != 0;
  family.workers =
      static_cast<WorkerMerge>(std::min(Take<uint8_t>(), static_cast<uint8_t>(WorkerMerge::kAll)));
  family.name = TakeText();
  family.unit = TakeText();
  family.description = TakeText();
  family.bounds = TakeAll<double>();
  return family;
}

void RecordWriter::PutAttributes(const std::vector<std::pair<std::string, std::string>>& attributes) {
  Put(static_cast<uint32_t>(attributes.size()));
  for (const auto& [key, value] : attributes) {
    PutText(key);
    PutText(value);
  }
}

std::vector<std::pair<std::string, std::string>> RecordReader::TakeAttributes() {
  std::vector<std::pair<std::string, std::string>> attributes;
  const uint32_t count = Take<uint32_t>();
  for (uint32_t i = 0; i < count && ok_; ++i) {
    std::string key = TakeText();
    attributes.emplace_back(std::move(key), TakeText());
  }
  return attributes;
}

Result<std::unique_ptr<WorkerFile>> WorkerFile::Create(int folder) {
  std::unique_ptr<WorkerFile> file(new WorkerFile);
  file->name_ = NewName();
  file->fd_.reset(
      ::openat(folder, file->name_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file->fd_) return ErrnoStatus("create " + file->name_, errno);
  const auto fail = [&](const char* what, int error) {
    ::unlinkat(folder, file->name_.c_str(), 0);
    return ErrnoStatus(std::string(what) + ' ' + file->name_, error);
  };
  // A reader may have it for an instant.
  while (::flock(file->fd_.get(), LOCK_EX) != 0) {
    if (errno != EINTR) return fail("lock", errno);
  }
  // The folder may be that of the user to which the server changes. Where root may not give files away, it
  // stays root's.
  struct stat info{};
  if (::geteuid() == 0 && ::fstat(folder, &info) == 0 && info.st_uid != 0) [[maybe_unused]]
    const int given = ::fchown(file->fd_.get(), info.st_uid, info.st_gid);
  const size_t page = PageBytes();
  if (const int error = ::posix_fallocate(file->fd_.get(), 0, static_cast<off_t>(page)); error != 0)
    return fail("write", error);
  void* at = ::mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_SHARED, file->fd_.get(), 0);
  if (at == MAP_FAILED) return fail("map", errno);
  file->mapped_.emplace_back(at, page);
  file->head_ = ::new (at) WorkerHead{.magic = 0,
                                      .pid = static_cast<uint64_t>(::getpid()),
                                      .started_unix_ns = RealClock().Now().unix_ns,
                                      .end = page};
  file->head_->magic.store(kWorkerMagic, std::memory_order_release);
  return file;
}

// The blocks are allocated first: writing to a mapped hole of a full file system would kill the process.
std::byte* WorkerFile::Append(size_t bytes, void* at) {
  const auto offset = static_cast<off_t>(head_->end.load(kRelaxed));
  if (::posix_fallocate(fd_.get(), offset, static_cast<off_t>(bytes)) != 0) return nullptr;
  if (at && ::pwrite(fd_.get(), at, bytes, offset) != static_cast<ssize_t>(bytes)) return nullptr;
  const int flags = MAP_SHARED | (at ? MAP_FIXED : 0);
  void* mapped = ::mmap(at, bytes, PROT_READ | PROT_WRITE, flags, fd_.get(), offset);
  if (mapped == MAP_FAILED) return nullptr;
  if (!at) mapped_.emplace_back(mapped, bytes);
  return static_cast<std::byte*>(mapped);
}

bool WorkerFile::Log(std::string_view record) {
  std::lock_guard lock(mutex_);
  const size_t bytes = sizeof(uint32_t) + record.size();
  uint64_t used = log_ ? log_->used.load(kRelaxed) : 0;
  if (!log_ || used + bytes > log_->bytes - sizeof(ExtentHead)) {
    const size_t size = std::max(WholePages(sizeof(ExtentHead) + bytes), kLogBytes);
    std::byte* made = Append(size, nullptr);
    if (!made) return false;
    log_ =
        ::new (made) ExtentHead{.kind = ExtentKind::kLog, .count = 0, .bytes = size, .refers = 0, .used = 0};
    head_->end.fetch_add(size, std::memory_order_release);
    used = 0;
  }
  std::byte* at = reinterpret_cast<std::byte*>(log_) + sizeof(ExtentHead) + used;
  const auto size = static_cast<uint32_t>(record.size());
  std::memcpy(at, &size, sizeof size);
  std::memcpy(at + sizeof size, record.data(), record.size());
  log_->used.store(used + bytes, std::memory_order_release);
  return true;
}

WorkerFile::Cells WorkerFile::AddCells(uint32_t count, uint64_t continues,
                                       const std::function<void(CounterCell* at)>& fill) {
  std::lock_guard lock(mutex_);
  const size_t bytes = WholePages(kCellsAt + count * sizeof(CounterCell));
  const uint64_t offset = head_->end.load(kRelaxed);
  std::byte* made = Append(bytes, nullptr);
  if (!made) return {};
  count = static_cast<uint32_t>((bytes - kCellsAt) / sizeof(CounterCell));
  ::new (made)
      ExtentHead{.kind = ExtentKind::kCells, .count = count, .bytes = bytes, .refers = continues, .used = 0};
  auto* at = reinterpret_cast<CounterCell*>(made + kCellsAt);
  fill(at);
  head_->end.store(offset + bytes, std::memory_order_release);
  return {at, count, offset};
}

bool WorkerFile::Share(void* pages, size_t bytes) {
  std::lock_guard lock(mutex_);
  if (!Append(bytes, pages)) return false;
  head_->end.fetch_add(bytes, std::memory_order_release);
  return true;
}

void WorkerFile::LeaveBehind() noexcept {
  for (const auto& [at, bytes] : mapped_) ::munmap(at, bytes);
  fd_.reset();
}

}  // namespace gpulens::instruments
