#include "wire/remote_write/remote_write_layout.h"

#include <algorithm>
#include <map>
#include <protozero/pbf_writer.hpp>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "base/text.h"
#include "wire/exposition/layout_text.h"
#include "wire/per_layout.h"

namespace gpulens {
namespace {

using namespace remote_write;

constexpr std::string_view kNameLabel = "__name__";

Type TypeOf(Kind kind) noexcept {
  switch (kind) {
    case Kind::kCounter: return Type::kCounter;
    case Kind::kGauge:
    case Kind::kUpDownCounter: return Type::kGauge;
    case Kind::kHistogram: return Type::kHistogram;
    case Kind::kGaugeHistogram: return Type::kGaugeHistogram;
    case Kind::kSummary: return Type::kSummary;
    case Kind::kInfo: return Type::kInfo;
    case Kind::kStateSet: return Type::kStateSet;
    case Kind::kUnknown: break;
  }
  return Type::kUnknown;
}

std::string LegacyName(std::string_view name, bool colon) {
  std::string out(name);
  for (size_t i = 0; i < out.size(); ++i) {
    const char c = out[i];
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (colon && c == ':');
    if (!letter && (i == 0 || c < '0' || c > '9')) out[i] = '_';
  }
  return out;
}

class RemoteWriteLayoutBuilder {
 public:
  RemoteWriteLayoutBuilder(const Layout& layout, const RemoteWriteNaming& naming)
      : layout_(layout), naming_(naming) {
    Symbol({});
  }

  void SetUp(uint32_t slot) { made_.up_slot = slot; }
  void Add(uint32_t slot, const NamedSeries& series) {
    slot_ = slot;
    series_ = &series;
    name_ = LegacyName(series.name, true);
    if (name_.empty()) return;
    const SeriesInfo& info = layout_[slot];
    SetFamily();
    start_ms_ = 0;
    const bool counts =
        family_type_ == Type::kCounter || family_type_ == Type::kHistogram || family_type_ == Type::kSummary;
    if (info.start_known && counts) start_ms_ = std::max<int64_t>(MsOf(info.start_unix_ns), 0);
    number_ = info.desc->number == Number::kInt ? RemoteWriteLine::kInt : 0;
    // Only the cells of a shape that have the unit are scaled.
    scaled_ = series.scale != 1 ? RemoteWriteLine::kScaled : 0;
    if (info.shape) return AddShaped(*info.shape, info.first_cell);
    const unsigned whole = series.whole ? RemoteWriteLine::kWhole : 0;
    const unsigned only_if_set = series.only_if_set ? RemoteWriteLine::kOnlyIfSet : 0;
    AddLine({name_, info.first_cell, number_ | scaled_ | whole | only_if_set});
  }

  RemoteWriteLayout Take() {
    made_.text.shrink_to_fit();
    made_.arena.shrink_to_fit();
    made_.refs.shrink_to_fit();
    made_.lines.shrink_to_fit();
    return std::move(made_);
  }

 private:
  struct Draw {
    std::string name;
    uint32_t cell;
    unsigned flags;
    std::string_view bound_label = {};
    std::string bound = {};
  };

  void SetFamily() {
    family_type_ = TypeOf(series_->kind);
    auto key = std::tuple(name_, family_type_, series_->scale, std::string(series_->help), series_->unit);
    auto [at, added] = families_.try_emplace(std::move(key), static_cast<uint32_t>(made_.families.size()));
    family_ = at->second;
    if (!added) return;
    made_.families.push_back({Symbol(name_), Symbol(RemoteWriteText(series_->help)),
                              Symbol(RemoteWriteText(series_->unit)), family_type_, series_->scale});
  }

  // The lines of an OpenMetrics page.
  void AddShaped(const Shape& shape, uint32_t first) {
    const bool summary = series_->kind == Kind::kSummary, gauge = series_->kind == Kind::kGaugeHistogram;
    if (naming_.native_histograms && !summary && !gauge && shape.has_sum && shape.has_count)
      return AddLine({name_, first, number_ | scaled_ | RemoteWriteLine::kNative});
    for (uint32_t i = 0; i < shape.bounds.size(); ++i) {
      if (summary)
        AddLine({name_, first + i, number_ | scaled_, "quantile", BoundText(shape, i, shape.bounds[i])});
      else
        AddLine({name_ + "_bucket", first + i, number_, "le",
                 BoundText(shape, i, shape.bounds[i] * series_->scale)});
    }
    if (shape.has_sum)
      AddLine({name_ + (gauge ? "_gsum" : "_sum"), first + shape.sum_cell(), number_ | scaled_});
    if (shape.has_count)
      AddLine({name_ + (gauge ? "_gcount" : "_count"), first + shape.count_cell(), number_});
  }

  // As its source wrote it: queries name it so.
  std::string BoundText(const Shape& shape, size_t i, double bound) const {
    std::string text;
    if (!shape.bound_texts.empty() && series_->scale == 1) text = RemoteWriteText(shape.bound_texts[i]);
    if (text.empty()) AppendBound(text, bound, ExpositionFormat::kOpenMetrics100);
    return text;
  }

  // The first of equal names counts.
  void AddLabel(std::string name, std::string value) {
    const bool known = std::ranges::any_of(labels_, [&](const auto& label) { return label.first == name; });
    if (!known) labels_.emplace_back(std::move(name), std::move(value));
  }

  void AddLine(const Draw& draw) {
    labels_.clear();
    AddLabel(std::string(kNameLabel), draw.name);
    if (!draw.bound_label.empty()) {
      AddLabel(std::string(draw.bound_label), draw.bound);
    }
    for (const RemoteWriteLabels* all : {&series_->labels, &naming_.labels}) {
      for (const auto& [key, value] : *all) {
        // A label without a value is absent.
        if (!key.empty() && !value.empty()) AddLabel(RemoteWriteLabelName(key), RemoteWriteText(value));
      }
    }
    std::ranges::sort(labels_);

    RemoteWriteLine line;
    line.slot = slot_;
    line.cell = draw.cell;
    line.family = family_;
    line.name = Symbol(draw.name);
    line.flags = static_cast<uint8_t>(draw.flags);
    line.start_ms = start_ms_;
    line.first_ref = static_cast<uint32_t>(made_.refs.size());
    line.refs = static_cast<uint32_t>(2 * labels_.size());
    for (const auto& [key, value] : labels_) {
      made_.refs.push_back(Symbol(key));
      made_.refs.push_back(Symbol(value));
    }
    // Two series may get the same labels in names of other projects, which have fewer attributes.
    std::string label_refs(reinterpret_cast<const char*>(made_.refs.data() + line.first_ref), 4 * line.refs);
    if (!reported_.insert(std::move(label_refs)).second) return made_.refs.resize(line.first_ref);
    if (naming_.arena) AppendToArena();
    line.end = static_cast<uint32_t>(made_.arena.size());
    made_.lines.push_back(line);
  }

  void AppendToArena() {
    body_.clear();
    for (const auto& [key, value] : labels_) AppendLabel(body_, kLabels, key, value);
    {
      protozero::pbf_writer series(body_), sample(series, kSamples);
      sample.add_double(kValue, 0);
      sample.add_int64(kTimestamp, kFirstMs);
    }
    protozero::pbf_writer(made_.arena).add_message(kTimeSeries1, body_);
  }

  uint32_t Symbol(const std::string& text) {
    auto [at, added] = symbols_.try_emplace(text, static_cast<uint32_t>(made_.symbols.size()));
    if (added) {
      made_.symbols.push_back({static_cast<uint32_t>(made_.text.size()), static_cast<uint32_t>(text.size())});
      made_.text += text;
    }
    return at->second;
  }

  using FamilyKey = std::tuple<std::string, Type, double, std::string, std::string>;

  const Layout& layout_;
  const RemoteWriteNaming& naming_;
  uint32_t slot_ = 0, family_ = 0;
  const NamedSeries* series_ = nullptr;
  std::string name_, body_;
  Type family_type_ = Type::kUnknown;
  int64_t start_ms_ = 0;
  unsigned number_ = 0, scaled_ = 0;
  RemoteWriteLabels labels_;  // of the line at hand
  std::map<FamilyKey, uint32_t> families_;
  std::unordered_map<std::string, uint32_t> symbols_;
  std::unordered_set<std::string> reported_;
  RemoteWriteLayout made_;
};

}  // namespace

std::string RemoteWriteLabelName(std::string_view name) { return LegacyName(name, false); }

std::string RemoteWriteText(std::string_view text) {
  std::string room;
  return std::string(ValidUtf8(text, room));
}

RemoteWriteLayout NameRemoteWrite(const Layout& layout, const SeriesNamer& namer,
                                  const RemoteWriteNaming& naming) {
  RemoteWriteLayoutBuilder builder(layout, naming);
  ForEachNamed(layout, namer, [&](uint32_t slot, const std::vector<NamedSeries>& names) {
    if (layout[slot].desc == naming.target_up) builder.SetUp(slot);
    for (const NamedSeries& series : names) builder.Add(slot, series);
  });
  return builder.Take();
}

}  // namespace gpulens
