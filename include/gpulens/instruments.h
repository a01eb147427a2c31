// Instruments that a program measures itself with: counters, gauges and histograms.
//
//   gpulens::Counter requests("http.server.requests", {.unit = "{request}"});
//   const auto chat = requests.Bind({{"route", "/chat"}, {"stream", true}});
//   chat.Add();
//
// An instrument that cannot be created has the reason in status(). Recording neither fails nor waits: no
// lock, no system call, no allocation after a thread's first record. Each thread writes its own cells, so
// counts are exact under any number of threads and outlive them. Not async-signal-safe. Handles are plain
// values: copies write to the same series, from any thread, also after the end of their registry (values are
// then not exported).
//
// After fork() the child starts again from 0: gauges are unset, and start_unix_ns is the time of the fork.
// gpulens::ShareWithWorkers (export.h) adds up what the processes of a server count.
#pragma once

#include <atomic>
#include <bit>
#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include <gpulens/registry.h>
#include <gpulens/status.h>
#include <gpulens/time.h>

namespace gpulens {

namespace internal {

// The cells of one thread, which alone writes them; each shared object that links this library has its own.
struct Cells {
  std::atomic<uint32_t> size{0};  // 0, set by another thread: get an array again
  std::atomic<uint64_t>* at = nullptr;
  std::atomic<uint64_t>* move = nullptr;  // of a histogram, while its buckets are moved
  void Clear() noexcept {
    size.store(0, std::memory_order_relaxed);
    at = move = nullptr;
  }
};
[[gnu::visibility("hidden")]] inline constinit thread_local Cells cells{};

inline constexpr uint32_t kInert = UINT32_MAX;
// Index of a series' cells and of its instrument. If `cell` is kInert, `family` is the reason.
struct Handle {
  uint32_t cell = kInert, family = 0;
};
struct HistogramForm;

// Handle a thread's first use of a cell, negative values for a counter, and inert instruments.
void AddSlow(Handle handle, int64_t n, bool monotonic) noexcept;
void AddSlow(Handle handle, double n, bool monotonic) noexcept;
void Drop() noexcept;
void Touch() noexcept;  // at a thread's first record

Handle Make(InstrumentKind kind, bool integer, std::string_view name, const InstrumentOptions& options,
            Registry& registry);
Handle Bind(Handle handle, std::span<const Attribute> attributes);
Status StatusOf(Handle handle);
std::atomic<double>* GaugeAt(Handle handle) noexcept;
bool KeepsTime(Handle handle) noexcept;  // of a gauge: whether KeepTime is to be called when it is set
void KeepTime(std::atomic<double>* gauge) noexcept;
const HistogramForm* FormOf(Handle handle) noexcept;  // null: exponential, or inert
void Record(Handle handle, const HistogramForm& form, double value) noexcept;
void RecordExponential(Handle handle, double value) noexcept;
double UnitsPerSecond(Handle handle) noexcept;  // NaN unless the unit is one of time

template <class Self>
class Instrument {
 public:
  // Returns the series with these attributes, which exists from now on, a counter with 0. Allocates: call it
  // once, not per record. The last of equal keys applies. For an inert instrument, or above the limit of
  // series, the returned series is usable, too.
  Self Bind(std::initializer_list<Attribute> attributes) const {
    return Bind(std::span<const Attribute>(attributes.begin(), attributes.size()));
  }
  Self Bind(std::span<const Attribute> attributes) const { return Self(internal::Bind(handle_, attributes)); }
  // An error if the instrument is inert and drops its values: the name is invalid, or has another kind or
  // unit.
  Status status() const { return StatusOf(handle_); }
  Handle handle() const noexcept { return handle_; }  // for bindings; not part of the interface

 protected:
  explicit Instrument(Handle handle) noexcept : handle_(handle) {}
  Handle handle_;
};

template <class Number, bool kMonotonic>
class Sum : public Instrument<Sum<Number, kMonotonic>> {
  using Base = Instrument<Sum>;
  friend Base;

 public:
  explicit Sum(std::string_view name, const InstrumentOptions& options = {},
               Registry& registry = Registry::Process())
      : Base(Make(kMonotonic ? InstrumentKind::kCounter : InstrumentKind::kUpDownCounter,
                  std::is_same_v<Number, int64_t>, name, options, registry)) {}

  // Drops and counts NaN, and negative values for a counter.
  void Add(Number n = 1) const noexcept {
    const Cells& mine = cells;
    const bool refused = kMonotonic ? !(n >= 0) : n != n;
    if (this->handle_.cell >= mine.size.load(std::memory_order_relaxed) || refused) [[unlikely]]
      return AddSlow(this->handle_, n, kMonotonic);
    std::atomic<uint64_t>& cell = mine.at[this->handle_.cell];
    const uint64_t before = cell.load(std::memory_order_relaxed);
    if constexpr (std::is_same_v<Number, int64_t>)
      cell.store(before + static_cast<uint64_t>(n), std::memory_order_relaxed);
    else cell.store(std::bit_cast<uint64_t>(std::bit_cast<double>(before) + n), std::memory_order_relaxed);
  }

 private:
  explicit Sum(Handle handle) noexcept : Base(handle) {}
};

}  // namespace internal

using Counter = internal::Sum<int64_t, true>;
using UpDownCounter = internal::Sum<int64_t, false>;  // a sum that rises and falls: requests in flight
using DoubleCounter = internal::Sum<double, true>;
using DoubleUpDownCounter = internal::Sum<double, false>;

// A value that the last writer sets. Not exported before the first Set, nor while it is NaN.
class Gauge : public internal::Instrument<Gauge> {
  friend class internal::Instrument<Gauge>;

 public:
  explicit Gauge(std::string_view name, const InstrumentOptions& options = {},
                 Registry& registry = Registry::Process())
      : Gauge(internal::Make(InstrumentKind::kGauge, false, name, options, registry)) {}
  void Set(double value) const noexcept {
    if (internal::cells.size.load(std::memory_order_relaxed) == 0) [[unlikely]]
      internal::Touch();
    at_->store(value, std::memory_order_relaxed);
    if (keeps_time_) [[unlikely]]
      internal::KeepTime(at_);
  }
  // Adds to the value, from 0 where none was set; exact under any number of threads. NaN is dropped and
  // counted.
  void Add(double n = 1) const noexcept {
    if (n != n) return internal::Drop();
    if (internal::cells.size.load(std::memory_order_relaxed) == 0) [[unlikely]]
      internal::Touch();
    double before = at_->load(std::memory_order_relaxed);
    while (
        !at_->compare_exchange_weak(before, before == before ? before + n : n, std::memory_order_relaxed)) {
    }
    if (keeps_time_) [[unlikely]]
      internal::KeepTime(at_);
  }

 private:
  explicit Gauge(internal::Handle handle) noexcept
      : Instrument(handle), at_(internal::GaugeAt(handle)), keeps_time_(internal::KeepsTime(handle)) {}
  std::atomic<double>* at_;
  bool keeps_time_;
};

// A distribution of values.
class Histogram : public internal::Instrument<Histogram> {
  friend class internal::Instrument<Histogram>;

 public:
  explicit Histogram(std::string_view name, const InstrumentOptions& options = {},
                     Registry& registry = Registry::Process())
      : Histogram(internal::Make(InstrumentKind::kHistogram, false, name, options, registry)) {}
  // Drops and counts NaN and infinite values and, where the buckets are exponential, negative ones.
  void Record(double value) const noexcept {
    if (form_) internal::Record(handle_, *form_, value);
    else internal::RecordExponential(handle_, value);
  }

  // Records its lifetime in the instrument's unit: s, ms, us or ns. With another unit the value is dropped.
  class [[nodiscard]] Timer {
   public:
    explicit Timer(const Histogram& to) noexcept : to_(&to) {}
    Timer(Timer&& other) noexcept : to_(std::exchange(other.to_, nullptr)), begun_(other.begun_) {}
    Timer& operator=(Timer&&) = delete;
    ~Timer() {
      if (!to_) return;
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun_;
      to_->Record(took.count() * internal::UnitsPerSecond(to_->handle_));
    }

   private:
    const Histogram* to_;
    TimePoint begun_ = std::chrono::steady_clock::now();
  };
  // The histogram must outlive the timer.
  Timer Time() const noexcept { return Timer(*this); }

 private:
  explicit Histogram(internal::Handle handle) noexcept
      : Instrument(handle), form_(internal::FormOf(handle)) {}
  const internal::HistogramForm* form_;
};

}  // namespace gpulens
