#include "scrape/engine/engine_drift.h"

#include <array>
#include <span>
#include <string_view>
#include <utility>

namespace gpulens::engine_page {
namespace {

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

// The UNIT line of OpenMetrics against the table.
bool OtherUnit(const ExpositionFamily& family, const EngineRow& row) noexcept {
  if (family.unit == "seconds") return row.unit != "s";
  if (family.unit == "milliseconds") return row.unit != "ms";
  if (family.unit == "bytes") return row.unit != "By";
  return false;
}

}  // namespace

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

std::vector<DriftWatch::Finding> DriftWatch::Look(const ScrapedPage& page, const PageFamilies& families) {
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
    if (known.kind == KnownFamily::kUnknown) {
      once(Finding::kUnknown, family.name, "family " + family.name + " is in no table", GuessRow(family));
    }
    if (known.kind != KnownFamily::kMapped && known.kind != KnownFamily::kAlias) continue;
    now.insert(family.name);
    if (known.other_type) {
      once(Finding::kOtherType, family.name,
           "family " + family.name + " is a " + std::string(TypeName(family)) +
               " now, which its row does not expect");
    }
    if (!family.unit.empty() && OtherUnit(family, known.rows.front())) {
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
