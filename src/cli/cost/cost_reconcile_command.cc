// `gpulens cost reconcile`: its options, its files, and the charges.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <memory>

#include "base/clock.h"
#include "base/files.h"
#include "base/result.h"
#include "cli/common/output.h"
#include "cli/cost/cost_command.h"
#include "cli/cost/cost_reconcile.h"
#include "cli/help/help.h"
#include "cli/proxy/proxy_options.h"
#include "cli/proxy/proxy_run.h"
#include "net/client/http_client.h"
#include "store/charges/charge_reader.h"

namespace gpulens {
namespace {

constexpr const char* kReconcileFooter = R"(
  gpulens cost reconcile usage.json                        OpenAI's or Anthropic's, from their usage APIs
  gpulens cost reconcile usage.json costs.json --tolerance 0.5%
  gpulens cost reconcile page1.json page2.json --period 2026-11-26
  gpulens cost reconcile billing.csv --provider gemini --columns date=usage_start_time,usd=cost,model=- --zone -08:00

Compares requests, tokens and list prices of what the proxy has charged with files that a provider exports, by
day, model and tier as far as the files have them. Nothing is fetched, and no charge is changed.
docs/cost-reconcile.md has the formats, and how to get the files.
Exit: 0 equal within the tolerance · 1 different · 2 cannot be compared)";

struct ReconcileOptions {
  std::vector<std::string> files, providers;
  std::string charges, config_file, columns, zone = "UTC", tolerance = "0";
  std::string since, until, period;
  bool all = false, json = false, csv = false;
};

// --charges, else the first store of the proxy's configuration, else the file in its state folder.
Result<std::string> ChargesPlace(const ReconcileOptions& options) {
  if (!options.charges.empty()) return options.charges;
  std::string file = options.config_file;
  if (const char* variable = std::getenv("GPULENS_PROXY_CONFIG"); file.empty() && variable) file = variable;
  constexpr const char* kSystem = "/etc/gpulens/proxy.yaml";
  if (file.empty() && ::access(kSystem, R_OK) == 0) file = kSystem;
  const LoadOutcome loaded = LoadProxyConfig(file);
  if (!loaded.ok()) return Status{Code::kInvalidArgument, loaded.Errors()};
  for (const Config& store : loaded.config.Groups("stores")) return store.Text("url");
  const std::string state = ProxyStateDir(loaded.config);
  if (state.empty())
    return Status{Code::kInvalidArgument, "there is no state folder here; name the charges: --charges FILE"};
  return state + "/charges.db";
}

Result<ReconcileTerms> TermsOf(const ReconcileOptions& options) {
  ReconcileTerms terms;
  terms.providers = options.providers;
  if (!pricing::ParseZone(options.zone, terms.zone_s))
    return Status{Code::kInvalidArgument, "--zone " + options.zone + ": expected UTC or an offset as -08:00"};
  if (!ParseTolerance(options.tolerance, terms.tolerance))
    return Status{Code::kInvalidArgument,
                  "--tolerance " + options.tolerance + ": expected 0 or a percentage as 0.5%"};
  const int64_t now_ns = RealClock().Now().unix_ns;
  terms.now_s = now_ns / 1'000'000'000;
  if (!options.period.empty() || !options.since.empty() || !options.until.empty()) {
    CostOptions times;
    times.since = options.since.empty() && options.period.empty() ? "1970-01-02" : options.since;
    times.until = options.until, times.period = options.period;
    ASSIGN_OR_RETURN(const CostRange range, RangeOf(times, now_ns));
    terms.since_s = range.since_unix, terms.until_s = range.until_unix;
    // A period is one of the zone's days.
    if (!options.period.empty()) terms.since_s -= terms.zone_s, terms.until_s -= terms.zone_s;
  }
  return terms;
}

Result<int> RunReconcile(const ReconcileOptions& options) {
  ASSIGN_OR_RETURN(const ReconcileTerms terms, TermsOf(options));
  std::vector<UsageFile> files;
  for (const std::string& path : options.files) {
    const Result<std::string> text = ReadFile(path, pricing::kMostUsageBytes);
    if (!text) return Status{text.error().code, path + ": " + text.error().detail};
    ASSIGN_OR_RETURN(
        pricing::UsageExport read,
        pricing::ReadUsageExport(*text, {.name = path, .columns = options.columns, .zone_s = terms.zone_s}));
    files.push_back({path, std::move(read)});
  }
  ASSIGN_OR_RETURN(const ReconcileSpan span, SpanOf(files, terms));
  ASSIGN_OR_RETURN(const std::string place, ChargesPlace(options));
  LinkSecurePost();
  ASSIGN_OR_RETURN(const std::unique_ptr<ChargeStore> store, OpenCharges(place));
  ChargedUsage charged(terms.zone_s);
  for (const std::string& provider : span.providers) {
    RETURN_IF_ERROR(ForEachCharge(*store,
                                  {.since_unix_ns = span.begin_s * 1'000'000'000,
                                   .until_unix_ns = span.end_s * 1'000'000'000,
                                   .where = {{ChargeDimension::kProvider, provider}}},
                                  [&](const ChargeRecord& record) { return charged.Add(record); }));
  }
  ASSIGN_OR_RETURN(const Reconciliation made, Reconcile(files, charged, terms));
  const size_t width = ::isatty(STDOUT_FILENO) == 1
                           ? std::min<size_t>(80, static_cast<size_t>(TerminalColumns(STDOUT_FILENO)))
                           : 80;
  const bool written = options.json  ? PrintText(ReconcileJson(made)) == 0
                       : options.csv ? PrintText(ReconcileCsv(made)) == 0
                                     : WriteOut(ReconcileText(made, options.all, width));
  if (!written) return 2;
  return made.equal() ? 0 : 1;
}

}  // namespace

void AddReconcile(CLI::App& cost, int& code) {
  auto kept = std::make_shared<ReconcileOptions>();
  ReconcileOptions& options = *kept;
  CLI::App* reconcile =
      cost.add_subcommand("reconcile", "Compare what the proxy has charged with a provider's usage export.");
  reconcile->footer(kReconcileFooter);
  AddOption(*reconcile, "FILE", options.files, "Files of the provider: JSON of its API, or a table", "")
      ->required();
  AddOption(*reconcile, "--provider", options.providers,
            "Its name in the proxy's configuration; several are added up; default: openai or anthropic",
            "NAME")
      ->allow_extra_args(false);
  AddOption(
      *reconcile, "--charges", options.charges,
      "The charges: a file, postgresql://… or clickhouse://…; default: those of the proxy's configuration",
      "PLACE");
  AddOption(*reconcile, "--config", options.config_file,
            "The proxy's file; default: $GPULENS_PROXY_CONFIG, /etc/gpulens/proxy.yaml", "FILE");
  AddOption(*reconcile, "--since", options.since, "Only buckets from this time on", "T");
  AddOption(*reconcile, "--until", options.until, "Only buckets up to this time", "T");
  AddOption(*reconcile, "--period", options.period, "Instead: a year, a month or a day", "2026-11")
      ->excludes("--since")
      ->excludes("--until");
  AddOption(*reconcile, "--zone", options.zone,
            "Where days begin, and of times in tables without a zone: -08:00", "ZONE")
      ->capture_default_str();
  AddOption(*reconcile, "--columns", options.columns,
            "Of a table: date=NAME,usd=NAME,…; also end, provider, model, tier, requests, input, uncached, "
            "cached, cache_write, cache_write_long, output, web_searches, cents, currency; - is none",
            "LIST");
  AddOption(*reconcile, "--tolerance", options.tolerance,
            "Differences that are none, as a part of the larger side", "0.5%")
      ->capture_default_str();
  reconcile->add_flag("--all", options.all, "Also what is equal");
  auto* json = reconcile->add_flag("--json", options.json, "JSON");
  reconcile->add_flag("--csv", options.csv, "CSV, a line for each measure")->excludes(json);
  reconcile->callback([kept, &code] {
    const Result<int> result = RunReconcile(*kept);
    code = result ? *result : FailCommand("cost reconcile", result.error().detail, 2);
  });
}

}  // namespace gpulens
