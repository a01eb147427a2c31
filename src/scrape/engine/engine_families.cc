#include "scrape/engine/engine_families.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "base/parse.h"

namespace gpulens::engine_page {
namespace {

// Whether an engine's prefixes speak of a family, and how long the longest of them is: that of the router
// within Dynamo is longer than that of Dynamo.
size_t Recognised(const Engine& engine, std::string_view family) noexcept {
  size_t longest = 0;
  for (std::string_view rest = engine.recognised; !rest.empty();) {
    std::string_view prefix = TakeUntil(rest, ' ');
    if (family.starts_with(prefix)) longest = std::max(longest, prefix.size());
  }
  return longest;
}

}  // namespace

std::string_view KindName(KnownFamily::Kind kind) noexcept {
  constexpr std::string_view kNames[] = {"gone", "unknown", "mapped", "alias", "pass", "ignored"};
  return kNames[kind];
}

void PageFamilies::Look(const ScrapedPage& page) {
  Recognise(page);
  const std::span<const ExpositionFamily> now = page.families();
  families_.assign(now.size(), {});
  unknown_ = 0;
  for (size_t i = 0; i < now.size(); ++i) {
    if (!now[i].alive) continue;
    families_[i] = Resolve(now[i]);
    unknown_ += families_[i].kind == KnownFamily::kUnknown;
  }
  PassOverAliases(page);
}

void PageFamilies::Recognise(const ScrapedPage& page) {
  std::vector<bool> found(AllEngines().size());
  for (const ExpositionFamily& family : page.families()) {
    if (!family.alive) continue;
    std::string name = CanonicalFamily(family.name);
    size_t best = 0, longest = 0;
    for (size_t i = 0; i < found.size(); ++i) {
      size_t length = Recognised(AllEngines()[i], name);
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
  auto of_engines = std::find_if(engines_.begin(), engines_.end(),
                                 [](const Engine* engine) { return engine->layer == "engine"; });
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
      // Two engines may know one name; the page's own one says what it means.
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
    else if (row.use == Use::kIgnore && known.kind == KnownFamily::kPass) known.kind = KnownFamily::kIgnored;
  }
  // "untyped" contradicts nothing.
  const bool says_type = family.typed && family.type != ExpositionType::kUnknown;
  known.other_type = says_type && std::none_of(known.rows.begin(), known.rows.end(), [&](const auto& row) {
                       return row.family.ends_with('*') || row.Takes(family.type);
                     });
  return known;
}

void PageFamilies::PassOverAliases(const ScrapedPage& page) {
  std::unordered_set<std::string> there;
  std::vector<uint32_t> ids;
  page.Series(ids);
  for (uint32_t id : ids) {
    there.insert(std::string(WithoutTotal(CanonicalFamily(page.families()[page.family_of(id)].name))));
  }
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

}  // namespace gpulens::engine_page
