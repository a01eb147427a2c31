#include "wire/exposition/exposition_parser.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/parse.h"
#include "base/result.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace gpulens {
namespace {

std::string_view Lower(std::string_view text, char* out, size_t size) noexcept {
  size_t length = std::min(text.size(), size);
  std::transform(text.begin(), text.begin() + static_cast<ptrdiff_t>(length), out,
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return {out, length};
}

class PageParser {
 public:
  PageParser(ExpositionFormat format, const ExpositionLimits& limits, ExpositionHandler& handler)
      : reader_(format, limits), families_(limits.families), handler_(handler) {}

  Result<ExpositionReport> Run(std::string_view page) {
    const exposition_internal::PageOutline outline = exposition_internal::OutlineOf(page, reader_);
    RETURN_IF_ERROR(exposition_internal::CheckLimits(page, outline, reader_, report_));
    exposition_internal::DeclareFamilies(page, outline, reader_, families_);
    ReportFamilies();
    report_.open_end = !page.empty() && page.back() != '\n';
    memory_end_ = page.data() + page.size();
    while (!page.empty() && !ended_) Line(TakeUntil(page, '\n'));
    if (ended_ && page.find_first_not_of(" \t\r\n") != std::string_view::npos) {
      ++line_;
      Bad(TakeUntil(page, '\n'), LineError::kAfterEof);
    }
    report_.truncated = reader_.format == ExpositionFormat::kOpenMetrics100 && !ended_;
    report_.type_conflicts = families_.type_conflicts();
    return report_;
  }

 private:
  void ReportFamilies() {
    for (; reported_ < families_.families().size(); ++reported_) {
      handler_.OnFamily(reported_, families_.families()[reported_]);
    }
  }

  void Bad(std::string_view line, LineError error) {
    ++report_.bad_lines;
    ++report_.by_error[static_cast<size_t>(error)];
    handler_.OnBadLine({line_, error, line.substr(0, exposition_internal::kExcerptBytes)});
  }

  void Line(std::string_view line) {
    ++line_;
    switch (reader_.Read(line, memory_end_)) {
      case LineKind::kBad: return Bad(line, reader_.error);
      case LineKind::kSample: return Sample(line);
      case LineKind::kEof: ended_ = true; return;
      default: return;
    }
  }

  void Sample(std::string_view line) {
    SampleHome home = families_.Resolve(reader_.name);
    if (home.family == FamilyTable::kNone) return Bad(line, LineError::kTooManyFamilies);
    ReportFamilies();
    SampleView sample;
    size_t bound_label = 0;
    if (!exposition_internal::ResolveBound(reader_.labels, home.role, sample.bound, bound_label)) {
      return Bad(line, LineError::kBadBound);
    }
    sample.family = home.family;
    sample.role = home.role;
    sample.name = reader_.name;
    sample.labels = reader_.labels;
    sample.value = reader_.value;
    sample.timestamp_ms = reader_.timestamp_ms;
    if (reader_.has_exemplar) {
      sample.exemplar =
          ExemplarView{reader_.exemplar_labels, reader_.exemplar_value, reader_.exemplar_timestamp_ms};
    }
    ++report_.samples;
    handler_.OnSample(sample);
  }

  LineReader reader_;
  FamilyTable families_;
  ExpositionHandler& handler_;
  ExpositionReport report_;
  uint32_t reported_ = 0;
  size_t line_ = 0;
  const char* memory_end_ = nullptr;
  bool ended_ = false;
};

}  // namespace

std::optional<ExpositionFormat> DetectExpositionFormat(std::string_view content_type) noexcept {
  char type_buffer[64], version_buffer[32];
  std::string_view type = Lower(Trim(TakeUntil(content_type, ';')), type_buffer, sizeof type_buffer);
  std::string_view version;
  while (!content_type.empty()) {
    std::string_view value = TakeUntil(content_type, ';');
    char name_buffer[16];
    std::string_view name = Lower(Trim(TakeUntil(value, '=')), name_buffer, sizeof name_buffer);
    if (name != "version") continue;
    value = Trim(value);
    if (value.size() >= 2 && value.front() == '"' && value.back() == '"') {
      value = value.substr(1, value.size() - 2);
    }
    version = Lower(value, version_buffer, sizeof version_buffer);
  }
  if (type == "application/openmetrics-text") return ExpositionFormat::kOpenMetrics100;
  if (type == "text/plain") {
    return version == "1.0.0" ? ExpositionFormat::kText100 : ExpositionFormat::kText004;
  }
  if (type.empty()) return ExpositionFormat::kText004;
  return std::nullopt;
}

namespace exposition_internal {

bool ReadBound(std::string_view text, double& bound) noexcept {
  const char* end = text.data() + text.size();
  if (ReadExpositionNumber(text.data(), end, bound) != end || std::isnan(bound)) return false;
  if (bound == 0) bound = 0.0;  // "-0" and "0" are one bound
  return true;
}

bool ResolveBound(std::span<const LabelView> labels, SampleRole& role, double& bound, size_t& bound_label) {
  bound_label = labels.size();
  bound = 0;
  std::string_view wanted = BoundLabel(role);
  if (wanted.empty()) return true;
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i].name == wanted) bound_label = i;
  }
  if (bound_label == labels.size()) {
    // A summary's own name without a quantile is a plain number of that family.
    if (role == SampleRole::kBucket) return false;
    role = SampleRole::kValue;
    return true;
  }
  return ReadBound(labels[bound_label].value, bound);
}

bool LooksLikeSample(std::string_view line) noexcept {
  size_t first = line.find_first_not_of(" \t\r");
  return first != std::string_view::npos && line[first] != '#';
}

namespace {

// Counts the names of families and samples: each at least once, and usually once, because lines of one family
// are next to each other.
class NameCounter {
 public:
  // An empty name was not parsed and may be any name.
  void Add(std::string_view name) {
    constexpr uint64_t kTaken = 1;
    const uint64_t hash = HashBytes(name, 0, ProcessHashKey()) | kTaken;
    uint64_t& last = recent_[hash % recent_.size()];
    count_ += name.empty() || last != hash;
    last = hash;
  }
  size_t count() const noexcept { return count_; }

 private:
  size_t count_ = 0;
  std::array<uint64_t, 1021> recent_{};  // the last name of each place; 0: none
};

std::string_view TakeToken(std::string_view& rest) {
  rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
  const std::string_view token = rest.substr(0, rest.find_first_of(" \t\r"));
  rest.remove_prefix(token.size());
  return token;
}

void CountDeclared(std::string_view line, NameCounter& names) {
  TakeUntil(line, '#');
  const std::string_view word = TakeToken(line), name = TakeToken(line);
  if (word == "HELP" || word == "TYPE" || word == "UNIT")
    names.Add(name.starts_with('"') ? std::string_view() : name);
}

}  // namespace

PageOutline OutlineOf(std::string_view page, LineReader& reader) {
  constexpr std::string_view kBucket = "_bucket";
  const bool open = reader.format == ExpositionFormat::kOpenMetrics100;
  PageOutline out;
  NameCounter names;
  std::string_view name, bucket;  // of a line before; the last of out.buckets
  while (!page.empty()) {
    const std::string_view line = TakeUntil(page, '\n');
    if (!name.empty() && line.size() > name.size() && line.starts_with(name) &&
        (line[name.size()] == '{' || line[name.size()] == ' ')) {
      ++out.samples;
      continue;
    }
    const size_t first = line.find_first_not_of(" \t\r");
    if (first == std::string_view::npos) continue;
    if (line[first] == '#') {
      if (open && line.find("EOF") != std::string_view::npos && reader.Read(line) == LineKind::kEof) break;
      CountDeclared(line, names);
      continue;
    }
    ++out.samples;
    // Such a page is not read: nothing but how many there are is still of interest.
    if (out.samples > reader.limits.samples) continue;
    name = first == 0 ? line.substr(0, line.find_first_of("{ \t\r")) : std::string_view();
    names.Add(name);
    if (!name.ends_with(kBucket) || name == bucket) continue;
    bucket = name;
    out.buckets.push_back({name, line});
  }
  out.names = names.count();
  return out;
}

namespace {

bool IsBucket(const PageOutline::Bucket& bucket, LineReader& reader) {
  if (reader.Read(bucket.line) != LineKind::kSample || reader.name != bucket.name) return false;
  return std::any_of(reader.labels.begin(), reader.labels.end(), [](const LabelView& label) {
    double bound;
    return label.name == "le" && ReadBound(label.value, bound);
  });
}

// The number of families is known only once each sample is assigned.
bool FamiliesFit(std::string_view page, const PageOutline& outline, LineReader& reader) {
  if (outline.names <= reader.limits.families) return true;
  FamilyTable families(reader.limits.families);
  DeclareFamilies(page, outline, reader, families);
  while (!page.empty() && !families.refused()) {
    LineKind kind = reader.Read(TakeUntil(page, '\n'));
    if (kind == LineKind::kEof) break;
    if (kind == LineKind::kSample) families.Resolve(reader.name);
  }
  return !families.refused();
}

}  // namespace

void DeclareFamilies(std::string_view page, const PageOutline& outline, LineReader& reader,
                     FamilyTable& families) {
  families.BeginPage();
  bool cut = reader.format == ExpositionFormat::kOpenMetrics100;
  const char *p = page.data(), *end = p + page.size();
  if (p != end && *p != '#' && *p != ' ' && *p != '\t') p = NextMetadata(p, end);
  while (p != end) {
    size_t rest = static_cast<size_t>(end - p);
    auto* newline = static_cast<const char*>(std::memchr(p, '\n', rest));
    std::string_view line(p, newline == nullptr ? rest : static_cast<size_t>(newline - p));
    size_t first = line.find_first_not_of(" \t");
    if (first != std::string_view::npos && line[first] == '#') {
      LineKind kind = reader.Read(line);
      if (kind == LineKind::kEof) {
        cut = false;
        break;
      }
      if (kind == LineKind::kHelp || kind == LineKind::kType || kind == LineKind::kUnit) {
        families.Declare(kind, reader);
      }
    }
    if (newline == nullptr) break;
    p = NextMetadata(newline, end);
  }
  for (const PageOutline::Bucket& bucket : outline.buckets) {
    const std::string_view base = bucket.name.substr(0, bucket.name.rfind('_'));
    if (families.MayBeHistogram(base) && IsBucket(bucket, reader)) families.InferHistogram(base);
  }
  families.EndDeclarations(cut);
}

Status CheckLimits(std::string_view page, const PageOutline& outline, LineReader& reader,
                   ExpositionReport& report) {
  const ExpositionLimits& limits = reader.limits;
  if (outline.samples > limits.samples) {
    report.samples_over_limit = outline.samples - limits.samples;
    return {Code::kExhausted, "the page has " + std::to_string(outline.samples) + " samples, the limit is " +
                                  std::to_string(limits.samples)};
  }
  report.too_many_families = !FamiliesFit(page, outline, reader);
  if (!report.too_many_families) return Ok();
  return {Code::kExhausted, "the page has more than " + std::to_string(limits.families) + " families"};
}

}  // namespace exposition_internal

Result<ExpositionReport> ParseExposition(std::string_view page, ExpositionFormat format,
                                         const ExpositionLimits& limits, ExpositionHandler& handler) {
  if (page.size() > limits.page_bytes) {
    return Status{Code::kExhausted, "the page has " + std::to_string(page.size()) + " bytes, the limit is " +
                                        std::to_string(limits.page_bytes)};
  }
  return PageParser(format, limits, handler).Run(page);
}

namespace {

struct RoleSuffix {
  std::string_view text;
  SampleRole role;
};
constexpr RoleSuffix kSuffixes[] = {
    {"_bucket", SampleRole::kBucket}, {"_sum", SampleRole::kSum},         {"_count", SampleRole::kCount},
    {"_total", SampleRole::kValue},   {"_created", SampleRole::kCreated}, {"_info", SampleRole::kInfo},
    {"_gsum", SampleRole::kSum},      {"_gcount", SampleRole::kCount},
};

// Whether a family of this type owns samples of its name and this suffix.
bool TypeClaims(ExpositionType type, std::string_view suffix) noexcept {
  switch (type) {
    case ExpositionType::kCounter: return suffix == "_total" || suffix == "_created";
    case ExpositionType::kHistogram:
      return suffix == "_bucket" || suffix == "_sum" || suffix == "_count" || suffix == "_created";
    case ExpositionType::kGaugeHistogram:
      return suffix == "_bucket" || suffix == "_gsum" || suffix == "_gcount" || suffix == "_sum" ||
             suffix == "_count" || suffix == "_created";
    case ExpositionType::kSummary: return suffix == "_sum" || suffix == "_count" || suffix == "_created";
    case ExpositionType::kInfo: return suffix == "_info";
    case ExpositionType::kUnknown:
    case ExpositionType::kGauge:
    case ExpositionType::kStateSet: return false;
  }
  return false;
}

SampleRole OwnRole(ExpositionType type) noexcept {
  if (type == ExpositionType::kSummary) return SampleRole::kQuantile;
  if (type == ExpositionType::kStateSet) return SampleRole::kState;
  if (type == ExpositionType::kInfo) return SampleRole::kInfo;
  return SampleRole::kValue;
}

}  // namespace

const char* NextMetadata(const char* p, const char* end) noexcept {
  auto starts = [](char c) { return c == '#' || c == ' ' || c == '\t'; };
#if defined(__SSE2__)
  const __m128i newline = _mm_set1_epi8('\n'), hash = _mm_set1_epi8('#'), blank = _mm_set1_epi8(' '),
                tab = _mm_set1_epi8('\t');
  for (; end - p > 16; p += 16) {
    __m128i here = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    __m128i breaks = _mm_cmpeq_epi8(here, newline);
    if (_mm_movemask_epi8(breaks) == 0) continue;
    __m128i next = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 1));
    __m128i wanted = _mm_or_si128(_mm_cmpeq_epi8(next, hash),
                                  _mm_or_si128(_mm_cmpeq_epi8(next, blank), _mm_cmpeq_epi8(next, tab)));
    int hits = _mm_movemask_epi8(_mm_and_si128(breaks, wanted));
    if (hits != 0) return p + __builtin_ctz(static_cast<unsigned>(hits)) + 1;
  }
#endif
  for (; end - p > 1; ++p) {
    if (*p == '\n' && starts(p[1])) return p + 1;
  }
  return end;
}

std::string_view BoundLabel(SampleRole role) noexcept {
  if (role == SampleRole::kBucket) return "le";
  return role == SampleRole::kQuantile ? "quantile" : "";
}

uint32_t FamilyTable::Find(std::string_view name) const {
  auto found = ids_.find(name);
  return found == ids_.end() ? kNone : found->second;
}

uint32_t FamilyTable::Add(std::string_view name) {
  if (ids_.size() >= limit_) {
    refused_ = true;
    return kNone;
  }
  uint32_t id = static_cast<uint32_t>(families_.size());
  if (free_.empty()) {
    families_.emplace_back();
    marks_.emplace_back();
  } else {
    id = free_.back();
    free_.pop_back();
  }
  ExpositionFamily& family = families_[id];
  family.name = name;
  family.alive = true;
  marks_[id] = {};
  ids_.emplace(family.name, id);
  last_valid_ = false;
  ++version_;
  return id;
}

void FamilyTable::SetText(std::string& old, std::string_view now) {
  if (old == now) return;
  old = now;
  ++version_;
}

void FamilyTable::BeginPage() {
  type_conflicts_ = 0;
  refused_ = false;
  retired_.clear();
  for (size_t i = 0; i < families_.size(); ++i) {
    Marks& marks = marks_[i];
    marks.declared = marks.helped = marks.typed = marks.united = marks.inferred = false;
    marks.was_inferred = families_[i].inferred;
    marks.was = families_[i].type;
    marks.was_typed = families_[i].typed;
  }
}

bool FamilyTable::Declare(LineKind kind, const LineReader& line) {
  uint32_t id = Find(line.name);
  if (id == kNone) id = Add(line.name);
  if (id == kNone) return false;
  ExpositionFamily& family = families_[id];
  Marks& marks = marks_[id];
  marks.declared = true;
  if (kind == LineKind::kHelp) {
    if (!marks.helped) SetText(family.help, line.text);
    marks.helped = true;
  } else if (kind == LineKind::kUnit) {
    if (!marks.united) SetText(family.unit, line.text);
    marks.united = true;
  } else if (marks.typed) {
    type_conflicts_ += family.type != line.type;
  } else {
    marks.typed = family.typed = true;
    family.type = line.type;
  }
  return true;
}

bool FamilyTable::MayBeHistogram(std::string_view base) const {
  auto untyped = [this](uint32_t id) {
    return id == kNone || !marks_[id].typed || families_[id].type == ExpositionType::kUnknown;
  };
  return !base.empty() && untyped(Find(base)) && untyped(Find(std::string(base) + "_bucket"));
}

void FamilyTable::InferHistogram(std::string_view base) {
  uint32_t id = Find(base);
  if (id == kNone) id = Add(base);
  if (id != kNone) marks_[id].inferred = true;
}

// A TYPE that came, went or changed moves the samples of the family itself, of families named like it
// with a suffix that it claims, and of those whose suffix it takes away.
void FamilyTable::RetireRelated(uint32_t changed) {
  const std::string& name = families_[changed].name;
  auto retire = [this](uint32_t id) {
    if (marks_[id].series > 0) retired_.push_back(id);
  };
  retire(changed);
  for (const RoleSuffix& suffix : kSuffixes) {
    uint32_t longer = Find(name + std::string(suffix.text));
    bool is_free =
        longer != kNone && (!families_[longer].typed || families_[longer].type == ExpositionType::kUnknown);
    if (is_free) retire(longer);
    if (name.size() <= suffix.text.size() || !name.ends_with(suffix.text)) continue;
    uint32_t base = Find(std::string_view(name).substr(0, name.size() - suffix.text.size()));
    if (base != kNone && TypeClaims(families_[base].type, suffix.text)) retire(base);
  }
}

void FamilyTable::EndDeclarations(bool cut) {
  last_valid_ = false;
  for (uint32_t id = 0; id < families_.size(); ++id) {
    ExpositionFamily& family = families_[id];
    Marks& marks = marks_[id];
    if (!family.alive) continue;
    if (!marks.helped && !cut) SetText(family.help, "");
    if (!marks.united && !cut) SetText(family.unit, "");
    if (!marks.typed && !cut) family.typed = false, family.type = ExpositionType::kUnknown;
    family.inferred = marks.inferred || (cut && marks.was_inferred && !marks.typed);
    if (family.inferred) family.type = ExpositionType::kHistogram;
    const bool same_type = family.typed == marks.was_typed && family.type == marks.was;
    if (same_type && family.inferred == marks.was_inferred) continue;
    ++version_;
    family.suffixed.reset();
    RetireRelated(id);
  }
  std::sort(retired_.begin(), retired_.end());
  retired_.erase(std::unique(retired_.begin(), retired_.end()), retired_.end());
}

// Whether a sample of this suffix is part of `base`. A TYPE untyped of the sample's own name gives way to a
// histogram that was inferred, not to a declared family.
bool FamilyTable::Claims(uint32_t base, std::string_view suffix, bool own_untyped) const noexcept {
  const ExpositionFamily& family = families_[base];
  const bool known = family.inferred || (family.typed && !own_untyped);
  return known && TypeClaims(family.type, suffix);
}

SampleHome FamilyTable::Resolve(std::string_view name) {
  if (last_valid_ && last_name_ == name) return last_;
  uint32_t own = Find(name);
  SampleHome home{own, SampleRole::kValue};
  const bool own_typed = own != kNone && families_[own].typed && !families_[own].inferred;
  if (own_typed && families_[own].type != ExpositionType::kUnknown) {
    home.role = OwnRole(families_[own].type);
  } else {
    home.family = kNone;
    for (const RoleSuffix& suffix : kSuffixes) {
      if (name.size() <= suffix.text.size() || !name.ends_with(suffix.text)) continue;
      uint32_t base = Find(name.substr(0, name.size() - suffix.text.size()));
      if (base == kNone || !Claims(base, suffix.text, own_typed)) continue;
      home = {base, suffix.role};
      break;
    }
    if (home.family == kNone) home.family = own != kNone ? own : Add(name);
  }
  if (home.family == kNone) return home;
  ExpositionFamily& family = families_[home.family];
  if (!family.suffixed && (home.role == SampleRole::kValue || home.role == SampleRole::kInfo))
    family.suffixed = name.size() > family.name.size();
  last_name_ = name;
  last_ = home;
  last_valid_ = true;
  return home;
}

void FamilyTable::EndPage(bool cut) {
  if (cut) return;
  for (uint32_t id = 0; id < families_.size(); ++id) {
    if (!families_[id].alive || marks_[id].declared || marks_[id].series > 0) continue;
    ids_.erase(families_[id].name);
    families_[id] = {};
    free_.push_back(id);
    last_valid_ = false;
    ++version_;
  }
}

size_t FamilyTable::memory_bytes() const noexcept {
  size_t bytes = families_.capacity() * (sizeof(ExpositionFamily) + sizeof(Marks)) + ids_.size() * 72;
  for (const ExpositionFamily& family : families_) {
    bytes += 2 * family.name.capacity() + family.help.capacity() + family.unit.capacity();
  }
  return bytes;
}

}  // namespace gpulens
