#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <thread>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "base/text.h"
#include "cli/common/output.h"
#include "cli/engines/engine_reading.h"
#include "cli/engines/engines_list.h"
#include "cli/engines/page_check.h"
#include "cli/help/help.h"
#include "config/value_parse.h"
#include "scrape/engine/engine_page_series.h"

namespace gpulens {
namespace {

struct EnginesOptions {
  std::string name;              // list: one engine alone; empty: all
  std::string format = "table";  // list: table, md, json
  PageSource::Options page;      // check, read
  std::string engine;            // check, read: whose page it is, or of which engine on it; empty: all
  std::string model;             // read: of one model alone
  std::string window;            // read: text; empty: since the engine began
  std::string timeout = "10s";
  bool json = false;
};

using engine_page::AllEngines;
using engine_page::Engine;
using engine_page::EnginePageSeries;

constexpr const char* kEnginesFooter = R"(
  gpulens engines list                 every known engine
  gpulens engines list vllm            its metrics, by what they mean
  gpulens engines check http://127.0.0.1:8000/metrics
  curl -s http://node7:8000/metrics | gpulens engines check -
  gpulens engines read http://127.0.0.1:8000/metrics --window 30s)";

constexpr const char* kCheckFooter = R"(
For each unknown family, prints a row that can be added to the tables of engines.
Exit: 0 every family is known · 1 some are unknown, no engine is recognised, or the page cannot be read · 2 wrong use)";

constexpr const char* kReadFooter = R"(
One scrape covers everything since the engine started. With --window it is scraped twice, and the difference is
printed. Label sets (ranks, workers) are added up before quantiles are computed. "<300 ms" means below the first
bucket bound of the engine; only the mean is more precise there. What the engine does not report is left out.
Exit: 0 printed · 1 nothing could be read · 2 wrong use)";

constexpr Duration kShortestWindow = std::chrono::milliseconds(100), kLongestWindow = std::chrono::hours(1);
constexpr size_t kMaxSamples = 1'000'000;

// Finds the engine of that name; null for an empty name.
Result<const Engine*> FindEngineNamed(const std::string& name) {
  const Engine* engine = engine_page::FindEngine(name);
  if (engine || name.empty()) return engine;
  std::vector<std::string_view> names;
  for (const Engine& known : AllEngines()) names.push_back(known.name);
  return Status{Code::kInvalidArgument, "no engine \"" + name + "\"." + DidYouMean(name, names) +
                                            "   list them: gpulens engines list"};
}

// The page of `check` and `read`, and the engine to which its families belong; null: detect it.
struct OpenedPage {
  std::unique_ptr<PageSource> source;
  const Engine* engine = nullptr;
};

Result<OpenedPage> OpenPage(const EnginesOptions& options) {
  PageSource::Options page = options.page;
  if (ParseTimeValue(options.timeout, page.timeout) || page.timeout <= Duration::zero() ||
      page.timeout > kLongestWindow)
    return Status{Code::kInvalidArgument,
                  "--timeout " + options.timeout + ": expected a time such as 500ms or 10s, at most 1h"};
  ASSIGN_OR_RETURN(const Engine* engine, FindEngineNamed(options.engine));
  ASSIGN_OR_RETURN(std::unique_ptr<PageSource> source, PageSource::Open(page));
  return OpenedPage{std::move(source), engine};
}

// The error of a page that cannot be read.
Status Unreadable(const PageSource& source, const std::string& why) {
  return {Code::kUnavailable, source.name() + ": " + why};
}

ExpositionLimits PageLimits() {
  ExpositionLimits limits;
  limits.page_bytes = PageSource::kMaxBytes;
  limits.samples = kMaxSamples;
  return limits;
}

// Repeated scrapes of one page.
class EngineScrapes {
 public:
  EngineScrapes(PageSource& source, const Engine* engine)
      : source_(source), page_(PageLimits()), series_(page_, {.target = "read", .engine = engine}) {}

  Result<Ref<const Frame>> Scrape() {
    auto text = source_.Read();
    if (!text) return text.error();
    writer_.Begin(text->read_at);
    Status read = page_.Update(text->body, text->format);
    if (!read) return read;
    Status written = series_.Write(true, writer_);
    if (!written) {
      written.detail += "; gpulens engines check lists its families, --engine selects the engine";
      return written;
    }
    return writer_.Finish();
  }

 private:
  PageSource& source_;
  ScrapedPage page_;
  SeriesTable table_;
  FrameWriter writer_{table_, kLongestWindow, "engines"};
  EnginePageSeries series_;
};

Result<int> ListEngines(const EnginesOptions& options) {
  ASSIGN_OR_RETURN(const Engine* one, FindEngineNamed(options.name));
  if (options.format == "md") return PrintText(EnginesMarkdown());
  return PrintText(options.json || options.format == "json" ? EnginesJson(one) : EnginesTable(one));
}

Result<int> CheckEnginePage(const EnginesOptions& options) {
  ASSIGN_OR_RETURN(const OpenedPage opened, OpenPage(options));
  auto text = opened.source->Read();
  if (!text) return Unreadable(*opened.source, text.error().detail);
  ScrapedPage page(PageLimits());
  Status read = page.Update(text->body, text->format);
  // Reports a truncated page; a page without any valid line has nothing to report.
  if (!read && page.report().samples == 0) return Unreadable(*opened.source, read.detail);
  engine_page::PageFamilies families(opened.engine);
  families.Update(page);
  const PageCheck check = CheckPage(opened.source->name(), page, families);
  const int printed = PrintText(options.json ? CheckJson(check) : CheckText(check));
  return printed != 0 ? printed : CheckResult(check);
}

Result<int> ReadEngine(const EnginesOptions& options) {
  ASSIGN_OR_RETURN(const OpenedPage opened, OpenPage(options));
  Duration window{};
  if (!options.window.empty() &&
      (ParseTimeValue(options.window, window) || window < kShortestWindow || window > kLongestWindow))
    return Status{Code::kInvalidArgument,
                  "--window " + options.window + ": expected a time from 100ms to 1h"};
  PageSource& source = *opened.source;
  const bool windowed = window > Duration::zero();
  if (windowed && !source.lives())
    return Status{Code::kInvalidArgument, "--window needs a URL: a file does not change between two scrapes"};
  const std::string name = source.name();
  EngineScrapes scrapes(source, opened.engine);
  auto first = scrapes.Scrape();
  if (!first) return Unreadable(source, first.error().detail);
  const ReadFilter filter{options.engine, options.model};
  EngineReading reading;
  if (windowed) {
    std::this_thread::sleep_for(window);
    auto second = scrapes.Scrape();
    if (!second) return Unreadable(source, second.error().detail);
    reading = ReadWindow(name, **first, **second, filter);
  } else {
    reading = ReadLifetime(name, **first, filter);
  }
  if (reading.models.empty()) {
    std::string filters = options.engine.empty() ? "" : " of engine " + options.engine;
    if (!options.model.empty()) filters += " of model " + options.model;
    return Unreadable(source, "no readings" + filters + "; gpulens engines check lists the families");
  }
  return PrintText(options.json ? ReadingJson(reading) : ReadingText(reading));
}

}  // namespace

void AddEngines(CLI::App& app, int& code) {
  auto kept = std::make_shared<EnginesOptions>();
  EnginesOptions& options = *kept;
  CLI::App* engines =
      app.add_subcommand("engines", "List the known LLM engines; read and check their metrics pages.");
  engines->group("LLM engines");
  engines->require_subcommand(1);
  engines->footer(kEnginesFooter);
  CLI::App* list = engines->add_subcommand("list", "List the known engines, or the roles of one.");
  list->add_option("ENGINE", options.name, "Engine whose roles and families are listed");
  list->add_option("--format", options.format, "table, md (docs/engines.md) or json")
      ->check(CLI::IsMember({"table", "md", "json"}));
  list->add_flag("--json", options.json, "JSON");
  list->callback([kept, &code] { code = ExitCode("engines list", ListEngines(*kept)); });

  CLI::App* check = engines->add_subcommand("check", "List the known and the unknown families of a page.");
  CLI::App* read = engines->add_subcommand("read", "Show latencies, KV cache and queue of a running engine.");
  for (CLI::App* command : {check, read}) {
    command
        ->add_option("PAGE", options.page.where,
                     "A URL (without a path: /metrics), a file, or - for standard input")
        ->required();
    AddOption(*command, "--engine", options.engine, "Engine of the page; default: detected", "NAME");
    command->add_flag("--json", options.json, "JSON");
    AddOption(*command, "--header", options.page.headers,
              "Header field of the request: \"Authorization: Bearer …\"", "NAME: VALUE");
    AddOption(*command, "--ca-file", options.page.ca_file,
              "PEM file of the CA that signed the server's certificate", "FILE");
    command->add_flag("--insecure-skip-verify", options.page.insecure_skip_verify, "Accept any certificate");
    AddOption(*command, "--timeout", options.timeout, "Timeout of the request", "D")->capture_default_str();
  }
  check->footer(kCheckFooter);
  check->callback([kept, &code] { code = ExitCode("engines check", CheckEnginePage(*kept)); });
  read->footer(kReadFooter);
  AddOption(*read, "--window", options.window,
            "Scrape twice, this far apart, and show the changes in between", "D");
  AddOption(*read, "--model", options.model, "Show one model only, by its name on the page", "M");
  read->callback([kept, &code] { code = ExitCode("engines read", ReadEngine(*kept)); });
}

}  // namespace gpulens
