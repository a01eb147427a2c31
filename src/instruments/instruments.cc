// The handles' way to the cells, and a thread's beginning and end among them.
#include <gpulens/instruments.h>

#include <time.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/ref.h"
#include "instruments/cells.h"
#include "instruments/instrument_registry.h"

namespace gpulens {
namespace {

using instruments::AddTo;
using instruments::CellStore;
using instruments::InstrumentFamily;
using instruments::InstrumentRegistry;

std::atomic<uint64_t> dropped{0};

// Leaves what a thread has counted to those that read, when the thread ends.
struct OwnThread {
  OwnThread() noexcept { CellStore::Instance().Join(thread); }
  ~OwnThread() {
    CellStore::Instance().Leave(thread);
    internal::cells.Clear();
    ended = true;
  }
  CellStore::Thread thread;
  static thread_local bool ended;
};
thread_local bool OwnThread::ended = false;

// Gives the calling thread all cells. False: it is past its end, in the destructor of something thread-local.
bool HaveCells(uint32_t cell) noexcept {
  if (cell < internal::cells.size.load(instruments::kRelaxed)) return true;
  if (OwnThread::ended) return false;
  InstrumentRegistry::Instance().ShareAgain();
  static thread_local OwnThread own;
  CellStore::Instance().Grow(own.thread);
  const CellStore::Array& array = own.thread.array;
  internal::cells.at = array.cells;
  internal::cells.move = array.move();
  internal::cells.size.store(array.size, instruments::kRelaxed);
  CellStore::ReportUse();
  return true;
}

}  // namespace

Registry::Registry() : id_(InstrumentRegistry::Instance().NewRegistry()) {}
Registry::~Registry() { InstrumentRegistry::Instance().EndRegistry(id_); }

Registry& Registry::Process() noexcept {
  static Immortal<Registry> process;
  return *process;
}

std::vector<Sample> Registry::Snapshot() const {
  std::vector<Sample> all = InstrumentRegistry::Instance().Read(id_);
  instruments::ReportSources(id_, all);
  return all;
}
void Registry::LimitSeries(size_t limit) noexcept { InstrumentRegistry::Instance().LimitSeries(id_, limit); }

uint64_t DroppedRecords() noexcept { return dropped.load(std::memory_order_relaxed); }

namespace internal {

void Touch() noexcept { HaveCells(0); }
void Drop() noexcept { dropped.fetch_add(1, std::memory_order_relaxed); }

void AddSlow(Handle handle, int64_t n, bool monotonic) noexcept {
  if (handle.cell == kInert || (monotonic && n < 0)) return Drop();
  if (!HaveCells(handle.cell)) return CellStore::Instance().AddLate(handle.cell, static_cast<uint64_t>(n));
  AddTo(cells.at[handle.cell], static_cast<uint64_t>(n));
}

void AddSlow(Handle handle, double n, bool monotonic) noexcept {
  if (handle.cell == kInert || std::isnan(n) || (monotonic && n < 0)) return Drop();
  if (!HaveCells(handle.cell)) return CellStore::Instance().AddLate(handle.cell, n);
  AddTo(cells.at[handle.cell], n);
}

Handle Make(InstrumentKind kind, bool integer, std::string_view name, const InstrumentOptions& options,
            Registry& registry) {
  InstrumentFamily wanted;
  wanted.registry = RegistryAccess::IdOf(registry);
  wanted.kind = kind;
  wanted.integer = integer;
  wanted.name = name;
  wanted.unit = options.unit;
  wanted.description = options.description;
  wanted.workers = options.workers;
  if (kind == InstrumentKind::kHistogram)
    wanted.form.bounds.assign(options.bounds.begin(), options.bounds.end());
  const Handle made = InstrumentRegistry::Instance().Make(std::move(wanted));
  CellStore::ReportUse();
  return made;
}

Handle Bind(Handle handle, std::span<const Attribute> attributes) {
  return InstrumentRegistry::Instance().Bind(handle, attributes);
}
Status StatusOf(Handle handle) { return InstrumentRegistry::Instance().StatusOf(handle); }
std::atomic<double>* GaugeAt(Handle handle) noexcept {
  return InstrumentRegistry::Instance().GaugeAt(handle);
}

bool KeepsTime(Handle handle) noexcept {
  const InstrumentFamily* family = InstrumentRegistry::Instance().FamilyOf(handle);
  return family && family->workers == WorkerMerge::kLatest;
}
void KeepTime(std::atomic<double>* gauge) noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  reinterpret_cast<instruments::GaugeCell*>(gauge)->set_ns.store(
      static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec),
      instruments::kRelaxed);
}

const HistogramForm* FormOf(Handle handle) noexcept {
  const InstrumentFamily* family = InstrumentRegistry::Instance().FamilyOf(handle);
  return family && !family->form.bounds.empty() ? &family->form : nullptr;
}

double UnitsPerSecond(Handle handle) noexcept {
  const InstrumentFamily* family = InstrumentRegistry::Instance().FamilyOf(handle);
  if (!family) return kNotMeasured;
  if (family->unit == "s") return 1;
  if (family->unit == "ms") return 1e3;
  if (family->unit == "us") return 1e6;
  return family->unit == "ns" ? 1e9 : kNotMeasured;
}

void RecordExponential(Handle handle, double value) noexcept {
  constexpr uint32_t kLast = instruments::kExponentialCells - 1;
  if (!(value >= 0 && value <= std::numeric_limits<double>::max()) || handle.cell == kInert) return Drop();
  const uint32_t size = cells.size.load(instruments::kRelaxed);
  if (handle.cell + kLast >= size && !HaveCells(handle.cell + kLast))
    return CellStore::Instance().RecordLate(handle.cell, value);
  instruments::RecordInWindow(cells.at, handle.cell, cells.move, value);
}

void Record(Handle handle, const HistogramForm& form, double value) noexcept {
  if (!std::isfinite(value)) return Drop();
  const std::vector<double>& bounds = form.bounds;
  const auto buckets = static_cast<uint32_t>(bounds.size()) + 1;
  const auto bucket =
      static_cast<uint32_t>(std::lower_bound(bounds.begin(), bounds.end(), value) - bounds.begin());
  if (handle.cell + buckets >= cells.size.load(instruments::kRelaxed) && !HaveCells(handle.cell + buckets)) {
    CellStore::Instance().AddLate(handle.cell + bucket, uint64_t{1});
    return CellStore::Instance().AddLate(handle.cell + buckets, value);
  }
  AddTo(cells.at[handle.cell + bucket], uint64_t{1});
  AddTo(cells.at[handle.cell + buckets], value);
}

}  // namespace internal
}  // namespace gpulens
