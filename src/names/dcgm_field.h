// How the tables of the dcgm dialects are written: one row per field of DCGM that we have.
//
//   DcgmField(kGpuFanSpeed, "DCGM_FI_DEV_FAN_SPEED", "Intended fan speed, 0 to 100.").Whole("%", 100)
#pragma once

#include "names/dialect.h"

namespace gpulens {

struct DcgmField {
  // A row begins as a gauge in the unit of the native one.
  constexpr DcgmField(const MetricDesc& from, std::string_view field, std::string_view meaning)
      : native(&from), name(field), name_4_6(field), help(meaning) {}

  // The field's name since DCGM 4.6, where it is another one.
  constexpr DcgmField Since46(std::string_view field) const {
    DcgmField row = *this;
    row.name_4_6 = field;
    return row;
  }
  // dcgm-exporter's list of counters types it so.
  constexpr DcgmField Counter() const {
    DcgmField row = *this;
    row.kind = Kind::kCounter;
    return row;
  }
  constexpr DcgmField In(std::string_view its_unit, double factor = 1) const {
    DcgmField row = *this;
    row.unit = its_unit;
    row.scale = factor;
    return row;
  }
  // As In, for what DCGM tells as an integer.
  constexpr DcgmField Whole(std::string_view its_unit, double factor) const {
    DcgmField row = In(its_unit, factor);
    row.whole = true;
    return row;
  }
  // Only the series with this attribute; empty: those without it.
  constexpr DcgmField Where(std::string_view key, std::string_view value) const {
    DcgmField row = *this;
    size_t at = 0;
    while (!row.where.at(at).key.empty()) ++at;
    row.where[at] = {key, value};
    return row;
  }

  // Left out for a GPU that has the better series.
  constexpr DcgmField Unless(std::span<const Rival> better) const {
    DcgmField row = *this;
    row.unless = better;
    return row;
  }

  const MetricDesc* native;
  std::string_view name, name_4_6, unit = {}, help;
  Kind kind = Kind::kGauge;
  double scale = 1;
  bool whole = false;
  std::array<DialectWhere, 3> where = {};
  std::span<const Rival> unless = {};
};

inline constexpr double kPerKiB = 1.0 / 1024, kPerMiB = 1.0 / (1 << 20), kPerMega = 1e-6;

}  // namespace gpulens
