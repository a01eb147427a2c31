#include "scrape/engine/engine_families.h"

#include <algorithm>
#include <iterator>
#include <unordered_set>
#include <utility>

#include "base/parse.h"
#include "catalog/inference.h"

namespace gpulens::engine_page {
namespace {

#include "scrape/engine/engine_tables.inc"

bool Matches(std::string_view pattern, std::string_view family) noexcept {
  if (pattern.ends_with('*')) return family.starts_with(pattern.substr(0, pattern.size() - 1));
  if (pattern.starts_with('*')) return family.ends_with(pattern.substr(1));
  return pattern == family;
}

// The name as it is goes first: there are families that differ in nothing but `_total`.
std::span<const EngineRow> Find(std::span<const EngineRow> rows, std::string_view family) noexcept {
  auto run = [&](auto&& same) {
    auto first = std::ranges::find_if(rows, same);
    auto last = std::find_if_not(first, rows.end(), same);
    return std::span<const EngineRow>(first, last);
  };
  auto exact = run([&](const EngineRow& row) { return Matches(row.family, family); });
  if (!exact.empty()) return exact;
  std::string_view bare = WithoutTotal(family);
  return run([&](const EngineRow& row) {
    return row.Takes(ExpositionType::kCounter) && WithoutTotal(row.family) == bare;
  });
}

}  // namespace

std::span<const Engine> AllEngines() noexcept { return kEngines; }
std::span<const EngineRow> CommonRows() noexcept { return kCommonRows; }
std::span<const EnginePrefix> AllPrefixes() noexcept { return kPrefixes; }

const Engine* FindEngine(std::string_view name) noexcept {
  const auto* at = std::ranges::find_if(kEngines, [&](const Engine& engine) { return engine.name == name; });
  return at == std::end(kEngines) ? nullptr : at;
}

std::string CanonicalFamily(std::string_view family) {
  for (const EnginePrefix& prefix : kPrefixes) {
    if (!family.starts_with(prefix.prefix)) continue;
    return std::string(prefix.canonical) + std::string(family.substr(prefix.prefix.size()));
  }
  return std::string(family);
}

std::span<const EngineRow> RowsOf(const Engine& engine, std::string_view family) noexcept {
  std::span<const EngineRow> rows = Find(engine.rows, family);
  if (!rows.empty() || engine.reads.empty()) return rows;
  return Find(FindEngine(engine.reads)->rows, family);
}

std::span<const EngineRow> CommonRowsOf(std::string_view family) noexcept {
  return Find(kCommonRows, family);
}

namespace {

// Returns the length of the longest of an engine's prefixes that a family has; 0: none. The prefix of
// Dynamo's router is longer than Dynamo's.
size_t LongestPrefix(const Engine& engine, std::string_view family) noexcept {
  size_t longest = 0;
  for (std::string_view rest = engine.recognised; !rest.empty();) {
    std::string_view prefix = TakeUntil(rest, ' ');
    if (family.starts_with(prefix)) longest = std::max(longest, prefix.size());
  }
  return longest;
}

std::string_view TypeName(const ExpositionFamily& family) noexcept {
  return family.type == ExpositionType::kUnknown ? "untyped" : ExpositionTypeName(family.type);
}

std::string_view GuessUnit(std::string_view name, std::string_view unit) noexcept {
  constexpr std::pair<std::string_view, std::string_view> kSuffixes[] = {
      {"_seconds", "s"},      {"_ms", "ms"},
      {"_us", "us"},          {"_milliseconds", "ms"},
      {"_bytes", "By"},       {"_ratio", "1"},
      {"_perc", "1"},         {"_percent", "%"},
      {"_tokens", "{token}"}, {"_requests", "{request}"},
      {"_reqs", "{request}"}, {"_blocks", "{block}"}};
  if (unit == "seconds") return "s";
  if (unit == "bytes") return "By";
  name = WithoutTotal(name);
  for (auto [suffix, guess] : kSuffixes) {
    if (name.ends_with(suffix)) return guess;
  }
  return "1";
}

// Whether the UNIT line of OpenMetrics differs from the table.
bool HasOtherUnit(const ExpositionFamily& family, const EngineRow& row) noexcept {
  if (family.unit == "seconds") return row.unit != "s";
  if (family.unit == "milliseconds") return row.unit != "ms";
  if (family.unit == "bytes") return row.unit != "By";
  return false;
}

}  // namespace

std::string_view KindName(KnownFamily::Kind kind) noexcept {
  constexpr std::string_view kNames[] = {"gone", "unknown", "mapped", "alias", "pass", "ignored"};
  return kNames[kind];
}

void PageFamilies::Update(const ParsedPage& page) {
  DetectEngines(page);
  const std::span<const ExpositionFamily> now = page.families();
  families_.assign(now.size(), {});
  unknown_ = 0;
  for (size_t i = 0; i < now.size(); ++i) {
    if (!now[i].alive) continue;
    families_[i] = Resolve(now[i]);
    unknown_ += families_[i].kind == KnownFamily::kUnknown;
  }
  MarkAliases(page);
}

void PageFamilies::DetectEngines(const ParsedPage& page) {
  std::vector<bool> found(AllEngines().size());
  for (const ExpositionFamily& family : page.families()) {
    if (!family.alive) continue;
    std::string name = CanonicalFamily(family.name);
    size_t best = 0, longest = 0;
    for (size_t i = 0; i < found.size(); ++i) {
      size_t length = LongestPrefix(AllEngines()[i], name);
      if (length <= longest) continue;
      longest = length;
      best = i;
    }
    if (longest > 0) found[best] = true;
  }
  for (size_t i = 0; i < found.size(); ++i) {
    const Engine& engine = AllEngines()[i];
    const Engine* other = found[i] || &engine == configured_ ? FindEngine(engine.instead_of) : nullptr;
    if (other) found[static_cast<size_t>(other - AllEngines().data())] = false;
  }
  engines_.clear();
  for (size_t i = 0; i < found.size(); ++i) {
    const Engine* engine = &AllEngines()[i];
    const bool is_read_as_another = configured_ && configured_->reads == engine->name;
    if (engine == configured_ || (found[i] && !is_read_as_another)) engines_.push_back(engine);
  }
  auto of_engines =
      std::ranges::find_if(engines_, [](const Engine* engine) { return engine->layer == "engine"; });
  if (configured_) main_ = configured_;
  else if (of_engines != engines_.end()) main_ = *of_engines;
  else main_ = engines_.empty() ? nullptr : engines_.front();
}

KnownFamily PageFamilies::Resolve(const ExpositionFamily& family) const {
  KnownFamily known;
  const std::string name = CanonicalFamily(family.name);
  auto find = [&](std::string_view of) {
    for (const Engine* engine : engines_) {
      std::span<const EngineRow> rows = RowsOf(*engine, of);
      // Two engines may have one name; the main engine's meaning wins.
      if (rows.empty() || (known.engine && engine != main_)) continue;
      known.engine = engine;
      known.rows = rows;
    }
  };
  find(name);
  if (known.rows.empty() && family.type == ExpositionType::kUnknown) {
    constexpr std::pair<std::string_view, KnownFamily::Part> kParts[] = {
        {"_sum", KnownFamily::kSum}, {"_count", KnownFamily::kCount}, {"_bucket", KnownFamily::kBuckets}};
    for (auto [suffix, part] : kParts) {
      if (!name.ends_with(suffix)) continue;
      find(std::string_view(name).substr(0, name.size() - suffix.size()));
      if (!known.rows.empty() && known.rows.front().Takes(ExpositionType::kHistogram)) known.part = part;
      else known = {};
    }
  }
  if (known.rows.empty()) known.rows = CommonRowsOf(family.name);
  if (known.rows.empty()) {
    known.kind = KnownFamily::kUnknown;
    return known;
  }
  known.kind = KnownFamily::kPass;
  for (const EngineRow& row : known.rows) {
    if (row.metric) known.kind = KnownFamily::kMapped;
    else if (row.use == RowUse::kIgnore && known.kind == KnownFamily::kPass)
      known.kind = KnownFamily::kIgnored;
  }
  // "untyped" contradicts nothing.
  const bool has_type = family.typed && family.type != ExpositionType::kUnknown;
  known.other_type = has_type && std::ranges::none_of(known.rows, [&](const auto& row) {
                       return row.family.ends_with('*') || row.Takes(family.type);
                     });
  return known;
}

void PageFamilies::MarkAliases(const ParsedPage& page) {
  std::unordered_set<std::string> there;
  std::vector<uint32_t> ids;
  page.Series(ids);
  for (uint32_t id : ids)
    there.insert(std::string(WithoutTotal(CanonicalFamily(page.families()[page.family_of(id)].name))));
  for (KnownFamily& known : families_) {
    if (known.kind != KnownFamily::kMapped || known.rows.front().alias_of.empty()) continue;
    if (there.contains(std::string(WithoutTotal(known.rows.front().alias_of))))
      known.kind = KnownFamily::kAlias;
  }
}

std::string_view PageFamilies::NameFor(const Engine* engine) const noexcept {
  if (!engine || (main_ && main_->reads == engine->name)) engine = main_;
  return engine ? engine->name : std::string_view{};
}

std::string GuessRow(const ExpositionFamily& family) {
  std::string name = CanonicalFamily(family.name);
  // Tables have the name of the text format.
  if (family.type == ExpositionType::kCounter && !name.ends_with("_total") && family.typed &&
      !family.unit.empty()) {
    name += "_total";
  }
  const std::string type(TypeName(family)), unit(GuessUnit(family.name, family.unit));
  return name + '\t' + type + "\t-\t" + unit + "\tpass\t-\t-\t-\t-\t-";
}

std::vector<DriftWatch::Finding> DriftWatch::Check(const ParsedPage& page, const PageFamilies& families) {
  std::vector<Finding> findings;
  auto once = [&](Finding::Kind kind, const std::string& family, std::string sentence, std::string row = {}) {
    if (reported_.size() >= kMostRemembered || !reported_.insert(std::to_string(kind) + family).second)
      return;
    findings.push_back({kind, family, std::move(sentence), std::move(row)});
  };
  std::set<std::string> now;
  const std::span<const ExpositionFamily> all = page.families();
  for (size_t i = 0; i < all.size(); ++i) {
    const KnownFamily& known = families.families()[i];
    const ExpositionFamily& family = all[i];
    if (known.kind == KnownFamily::kUnknown)
      once(Finding::kUnknown, family.name, "family " + family.name + " is in no table", GuessRow(family));
    if (known.kind != KnownFamily::kMapped && known.kind != KnownFamily::kAlias) continue;
    now.insert(family.name);
    if (known.other_type) {
      once(Finding::kOtherType, family.name,
           "family " + family.name + " is a " + std::string(TypeName(family)) +
               " now, which its row does not expect");
    }
    if (!family.unit.empty() && HasOtherUnit(family, known.rows.front())) {
      once(Finding::kOtherUnit, family.name,
           "family " + family.name + " is in " + family.unit + ", its row expects " +
               std::string(known.rows.front().unit));
    }
  }
  for (const std::string& family : seen_) {
    if (now.contains(family) || !gone_.insert(family).second) continue;
    findings.push_back({Finding::kGone, family, "family " + family + " is no longer on the page", {}});
  }
  for (const std::string& family : now) {
    if (gone_.erase(family) != 0)
      findings.push_back({Finding::kBack, family, "family " + family + " is back", {}});
    if (seen_.size() < kMostRemembered) seen_.insert(family);
  }
  return findings;
}

}  // namespace gpulens::engine_page
