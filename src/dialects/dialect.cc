#include "dialects/dialect.h"

#include <array>

#include "catalog/spelling.h"
#include "dialects/zernel.h"

namespace gpulens {
namespace {

constexpr const Dialect* kDialects[] = {&kZernel};
constexpr auto kNames = [] {
  std::array<std::string_view, std::size(kDialects) + 1> names{kNativeDialect};
  for (size_t i = 0; i < std::size(kDialects); ++i) names[i + 1] = kDialects[i]->name;
  return names;
}();

bool Applies(const DialectRow& row, const SeriesInfo& series) {
  if (row.native != series.desc) return false;
  return row.where_key.empty() || series.attributes.Text(row.where_key) == row.where_value;
}

// The unit as a word at the end of a name, "bytes_per_second"; empty when the unit is not spelt.
std::string UnitWord(const MetricDesc& desc) {
  constexpr std::string_view kProbe = "x";
  MetricDesc probe;
  probe.name = kProbe;
  probe.unit = desc.unit;
  probe.kind = desc.kind == Kind::kCounter ? Kind::kUpDownCounter : desc.kind;
  std::string word;
  AppendPrometheusName(word, probe);
  return word.size() > kProbe.size() ? word.substr(kProbe.size() + 1) : "";
}

}  // namespace

const Dialect* FindDialect(std::string_view name) noexcept {
  for (const Dialect* dialect : kDialects) {
    if (dialect->name == name) return dialect;
  }
  return nullptr;
}

std::span<const std::string_view> DialectNames() noexcept { return kNames; }

void SpellNative(const SeriesInfo& series, std::vector<SpelledSeries>& out) {
  const MetricDesc& desc = *series.desc;
  SpelledSeries& spelled = out.emplace_back();
  AppendPrometheusName(spelled.name, desc);
  spelled.unit = desc.spelling == Spelling::kVerbatim ? std::string(desc.unit) : UnitWord(desc);
  spelled.help = desc.help;
  spelled.kind = desc.kind;
  for (auto [key, value] : series.attributes) {
    std::string label;
    if (desc.spelling == Spelling::kVerbatim) label = key;
    else AppendPrometheusLabel(label, key);
    std::string text;
    AppendValue(text, value);
    spelled.labels.emplace_back(std::move(label), std::move(text));
  }
}

void SpellDialect(const Dialect& dialect, const SeriesInfo& series, std::vector<SpelledSeries>& out) {
  for (const DialectRow& row : dialect.rows) {
    if (!Applies(row, series)) continue;
    SpelledSeries& spelled = out.emplace_back();
    spelled.name = row.name;
    spelled.unit = row.unit;
    spelled.help = row.help;
    spelled.kind = row.kind;
    spelled.scale = row.scale;
    for (const DialectLabel& label : row.labels) {
      if (!series.attributes.Has(label.attribute)) continue;
      spelled.labels.emplace_back(label.label, series.attributes.Text(label.attribute));
    }
  }
}

Speller MakeSpeller(std::span<const std::string> names) {
  bool native = false;
  std::vector<const Dialect*> dialects;
  for (const std::string& name : names) {
    if (name == kNativeDialect) native = true;
    else if (const Dialect* dialect = FindDialect(name)) dialects.push_back(dialect);
  }
  return [native, dialects](const SeriesInfo& series, std::vector<SpelledSeries>& out) {
    if (native) SpellNative(series, out);
    for (const Dialect* dialect : dialects) SpellDialect(*dialect, series, out);
  };
}

std::vector<SpelledSeries> AlwaysShown(std::span<const std::string> names) {
  std::vector<SpelledSeries> out;
  for (const std::string& name : names) {
    const Dialect* dialect = FindDialect(name);
    if (!dialect) continue;
    for (const DialectFamily& family : dialect->families) {
      SpelledSeries& spelled = out.emplace_back();
      spelled.name = family.name;
      spelled.help = family.help;
      spelled.kind = family.kind;
    }
  }
  return out;
}

}  // namespace gpulens
