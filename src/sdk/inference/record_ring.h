// Queue of records from any thread to the writing thread. Neither side waits, and a record with short texts
// allocates no memory. Records are stored as given; the reader converts them to rows, so that producers spend
// no time on it.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>

#include "store/telemetry/rows.h"

namespace gpulens::inference {

// Completes a record on the writing thread, before it is written.
class RecordSettler {
 public:
  virtual ~RecordSettler() = default;
  virtual void Settle(telemetry::RecordRow& row) noexcept = 0;
};

// A record as the ring stores it: only its known values, since the cost of a record is that of its cache
// lines, three for a usual one. Its words, in this order: a bit mask of the known values; a pointer to long
// texts, if any; a settler, if any; numbers; texts, each after its size.
struct alignas(64) PackedRecord {
  struct Line {
    alignas(64) std::array<uint64_t, 8> words;
  };
  static constexpr size_t kMostLines = 8;
  static constexpr size_t kNear = 96;  // bytes of texts: names of a model and an engine, a UUID and some more

  std::array<uint64_t, 8 * kMostLines> words;

  // Bytes to allocate for the texts; 0: they fit into the record.
  template <class T>
  static size_t FarBytes(const T& given) noexcept {
    size_t bytes = 0;
    EachText(given, [&](std::string_view text) { bytes += text.size(); });
    return bytes <= kNear ? 0 : bytes + telemetry::kTexts * sizeof(FarSize);
  }
  // Packs a record, takes ownership of `far` (memory of FarBytes) and `settler`, either of which may be null,
  // and returns the number of lines.
  template <class T>
  size_t Pack(const T& given, char* far, RecordSettler* settler) noexcept {
    uint64_t* to = words.data() + 1;
    uint64_t known = 0;
    if (far) [[unlikely]] {
      known |= kFar;
      *to++ = reinterpret_cast<uint64_t>(far);
    }
    if (settler) {
      known |= kSettler;
      *to++ = reinterpret_cast<uint64_t>(settler);
    }
    to = PackNumbers(given, to, known);
    const char* end = reinterpret_cast<const char*>(to);
    if (far) [[unlikely]]
      PackTexts<FarSize>(given, far, known);
    else end = PackTexts<NearSize>(given, reinterpret_cast<char*>(to), known);
    words[0] = known;
    return (static_cast<size_t>(end - reinterpret_cast<const char*>(this)) + 63) / 64;
  }

  // Returns the row; its texts live until the record is freed.
  telemetry::RecordRow Unpack() const noexcept;
  RecordSettler* settler() const noexcept {
    return words[0] & kSettler ? reinterpret_cast<RecordSettler*>(words[words[0] & kFar ? 2 : 1]) : nullptr;
  }
  void Free() noexcept {
    delete settler();
    if (words[0] & kFar) delete[] reinterpret_cast<char*>(words[1]);
  }

 private:
  using RecordNumbers = telemetry::RecordNumbers;
  using NearSize = uint8_t;
  using FarSize = uint32_t;
  static_assert(kNear <= UINT8_MAX);
  static constexpr size_t kNumbers = sizeof(RecordNumbers) / sizeof(uint64_t);

  // Bits of the first word: texts from 0, numbers from kFirst; for an InferenceRecord also outcome and flags.
  static constexpr uint64_t kFar = 1 << 9, kSettler = 1 << 10, kRow = 1 << 11;
  static constexpr int kFirst = 12, kItl = 58, kStreaming = 59, kWarmup = 60, kOutcome = 62;
  static_assert(telemetry::kTexts == 9 && kFirst + kNumbers <= 64);
  static_assert(std::is_trivially_copyable_v<RecordNumbers> && sizeof(Distribution) % 8 == 0);

  template <class T, class F>
  static void EachText(T& given, F&& visit) noexcept {
    if constexpr (std::is_same_v<std::remove_const_t<T>, telemetry::RecordRow>) {
      for (auto& text : given.texts) visit(text);
    } else {
      auto& r = given;
      visit(r.model), visit(r.engine), visit(r.agent), visit(r.batch_id), visit(r.error_type);
      visit(r.metadata_json), visit(r.mining_session_id), visit(r.energy_method), visit(r.energy_vendor);
    }
  }
  // Visits the numbers except time, outcome, flags and time per token.
  template <class T, class F>
  static void EachNumber(T& r, F&& visit) noexcept {
    visit(r.prompt_tokens), visit(r.prompt_tokens_evaluated), visit(r.cached_prompt_tokens);
    visit(r.completion_tokens), visit(r.total_tokens), visit(r.token_counting_version);
    visit(r.latency_seconds), visit(r.ttft_seconds), visit(r.consumer_seconds), visit(r.cost_usd);
    visit(r.energy_joules), visit(r.energy_uncertainty_joules), visit(r.prefill_energy_joules);
    visit(r.decode_energy_joules), visit(r.gpu_energy_joules), visit(r.cpu_energy_joules);
    visit(r.dram_energy_joules), visit(r.power_watts), visit(r.gpu_utilization_ratio);
    visit(r.gpu_memory_used_bytes), visit(r.gpu_temperature_celsius);
  }

  static uint64_t* PackNumbers(const InferenceRecord& record, uint64_t* to, uint64_t& known) noexcept {
    *to++ = static_cast<uint64_t>(record.time.time_since_epoch().count());
    int bit = kFirst;
    EachNumber(record, [&](const auto& value) {
      const uint64_t one = uint64_t{1} << bit++;
      if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, double>) {
        if (value != value) return;
        *to++ = std::bit_cast<uint64_t>(value);
      } else {
        if (!value) return;
        *to++ = static_cast<uint64_t>(*value);
      }
      known |= one;
    });
    if (record.itl_seconds.n > 0) {
      known |= uint64_t{1} << kItl;
      std::memcpy(to, &record.itl_seconds, sizeof record.itl_seconds);
      to += sizeof record.itl_seconds / sizeof *to;
    }
    known |= uint64_t{record.streaming} << kStreaming | uint64_t{record.warmup} << kWarmup |
             static_cast<uint64_t>(record.outcome) << kOutcome;
    return to;
  }
  // Values equal to those of an empty row are unknown.
  static uint64_t* PackNumbers(const telemetry::RecordRow& row, uint64_t* to, uint64_t& known) noexcept {
    static constexpr auto kNone = std::bit_cast<std::array<uint64_t, kNumbers>>(RecordNumbers());
    known |= kRow;
    for (size_t i = 0; i < kNumbers; ++i) {
      std::memcpy(to, reinterpret_cast<const char*>(&row.numbers) + 8 * i, 8);
      const bool here = *to != kNone[i];
      known |= uint64_t{here} << (kFirst + i);
      to += here;  // an unknown value is overwritten by the next one
    }
    return to;
  }

  template <class Size, class T>
  static char* PackTexts(const T& given, char* to, uint64_t& known) noexcept {
    uint64_t one = 1;
    EachText(given, [&](std::string_view text) __attribute__((always_inline)) {
      if (!text.empty()) {
        to = PackText<Size>(to, text);
        known |= one;
      }
      one <<= 1;
    });
    return to;
  }
  template <class Size>
  static char* PackText(char* to, std::string_view text) noexcept {
    const auto size = static_cast<Size>(text.size());
    std::memcpy(to, &size, sizeof size);
    CopyText(to + sizeof size, text);
    return to + sizeof size + text.size();
  }
  // Copies short texts as two halves that may overlap, without a call of memcpy.
  static void CopyText(char* to, std::string_view text) noexcept {
    const char* from = text.data();
    const size_t n = text.size();
    const auto halves = [&](auto size) {
      std::memcpy(to, from, size);
      std::memcpy(to + n - size, from + n - size, size);
    };
    if (n > 32) std::memcpy(to, from, n);
    else if (n >= 16) halves(std::integral_constant<size_t, 16>());
    else if (n >= 8) halves(std::integral_constant<size_t, 8>());
    else if (n >= 4) halves(std::integral_constant<size_t, 4>());
    else
      for (size_t i = 0; i < n; ++i) to[i] = from[i];
  }

  static const uint64_t* UnpackNumbers(const uint64_t* from, uint64_t known, InferenceRecord& to) noexcept;
  static const uint64_t* UnpackNumbers(const uint64_t* from, uint64_t known, RecordNumbers& to) noexcept;
  template <class Size, class T>
  static void UnpackTexts(const char* from, uint64_t known, T& to) noexcept;
};
// Has room for an unknown value that is written after the last known one.
static_assert(8 * (3 + sizeof(telemetry::RecordNumbers) / 8) + telemetry::kTexts + PackedRecord::kNear <=
              sizeof(PackedRecord));

// Bounded queue of records: many producers, one consumer. Records have variable length and stay in place
// until they are released, so a record that cannot be written yet is neither copied nor lost.
class RecordRing {
 public:
  // The capacity, at most 2^24, is rounded up to a power of two. Has memory for that many of the longest
  // records, so only their number is limited; pages are faulted in as the high-water mark grows.
  explicit RecordRing(size_t capacity)
      : mask_(static_cast<uint32_t>(std::bit_ceil(capacity < 2 ? 2 : capacity) - 1)),
        entries_(New<uint64_t>(mask_ + size_t{1})),
        // A record that begins before the end may extend beyond it; the same number of lines at the beginning
        // is unused.
        memory_(New<std::byte>(((mask_ + size_t{2}) * PackedRecord::kMostLines + 1) * sizeof(Line))),
        lines_(
            reinterpret_cast<Line*>((reinterpret_cast<uintptr_t>(memory_.get()) | (sizeof(Line) - 1)) + 1)) {}
  ~RecordRing() { Release(Ready(capacity())); }
  RecordRing(const RecordRing&) = delete;
  RecordRing& operator=(const RecordRing&) = delete;

  size_t capacity() const noexcept { return mask_ + size_t{1}; }
  // Number of records pushed and released, modulo 2^32; compare with Until.
  uint32_t pushed() const noexcept { return Count(pushed_.load(std::memory_order_acquire)); }
  uint32_t released() const noexcept { return released_.load(std::memory_order_acquire); }
  static int32_t Until(uint32_t from, uint32_t to) noexcept { return static_cast<int32_t>(to - from); }
  size_t waiting() const noexcept {
    const uint32_t from = released();  // first: then no more can have been released than pushed
    return static_cast<uint32_t>(Until(from, pushed()));
  }

  // Number of records pushed including this one, modulo 2^32 and never 0; 0: full, or no memory for a long
  // text.
  uint64_t Push(const telemetry::RecordRow& row, std::unique_ptr<RecordSettler>* settler = nullptr) noexcept {
    return PushGiven(row, settler);
  }
  uint64_t Push(const InferenceRecord& record) noexcept { return PushGiven(record, nullptr); }

  // ---- for the consumer
  // Returns the number of complete records from the oldest on, at most `most`.
  size_t Ready(size_t most) const noexcept {
    const uint32_t from = released_.load(std::memory_order_relaxed);
    uint32_t count = 0;
    while (count < most && Entry(from + count).load(std::memory_order_acquire) >> 32 == from + count + 1U)
      ++count;
    return count;
  }
  // Returns the i-th oldest record, for i below Ready(). Its texts live until it is released.
  telemetry::RecordRow At(size_t i) const noexcept { return Record(i).Unpack(); }
  // Returns the settler of that record, or null.
  RecordSettler* settler(size_t i) const noexcept { return Record(i).settler(); }
  void Release(size_t count) noexcept {
    for (size_t i = 0; i < count; ++i) Record(i).Free();
    const uint32_t released = released_.load(std::memory_order_relaxed) + static_cast<uint32_t>(count);
    released_.store(released, std::memory_order_release);
    // An empty ring restarts at its beginning, which is in the cache, unless a producer has just taken a
    // slot.
    uint64_t end = pushed_.load(std::memory_order_relaxed);
    if (Count(end) == released)
      pushed_.compare_exchange_strong(end, Place(released, 0), std::memory_order_release,
                                      std::memory_order_relaxed);
  }

 private:
  using Line = PackedRecord::Line;
  struct Freed {
    void operator()(void* memory) const noexcept { std::free(memory); }
  };
  template <class T>
  using Memory = std::unique_ptr<T[], Freed>;
  // Returns zeroed memory, which the kernel provides without writing it.
  template <class T>
  static Memory<T> New(size_t count) {
    Memory<T> memory(static_cast<T*>(std::calloc(count, sizeof(T))));
    if (!memory) throw std::bad_alloc();
    return memory;
  }

  // A number of records, modulo 2^32, and a number of lines.
  static uint64_t Place(uint32_t count, uint32_t line) noexcept { return uint64_t{count} << 32 | line; }
  static uint32_t Count(uint64_t place) noexcept { return static_cast<uint32_t>(place >> 32); }
  Line* Lines(uint64_t place) const noexcept {
    return lines_ + (static_cast<uint32_t>(place) & (capacity() * PackedRecord::kMostLines - 1));
  }
  // For the n-th record from 0 on: n + 1 and its first line, once it is complete.
  std::atomic_ref<uint64_t> Entry(uint32_t n) const noexcept { return std::atomic_ref(entries_[n & mask_]); }
  PackedRecord& Record(size_t i) const noexcept {
    const uint32_t n = released_.load(std::memory_order_relaxed) + static_cast<uint32_t>(i);
    return *reinterpret_cast<PackedRecord*>(Lines(Entry(n).load(std::memory_order_relaxed)));
  }

  template <class T>
  uint64_t PushGiven(const T& given, std::unique_ptr<RecordSettler>* settler) noexcept {
    char* far = nullptr;
    if (const size_t bytes = PackedRecord::FarBytes(given); bytes > 0) [[unlikely]] {
      far = new (std::nothrow) char[bytes];
      if (!far) return 0;
    }
    // The size must be known before a place is reserved.
    PackedRecord packed;
    const size_t size = packed.Pack(given, far, settler ? settler->get() : nullptr);
    // Both acquire loads pair with the consumer's releases in Release. The second load may be newer than the
    // first.
    uint64_t at = pushed_.load(std::memory_order_acquire), end = 0;
    do {
      if (Until(released_.load(std::memory_order_acquire), Count(at)) > static_cast<int32_t>(mask_)) {
        delete[] far;
        return 0;
      }
      end = Place(Count(at) + 1, static_cast<uint32_t>(at) + static_cast<uint32_t>(size));
    } while (!pushed_.compare_exchange_weak(at, end, std::memory_order_acquire));
    if (settler) static_cast<void>(settler->release());
    const Line* from = reinterpret_cast<const Line*>(&packed);
    Line* to = Lines(at);
    for (size_t i = 0; i < size; ++i) to[i] = from[i];
    Entry(Count(at)).store(Place(Count(end), static_cast<uint32_t>(at)), std::memory_order_release);
    return uint64_t{Count(at)} + 1;
  }

  const uint32_t mask_;
  const Memory<uint64_t> entries_;
  const Memory<std::byte> memory_;
  Line* const lines_;
  alignas(64) std::atomic<uint64_t> pushed_ = 0;  // the place after the last record
  alignas(64) std::atomic<uint32_t> released_ = 0;
};

}  // namespace gpulens::inference
