// Numbers that a program has about itself: counters, gauges and histograms, and the registry that owns them.
//
//   gpulens::Counter requests("http.server.requests", {.unit = "{request}"});
//   const auto chat = requests.Bind({{"route", "/chat"}, {"stream", true}});
//   chat.Add();
//
// Setting up may fail, and says so in status(); recording neither fails nor waits: no lock, no allocation
// after a thread's first touch, no system call. Each thread writes cells of its own, so counts are exact
// under any number of threads, and outlive them. Not async-signal-safe. Handles are plain values: copies
// write the same series, from any thread, also after the end of their registry (then nobody reads them).
//
// After fork() the child begins anew: all counts are 0, gauges are not set, and start_unix_ns is the time of
// the fork.
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

// Of one thread. Only that thread writes; each shared object that links this library has its own.
struct Cells {
  uint32_t size = 0;
  std::atomic<uint64_t>* at = nullptr;
};
[[gnu::visibility("hidden")]] inline constinit thread_local Cells cells{};

inline constexpr uint32_t kInert = UINT32_MAX;
// Where a series has its cells, and which instrument it is of. `cell` kInert: `family` is why.
struct Handle {
  uint32_t cell = kInert, family = 0;
};
struct HistogramForm;

// A thread's first touch of a cell, a negative number for a counter, an inert instrument.
void AddSlow(Handle handle, int64_t n, bool monotonic) noexcept;
void AddSlow(Handle handle, double n, bool monotonic) noexcept;
void Drop() noexcept;
void Touch() noexcept;  // a thread's first

Handle Make(InstrumentKind kind, bool integer, std::string_view name, const InstrumentOptions& options,
            Registry& registry);
Handle Bind(Handle handle, std::span<const Attribute> attributes);
Status StatusOf(Handle handle);
std::atomic<double>* GaugeAt(Handle handle) noexcept;
const HistogramForm* FormOf(Handle handle) noexcept;  // null: exponential, or inert
void Record(Handle handle, const HistogramForm& form, double value) noexcept;
void RecordExponential(Handle handle, double value) noexcept;
double UnitsPerSecond(Handle handle) noexcept;  // NaN when the unit is no time

template <class Self>
class Instrument {
 public:
  // The series with these attributes, which exists from here on, a counter with 0. Allocates: once, not per
  // record. The last of equal keys counts. Of an inert instrument, or above the limit: one that records all
  // the same.
  Self Bind(std::initializer_list<Attribute> attributes) const {
    return Bind(std::span<const Attribute>(attributes.begin(), attributes.size()));
  }
  Self Bind(std::span<const Attribute> attributes) const { return Self(internal::Bind(handle_, attributes)); }
  // Not ok: it is inert and drops what it is given. The name is taken by another kind or unit, or is none.
  Status status() const { return StatusOf(handle_); }

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

  // A negative or NaN for a counter is dropped and counted.
  void Add(Number n = 1) const noexcept {
    const Cells& mine = cells;
    const bool refused = kMonotonic ? !(n >= 0) : n != n;
    if (this->handle_.cell >= mine.size || refused) [[unlikely]]
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
using UpDownCounter = internal::Sum<int64_t, false>;  // what goes up and down: requests in flight
using DoubleCounter = internal::Sum<double, true>;
using DoubleUpDownCounter = internal::Sum<double, false>;

// The last writer wins. Not told until it is set, and not while it is NaN.
class Gauge : public internal::Instrument<Gauge> {
  friend class internal::Instrument<Gauge>;

 public:
  explicit Gauge(std::string_view name, const InstrumentOptions& options = {},
                 Registry& registry = Registry::Process())
      : Gauge(internal::Make(InstrumentKind::kGauge, false, name, options, registry)) {}
  void Set(double value) const noexcept {
    if (internal::cells.size == 0) [[unlikely]]
      internal::Touch();
    at_->store(value, std::memory_order_relaxed);
  }

 private:
  explicit Gauge(internal::Handle handle) noexcept : Instrument(handle), at_(internal::GaugeAt(handle)) {}
  std::atomic<double>* at_;
};

class Histogram : public internal::Instrument<Histogram> {
  friend class internal::Instrument<Histogram>;

 public:
  explicit Histogram(std::string_view name, const InstrumentOptions& options = {},
                     Registry& registry = Registry::Process())
      : Histogram(internal::Make(InstrumentKind::kHistogram, false, name, options, registry)) {}
  // NaN and infinite values are dropped and counted; negative ones, too, where the buckets are exponential.
  void Record(double value) const noexcept {
    if (form_) internal::Record(handle_, *form_, value);
    else internal::RecordExponential(handle_, value);
  }

  // Records the time until its end, in the instrument's unit: s, ms, us or ns. Another unit: dropped.
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
  // The histogram outlives the timer.
  Timer Time() const noexcept { return Timer(*this); }

 private:
  explicit Histogram(internal::Handle handle) noexcept
      : Instrument(handle), form_(internal::FormOf(handle)) {}
  const internal::HistogramForm* form_;
};

}  // namespace gpulens
