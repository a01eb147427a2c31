#include "instruments/cells.h"

#include <algorithm>
#include <bit>
#include <memory>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"

namespace gpulens::instruments {
namespace {

constexpr uint32_t kLeastCells = 64;

double AsDouble(uint64_t bits) noexcept { return std::bit_cast<double>(bits); }
uint64_t AsBits(double value) noexcept { return std::bit_cast<uint64_t>(value); }

}  // namespace

CellStore& CellStore::Instance() noexcept {
  static Immortal<CellStore> store;
  return *store;
}

CellStore::CellStore() { CHECK(::pthread_atfork(&BeforeFork, &AfterForkInParent, &AfterForkInChild) == 0); }

// The locks are held during a fork, so that the child's copy is consistent.
void CellStore::BeforeFork() noexcept { Instance().mutex_.lock(); }
void CellStore::AfterForkInParent() noexcept { Instance().mutex_.unlock(); }

// Only the forking thread exists here. The arrays of the others are leaked, since the allocator may have been
// in use.
void CellStore::AfterForkInChild() noexcept {
  CellStore& store = Instance();
  const pthread_t self = ::pthread_self();
  std::erase_if(store.threads_,
                [self](const Thread* thread) { return ::pthread_equal(thread->owner, self) == 0; });
  // What is in the file is the parent's.
  const auto restart = [](Array& array) {
    if (!array.memory) array = {};
    array.extent = 0;
    for (uint32_t i = 0; i < array.size; ++i) array.cells[i].store(0, kRelaxed);
  };
  for (Thread* thread : store.threads_) restart(thread->array);
  restart(store.retired_);
  std::construct_at(&store.idle_);
  if (store.file_) store.file_->LeaveBehind();
  store.file_ = nullptr;
  internal::cells.Clear();  // so that the first touch is seen
  ++store.forks_;
  store.forked_unix_ns_ = RealClock().Now().unix_ns;
  store.mutex_.unlock();
}

uint32_t CellStore::Allocate(std::initializer_list<Part> parts) {
  std::lock_guard lock(mutex_);
  const uint32_t first = cells_;
  for (const Part& part : parts) {
    CHECK(part.count <= UINT32_MAX / 2 - cells_);
    const bool joins = !ranges_.empty() && ranges_.back().meaning == part.meaning &&
                       part.meaning != CellMeaning::kExponential;
    if (joins) ranges_.back().count += part.count;
    else ranges_.push_back({cells_, part.count, part.meaning});
    cells_ += part.count;
  }
  return first;
}

// Gives the array at least as many cells.
void CellStore::Enlarge(Array& array, uint32_t least) {
  const uint32_t size = std::max(kLeastCells, std::bit_ceil(least));
  const auto copy = [&](CounterCell* to) {
    for (uint32_t i = 0; i < array.size; ++i) to[i].store(array.cells[i].load(kRelaxed), kRelaxed);
  };
  if (file_) {
    if (const WorkerFile::Cells made = file_->AddCells(size, array.extent, copy); made.at) {
      array = {.cells = made.at, .size = made.count, .memory = nullptr, .extent = made.extent};
      return;
    }
    Log(LogLevel::kWarn, "sdk", "worker_file_full",
        "cannot enlarge the file that workers share: their page lacks what this process counts from now on");
  }
  auto larger = std::make_unique<CounterCell[]>(size);
  copy(larger.get());
  // What the file had of it stays there, and would be exported twice if it went back there later.
  array = {.cells = larger.get(), .size = size, .memory = std::move(larger), .extent = array.extent};
}

void CellStore::Grow(Thread& thread) noexcept {
  std::lock_guard lock(mutex_);
  thread.used = &internal::cells;
  Enlarge(thread.array, cells_);
}

void CellStore::Join(Thread& thread) noexcept {
  std::lock_guard lock(mutex_);
  thread.owner = ::pthread_self();
  if (!idle_.empty()) {
    thread.array = std::move(idle_.back());
    idle_.pop_back();
  }
  threads_.push_back(&thread);
}

void CellStore::Leave(Thread& thread) noexcept {
  std::lock_guard lock(mutex_);
  std::erase(threads_, &thread);
  if (file_ && thread.array.memory) Enlarge(thread.array, thread.array.size);
  if (file_) idle_.push_back(std::move(thread.array));
  else Merge(thread.array);
  thread.array = {};
}

// Another thread's array is copied by itself at its next record; until then the file has a copy of now.
void CellStore::CopyToFile(Array& from) {
  const auto copy = [&](CounterCell* to) {
    for (const Range& range : ranges_) {
      const uint32_t end = std::min(range.first + range.count, from.size);
      if (range.meaning != CellMeaning::kExponential) {
        for (uint32_t i = range.first; i < end; ++i) to[i].store(from.cells[i].load(kRelaxed), kRelaxed);
      } else if (range.first + range.count <= from.size) {
        ExponentialCounts whole;
        ReadWindow(&from.cells[range.first], whole);
        WriteWindow(&to[range.first], whole);
      }
    }
  };
  from.extent = file_->AddCells(from.size, 0, copy).extent;
}

void CellStore::UseFile(WorkerFile& file) {
  std::lock_guard lock(mutex_);
  file_ = &file;
  for (Thread* thread : threads_) {
    if (!thread->array.cells) continue;
    CopyToFile(thread->array);
    thread->used->size.store(0, kRelaxed);  // its next record calls Grow
  }
  if (retired_.cells) {
    Enlarge(retired_, retired_.size);
    if (!retired_.memory) idle_.push_back(std::exchange(retired_, {}));
  }
}

void CellStore::Merge(const Array& from) {
  if (retired_.size < cells_) Enlarge(retired_, cells_);
  for (const Range& range : ranges_) {
    if (range.first + range.count > from.size) {
      if (range.meaning == CellMeaning::kExponential || range.first >= from.size) continue;
    }
    const uint32_t end = std::min(range.first + range.count, from.size);
    if (range.meaning == CellMeaning::kExponential) {
      ExponentialCounts whole;
      ReadWindow(&retired_.cells[range.first], whole);
      ReadWindow(&from.cells[range.first], whole);
      WriteWindow(&retired_.cells[range.first], whole);
      continue;
    }
    for (uint32_t i = range.first; i < end; ++i) {
      CounterCell& to = retired_.cells[i];
      const uint64_t a = to.load(kRelaxed), b = from.cells[i].load(kRelaxed);
      to.store(range.meaning == CellMeaning::kInteger ? a + b : AsBits(AsDouble(a) + AsDouble(b)), kRelaxed);
    }
  }
}

// Array of no thread, for records under the lock.
CellStore::Array& CellStore::Late() {
  Array* array = &retired_;
  if (file_) array = idle_.empty() ? &idle_.emplace_back() : &idle_.front();
  if (array->size < cells_) Enlarge(*array, cells_);
  return *array;
}

void CellStore::AddLate(uint32_t cell, uint64_t n) noexcept {
  std::lock_guard lock(mutex_);
  AddTo(Late().cells[cell], n);
}

void CellStore::AddLate(uint32_t cell, double n) noexcept {
  std::lock_guard lock(mutex_);
  AddTo(Late().cells[cell], n);
}

void CellStore::RecordLate(uint32_t first, double value) noexcept {
  std::lock_guard lock(mutex_);
  const Array& array = Late();
  RecordInWindow(array.cells, first, array.move(), value);
}

template <class Visit>
void CellStore::VisitAll(Visit visit) const {
  visit(retired_);
  for (const Array& array : idle_) visit(array);
  for (const Thread* thread : threads_) visit(thread->array);
}

uint64_t CellStore::Integer(uint32_t cell) const noexcept {
  std::lock_guard lock(mutex_);
  uint64_t sum = 0;
  VisitAll([&](const Array& array) {
    if (cell < array.size) sum += array.cells[cell].load(kRelaxed);
  });
  return sum;
}

double CellStore::Double(uint32_t cell) const noexcept {
  std::lock_guard lock(mutex_);
  double sum = 0;
  VisitAll([&](const Array& array) {
    if (cell < array.size) sum += AsDouble(array.cells[cell].load(kRelaxed));
  });
  return sum;
}

bool CellStore::Touched(uint32_t first, uint32_t count) const noexcept {
  std::lock_guard lock(mutex_);
  bool touched = false;
  VisitAll([&](const Array& array) {
    for (uint32_t i = first; i < std::min(first + count, array.size) && !touched; ++i)
      touched = array.cells[i].load(kRelaxed) != 0;
  });
  return touched;
}

ExponentialCounts CellStore::Window(uint32_t first) const {
  std::lock_guard lock(mutex_);
  ExponentialCounts whole;
  VisitAll([&](const Array& array) {
    if (first + kExponentialCells <= array.size) ReadWindow(&array.cells[first], whole);
  });
  return whole;
}

uint32_t CellStore::forks() const noexcept {
  std::lock_guard lock(mutex_);
  return forks_;
}

int64_t CellStore::forked_unix_ns() const noexcept {
  std::lock_guard lock(mutex_);
  return forked_unix_ns_;
}

}  // namespace gpulens::instruments
