// A record in its place in the ring: as it was given, but for what was left out.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <type_traits>

#include "store/telemetry/rows.h"

namespace gpulens::inference {

// What is still to be found out of a record when it is written: by the thread that writes, before.
class Settler {
 public:
  virtual ~Settler() = default;
  virtual void Settle(telemetry::Row& row) noexcept = 0;
};

// As little as can be is written: what a record costs is the lines of memory that it touches. May begin as
// zeros, without a constructor.
struct RecordSlot {
  // A model's name, an engine's, a UUID and some more.
  static constexpr size_t kNear = 96;

  uint64_t turn;
  char* far;  // texts that found no room in `kept`
  Settler* settler;
  std::array<uint32_t, telemetry::kTexts> sizes;
  uint32_t parts;  // a bit of each part of a record that lies in `kept`; kRow: the numbers of a row do
  std::array<char, sizeof(telemetry::Numbers) + kNear> kept;  // numbers, then texts

  static constexpr uint32_t kRow = 1u << 31;

  // A record but for its texts, in parts that are there or not. Each is a run of members.
  struct Part {
    size_t begin, end;
  };
  static constexpr Part kParts[] = {
      {offsetof(InferenceRecord, time), offsetof(InferenceRecord, itl_seconds)},
      {offsetof(InferenceRecord, itl_seconds), offsetof(InferenceRecord, energy_joules)},
      {offsetof(InferenceRecord, energy_joules), offsetof(InferenceRecord, energy_method)},
      {offsetof(InferenceRecord, power_watts), sizeof(InferenceRecord)},
  };
  static uint32_t PartsOf(const InferenceRecord& r) noexcept {
    const auto any = [](auto... values) { return ((values == values) | ...); };  // but NaN
    const bool itl = r.itl_seconds.n > 0;
    const bool energy =
        any(r.energy_joules, r.energy_uncertainty_joules, r.prefill_energy_joules, r.decode_energy_joules,
            r.gpu_energy_joules, r.cpu_energy_joules, r.dram_energy_joules);
    const bool device =
        any(r.power_watts, r.gpu_utilization_ratio, r.gpu_memory_used_bytes, r.gpu_temperature_celsius);
    return 1u | uint32_t{itl} << 1 | uint32_t{energy} << 2 | uint32_t{device} << 3;
  }
  static_assert(std::is_trivially_copyable_v<InferenceRecord> && std::is_standard_layout_v<InferenceRecord>);
  static_assert(sizeof(InferenceRecord) - telemetry::kTexts * sizeof(std::string_view) <=
                sizeof(telemetry::Numbers));

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

  telemetry::Row Row() const noexcept { return parts == kRow ? RowIn() : telemetry::FromRecord(RecordIn()); }

  // Without a call for names: two halves that may overlap.
  static void CopyText(char* to, std::string_view text) noexcept {
    const char* from = text.data();
    const size_t n = text.size();
    if (n == 0) return;
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

  template <class T>
  void Keep(const T& given) noexcept {
    char* to = far;
    char* const end = KeepNumbers(given);
    if (!to) to = end;
    uint32_t* size = sizes.data();
    EachText(given, [&](std::string_view text) {
      *size++ = static_cast<uint32_t>(text.size());
      CopyText(to, text);
      to += text.size();
    });
  }
  // Where they end.
  char* KeepNumbers(const telemetry::Row& row) noexcept {
    parts = kRow;
    std::memcpy(kept.data(), &row.numbers, sizeof row.numbers);
    return kept.data() + sizeof row.numbers;
  }
  char* KeepNumbers(const InferenceRecord& record) noexcept {
    parts = PartsOf(record);
    char* to = kept.data();
    const auto keep = [&]<size_t kPart>(std::integral_constant<size_t, kPart>) {
      constexpr Part kOne = kParts[kPart];
      if (!(parts >> kPart & 1)) return;
      std::memcpy(to, reinterpret_cast<const char*>(&record) + kOne.begin, kOne.end - kOne.begin);
      to += kOne.end - kOne.begin;
    };
    keep(std::integral_constant<size_t, 0>()), keep(std::integral_constant<size_t, 1>());
    keep(std::integral_constant<size_t, 2>()), keep(std::integral_constant<size_t, 3>());
    return to;
  }

  template <class T>
  void TextsIn(const char* from, T& to) const noexcept {
    if (far) from = far;
    const uint32_t* size = sizes.data();
    EachText(to, [&](std::string_view& text) {
      text = {from, *size};
      from += *size++;
    });
  }
  telemetry::Row RowIn() const noexcept {
    telemetry::Row row;
    std::memcpy(&row.numbers, kept.data(), sizeof row.numbers);
    TextsIn(kept.data() + sizeof row.numbers, row);
    return row;
  }
  InferenceRecord RecordIn() const noexcept {
    InferenceRecord record;
    const char* from = kept.data();
    for (size_t i = 0; i < std::size(kParts); ++i) {
      if (!(parts >> i & 1)) continue;
      std::memcpy(reinterpret_cast<char*>(&record) + kParts[i].begin, from, kParts[i].end - kParts[i].begin);
      from += kParts[i].end - kParts[i].begin;
    }
    TextsIn(from, record);
    return record;
  }
};

}  // namespace gpulens::inference
