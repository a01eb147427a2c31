#include "names/naming.h"

#include <algorithm>
#include <memory>

#include "catalog/all.h"
#include "catalog/exported_name.h"
#include "catalog/gpu.h"
#include "catalog/self.h"
#include "names/dcgm.h"
#include "names/genai.h"
#include "names/hw.h"
#include "names/l9gpu.h"
#include "names/zernel.h"
#include "names/zumik.h"

namespace gpulens {
namespace {

// Identifies a GPU; empty for series of none.
std::string GpuKey(const AttributeSet& attributes) {
  if (std::string uuid = attributes.Text("gpu.uuid"); !uuid.empty()) return uuid;
  std::string index = attributes.Text("gpu.index");
  return index.empty() ? index : "#" + index;
}

std::string SliceKey(const AttributeSet& attributes) {
  std::string instance = attributes.Text("gpu.mig.instance_id");
  if (instance.empty()) return instance;
  return GpuKey(attributes) + "/" + instance + "/" + attributes.Text("gpu.mig.compute_instance_id");
}

// Also under its GPU instance alone, as its metrics have no compute instance.
void AddSlice(const AttributeSet& attributes, std::map<std::string, AttributeSet>& slices) {
  slices.emplace(SliceKey(attributes), attributes);
  slices.emplace(GpuKey(attributes) + "/" + attributes.Text("gpu.mig.instance_id") + "/", attributes);
}

std::string TextIn(const std::map<std::string, AttributeSet>& sets, const std::string& key,
                   std::string_view attribute) {
  auto found = key.empty() ? sets.end() : sets.find(key);
  return found == sets.end() ? std::string() : found->second.Text(attribute);
}

// Host and port of a page's URL.
AttributeSet ServerOf(std::string_view url) {
  const bool tls = url.starts_with("https://");
  size_t begin = url.find("://");
  if (begin == std::string_view::npos) return {};
  std::string_view host = url.substr(begin + 3);
  host = host.substr(0, host.find('/'));
  std::string_view port = tls ? "443" : "80";
  // IPv6 addresses have colons in brackets.
  size_t colon = host.rfind(':'), bracket = host.rfind(']');
  if (colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket)) {
    port = host.substr(colon + 1);
    host = host.substr(0, colon);
  }
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return AttributeSet({{"server.address", host}, {"server.port", port}});
}

// Whether the series is such a rival.
bool Fits(const Rival& rival, const SeriesInfo& info) {
  if (std::find(rival.metrics.begin(), rival.metrics.end(), info.desc) == rival.metrics.end()) return false;
  return rival.key.empty() || info.attributes.Text(rival.key) == rival.value;
}

// Attributes of gpu.info, to which other rows are joined by gpu.uuid.
constexpr std::string_view kGpuIdentityKeys[] = {"gpu.model", "gpu.vendor", "gpu.mig.enabled"};

constexpr const MetricNaming* kNamings[] = {&kZernel, &kDcgm, &kDcgm46, &kHw, &kL9gpu, &kGenai, &kZumik};

// kNamingNames are the names of the tables, in their order.
constexpr bool NamesAgree() {
  if (std::size(kNamingNames) != std::size(kNamings) + 1 || kNamingNames[0] != kNativeNaming) return false;
  for (size_t i = 0; i < std::size(kNamings); ++i) {
    if (kNamingNames[i + 1] != kNamings[i]->name) return false;
  }
  return true;
}
static_assert(NamesAgree());

// The unit as the suffix of a name, "bytes_per_second"; empty for units without one.
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

// Converts "0000:0f:00.0" to "00000000:0F:00.0"; other forms stay.
std::string NvmlBusId(std::string text) {
  size_t colon = text.find(':');
  if (colon == text.npos || colon > 8) return text;
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'a' && c <= 'f' ? static_cast<char>(c - 'a' + 'A') : c; });
  return std::string(8 - colon, '0') + text;
}

std::string Translate(std::string text, std::span<const NamingWord> words) {
  for (const NamingWord& word : words) {
    if (text == word.ours) return std::string(word.theirs);
  }
  return text;
}

bool HasWord(std::span<const NamingWord> words, std::string_view text) {
  return std::any_of(words.begin(), words.end(), [&](const NamingWord& word) { return word.ours == text; });
}

// The desc from which the row's name is translated.
MetricDesc OtelDesc(const NamingRow& row) {
  MetricDesc desc;
  desc.name = row.name;
  desc.unit = row.unit;
  desc.kind = row.kind;
  return desc;
}

void AppendLabel(const NamingLabel& label, const SeriesInfo& series, const TickFacts& facts,
                 NamedSeries& named) {
  for (const auto& [there, value] : named.labels) {
    if (there == label.label) return;
  }
  std::string value(label.text);
  if (!label.attribute.empty()) {
    std::string text = facts.Text(series, label.attribute);
    if (text.empty() || (label.listed && !HasWord(label.words, text))) return;
    if (label.as == NamingLabel::kNvmlBusId) text = NvmlBusId(std::move(text));
    value += Translate(std::move(text), label.words);
  }
  std::string then = label.then.empty() ? std::string() : facts.Text(series, label.then);
  if (label.then.empty() || !then.empty()) value.append(label.join).append(then);
  named.labels.emplace_back(label.label, std::move(value));
}

bool Applies(const NamingRow& row, const SeriesInfo& series) {
  if (row.native != series.desc) return false;
  return std::all_of(row.where.begin(), row.where.end(), [&](const NamingWhere& where) {
    return where.key.empty() || series.attributes.Text(where.key) == where.value;
  });
}

// Marks counters whose family name in OpenMetrics is another name on the page.
void MarkTakenNames(std::span<NamedSeries> named) {
  for (NamedSeries& counter : named) {
    if (counter.kind != Kind::kCounter || !counter.name.ends_with("_total")) continue;
    std::string_view family = std::string_view(counter.name).substr(0, counter.name.size() - 6);
    counter.name_taken = std::any_of(named.begin(), named.end(),
                                     [&](const NamedSeries& other) { return other.name == family; });
  }
}

// The namings of one page, and the facts of the present tick.
class PageNamer {
 public:
  PageNamer(std::span<const std::string> names, NameForm form, MetricLevel level)
      : form_(form), level_(level) {
    for (const std::string& name : names) {
      if (name == kNativeNaming) native_ = true;
      else if (const MetricNaming* naming = FindNaming(name)) namings_.push_back(naming);
    }
    for (const MetricNaming* naming : namings_) {
      for (const NamingRow& row : naming->rows) facts_.Watch(row.unless);
    }
  }

  bool Refresh(const Snapshot& snapshot) {
    bool looks =
        std::any_of(namings_.begin(), namings_.end(), [](const MetricNaming* d) { return d->looks; });
    return looks && facts_.Refresh(snapshot);
  }

  void MakeNames(const SeriesInfo& series, std::vector<NamedSeries>& out) const {
    size_t before = out.size();
    if (native_) NameNativeIn(form_, series, out, level_);
    for (const MetricNaming* naming : namings_) NameIn(*naming, series, out);
    MarkTakenNames(std::span(out).subspan(before));
  }

 private:
  void NameIn(const MetricNaming& naming, const SeriesInfo& series, std::vector<NamedSeries>& out) const {
    if (!naming.vendor.empty()) {
      std::string vendor = facts_.Text(series, "gpu.vendor");
      if (!vendor.empty() && vendor != naming.vendor) return;
    }
    bool keep_native = true;
    for (const NamingRow& row : naming.rows) {
      if (!Applies(row, series) || HasRival(row, series)) continue;
      keep_native = row.keep_native;
      if (!row.name.empty()) NameRow(naming, row, series, out);
    }
    if (naming.over_native && keep_native && !native_) NameOverNative(naming, series, out);
  }

  bool HasRival(const NamingRow& row, const SeriesInfo& series) const {
    return std::any_of(row.unless.begin(), row.unless.end(),
                       [&](const Rival& rival) { return facts_.HasRival(series, rival); });
  }

  void NameRow(const MetricNaming& naming, const NamingRow& row, const SeriesInfo& series,
               std::vector<NamedSeries>& out) const {
    NamedSeries& named = out.emplace_back();
    named.name = row.name;
    named.unit = row.unit;
    named.help = row.help;
    named.kind = row.kind;
    named.scale = row.scale;
    named.whole = row.whole;
    if (row.all_attributes) AppendNativeLabels(series, row.without, NameForm::kPrometheus, named);
    for (const NamingLabel& label : row.labels) AppendLabel(label, series, facts_, named);
    for (const NamingLabel& label : naming.labels) AppendLabel(label, series, facts_, named);
    if (row.other_attributes) AppendOthers(naming, row, series, named);
    if (naming.otel && form_ == NameForm::kPrometheus) NameOtel(naming, row, named);
  }

  // Appends the attributes that no label has, under their own keys.
  static void AppendOthers(const MetricNaming& naming, const NamingRow& row, const SeriesInfo& series,
                           NamedSeries& named) {
    auto has_label = [&](std::span<const NamingLabel> labels, std::string_view key) {
      return std::any_of(labels.begin(), labels.end(), [&](const NamingLabel& label) {
        // Several values may have one translation.
        return label.label == key || (label.attribute == key && label.words.empty()) || label.then == key;
      });
    };
    for (auto [key, value] : series.attributes) {
      if (has_label(row.labels, key) || has_label(naming.labels, key)) continue;
      std::string text;
      AppendValue(text, value);
      named.labels.emplace_back(key, std::move(text));
    }
  }

  static void NameOtel(const MetricNaming& naming, const NamingRow& row, NamedSeries& named) {
    named.name = PrometheusNameOf(naming, row);
    named.unit = UnitWord(OtelDesc(row));
    for (auto& [key, value] : named.labels) {
      std::string label;
      AppendPrometheusLabel(label, key);
      key = std::move(label);
    }
  }

  void NameOverNative(const MetricNaming& naming, const SeriesInfo& series,
                      std::vector<NamedSeries>& out) const {
    size_t before = out.size();
    NameNativeIn(form_, series, out);
    for (NamedSeries& named : std::span(out).subspan(before)) {
      if (named.kind == Kind::kUpDownCounter) named.kind = Kind::kGauge;
      if (series.desc->naming == Naming::kVerbatim) continue;
      for (const NamingLabel& label : naming.labels) AppendLabel(label, series, facts_, named);
    }
  }

  const NameForm form_;
  const MetricLevel level_;
  bool native_ = false;
  std::vector<const MetricNaming*> namings_;
  TickFacts facts_;
};

}  // namespace

void TickFacts::Watch(std::span<const Rival> rivals) {
  for (const Rival& rival : rivals) {
    if (std::find(watched_.begin(), watched_.end(), &rival) == watched_.end()) watched_.push_back(&rival);
  }
}

std::string TickFacts::KeyOf(const Rival& rival, const AttributeSet& attributes) {
  std::string key = std::to_string(reinterpret_cast<uintptr_t>(&rival));
  for (std::string_view attribute : rival.same) {
    key += '\0';
    key += attributes.Text(attribute);
  }
  return key;
}

void TickFacts::AddRivals(const SeriesInfo& info, Facts& facts) const {
  for (const Rival* rival : watched_) {
    if (Fits(*rival, info)) facts.rivals.insert(KeyOf(*rival, info.attributes));
  }
}

bool TickFacts::HasRival(const SeriesInfo& series, const Rival& rival) const {
  return !Fits(rival, series) && facts_.rivals.contains(KeyOf(rival, series.attributes));
}

// The first info series of a GPU counts. An index of two GPUs (of two vendors) identifies neither.
void TickFacts::AddGpu(const SeriesInfo& info, Facts& facts) {
  const AttributeSet& attributes = info.attributes;
  std::string uuid = attributes.Text("gpu.uuid"), index = attributes.Text("gpu.index");
  if (!uuid.empty()) facts.gpus.emplace(uuid, attributes);
  if (index.empty()) return;
  auto [at, added] = facts.gpus.emplace("#" + index, attributes);
  if (!added && at->second.Text("gpu.uuid") != uuid) at->second = AttributeSet();
}

bool TickFacts::Refresh(const Snapshot& snapshot) {
  Facts facts;
  facts.resource = snapshot.resource;
  for (const SnapshotEntry& entry : snapshot.frames) {
    const Layout& layout = *entry.frame->layout;
    for (uint32_t slot = 0; slot < layout.slots(); ++slot) {
      const SeriesInfo& info = layout[slot];
      if (!info.desc) continue;
      AddRivals(info, facts);
      if (info.desc == &kGpuInfo) AddGpu(info, facts);
      else if (info.desc == &kGpuMigInfo) AddSlice(info.attributes, facts.slices);
      else if (info.desc == &kGpuDriverInfo)
        facts.drivers.emplace(info.attributes.Text("gpu.vendor"), info.attributes);
      else if (info.desc == &kSelfScrapeInfo)
        facts.servers.emplace(info.attributes.Text("target"), ServerOf(info.attributes.Text("url")));
    }
  }
  if (facts == facts_) return false;
  facts_ = std::move(facts);
  return true;
}

std::string TickFacts::Text(const SeriesInfo& series, std::string_view attribute) const {
  if (series.attributes.Has(attribute)) return series.attributes.Text(attribute);
  if (attribute.starts_with("server.")) {
    return TextIn(facts_.servers, series.attributes.Text("target"), attribute);
  }
  std::string gpu = GpuKey(series.attributes);
  std::string text = TextIn(facts_.slices, SliceKey(series.attributes), attribute);
  if (text.empty()) text = TextIn(facts_.gpus, gpu, attribute);
  if (text.empty() && !gpu.empty()) {
    std::string vendor = TextIn(facts_.gpus, gpu, "gpu.vendor");
    // With one driver only, a GPU of unknown vendor is its GPU.
    if (vendor.empty() && facts_.drivers.size() == 1) vendor = facts_.drivers.begin()->first;
    text = TextIn(facts_.drivers, vendor, attribute);
  }
  return text.empty() ? facts_.resource.Text(attribute) : text;
}

const MetricNaming* FindNaming(std::string_view name) noexcept {
  const auto* const at = std::ranges::find(kNamings, name, &MetricNaming::name);
  return at == std::end(kNamings) ? nullptr : *at;
}

std::span<const std::string_view> NamingNames() noexcept { return kNamingNames; }

void NameNative(const SeriesInfo& series, std::vector<NamedSeries>& out) {
  NameNativeIn(NameForm::kPrometheus, series, out);
}

std::string PrometheusNameOf(const MetricNaming& naming, const NamingRow& row) {
  if (!naming.otel) return std::string(row.name);
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
          [page](const Snapshot& snapshot) { return page->Refresh(snapshot); }};
}

std::vector<NamedSeries> AlwaysShown(std::span<const std::string> names) {
  std::vector<NamedSeries> out;
  for (const std::string& name : names) {
    const MetricNaming* naming = FindNaming(name);
    if (!naming) continue;
    for (const NamingFamily& family : naming->families) {
      NamedSeries& named = out.emplace_back();
      named.name = family.name;
      named.help = family.help;
      named.kind = family.kind;
    }
  }
  return out;
}

}  // namespace gpulens
