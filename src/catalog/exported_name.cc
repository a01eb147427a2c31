#include "catalog/exported_name.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "catalog/all.h"
#include "catalog/prometheus_name.h"

namespace gpulens {
namespace {

constexpr std::string_view kOfPrometheus[] = {"up",
                                              "scrape_duration_seconds",
                                              "scrape_samples_scraped",
                                              "scrape_samples_post_metric_relabeling",
                                              "scrape_series_added",
                                              "ALERTS",
                                              "ALERTS_FOR_STATE"};
// Suffixes by which a sample of one family may have the name of another.
constexpr std::string_view kSuffixes[] = {"_total", "_bucket",  "_sum",  "_count",
                                          "_info",  "_created", "_gsum", "_gcount"};

// The name on a page with ASCII names only.
std::string PlainOf(std::string_view name) {
  std::string key(name);
  for (char& c : key) {
    const bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!word && c != ':') c = '_';
  }
  return key;
}

// PlainOf without the suffix of a sample.
std::string KeyOf(std::string_view name) {
  std::string key = PlainOf(name);
  for (std::string_view suffix : kSuffixes) {
    if (!key.ends_with(suffix) || key.size() == suffix.size()) continue;
    key.resize(key.size() - suffix.size());
    break;
  }
  return key;
}

std::string PrometheusName(const MetricDesc& metric) {
  std::string name;
  AppendPrometheusName(name, metric);
  return name;
}

bool IsFree(std::string_view native) noexcept {
  return native.starts_with("process.") || native == "target.info";
}

// Hashes, as the names would take 40 KiB. A collision only adds a prefix.
const std::vector<uint64_t>& Reserved() {
  static const std::vector<uint64_t> all = [] {
    std::vector<uint64_t> made;
    for (const MetricDesc* row : AllMetrics()) {
      if (IsFree(row->name)) continue;
      made.push_back(Fnv1a(KeyOf(row->name)));
      made.push_back(Fnv1a(KeyOf(PrometheusName(*row))));
    }
    std::ranges::sort(made);
    const auto twice = std::ranges::unique(made);
    made.erase(twice.begin(), twice.end());
    made.shrink_to_fit();
    return made;
  }();
  return all;
}

bool IsReservedText(std::string_view name, NameOwner owner) {
  const std::string plain = PlainOf(name), key = KeyOf(name);
  if (std::ranges::find(kOfPrometheus, plain) != std::end(kOfPrometheus)) return true;
  const auto begins = [&key](std::string_view with) { return key.starts_with(with); };
  if (key == "gpulens" || begins("gpulens_")) return true;
  if (owner == NameOwner::kProgram && (key == "gpu" || begins("gpu_") || begins("DCGM_FI_") || begins("hw_")))
    return true;
  return std::ranges::binary_search(Reserved(), Fnv1a(key));
}

}  // namespace

bool IsReservedName(const MetricDesc& brought, NameOwner owner) {
  return IsReservedText(brought.name, owner) || IsReservedText(PrometheusName(brought), owner);
}

std::string ExportedName(const MetricDesc& brought, NameOwner owner) {
  if (!IsReservedName(brought, owner)) return std::string(brought.name);
  const bool verbatim = brought.naming == Naming::kVerbatim;
  return (verbatim ? "exported_" : "exported.") + std::string(brought.name);
}

}  // namespace gpulens
