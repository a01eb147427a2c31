#include "wire/otlp/otlp_layout.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_set>

#include "base/parse.h"
#include "wire/otlp/otlp_fields.h"
#include "wire/per_layout.h"

namespace gpulens {
namespace {

using namespace otlp;

// Text in names of other projects; the conventions have it as an integer.
constexpr std::string_view kServerPort = "server.port";

// One number point before it is encoded.
struct NumberPoint {
  std::string name;
  uint32_t cell = 0;
  std::string_view bound_key = {};  // of a gauge histogram's bucket
  double bound = 0;
};

class OtlpLayoutBuilder {
 public:
  OtlpLayoutBuilder(const Layout& layout, const OtlpStyle& style) : layout_(layout), style_(style) {}

  void Add(uint32_t slot, const NamedSeries& series) {
    slot_ = slot;
    series_ = &series;
    const SeriesInfo& info = layout_[slot];
    if (!info.shape) return AddNumber({series.name, info.first_cell}, series.kind);
    if (series.kind == Kind::kGaugeHistogram) return AddGauges(*info.shape, info.first_cell);
    AddShaped(*info.shape, series.kind == Kind::kSummary);
  }

  void OnlyIfSet(uint32_t slot) {
    only_if_set_.resize(layout_.slots());
    only_if_set_[slot] = 1;
  }

  OtlpLayout Take() {
    OtlpLayout made;
    made.only_if_set = std::move(only_if_set_);
    made.forms = std::move(forms_);
    size_t bytes = 0;
    for (const Draft& draft : drafts_) bytes += draft.bytes.size();
    made.arena.reserve(bytes);
    for (Draft& draft : drafts_) {
      draft.family.first = static_cast<uint32_t>(made.points.size());
      draft.family.count = static_cast<uint32_t>(draft.points.size());
      const uint32_t shift = static_cast<uint32_t>(made.arena.size());
      for (OtlpPoint point : draft.points) {
        for (uint32_t* place : {&point.begin, &point.end, &point.attributes, &point.values}) *place += shift;
        made.points.push_back(point);
      }
      made.arena += draft.bytes;
      made.families.push_back(std::move(draft.family));
    }
    KeepBases(made);
    return made;
  }

 private:
  void KeepBases(OtlpLayout& made) const {
    for (const OtlpFamily& family : made.families) {
      if (!family.delta) continue;
      made.bases.resize(made.points.size());
      for (uint32_t p = family.first; p < family.first + family.count; ++p) {
        made.bases[p] = made.kept;
        made.kept += layout_[made.points[p].slot].cells();
      }
    }
  }

  struct Draft {
    OtlpFamily family;
    std::string bytes;
    std::vector<OtlpPoint> points;
    std::unordered_set<std::string> attribute_sets;  // the attributes of its points
  };
  using Key = std::tuple<std::string, uint32_t, bool, bool, bool, double, std::string>;

  Draft& DraftOf(const std::string& name, Kind kind, OtlpFamily::Form form) {
    OtlpFamily family;
    family.name = name;
    family.form = form;
    family.monotonic = IsMonotonic(kind);
    family.scale = series_->scale;
    family.whole = series_->whole;
    family.int_cells = layout_[slot_].desc->number == Number::kInt;
    family.as_int = family.int_cells && family.scale == 1;
    bool summed =
        IsMonotonic(kind) || kind == Kind::kUpDownCounter || kind == Kind::kInfo || kind == Kind::kStateSet;
    family.data = form == OtlpFamily::Form::kHistogram     ? kHistogram
                  : form == OtlpFamily::Form::kExponential ? kExponentialHistogram
                  : form == OtlpFamily::Form::kSummary     ? kSummary
                  : summed                                 ? kSum
                                                           : kGauge;
    const bool bucketed = form == OtlpFamily::Form::kHistogram || form == OtlpFamily::Form::kExponential;
    family.delta =
        bucketed ? style_.delta_histograms : style_.delta_counters && family.data == kSum && family.monotonic;
    family.has_start = family.data != kGauge;
    Key key{name, family.data, family.monotonic, family.int_cells, family.whole, family.scale, series_->unit};
    auto [at, added] = known_.try_emplace(std::move(key), drafts_.size());
    if (!added) return drafts_[at->second];
    AppendText(family.head, kName, name);
    if (!series_->help.empty()) AppendText(family.head, kDescription, series_->help);
    if (!series_->unit.empty()) AppendText(family.head, kUnit, series_->unit);
    if (family.data == kSum || bucketed)
      AppendNumber(family.tail, kTemporality, family.delta ? kDelta : kCumulative);
    if (family.data == kSum && family.monotonic) AppendNumber(family.tail, kMonotonic, 1);
    Draft& draft = drafts_.emplace_back();
    draft.family = std::move(family);
    return draft;
  }

  // The text is that of the series' own attribute: then it keeps its type.
  AttributeSet::Value TypedValue(std::string_view key, const std::string& text) const {
    AttributeSet::Value value = layout_[slot_].attributes.Find(key, std::string_view(text));
    std::string own;
    AppendValue(own, value);
    if (own != text) value = std::string_view(text);
    if (key != kServerPort || !std::holds_alternative<std::string_view>(value)) return value;
    auto port = ParseInt<int64_t>(text);
    return port ? AttributeSet::Value(*port) : value;
  }

  void AppendLabels(uint32_t field) {
    for (const auto& [key, text] : series_->labels) AppendAttribute(body_, field, key, TypedValue(key, text));
  }

  void AppendTimes(const OtlpFamily& family) {
    if (family.has_start) AppendFixed(body_, kStartTime, static_cast<uint64_t>(layout_[slot_].start_unix_ns));
    AppendFixed(body_, kTime, uint64_t{0});
  }

  void AddNumber(const NumberPoint& draw, Kind kind) {
    Draft& draft = DraftOf(draw.name, kind, OtlpFamily::Form::kNumber);
    body_.clear();
    AppendLabels(kNumberAttributes);
    if (!draw.bound_key.empty()) {
      std::string bound;
      AppendValue(bound, draw.bound);
      if (std::isinf(draw.bound)) bound = "+Inf";
      AppendAttribute(body_, kNumberAttributes, draw.bound_key, std::string_view(bound));
    }
    const size_t attributes = body_.size();
    AppendFixed(body_, draft.family.as_int ? kAsInt : kAsDouble, uint64_t{0});
    AppendTimes(draft.family);
    Put(draft, draw.cell, attributes);
  }

  // False: its bounds do not allow it.
  bool AddExponential(const Shape& shape) {
    std::vector<double> bounds;
    ForEachBound(shape, [&](double bound) { bounds.push_back(bound * series_->scale); });
    auto form = MakeExponentialForm(bounds);
    if (!form) return false;
    Draft& draft = DraftOf(series_->name, Kind::kHistogram, OtlpFamily::Form::kExponential);
    body_.clear();
    AppendLabels(kExponentialAttributes);
    const size_t attributes = body_.size();
    std::string positive;
    AppendNumber(body_, kScale, ZigZag(form->scale));
    AppendFixed(body_, kZeroThreshold, form->zero_threshold);
    AppendNumber(positive, kOffset, ZigZag(form->offset));
    AppendBytes(positive, kCounts, std::string(form->buckets * kWideVarint, '\0'));
    AppendBytes(body_, kPositive, positive);
    AppendFixed(body_, kZeroCount, uint64_t{0});
    if (shape.has_sum) AppendFixed(body_, kExponentialSum, 0.0);
    AppendFixed(body_, kExponentialCount, uint64_t{0});
    AppendTimes(draft.family);
    // Series of one family mostly share their bounds.
    if (forms_.empty() || form->ends != forms_.back().ends || form->offset != forms_.back().offset ||
        form->scale != forms_.back().scale)
      forms_.push_back(*std::move(form));
    form_ = static_cast<uint32_t>(forms_.size() - 1);
    Put(draft, layout_[slot_].first_cell, attributes);
    return true;
  }

  void AddShaped(const Shape& shape, bool summary) {
    if (!summary && style_.exponential && AddExponential(shape)) return;
    Draft& draft = DraftOf(series_->name, summary ? Kind::kSummary : Kind::kHistogram,
                           summary ? OtlpFamily::Form::kSummary : OtlpFamily::Form::kHistogram);
    body_.clear();
    AppendLabels(summary ? kSummaryAttributes : kHistogramAttributes);
    const size_t attributes = body_.size();
    if (summary) {
      for (double quantile : shape.bounds) {
        std::string pair;
        AppendFixed(pair, kQuantile, quantile);
        AppendFixed(pair, kQuantileValue, 0.0);
        AppendBytes(body_, kQuantiles, pair);
      }
    } else {
      std::string packed;
      ForEachBound(shape, [&](double bound) {
        bound *= draft.family.scale;
        packed.append(reinterpret_cast<const char*>(&bound), sizeof bound);
      });
      if (!packed.empty()) AppendBytes(body_, kExplicitBounds, packed);
      AppendBytes(body_, kBucketCounts, std::string(packed.size() + 8, '\0'));
    }
    if (shape.has_sum || summary) AppendFixed(body_, summary ? kSummarySum : kHistogramSum, 0.0);
    AppendFixed(body_, summary ? kSummaryCount : kHistogramCount, uint64_t{0});
    AppendTimes(draft.family);
    Put(draft, layout_[slot_].first_cell, attributes);
  }

  void AddGauges(const Shape& shape, uint32_t first) {
    for (uint32_t i = 0; i < shape.bounds.size(); ++i)
      AddNumber({series_->name + "_bucket", first + i, "le", shape.bounds[i]}, Kind::kGauge);
    if (shape.has_sum) AddNumber({series_->name + "_gsum", first + shape.sum_cell()}, Kind::kGauge);
    if (shape.has_count) AddNumber({series_->name + "_gcount", first + shape.count_cell()}, Kind::kGauge);
  }

  // `attributes`: how many of the body's bytes they are.
  void Put(Draft& draft, uint32_t cell, size_t attributes) {
    OtlpPoint point;
    point.begin = static_cast<uint32_t>(draft.bytes.size());
    AppendBytes(draft.bytes, kPoints, body_);
    point.end = static_cast<uint32_t>(draft.bytes.size());
    point.attributes = point.end - static_cast<uint32_t>(body_.size());
    point.values = point.attributes + static_cast<uint32_t>(attributes);
    point.slot = slot_;
    point.cell = cell;
    point.form = form_;
    // Two series may get the same attributes in names of other projects, which have fewer of them.
    if (draft.attribute_sets.insert(draft.bytes.substr(point.attributes, attributes)).second)
      draft.points.push_back(point);
    else draft.bytes.resize(point.begin);
  }

  const Layout& layout_;
  const OtlpStyle& style_;
  std::vector<ExponentialForm> forms_;
  std::vector<uint8_t> only_if_set_;
  uint32_t slot_ = 0, form_ = 0;
  const NamedSeries* series_ = nullptr;
  std::string body_;
  std::vector<Draft> drafts_;
  std::map<Key, size_t> known_;
};

}  // namespace

OtlpLayout NameOtlp(const Layout& layout, const SeriesNamer& namer, const OtlpStyle& style) {
  OtlpLayoutBuilder builder(layout, style);
  ForEachNamed(layout, namer, [&](uint32_t slot, const std::vector<NamedSeries>& names) {
    for (const NamedSeries& series : names) builder.Add(slot, series);
    // Names of others may need every state; then all names of the series have them.
    if (!names.empty() && std::ranges::all_of(names, &NamedSeries::only_if_set)) builder.OnlyIfSet(slot);
  });
  return builder.Take();
}

}  // namespace gpulens
