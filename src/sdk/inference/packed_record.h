// A record as it waits in the ring: what is known of it, one value after the other, and a word that says what
// that is. What was left out takes no room, because what a record costs its caller is the lines of memory
// that it touches: three for a usual one.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "store/telemetry/rows.h"

namespace gpulens::inference {

// What is still to be found out of a record when it is written: by the thread that writes, before.
class Settler {
 public:
  virtual ~Settler() = default;
  virtual void Settle(telemetry::Row& row) noexcept = 0;
};

// As many lines of memory as it wants, at most as here. Its words, in this order: what is known; memory of
// its own, if its texts are long; a settler, if there is one; numbers; texts, each behind its size.
struct alignas(64) PackedRecord {
  struct Line {
    alignas(64) std::array<uint64_t, 8> words;
  };
  static constexpr size_t kMostLines = 8;
  static constexpr size_t kNear = 96;  // bytes of texts: a model's name, an engine's, a UUID and some more

  std::array<uint64_t, 8 * kMostLines> words;

  // Bytes of its texts that want memory of their own; 0: they fit in here.
  template <class T>
  static size_t FarBytes(const T& given) noexcept {
    size_t bytes = 0;
    EachText(given, [&](std::string_view text) { bytes += text.size(); });
    return bytes <= kNear ? 0 : bytes + telemetry::kTexts * sizeof(FarSize);
  }
  // Takes `far`, of so many bytes, and `settler`; either may be null. How many lines it has become.
  template <class T>
  size_t Pack(const T& given, char* far, Settler* settler) noexcept {
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

  // Of what was packed; its texts live until it is freed.
  telemetry::Row Unpack() const noexcept;
  Settler* settler() const noexcept {
    return words[0] & kSettler ? reinterpret_cast<Settler*>(words[words[0] & kFar ? 2 : 1]) : nullptr;
  }
  void Free() noexcept {
    delete settler();
    if (words[0] & kFar) delete[] reinterpret_cast<char*>(words[1]);
  }

 private:
  using Numbers = telemetry::Numbers;
  using NearSize = uint8_t;
  using FarSize = uint32_t;
  static_assert(kNear <= UINT8_MAX);
  static constexpr size_t kNumbers = sizeof(Numbers) / sizeof(uint64_t);

  // Bits of the first word: texts from 0 on, numbers from kFirst on; of a record outcome and flags, too.
  static constexpr uint64_t kFar = 1 << 9, kSettler = 1 << 10, kRow = 1 << 11;
  static constexpr int kFirst = 12, kItl = 58, kStreaming = 59, kWarmup = 60, kOutcome = 62;
  static_assert(telemetry::kTexts == 9 && kFirst + kNumbers <= 64);
  static_assert(std::is_trivially_copyable_v<Numbers> && sizeof(Distribution) % 8 == 0);

  template <class T, class F>
  static void EachText(T& given, F&& visit) noexcept {
    if constexpr (std::is_same_v<std::remove_const_t<T>, telemetry::Row>) {
      for (auto& text : given.texts) visit(text);
    } else {
      auto& r = given;
      visit(r.model), visit(r.engine), visit(r.agent), visit(r.batch_id), visit(r.error_type);
      visit(r.metadata_json), visit(r.mining_session_id), visit(r.energy_method), visit(r.energy_vendor);
    }
  }
  // But time, outcome, flags and time per token.
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
  // What is as in an empty row is not known.
  static uint64_t* PackNumbers(const telemetry::Row& row, uint64_t* to, uint64_t& known) noexcept {
    static constexpr auto kNone = std::bit_cast<std::array<uint64_t, kNumbers>>(Numbers());
    known |= kRow;
    for (size_t i = 0; i < kNumbers; ++i) {
      std::memcpy(to, reinterpret_cast<const char*>(&row.numbers) + 8 * i, 8);
      const bool here = *to != kNone[i];
      known |= uint64_t{here} << (kFirst + i);
      to += here;  // else the next one is written over it
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
  // Without a call for names: two halves that may overlap.
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
  static const uint64_t* UnpackNumbers(const uint64_t* from, uint64_t known, Numbers& to) noexcept;
  template <class Size, class T>
  static void UnpackTexts(const char* from, uint64_t known, T& to) noexcept;
};
// With a value that is not known behind the last one.
static_assert(8 * (3 + sizeof(telemetry::Numbers) / 8) + telemetry::kTexts + PackedRecord::kNear <=
              sizeof(PackedRecord));

}  // namespace gpulens::inference
