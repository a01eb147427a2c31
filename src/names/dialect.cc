#include "names/dialect.h"

#include <algorithm>
#include <memory>

#include "catalog/all.h"
#include "catalog/prometheus_name.h"
#include "names/dcgm.h"
#include "names/genai.h"
#include "names/hw.h"
#include "names/l9gpu.h"
#include "names/zernel.h"
#include "names/zumik.h"

namespace gpulens {
namespace {

// What gpu.info tells of a GPU; other rows are joined to it by gpu.uuid.
constexpr std::string_view kGpuIdentityKeys[] = {"gpu.model", "gpu.vendor", "gpu.mig.enabled"};

constexpr const Dialect* kDialects[] = {&kZernel, &kDcgm, &kDcgm46, &kHw, &kL9gpu, &kGenai, &kZumik};

// The names that configuration allows are those of the tables, in their order.
constexpr bool NamesAgree() {
  if (std::size(kDialectNames) != std::size(kDialects) + 1 || kDialectNames[0] != kNativeDialect)
    return false;
  for (size_t i = 0; i < std::size(kDialects); ++i) {
    if (kDialectNames[i + 1] != kDialects[i]->name) return false;
  }
  return true;
}
static_assert(NamesAgree());

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

void AppendNativeLabels(const SeriesInfo& series, std::string_view without, NameForm form, NamedSeries& named,
                        MetricLevel level = MetricLevel::kAll) {
  for (auto [key, value] : series.attributes) {
    if (!without.empty() && key == without) continue;
    if (!ShowsAttribute(*series.desc, key, level)) continue;
    std::string label;
    if (series.desc->naming == Naming::kVerbatim || form == NameForm::kOtel) label = key;
    else AppendPrometheusLabel(label, key);
    std::string text;
    AppendValue(text, value);
    named.labels.emplace_back(std::move(label), std::move(text));
  }
}

void NameNativeIn(NameForm form, const SeriesInfo& series, std::vector<NamedSeries>& out,
                  MetricLevel level = MetricLevel::kAll) {
  const MetricDesc& desc = *series.desc;
  if (desc.level > level || desc.translated_only) return;
  NamedSeries& named = out.emplace_back();
  const bool as_scraped = desc.naming == Naming::kVerbatim;
  const bool as_it_is = as_scraped || form == NameForm::kOtel;
  if (form == NameForm::kOtel) named.name = desc.name;
  else AppendPrometheusName(named.name, desc);
  named.unit = as_it_is ? std::string(desc.unit) : UnitWord(desc);
  named.help = desc.help;
  named.kind = desc.kind;
  named.only_if_set = desc.kind == Kind::kStateSet && !as_scraped && level != MetricLevel::kAll;
  AppendNativeLabels(series, {}, form, named, level);
}

// "0000:0f:00.0" to "00000000:0F:00.0"; what has another form stays as it is.
std::string NvmlBusId(std::string text) {
  size_t colon = text.find(':');
  if (colon == text.npos || colon > 8) return text;
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'a' && c <= 'f' ? static_cast<char>(c - 'a' + 'A') : c; });
  return std::string(8 - colon, '0') + text;
}

std::string InTheirWords(std::string text, std::span<const DialectWord> words) {
  for (const DialectWord& word : words) {
    if (text == word.ours) return std::string(word.theirs);
  }
  return text;
}

bool HasWord(std::span<const DialectWord> words, std::string_view text) {
  return std::any_of(words.begin(), words.end(), [&](const DialectWord& word) { return word.ours == text; });
}

// What the row's name is spelt from.
MetricDesc OtelDesc(const DialectRow& row) {
  MetricDesc desc;
  desc.name = row.name;
  desc.unit = row.unit;
  desc.kind = row.kind;
  return desc;
}

void AppendLabel(const DialectLabel& label, const SeriesInfo& series, const TickFacts& facts,
                 NamedSeries& named) {
  for (const auto& [there, value] : named.labels) {
    if (there == label.label) return;
  }
  std::string value(label.text);
  if (!label.attribute.empty()) {
    std::string text = facts.Text(series, label.attribute);
    if (text.empty() || (label.listed && !HasWord(label.words, text))) return;
    if (label.as == DialectLabel::kNvmlBusId) text = NvmlBusId(std::move(text));
    value += InTheirWords(std::move(text), label.words);
  }
  std::string then = label.then.empty() ? std::string() : facts.Text(series, label.then);
  if (label.then.empty() || !then.empty()) value.append(label.join).append(then);
  named.labels.emplace_back(label.label, std::move(value));
}

bool Applies(const DialectRow& row, const SeriesInfo& series) {
  if (row.native != series.desc) return false;
  return std::all_of(row.where.begin(), row.where.end(), [&](const DialectWhere& where) {
    return where.key.empty() || series.attributes.Text(where.key) == where.value;
  });
}

// Another name on the same page may be what OpenMetrics would call a counter's family.
void MarkTakenNames(std::span<NamedSeries> named) {
  for (NamedSeries& counter : named) {
    if (counter.kind != Kind::kCounter || !counter.name.ends_with("_total")) continue;
    std::string_view family = std::string_view(counter.name).substr(0, counter.name.size() - 6);
    counter.name_taken = std::any_of(named.begin(), named.end(),
                                     [&](const NamedSeries& other) { return other.name == family; });
  }
}

// The dialects of one page, and what it knows of the present tick.
class PageNamer {
 public:
  PageNamer(std::span<const std::string> names, NameForm form, MetricLevel level)
      : form_(form), level_(level) {
    for (const std::string& name : names) {
      if (name == kNativeDialect) native_ = true;
      else if (const Dialect* dialect = FindDialect(name)) dialects_.push_back(dialect);
    }
    for (const Dialect* dialect : dialects_) {
      for (const DialectRow& row : dialect->rows) facts_.Watch(row.unless);
    }
  }

  bool Look(const Snapshot& snapshot) {
    bool looks = std::any_of(dialects_.begin(), dialects_.end(), [](const Dialect* d) { return d->looks; });
    return looks && facts_.Look(snapshot);
  }

  void MakeNames(const SeriesInfo& series, std::vector<NamedSeries>& out) const {
    size_t before = out.size();
    if (native_) NameNativeIn(form_, series, out, level_);
    for (const Dialect* dialect : dialects_) NameIn(*dialect, series, out);
    MarkTakenNames(std::span(out).subspan(before));
  }

 private:
  void NameIn(const Dialect& dialect, const SeriesInfo& series, std::vector<NamedSeries>& out) const {
    if (!dialect.vendor.empty()) {
      std::string vendor = facts_.Text(series, "gpu.vendor");
      if (!vendor.empty() && vendor != dialect.vendor) return;
    }
    bool keep_native = true;
    for (const DialectRow& row : dialect.rows) {
      if (!Applies(row, series) || HasRival(row, series)) continue;
      keep_native = row.keep_native;
      if (!row.name.empty()) NameRow(dialect, row, series, out);
    }
    if (dialect.over_native && keep_native && !native_) NameOverNative(dialect, series, out);
  }

  bool HasRival(const DialectRow& row, const SeriesInfo& series) const {
    return std::any_of(row.unless.begin(), row.unless.end(),
                       [&](const Rival& rival) { return facts_.HasRival(series, rival); });
  }

  void NameRow(const Dialect& dialect, const DialectRow& row, const SeriesInfo& series,
               std::vector<NamedSeries>& out) const {
    NamedSeries& named = out.emplace_back();
    named.name = row.name;
    named.unit = row.unit;
    named.help = row.help;
    named.kind = row.kind;
    named.scale = row.scale;
    named.whole = row.whole;
    if (row.all_attributes) AppendNativeLabels(series, row.without, NameForm::kPrometheus, named);
    for (const DialectLabel& label : row.labels) AppendLabel(label, series, facts_, named);
    for (const DialectLabel& label : dialect.labels) AppendLabel(label, series, facts_, named);
    if (row.other_attributes) AppendOthers(dialect, row, series, named);
    if (dialect.otel && form_ == NameForm::kPrometheus) NameOtel(dialect, row, named);
  }

  // The attributes that no label tells, under their own keys.
  static void AppendOthers(const Dialect& dialect, const DialectRow& row, const SeriesInfo& series,
                           NamedSeries& named) {
    auto told = [&](std::span<const DialectLabel> labels, std::string_view key) {
      return std::any_of(labels.begin(), labels.end(), [&](const DialectLabel& label) {
        // Two of ours may be one of their words.
        return label.label == key || (label.attribute == key && label.words.empty()) || label.then == key;
      });
    };
    for (auto [key, value] : series.attributes) {
      if (told(row.labels, key) || told(dialect.labels, key)) continue;
      std::string text;
      AppendValue(text, value);
      named.labels.emplace_back(key, std::move(text));
    }
  }

  static void NameOtel(const Dialect& dialect, const DialectRow& row, NamedSeries& named) {
    named.name = PrometheusNameOf(dialect, row);
    named.unit = UnitWord(OtelDesc(row));
    for (auto& [key, value] : named.labels) {
      std::string label;
      AppendPrometheusLabel(label, key);
      key = std::move(label);
    }
  }

  void NameOverNative(const Dialect& dialect, const SeriesInfo& series, std::vector<NamedSeries>& out) const {
    size_t before = out.size();
    NameNativeIn(form_, series, out);
    for (NamedSeries& named : std::span(out).subspan(before)) {
      if (named.kind == Kind::kUpDownCounter) named.kind = Kind::kGauge;
      if (series.desc->naming == Naming::kVerbatim) continue;
      for (const DialectLabel& label : dialect.labels) AppendLabel(label, series, facts_, named);
    }
  }

  const NameForm form_;
  const MetricLevel level_;
  bool native_ = false;
  std::vector<const Dialect*> dialects_;
  TickFacts facts_;
};

}  // namespace

const Dialect* FindDialect(std::string_view name) noexcept {
  for (const Dialect* dialect : kDialects) {
    if (dialect->name == name) return dialect;
  }
  return nullptr;
}

std::span<const std::string_view> DialectNames() noexcept { return kDialectNames; }

void NameNative(const SeriesInfo& series, std::vector<NamedSeries>& out) {
  NameNativeIn(NameForm::kPrometheus, series, out);
}

std::string PrometheusNameOf(const Dialect& dialect, const DialectRow& row) {
  if (!dialect.otel) return std::string(row.name);
  std::string name;
  AppendPrometheusName(name, OtelDesc(row));
  return name;
}

bool ShowsAttribute(const MetricDesc& desc, std::string_view key, MetricLevel level) noexcept {
  if (level == MetricLevel::kAll || desc.kind == Kind::kInfo || desc.naming == Naming::kVerbatim) return true;
  return std::ranges::find(kGpuIdentityKeys, key) == std::end(kGpuIdentityKeys) ||
         std::ranges::find(desc.keys, key) != desc.keys.end();
}

SeriesNamer MakeSeriesNamer(std::span<const std::string> names, NameForm form, MetricLevel level) {
  auto page = std::make_shared<PageNamer>(names, form, level);
  return {[page](const SeriesInfo& series, std::vector<NamedSeries>& out) { page->MakeNames(series, out); },
          [page](const Snapshot& snapshot) { return page->Look(snapshot); }};
}

std::vector<NamedSeries> AlwaysShown(std::span<const std::string> names) {
  std::vector<NamedSeries> out;
  for (const std::string& name : names) {
    const Dialect* dialect = FindDialect(name);
    if (!dialect) continue;
    for (const DialectFamily& family : dialect->families) {
      NamedSeries& named = out.emplace_back();
      named.name = family.name;
      named.help = family.help;
      named.kind = family.kind;
    }
  }
  return out;
}

}  // namespace gpulens
