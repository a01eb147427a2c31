#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "base/text.h"
#include "cli/common/output.h"
#include "cli/engines/page_check.h"
#include "cli/help/help.h"
#include "cli/migrate/litellm.h"
#include "cli/migrate/migrate_report.h"
#include "cli/migrate/rule_files.h"
#include "migrate/check.h"
#include "migrate/queries.h"

namespace gpulens {
namespace {

struct MigrateOptions {
  std::string from;
  std::vector<std::string> dashboards, rules;
  PageSource::Options page;
  std::string format = "table";
  bool json = false, all = false;
  std::string litellm;  // the configuration of its proxy
};

constexpr const char* kMigrateFooter = R"(
  gpulens migrate check --from dcgm --dashboards /var/lib/grafana/dashboards --rules /etc/prometheus/rules
  gpulens migrate check --from node --rules rules.yaml --page http://127.0.0.1:9091/metrics
  gpulens migrate table --from nvitop
  gpulens migrate litellm config.yaml > proxy.yaml)";

constexpr const char* kMigrateLiteLlmFooter = R"(
Prints the file of gpulens proxy for a configuration of LiteLLM's proxy. What does not map is in comments at its
end, with the lines. Secrets are not printed: they become variables of the environment. docs/migrate/litellm.md.
Exit: 0 printed · 1 the file cannot be read · 2 wrong use, or not such a file)";

constexpr const char* kMigrateCheckFooter = R"(
Reads dashboards of Grafana (.json) and rules of Prometheus (.yaml, .yml, .rules; PrometheusRule objects, too) and
changes nothing. A query keeps working with the configuration that is printed, changes (the new one is printed), or is
not available. Queries of other exporters are counted.
Exit: 0 all keep working · 1 some change, are not available or cannot be read · 2 wrong use, a folder or the page cannot be read)";

using migrate::Exporter;

std::vector<std::string> ExporterNames() {
  std::vector<std::string> names;
  for (const Exporter& exporter : migrate::AllExporters()) names.emplace_back(exporter.name);
  return names;
}

// The files below the folders, read one after the other and within a total.
class QueryFiles {
 public:
  explicit QueryFiles(MigrateReport& report) : report_(report) {}

  template <class Find>
  Status Read(const std::vector<std::string>& folders, std::initializer_list<std::string_view> endings,
              Find find) {
    for (const std::string& folder : folders) {
      ASSIGN_OR_RETURN(const FolderFiles files, FilesBelow(folder, endings));
      if (files.skipped > 0)
        report_.bad_files.push_back({folder, Plural(files.skipped, "folder or file", "folders or files") +
                                                 " below it not read: too deep, too many or not readable"});
      for (const std::string& path : files.paths) ReadOne(path, find);
    }
    return Ok();
  }
  migrate::FoundQueries Take() { return std::move(found_); }

 private:
  template <class Find>
  void ReadOne(const std::string& path, Find find) {
    ++report_.files;
    const size_t limit = std::min(migrate::kMaxDashboardBytes, left_);
    auto text = ReadFile(path, limit);
    if (!text && text.error().code == Code::kExhausted && limit < migrate::kMaxDashboardBytes)
      text = Status{Code::kExhausted, "all files together are larger than 100 MiB"};
    if (!text) return report_.bad_files.push_back({path, text.error().detail});
    left_ -= text->size();
    const Status status = find(*text, path, found_);
    if (status.code == Code::kUnavailable) {
      ++report_.without_queries;
    } else if (!status) {
      report_.bad_files.push_back({path, status.detail});
    }
  }

  MigrateReport& report_;
  migrate::FoundQueries found_;
  size_t left_ = kMaxFolderBytes;
};

// Adds the names of the families that the page has series of.
Status ReadPage(const PageSource::Options& options, MigrateReport& report) {
  ASSIGN_OR_RETURN(const std::unique_ptr<PageSource> source, PageSource::Open(options));
  auto text = source->Read();
  if (!text) return {Code::kInvalidArgument, source->name() + ": " + text.error().detail};
  ExpositionLimits limits;
  limits.page_bytes = PageSource::kMaxBytes;
  limits.samples = 1'000'000;
  ScrapedPage page(limits);
  if (Status read = page.Update(text->body, text->format); !read && page.report().samples == 0)
    return {Code::kInvalidArgument, source->name() + ": " + read.detail};
  std::vector<uint32_t> series;
  page.Series(series);
  for (const uint32_t one : series) report.on_page.insert(page.families()[page.family_of(one)].name);
  report.page = source->name();
  report.has_page = true;
  return Ok();
}

Result<int> CheckMigration(const MigrateOptions& options) {
  if (options.dashboards.empty() && options.rules.empty())
    return Status{Code::kInvalidArgument, "nothing to check: name --dashboards DIR, --rules DIR, or both"};
  MigrateReport report;
  report.exporter = migrate::FindExporter(options.from);
  QueryFiles files(report);
  // Exits with 2, whatever the code of the error.
  auto wrong = [](Status status) { return Status{Code::kInvalidArgument, std::move(status.detail)}; };
  if (Status read = files.Read(options.dashboards, {".json"}, migrate::FindInDashboard); !read)
    return wrong(std::move(read));
  if (Status read = files.Read(options.rules, {".yaml", ".yml", ".rules"}, migrate::FindInRules); !read)
    return wrong(std::move(read));
  if (report.files == 0)
    return Status{Code::kInvalidArgument,
                  "no .json file below --dashboards and no .yaml, .yml or .rules file below --rules"};
  migrate::FoundQueries found = files.Take();
  report.other_sources = found.other_sources;
  for (migrate::FoundQuery& query : found.queries)
    report.queries.push_back(migrate::CheckQuery(*report.exporter, std::move(query), report.needs));
  if (!options.page.where.empty()) RETURN_IF_ERROR(ReadPage(options.page, report));
  const bool printed =
      options.json ? PrintText(MigrateJson(report)) == 0 : WriteText(MigrateText(report, options.all));
  return printed ? MigrateResult(report) : 1;
}

Result<int> PrintMigrateTable(const MigrateOptions& options) {
  const std::string text =
      MigrateTable(*migrate::FindExporter(options.from), options.json ? "json" : options.format);
  if (!options.json && options.format == "table") return WriteText(text) ? 0 : 1;
  return PrintText(text);
}

Result<int> ConvertLiteLlm(const MigrateOptions& options) {
  const Result<std::string> text = ReadFile(options.litellm, size_t{1} << 20);
  if (!text) return Status{text.error().code, options.litellm + ": " + text.error().detail};
  ASSIGN_OR_RETURN(const LiteLlmDraft draft, ProxyFromLiteLlm(*text, options.litellm));
  if (PrintText(draft.yaml) != 0) return 1;
  WriteNote(Plural(draft.providers, "provider", "providers") + " and " +
            Plural(draft.routes, "route", "routes") + "; " + Plural(draft.left, "line is", "lines are") +
            " not moved: the comments have the reasons");
  return 0;
}

}  // namespace

void AddMigrate(CLI::App& app, int& code) {
  auto kept = std::make_shared<MigrateOptions>();
  MigrateOptions& options = *kept;
  CLI::App* migrate =
      app.add_subcommand("migrate", "Check dashboards and rules before moving in from another exporter.");
  migrate->group("Set up");
  migrate->require_subcommand(1);
  migrate->footer(kMigrateFooter);
  CLI::App* check =
      migrate->add_subcommand("check", "List which queries keep working, and replacements of the others.");
  CLI::App* table = migrate->add_subcommand("table", "List what the metrics of an exporter are called here.");
  for (CLI::App* command : {check, table}) {
    AddOption(*command, "--from", options.from, "Exporter that is replaced", "NAME")
        ->required()
        ->check(CLI::IsMember(ExporterNames()));
    command->add_flag("--json", options.json, "JSON");
  }
  AddOption(*check, "--dashboards", options.dashboards, "Folder or file of dashboards", "DIR");
  AddOption(*check, "--rules", options.rules, "Folder or file of rules", "DIR");
  AddOption(*check, "--page", options.page.where,
            "Also check that this page has the series: a URL, a file or -", "URL");
  AddOption(*check, "--header", options.page.headers, "Header field of the request for the page",
            "NAME: VALUE");
  AddOption(*check, "--ca-file", options.page.ca_file,
            "PEM file of the CA that signed the server's certificate", "FILE");
  check->add_flag("--all", options.all,
                  "Also print the queries that keep working, and those of other exporters");
  check->footer(kMigrateCheckFooter);
  check->callback([kept, &code] { code = ExitCode("migrate check", CheckMigration(*kept)); });
  table->add_option("--format", options.format, "table, md (docs/migrate) or json")
      ->check(CLI::IsMember({"table", "md", "json"}));
  table->callback([kept, &code] { code = ExitCode("migrate table", PrintMigrateTable(*kept)); });
  CLI::App* litellm =
      migrate->add_subcommand("litellm", "Print the proxy's file for a configuration of LiteLLM's proxy.");
  AddOption(*litellm, "FILE", options.litellm, "LiteLLM's config.yaml", "")->required();
  litellm->footer(kMigrateLiteLlmFooter);
  litellm->callback([kept, &code] { code = ExitCode("migrate litellm", ConvertLiteLlm(*kept)); });
}

}  // namespace gpulens
