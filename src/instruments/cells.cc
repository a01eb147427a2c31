#include "instruments/cells.h"

#include <algorithm>
#include <bit>

#include <gpulens/instruments.h>

#include "base/check.h"
#include "base/clock.h"

namespace gpulens::instruments {
namespace {

constexpr uint32_t kLeastCells = 64;

double AsDouble(uint64_t bits) noexcept { return std::bit_cast<double>(bits); }
uint64_t AsBits(double value) noexcept { return std::bit_cast<uint64_t>(value); }

// Writes a sum of windows as one window.
void WriteWindow(CounterCell* at, const ExponentialCounts& whole) noexcept {
  at[kSumCell].store(AsBits(whole.sum), kRelaxed);
  at[kZeroCell].store(whole.zeros, kRelaxed);
  const std::span<const uint64_t> counts = whole.buckets.counts();
  if (counts.empty()) return;
  const WindowHead head{.offset = static_cast<uint32_t>(whole.buckets.offset()) + WindowHead::kBias,
                        .coarser = static_cast<uint8_t>(kFinest - whole.buckets.scale()),
                        .moves = 0};
  at[kHeadCell].store(head.cell(), kRelaxed);
  for (uint32_t i = 0; i < kWindow; ++i)
    at[kFirstCount + i].store(i < counts.size() ? counts[i] : 0, kRelaxed);
}

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
  for (Thread* thread : store.threads_) {
    for (uint32_t i = 0; i < thread->size; ++i) thread->cells[i].store(0, kRelaxed);
  }
  for (uint32_t i = 0; i < store.retired_.size; ++i) store.retired_.cells[i].store(0, kRelaxed);
  internal::cells = {};  // so that the first touch is seen
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

void CellStore::Grow(Thread& thread) noexcept {
  std::lock_guard lock(mutex_);
  const uint32_t size = std::max(kLeastCells, std::bit_ceil(cells_));
  auto larger = std::make_unique<CounterCell[]>(size);
  for (uint32_t i = 0; i < thread.size; ++i) larger[i].store(thread.cells[i].load(kRelaxed), kRelaxed);
  thread.cells = std::move(larger);
  thread.size = size;
}

void CellStore::Join(Thread& thread) noexcept {
  std::lock_guard lock(mutex_);
  thread.owner = ::pthread_self();
  threads_.push_back(&thread);
}

void CellStore::Leave(Thread& thread) noexcept {
  std::lock_guard lock(mutex_);
  std::erase(threads_, &thread);
  Merge(thread);
  thread.cells = nullptr;
  thread.size = 0;
}

void CellStore::CoverRetired() {
  if (retired_.size >= cells_) return;
  const uint32_t size = std::max(kLeastCells, std::bit_ceil(cells_));
  auto larger = std::make_unique<CounterCell[]>(size);
  for (uint32_t i = 0; i < retired_.size; ++i) larger[i].store(retired_.cells[i].load(kRelaxed), kRelaxed);
  retired_.cells = std::move(larger);
  retired_.size = size;
}

void CellStore::Merge(const Thread& from) {
  CoverRetired();
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

void CellStore::AddLate(uint32_t cell, uint64_t n) noexcept {
  std::lock_guard lock(mutex_);
  CoverRetired();
  AddTo(retired_.cells[cell], n);
}

void CellStore::AddLate(uint32_t cell, double n) noexcept {
  std::lock_guard lock(mutex_);
  CoverRetired();
  AddTo(retired_.cells[cell], n);
}

void CellStore::RecordLate(uint32_t first, double value) noexcept {
  std::lock_guard lock(mutex_);
  CoverRetired();
  RecordInWindow(&retired_.cells[first], value);
}

uint64_t CellStore::Integer(uint32_t cell) const noexcept {
  std::lock_guard lock(mutex_);
  uint64_t sum = cell < retired_.size ? retired_.cells[cell].load(kRelaxed) : 0;
  for (const Thread* thread : threads_) {
    if (cell < thread->size) sum += thread->cells[cell].load(kRelaxed);
  }
  return sum;
}

double CellStore::Double(uint32_t cell) const noexcept {
  std::lock_guard lock(mutex_);
  double sum = cell < retired_.size ? AsDouble(retired_.cells[cell].load(kRelaxed)) : 0;
  for (const Thread* thread : threads_) {
    if (cell < thread->size) sum += AsDouble(thread->cells[cell].load(kRelaxed));
  }
  return sum;
}

bool CellStore::Touched(uint32_t first, uint32_t count) const noexcept {
  std::lock_guard lock(mutex_);
  const auto touched = [&](const Thread& thread) {
    for (uint32_t i = first; i < std::min(first + count, thread.size); ++i) {
      if (thread.cells[i].load(kRelaxed) != 0) return true;
    }
    return false;
  };
  return touched(retired_) ||
         std::ranges::any_of(threads_, [&](const Thread* thread) { return touched(*thread); });
}

ExponentialCounts CellStore::Window(uint32_t first) const {
  std::lock_guard lock(mutex_);
  ExponentialCounts whole;
  if (first + kExponentialCells <= retired_.size) ReadWindow(&retired_.cells[first], whole);
  for (const Thread* thread : threads_) {
    if (first + kExponentialCells <= thread->size) ReadWindow(&thread->cells[first], whole);
  }
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
