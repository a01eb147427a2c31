#include "cli/cost/cost_command.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>

#include "agent/run/config_file.h"
#include "agent/run/plan.h"
#include "agent/status/status_report.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/parse.h"
#include "base/result.h"
#include "base/rfc3339.h"
#include "cli/common/output.h"
#include "cli/cost/charge_report.h"
#include "cli/cost/cost_reconcile.h"
#include "cli/cost/cost_report.h"
#include "cli/help/help.h"
#include "config/value_parse.h"

namespace gpulens {
namespace {

constexpr const char* kFooter = R"(
  gpulens cost report                                   by tenant, the last 30 days
  gpulens cost report --by pod --since 7d --energy --carbon
  gpulens cost report --by day,model --period 2026-11 --csv
  gpulens cost report --by pod --where tenant=acme --json
  gpulens cost report --wasted                          money by cause, and who held idle GPUs
  gpulens cost report --charges /var/lib/gpulens/proxy/charges.db --by tenant,model
  gpulens cost statement --period 2026-11 -o november.jsonl
  gpulens cost verify november.jsonl --against /var/lib/gpulens/ledger.db
  gpulens cost export --focus 1.2 -o focus.csv --period 2026-11
  gpulens cost export --opencost                        the JSON of OpenCost's /allocation
  gpulens cost push postgresql://gpulens@db/costs --every 1h
  gpulens cost reconcile usage.json                     what a proxy charged, against a provider's export

The agent's analyzer `cost` writes the ledger into its state folder: ledger.db. --file names another one.
Times are 90m, 24h or 30d ago, 2026-11-26 (its midnight in UTC) or 2026-11-26T14:00:00Z. Amounts are booked by
whole hours: a range has the hour in which it begins, and ends before the hour of its end.
By allocation, the price of a GPU's time is given to who had it; by use, to who used it. Both add up to
price x time. Sums are of integers and exact; a table rounds them, --json and --csv have both.
Exit: 0 printed, done or good · 1 there is no ledger, it cannot be read, or the statement is broken · 2 wrong use)";

constexpr int64_t kSecondNs = 1'000'000'000;
constexpr int64_t kDefaultDays = 30;
constexpr const char* kLedgerFile = "ledger.db";

// Seconds since 1970.
Result<int64_t> TimeOf(const char* option, const std::string& text, int64_t now_ns) {
  Duration ago{};
  if (!ParseTimeValue(text, ago) && ago.count() >= 0)
    return std::max<int64_t>(0, now_ns - ago.count()) / kSecondNs;
  if (auto ns = ParseRfc3339(text.size() == 10 ? text + "T00:00:00Z" : text)) return *ns / kSecondNs;
  return Status{Code::kInvalidArgument, std::string(option) + " " + text +
                                            ": expected 90m, 24h, 30d, 2026-11-26 or 2026-11-26T14:00:00Z"};
}

// "2026", "2026-11" or "2026-11-26".
Result<CostRange> PeriodOf(const std::string& text) {
  using namespace std::chrono;
  const auto start = [](const std::string& day) { return ParseRfc3339(day + "T00:00:00Z"); };
  const size_t size = text.size();
  const std::string day = size == 4 ? text + "-01-01" : size == 7 ? text + "-01" : text;
  const auto begin = start(day);
  if (!begin || day.size() != 10)
    return Status{Code::kInvalidArgument, "--period " + text + ": expected 2026, 2026-11 or 2026-11-26"};
  const sys_days first = floor<days>(sys_time<nanoseconds>(nanoseconds(*begin)));
  const year_month_day date(first);
  const sys_days end = size == 4 ? sys_days(year_month_day(date.year() + years(1), date.month(), date.day()))
                       : size == 7
                           ? sys_days(year_month_day(date.year() / date.month() / date.day()) + months(1))
                           : first + days(1);
  return CostRange{first.time_since_epoch().count() * kDaySeconds,
                   end.time_since_epoch().count() * kDaySeconds};
}

struct LedgerPlace {
  std::string path;
  bool simulated = false;
};

// As `gpulens events` finds its file: where the running agent keeps its state, else where this user's agent
// does, else where the service does.
Result<LedgerPlace> FindLedger(const CostOptions& options) {
  if (!options.file.empty()) return LedgerPlace{options.file};
  const CommandConfig loaded = LoadCommandConfig(options.config_file, nullptr);
  if (!loaded.ok()) return Status{Code::kInvalidArgument, loaded.loaded.Errors()};
  const auto in = [](const std::string& folder) { return folder + "/" + kLedgerFile; };
  const auto there = [](const std::string& path) { return ::access(path.c_str(), F_OK) == 0; };
  const QueriedStatus queried = QueryRunningAgent(loaded.config());
  const bool given = !loaded.config().Text("state_dir").empty();
  std::string folder = StateDir(loaded.config().Text("state_dir"));
  if (queried.report && !queried.report->state_dir.empty()) {
    folder = queried.report->state_dir;
  } else if (!given && !there(in(folder))) {
    constexpr const char* kService = "/var/lib/gpulens";
    const bool closed = ::access(kService, F_OK) == 0 && ::access(kService, X_OK) != 0;
    if (closed || there(in(kService))) folder = kService;
  }
  const std::string demo = in(DemoStateDir(folder));
  if (!queried.report && !there(in(folder)) && there(demo)) return LedgerPlace{demo, true};
  return LedgerPlace{in(folder)};
}

Result<int> Print(const CostReport& report, const CostOptions& options) {
  if (options.json) return PrintText(ReportJson(report));
  if (options.csv) return PrintText(ReportCsv(report));
  const size_t width = static_cast<size_t>(TerminalColumns(STDOUT_FILENO));
  return WriteOut(ReportText(report, ::isatty(STDOUT_FILENO) == 1 ? width : 0)) ? 0 : 1;
}

// `usual`: a range is not required.
void AddRange(CLI::App& command, CostOptions& options, bool usual) {
  AddOption(command, "--since", options.since,
            usual ? "From the hour of this time on; default: 30d" : "From the hour of this time on", "T");
  AddOption(command, "--until", options.until,
            usual ? "Up to the hour of this time; default: now" : "Up to the hour of this time", "T");
  AddOption(command, "--period", options.period, "Instead: a year, a month or a day in UTC", "2026-11")
      ->excludes("--since")
      ->excludes("--until");
}

void AddReport(CLI::App& cost, const std::shared_ptr<CostOptions>& kept, int& code) {
  CostOptions& options = *kept;
  CLI::App* report = cost.add_subcommand("report", "Sum time, energy, money and carbon by what you choose.");
  auto* by =
      AddOption(*report, "--by", options.by,
                "Group by tenant, namespace, pod, job, process, model, engine, gpu, slice, class, cause, "
                "state, energy_state, method, day or hour; of --charges: tenant, key, provider, model, tier, "
                "profile, region, operation, outcome, counted_by, currency, day or budget; several with "
                "commas",
                "KEYS");
  by->capture_default_str();
  AddRange(*report, options, true);
  AddOption(*report, "--where", options.where, "Only what has this; may be repeated", "KEY=VALUE");
  auto* charges = AddOption(*report, "--charges", options.charges,
                            "Of the requests that a proxy charged: a file charges.db, postgresql://… or "
                            "clickhouse://…",
                            "PLACE");
  AddOption(
      *report, "--engine", options.engines,
      "Of --charges: the engine of a byoc provider in the ledger; may be repeated. Default: of the same "
      "name",
      "PROVIDER=ENGINE")
      ->needs(charges);
  report->add_flag("--energy", options.energy, "Also joules and the price of electricity");
  report->add_flag("--carbon", options.carbon, "Also grams of CO2 equivalent")->excludes(charges);
  report->add_flag("--wasted", options.wasted, "What the GPUs did, by cause and holder")
      ->excludes(by)
      ->excludes(charges);
  auto* json = report->add_flag("--json", options.json, "JSON");
  report->add_flag("--csv", options.csv, "CSV")->excludes(json);
  report->callback([kept, &code] {
    code = ExitCode("cost report", kept->charges.empty() ? ReportCost(*kept) : ReportCharges(*kept));
  });
}

void AddStatement(CLI::App& cost, const std::shared_ptr<CostOptions>& kept, int& code) {
  CostOptions& options = *kept;
  CLI::App* statement =
      cost.add_subcommand("statement", "Write a statement of a period that cannot be changed unseen.");
  AddRange(*statement, options, false);
  AddOption(*statement, "--previous", options.previous, "Statement of the period before, to chain to",
            "FILE");
  statement->add_flag("--open", options.open, "Also of a period that is not over");
  AddOption(*statement, "-o,--output", options.output, "The file; default: standard output", "FILE");
  statement->callback([kept, &code] { code = ExitCode("cost statement", MakeStatement(*kept)); });
  CLI::App* verify = cost.add_subcommand("verify", "Check a statement, line by line.");
  AddOption(*verify, "FILE", options.statement, "The statement", "")->required();
  AddOption(*verify, "--against", options.against, "Compare its entries with this ledger", "LEDGER");
  verify->callback([kept, &code] { code = ExitCode("cost verify", VerifyStatement(*kept)); });
}

void AddExport(CLI::App& cost, const std::shared_ptr<CostOptions>& kept, int& code) {
  CostOptions& options = *kept;
  CLI::App* exported = cost.add_subcommand("export", "Write the ledger for other programs.");
  auto* focus = AddOption(*exported, "--focus", options.focus,
                          "CSV of FOCUS, the FinOps cost and usage specification", "1.2")
                    ->check(CLI::IsMember({"1.2"}));
  auto* opencost =
      exported->add_flag("--opencost", options.opencost, "JSON of OpenCost's /allocation, a set for each day")
          ->excludes(focus);
  exported->add_flag("--entries", options.entries, "A line of JSON for each entry, as in statements")
      ->excludes(focus)
      ->excludes(opencost);
  AddRange(*exported, options, true);
  AddOption(*exported, "-o,--output", options.output, "The file; default: standard output", "FILE");
  exported->callback([kept, &code] { code = ExitCode("cost export", ExportCost(*kept)); });
  CLI::App* push = cost.add_subcommand("push", "Copy hours that are over to PostgreSQL or ClickHouse.");
  AddOption(*push, "URL", options.url, "postgresql://USER@HOST/DATABASE or clickhouse://USER@HOST/DATABASE",
            "")
      ->required();
  AddOption(*push, "--since", options.since, "From the hour of this time on; default: all", "T");
  AddOption(*push, "--every", options.every, "Go on, and push again after so long", "1h");
  push->callback([kept, &code] { code = ExitCode("cost push", PushCost(*kept)); });
}

}  // namespace

Result<CostRange> RangeOf(const CostOptions& options, int64_t now_unix_ns) {
  if (!options.period.empty()) return PeriodOf(options.period);
  const int64_t now = now_unix_ns / kSecondNs;
  CostRange range{std::max<int64_t>(0, now - kDefaultDays * kDaySeconds), now};
  if (!options.since.empty()) {
    ASSIGN_OR_RETURN(range.since_unix, TimeOf("--since", options.since, now_unix_ns));
  }
  range.since_unix = range.since_unix / kHourSeconds * kHourSeconds;
  if (!options.until.empty()) {
    ASSIGN_OR_RETURN(range.until_unix, TimeOf("--until", options.until, now_unix_ns));
  }
  // An hour that has begun by then is in it only as a whole; the hour of now is what there is.
  const int64_t hours = options.until.empty() ? range.until_unix + kHourSeconds - 1 : range.until_unix;
  range.until_unix = hours / kHourSeconds * kHourSeconds;
  if (range.since_unix < range.until_unix) return range;
  return Status{Code::kInvalidArgument, "no hour is between " + ledger::TimeText(range.since_unix) + " and " +
                                            ledger::TimeText(range.until_unix)};
}

Result<std::unique_ptr<ledger::LedgerFile>> OpenLedger(const CostOptions& options) {
  ASSIGN_OR_RETURN(const LedgerPlace place, FindLedger(options));
  auto opened = ledger::LedgerFile::Open({.path = place.path, .read_only = true});
  if (opened) {
    if (place.simulated) WriteNote("SIMULATED: this is the ledger of gpulens agent --demo, " + place.path);
    return opened;
  }
  Status status = opened.error();
  if (status.code == Code::kPermissionDenied)
    status.detail += ". do: sudo gpulens cost …, or name a file that you may read with --file";
  else if (status.code == Code::kUnavailable && ::access(place.path.c_str(), F_OK) != 0)
    status.detail = "there is no ledger " + place.path +
                    ". The agent writes it when its analyzer cost is on: analyzers: {cost: {}}. --file names "
                    "another one";
  return status;
}

Result<int> ReportCost(const CostOptions& options) {
  ASSIGN_OR_RETURN(const CostRange range, RangeOf(options, RealClock().Now().unix_ns));
  ASSIGN_OR_RETURN(const auto ledger, OpenLedger(options));
  ASSIGN_OR_RETURN(CostReport report, ReadReport(*ledger, options, range));
  report.path = ledger->path();
  if (report.total == ledger::Totals()) {
    ASSIGN_OR_RETURN(const auto hours, ledger->Hours(INT64_MIN, INT64_MAX));
    std::string note = "gpulens cost report: nothing is booked between " +
                       ledger::TimeText(range.since_unix) + " and " + ledger::TimeText(range.until_unix);
    if (!options.where.empty()) note += " that --where lets through";
    note += hours.empty() ? "; the ledger is empty"
                          : "; the ledger has hours from " + ledger::TimeText(hours.front().hour_unix) +
                                " to " + ledger::TimeText(hours.back().hour_unix);
    WriteNote(note);
    if (!options.json && !options.csv) return 0;
  }
  return Print(report, options);
}

Result<CostOutput> CostOutput::Open(const std::string& path) {
  if (path.empty() || path == "-") return CostOutput({}, {}, stdout);
  std::string made = path + ".part." + std::to_string(::getpid());
  // A new file of a name of this process alone; it takes the place of the old one when it is whole.
  UniqueFd fd(::open(made.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!fd) return ErrnoStatus("write " + path, errno);
  std::FILE* file = ::fdopen(fd.get(), "w");
  if (!file) return ErrnoStatus("write " + path, errno);
  fd.release();
  return CostOutput(path, std::move(made), file);
}

CostOutput::~CostOutput() {
  if (file_ && !made_.empty()) ::unlink(made_.c_str());
}

Status CostOutput::Write(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), file_.get()) == text.size()) return Ok();
  return ErrnoStatus("write " + (path_.empty() ? "the standard output" : path_), errno);
}

Status CostOutput::Close() {
  const std::string name = path_.empty() ? "the standard output" : path_;
  if (std::fflush(file_.get()) != 0) return ErrnoStatus("write " + name, errno);
  if (made_.empty()) return Ok();
  if (::fsync(::fileno(file_.get())) != 0 || std::rename(made_.c_str(), path_.c_str()) != 0)
    return ErrnoStatus("write " + name, errno);
  file_.reset();
  return Ok();
}

void AddCost(CLI::App& app, int& code) {
  auto kept = std::make_shared<CostOptions>();
  CLI::App* cost = app.add_subcommand("cost", "Report who used GPU time, energy, money and carbon.");
  cost->group("Runs and records");
  cost->require_subcommand(1);
  cost->footer(kFooter);
  AddReport(*cost, kept, code);
  AddStatement(*cost, kept, code);
  AddExport(*cost, kept, code);
  for (CLI::App* command : cost->get_subcommands({})) {
    if (command->get_name() == "verify") continue;
    AddOption(*command, "--file", kept->file, "The ledger; default: the agent's", "LEDGER");
    AddConfigOption(*command, kept->config_file);
  }
  AddReconcile(*cost, code);
}

}  // namespace gpulens
