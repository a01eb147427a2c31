#include "wire/exposition/exposition_families.h"

#include <algorithm>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace gpulens {
namespace {

struct Suffix {
  std::string_view text;
  SampleRole role;
};
constexpr Suffix kSuffixes[] = {
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
  for (const Suffix& suffix : kSuffixes) {
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
    for (const Suffix& suffix : kSuffixes) {
      if (name.size() <= suffix.text.size() || !name.ends_with(suffix.text)) continue;
      uint32_t base = Find(name.substr(0, name.size() - suffix.text.size()));
      if (base == kNone || !Claims(base, suffix.text, own_typed)) continue;
      home = {base, suffix.role};
      break;
    }
    if (home.family == kNone) home.family = own != kNone ? own : Add(name);
  }
  if (home.family == kNone) return home;
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
