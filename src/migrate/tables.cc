#include "migrate/tables.h"

#include <algorithm>
#include <map>

#include "base/parse.h"
#include "base/text.h"
#include "catalog/all.h"
#include "catalog/exported_name.h"
#include "core/prometheus_words.h"

namespace gpulens::migrate {
namespace {

#include "migrate/migrate_tables.inc"

constexpr std::string_view kDcgmPrefixes[] = {"DCGM_"};
constexpr std::string_view kDcgmNames[] = {"dcgm", "dcgm@4.6"};
constexpr std::string_view kNodePrefixes[] = {"node_"};
constexpr std::string_view kNvitopPrefixes[] = {"nvitop_"};
constexpr std::string_view kAllSmiPrefixes[] = {"all_smi_"};
constexpr std::string_view kL9gpuNames[] = {"l9gpu"};
constexpr std::string_view kZernelPrefixes[] = {"zernel_"};
constexpr std::string_view kZernelNames[] = {"zernel"};
constexpr std::string_view kOtelPrefixes[] = {"system_", "hw_", "gen_ai_", "gpu_dcgm_", "otelcol_"};
constexpr std::string_view kOtelNames[] = {"otel_hw", "otel_genai"};
constexpr std::string_view kVmagentPrefixes[] = {"vmagent_", "vm_promscrape_", "vm_persistentqueue_"};

constexpr std::string_view kKeepPage =
    "gpulens does not read it: keep that exporter for it, or make its page a target of kind prometheus";

constexpr Exporter kExporters[] = {
    {"dcgm", "dcgm-exporter", kDcgmPrefixes, kDcgmNames, kDcgmRows, kKeepPage},
    {"node", "node_exporter", kNodePrefixes, {}, kNodeRows, kKeepPage},
    {"nvitop", "nvitop-exporter", kNvitopPrefixes, {}, kNvitopRows, kKeepPage},
    {"all-smi", "all-smi", kAllSmiPrefixes, {}, kAllSmiRows, kKeepPage},
    {"l9gpu", "l9gpu", {}, kL9gpuNames, kL9gpuRowsHere, kKeepPage, true, kDcgmNames},
    {"zernel", "zernel", kZernelPrefixes, kZernelNames, kZernelRowsHere, kKeepPage},
    {"openjarvis", "OpenJarvis", {}, {}, kOpenjarvisRows, kKeepPage, false},
    {"pydotcompute", "PyDotCompute", {}, {}, kPydotcomputeRows, kKeepPage, false},
    {"otel", "OpenTelemetry Collector", kOtelPrefixes, kOtelNames, kOtelRows,
     "gpulens does not read it: let the Collector go on for it"},
    {"vmagent", "vmagent", kVmagentPrefixes, {}, kVmagentRows, "gpulens has no such metric of itself"},
};

constexpr std::string_view kSuffixes[] = {"_bucket", "_sum", "_count"};

// The native metrics by their names on a page. Made once.
const std::map<std::string, const MetricDesc*, std::less<>>& NativeNames() {
  static const auto* names = [] {
    auto* made = new std::map<std::string, const MetricDesc*, std::less<>>;
    for (const MetricDesc* metric : AllMetrics()) {
      if (metric->translated_only) continue;
      std::string name;
      AppendPrometheusName(name, *metric);
      made->emplace(std::move(name), metric);
    }
    return made;
  }();
  return *names;
}

bool HasSamples(Kind kind) {
  return kind == Kind::kHistogram || kind == Kind::kGaugeHistogram || kind == Kind::kSummary;
}

// Calls `find(name, suffix)` with the name, then with the name of the family that it may be a sample of.
template <class Find>
bool FindWithSuffix(std::string_view metric, Find find) {
  if (find(metric, std::string_view())) return true;
  for (const std::string_view suffix : kSuffixes) {
    if (metric.ends_with(suffix) && find(metric.substr(0, metric.size() - suffix.size()), suffix))
      return true;
  }
  return false;
}

bool FindInNaming(std::string_view names, std::string_view metric, Successor& out) {
  const MetricNaming* naming = FindNaming(names);
  if (!naming) return false;
  const bool found = FindWithSuffix(metric, [&](std::string_view family, std::string_view suffix) {
    for (const NamingRow& row : naming->rows) {
      if (row.name.empty() || PrometheusNameOf(*naming, row) != family) continue;
      if (suffix.empty() || HasSamples(row.kind)) out.served.push_back(&row);
    }
    return !out.served.empty();
  });
  if (found) {
    out.kind = Successor::kServed;
    out.names = names;
    out.metric = metric;
    return true;
  }
  for (const NamingFamily& family : naming->families) {
    if (family.name != metric) continue;
    out.kind = Successor::kMissing;
    out.note = "no collector has it yet: its HELP and TYPE are on the page, without series";
    return true;
  }
  return false;
}

bool FindNative(const Exporter& exporter, std::string_view metric, Successor& out) {
  return FindWithSuffix(metric, [&](std::string_view family, std::string_view suffix) {
    const auto found = NativeNames().find(family);
    if (found == NativeNames().end() || (!suffix.empty() && !HasSamples(found->second->kind))) return false;
    out.kind = Successor::kServed;
    out.names = exporter.name == "l9gpu" ? std::string_view("l9gpu") : kNativeNaming;
    out.metric = metric;
    out.native = found->second;
    return true;
  });
}

}  // namespace

std::span<const Exporter> AllExporters() noexcept { return kExporters; }

const Exporter* FindExporter(std::string_view name) noexcept {
  for (const Exporter& exporter : kExporters) {
    if (exporter.name == name) return &exporter;
  }
  return nullptr;
}

Successor FindSuccessor(const Exporter& exporter, std::string_view metric) {
  Successor out;
  for (const TableRow& row : exporter.rows) {
    std::string_view suffix;
    if (row.name != metric) {
      // A histogram's sample, where both sides are one.
      if (row.native.empty() || !metric.starts_with(row.name)) continue;
      suffix = metric.substr(row.name.size());
      const MetricDesc* native = FindMetric(row.native);
      if (std::ranges::find(kSuffixes, suffix) == std::end(kSuffixes) || !native || !HasSamples(native->kind))
        continue;
    }
    if (row.native.empty()) {
      out.kind = Successor::kMissing;
      out.note = row.note;
      return out;
    }
    out.kind = Successor::kMapped;
    out.names = kNativeNaming;
    out.native = FindMetric(row.native);
    out.row = &row;
    out.note = row.note;
    AppendPrometheusName(out.metric, *out.native);
    out.metric += suffix;
    return out;
  }
  for (const std::string_view names : exporter.namings) {
    if (FindInNaming(names, metric, out)) return out;
  }
  for (const std::string_view names : exporter.along) {
    if (FindInNaming(names, metric, out)) return out;
  }
  if (FindNative(exporter, metric, out)) return out;
  for (const TableRow& row : exporter.rows) {
    if (row.name.find('*') == row.name.npos || !MatchesStars(row.name, metric)) continue;
    out.kind = Successor::kMissing;
    out.note = row.note;
    return out;
  }
  for (const std::string_view prefix : exporter.prefixes) {
    if (!metric.starts_with(prefix)) continue;
    out.kind = Successor::kMissing;
    out.note = exporter.elsewhere;
    return out;
  }
  return out;
}

std::vector<Pair> PairsOf(std::string_view text) {
  std::vector<Pair> pairs;
  while (!text.empty()) {
    std::string_view pair = TakeUntil(text, ',');
    const std::string_view key = TakeUntil(pair, '=');
    pairs.push_back({key, pair});
  }
  return pairs;
}

std::string LabelOf(std::string_view attribute) {
  if (attribute == "-") return std::string(attribute);
  std::string label;
  AppendPrometheusLabel(label, attribute);
  return label;
}

}  // namespace gpulens::migrate
