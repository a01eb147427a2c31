#include "wire/exposition/layout_text.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <map>
#include <set>

#include "wire/per_layout.h"

namespace gpulens {
namespace {

using Format = ExpositionFormat;

constexpr std::string_view kBucketBound = "le", kQuantile = "quantile";

void AppendQuoted(std::string& out, std::string_view text) {
  out += '"';
  AppendEscaped(out, text, true);
  out += '"';
}

std::string_view TypeWord(Kind kind, Format format) noexcept {
  bool open = format == Format::kOpenMetrics100;
  switch (kind) {
    case Kind::kCounter: return "counter";
    case Kind::kGauge:
    case Kind::kUpDownCounter: return "gauge";
    case Kind::kHistogram: return "histogram";
    case Kind::kGaugeHistogram: return open ? "gaugehistogram" : "histogram";
    case Kind::kSummary: return "summary";
    case Kind::kInfo: return open ? "info" : "gauge";
    case Kind::kStateSet: return open ? "stateset" : "gauge";
    case Kind::kUnknown: break;
  }
  return open ? "unknown" : "untyped";
}

// OpenMetrics calls a family without the suffix of its samples.
std::string_view SampleSuffix(Kind kind) noexcept {
  return kind == Kind::kCounter ? "_total" : kind == Kind::kInfo ? "_info" : "";
}

// Kinds that OpenMetrics would refuse under this name, which is the escaped one, are unknown there.
Kind KindFor(const NamedSeries& series, std::string_view name, Format format) noexcept {
  if (format != Format::kOpenMetrics100) return series.kind;
  if (series.name_taken) return Kind::kUnknown;
  std::string_view suffix = SampleSuffix(series.kind);
  const bool has_suffix = name.size() > suffix.size() && name.ends_with(suffix);
  return suffix.empty() || has_suffix ? series.kind : Kind::kUnknown;
}

// A family without its header.
TextFamily NameFamily(const NamedSeries& series, std::string name, Format format) {
  TextFamily family;
  family.kind = KindFor(series, name, format);
  if (name != series.name) family.unescaped = series.name;
  if (format == Format::kOpenMetrics100) name.resize(name.size() - SampleSuffix(family.kind).size());
  family.name = std::move(name);
  return family;
}

// The HELP, TYPE and UNIT lines.
std::string Header(const NamedSeries& series, const TextFamily& family, Format format) {
  const bool open = format == Format::kOpenMetrics100;
  std::string shown = family.name, out;
  if (!IsLegacyMetricName(family.name)) {
    shown.clear();
    AppendQuoted(shown, family.name);
  }
  if (!series.help.empty()) {
    out += "# HELP " + shown + " ";
    AppendEscaped(out, series.help, open);
    out += '\n';
  }
  out += "# TYPE " + shown + " " + std::string(TypeWord(family.kind, format)) + "\n";
  // OpenMetrics wants the unit to be the end of the family's name.
  if (open && !series.unit.empty() && family.name.ends_with("_" + series.unit) &&
      family.kind != Kind::kInfo && family.kind != Kind::kStateSet) {
    out += "# UNIT " + shown + " " + series.unit + "\n";
  }
  return out;
}

// One family of one layout while it is built.
struct FamilyDraft {
  TextFamily family;
  std::vector<TextLine> lines;
};

class LayoutTextBuilder {
 public:
  LayoutTextBuilder(const Layout& layout, PageForm form)
      : layout_(layout), form_(form), format_(form.format), label_text_(form) {
    Piece({});
  }

  void Add(uint32_t slot, const NamedSeries& series) {
    if (series.name.empty()) return;
    slot_ = slot;
    FindDraft(series);
    if (draft_->family.kind != named_.kind) {  // The first series decides what the family is.
      ++text_.type_conflicts;
      return;
    }
    const std::string& name = named_.name;
    const SeriesInfo& info = layout_[slot];
    scale_ = series.scale;
    whole_ = series.whole;
    only_if_set_ = series.only_if_set;
    const bool bounds = info.shape && !info.shape->bounds.empty();
    labels_.clear();
    label_text_.Append(labels_, series.labels,
                       !bounds                         ? std::string_view()
                       : series.kind == Kind::kSummary ? kQuantile
                                                       : kBucketBound);
    TextStyle::As as = info.desc->number == Number::kInt ? TextStyle::kInt : TextStyle::kDouble;
    if (info.shape) AddShaped(name, series, info);
    else AddLine({name, info.first_cell, as, named_.kind == Kind::kCounter});
    AddCreated(name, info, named_.kind);
  }

  LayoutText Take() {
    size_t lines = 0;
    for (auto& [name, draft] : drafts_) {
      DropDuplicates(draft.lines);
      lines += draft.lines.size();
    }
    text_.lines.reserve(lines);
    text_.families.reserve(drafts_.size());
    for (auto& [name, draft] : drafts_) {
      draft.family.first_line = static_cast<uint32_t>(text_.lines.size());
      draft.family.lines = static_cast<uint32_t>(draft.lines.size());
      text_.lines.insert(text_.lines.end(), draft.lines.begin(), draft.lines.end());
      text_.families.push_back(std::move(draft.family));
    }
    text_.arena.append(kTextStep, ' ');
    text_.arena.shrink_to_fit();
    text_.styles.shrink_to_fit();
    return std::move(text_);
  }

 private:
  // Two series may get the same text in names of other projects, which have fewer attributes. Equal
  // words are the same pieces.
  void DropDuplicates(std::vector<TextLine>& lines) {
    if (lines.size() < 2) return;
    seen_.clear();
    text_.duplicates += std::erase_if(lines, [this](const TextLine& line) {
      const TextStyle& style = text_.styles[line.style];
      return !seen_.insert({style.name, line.labels, style.tail}).second;
    });
  }

  // The family of a series. Its name is escaped once, however many series have it.
  void FindDraft(const NamedSeries& series) {
    if (draft_ && named_.named == series.name && named_.named_kind == series.kind &&
        named_.taken == series.name_taken)
      return;
    named_.named = series.name;
    named_.named_kind = series.kind;
    named_.taken = series.name_taken;
    named_.name = EscapeMetricName(series.name, form_.escaping);
    TextFamily family = NameFamily(series, named_.name, format_);
    named_.kind = family.kind;
    auto [at, added] = drafts_.try_emplace({family.name, family.unescaped});
    draft_ = &at->second;
    if (!added) return;
    family.header = Header(series, family, format_);
    draft_->family = std::move(family);
  }

  // One line before it is text.
  struct Draw {
    std::string name;
    uint32_t cell;
    TextStyle::As as = TextStyle::kDouble;
    bool exemplar = false;
    std::string_view bound_label = {};
    double bound = 0;
  };

  void AddShaped(const std::string& name, const NamedSeries& series, const SeriesInfo& info) {
    const Shape& shape = *info.shape;
    bool summary = series.kind == Kind::kSummary;
    bool gauge = series.kind == Kind::kGaugeHistogram && format_ == Format::kOpenMetrics100;
    TextStyle::As count = info.desc->number == Number::kInt ? TextStyle::kInt : TextStyle::kDouble;
    for (size_t b = 0; b < shape.bounds.size(); ++b) {
      uint32_t cell = info.first_cell + static_cast<uint32_t>(b);
      if (summary) AddLine({name, cell, TextStyle::kDouble, false, kQuantile, shape.bounds[b]});
      else AddLine({name + "_bucket", cell, count, true, kBucketBound, shape.bounds[b]});
    }
    if (shape.has_sum) AddLine({name + (gauge ? "_gsum" : "_sum"), info.first_cell + shape.sum_cell()});
    if (shape.has_count)
      AddLine({name + (gauge ? "_gcount" : "_count"), info.first_cell + shape.count_cell(), count});
  }

  void AddCreated(const std::string& name, const SeriesInfo& info, Kind kind) {
    bool counts = kind == Kind::kCounter || kind == Kind::kHistogram || kind == Kind::kSummary;
    if (format_ != Format::kOpenMetrics100 || !info.start_known || !counts) return;
    std::string base =
        kind == Kind::kCounter ? name.substr(0, name.size() - SampleSuffix(kind).size()) : name;
    scale_ = 1;
    whole_ = only_if_set_ = false;
    AddLine({base + "_created", info.first_cell, TextStyle::kStart});
  }

  void AddLine(const Draw& draw) {
    const bool legacy = IsLegacyMetricName(draw.name), bound = !draw.bound_label.empty(),
               any = !labels_.empty();
    scratch_.clear();
    if (legacy) {
      scratch_ += draw.name;
      if (any || bound) scratch_ += '{';
    } else {
      scratch_ += '{';
      AppendQuoted(scratch_, draw.name);
      if (any || bound) scratch_ += ',';
    }
    TextStyle style;
    style.name = Piece(scratch_);
    scratch_ = any ? "," : "";
    if (bound) {
      scratch_ += draw.bound_label;
      scratch_ += "=\"";
      AppendBound(scratch_, draw.bound, format_);
      scratch_ += "\"} ";
      style.tail = Piece(scratch_);
    }
    scratch_ = labels_;
    if (!bound) scratch_ += !legacy || any ? "} " : " ";
    uint32_t labels = Piece(scratch_);
    style.scale = scale_;
    style.as = draw.as;
    style.has_exemplar = draw.exemplar;
    style.whole = whole_;
    style.only_if_set = only_if_set_;
    draft_->lines.push_back({labels, StyleOf(style), draw.cell, slot_});
  }

  // The place of an equal piece, or of a new one.
  uint32_t Piece(const std::string& piece) {
    auto [at, added] = pieces_.try_emplace(piece, static_cast<uint32_t>(text_.arena.size()));
    if (!added) return at->second;
    uint32_t size = static_cast<uint32_t>(piece.size());
    text_.arena.append(reinterpret_cast<const char*>(&size), sizeof size);
    text_.arena += piece;
    return at->second;
  }

  uint32_t StyleOf(const TextStyle& style) {
    std::vector<uint32_t>& known = styles_[style.name];
    for (uint32_t one : known) {
      if (text_.styles[one] == style) return one;
    }
    known.push_back(static_cast<uint32_t>(text_.styles.size()));
    text_.styles.push_back(style);
    return known.back();
  }

  const Layout& layout_;
  const PageForm form_;
  const Format format_;
  LabelText label_text_;
  std::map<std::pair<std::string, std::string>, FamilyDraft> drafts_;  // by name, and name before escaping
  FamilyDraft* draft_ = nullptr;
  // Draft of the series added last, as series of one family usually follow one another.
  struct {
    std::string named, name;
    Kind named_kind = Kind::kUnknown, kind = Kind::kUnknown;
    bool taken = false;
  } named_;
  std::unordered_map<std::string, uint32_t> pieces_;
  std::unordered_map<uint32_t, std::vector<uint32_t>> styles_;  // by the place of their name
  std::string scratch_;
  std::string labels_;  // of the series being added
  uint32_t slot_ = 0;
  double scale_ = 1;
  bool whole_ = false, only_if_set_ = false;
  std::set<std::array<uint32_t, 3>> seen_;
  LayoutText text_;
};

}  // namespace

void AppendBound(std::string& out, double bound, ExpositionFormat format) {
  if (std::isinf(bound)) {
    out += bound > 0 ? "+Inf" : "-Inf";
    return;
  }
  if (std::isnan(bound)) {
    out += "NaN";
    return;
  }
  char text[32];
  auto [end, error] = std::to_chars(text, text + sizeof text, bound);
  std::string_view shown(text, static_cast<size_t>(end - text));
  out += shown;
  if (format == Format::kOpenMetrics100 && shown.find_first_of(".e") == shown.npos) out += ".0";
}

TextFamily NameFamily(const NamedSeries& series, PageForm form) {
  TextFamily family = NameFamily(series, EscapeMetricName(series.name, form.escaping), form.format);
  family.header = Header(series, family, form.format);
  return family;
}

LayoutText NameLayout(const Layout& layout, PageForm form, const SeriesNamer& namer) {
  LayoutTextBuilder builder(layout, form);
  ForEachNamed(layout, namer, [&](uint32_t slot, const std::vector<NamedSeries>& names) {
    for (const NamedSeries& series : names) builder.Add(slot, series);
  });
  return builder.Take();
}

namespace {

constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";
constexpr std::string_view kReservedLabel = "__name__", kApartPrefix = "exported_";
// Names never stop changing on some pages.
constexpr size_t kMostWritten = 1000;

}  // namespace

void AppendEscaped(std::string& out, std::string_view text, bool quotes) {
  for (char c : text) {
    if (c == '\\') out += "\\\\";
    else if (c == '\n') out += "\\n";
    else if (c == '"' && quotes) out += "\\\"";
    else if (c == '\0') out += kReplacementCharacter;  // Readers end at it.
    else out += c;
  }
}

void LabelText::Append(std::string& out, std::span<const Label> labels, std::string_view taken) {
  if (written_.size() > kMostWritten) written_.clear();
  names_.clear();
  for (const auto& [name, value] : labels) names_.push_back(Shown(name));
  if (!AllApart(taken)) Distinguish(taken);
  for (size_t i = 0; i < labels.size(); ++i) {
    if (i != 0) out += ',';
    out += names_[i].shown;
    out += "=\"";
    AppendEscaped(out, labels[i].second, true);
    out += '"';
  }
}

LabelText::Name LabelText::Shown(std::string_view name) {
  if (IsLegacyLabelName(name) || name.empty()) return {name};
  const bool quoted = form_.escaping == NameEscaping::kUtf8;
  auto [at, added] = written_.try_emplace(std::string(name));
  if (added && quoted) {
    at->second = '"';
    AppendEscaped(at->second, name, true);
    at->second += '"';
  } else if (added) {
    at->second = EscapeLabelName(name, form_.escaping);
  }
  return {at->second, quoted};
}

// Mostly names are sorted, and then comparing neighbours is enough.
bool LabelText::AllApart(std::string_view taken) const {
  bool ordered = true;
  for (size_t i = 0; i < names_.size(); ++i) {
    const std::string_view name = names_[i].shown;
    if (name.empty() || name == kReservedLabel || name == taken) return false;
    ordered = ordered && (i == 0 || names_[i - 1].shown < name);
  }
  if (ordered) return true;
  for (size_t i = 1; i < names_.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (names_[i].shown == names_[j].shown) return false;
    }
  }
  return true;
}

void LabelText::Distinguish(std::string_view taken) {
  apart_.clear();
  std::unordered_map<std::string_view, size_t> used = {{"", 0}, {kReservedLabel, 0}, {taken, 0}};
  auto find_own = [&](Name& name) {
    auto [at, is_new] = used.emplace(name.shown, 0);
    if (is_new) return;
    size_t& clashes = at->second;  // Stays where it is, unlike `at`.
    const bool quoted = name.shown.starts_with('"');
    const std::string_view clashing = name.shown;
    do {
      std::string apart(quoted ? "\"" : "");
      apart += kApartPrefix;
      if (++clashes > 1) apart.append(std::to_string(clashes)).append("_");
      apart += clashing.substr(quoted ? 1 : 0);
      name.shown = apart_.emplace_back(std::move(apart));
    } while (!used.emplace(name.shown, 0).second);
  };
  // Names that needed no escaping come first, then the others in their order.
  for (bool own : {true, false}) {
    for (Name& name : names_) {
      if (name.own == own) find_own(name);
    }
  }
}

}  // namespace gpulens
