#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <thread>

#include "agent/run/config_file.h"
#include "agent/run/plan.h"
#include "agent/status/status_report.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/text.h"
#include "cli/check/check_data.h"
#include "cli/check/check_table.h"
#include "cli/common/output.h"
#include "cli/help/help.h"
#include "net/message/address.h"

namespace gpulens {
namespace {

struct CheckOptions {
  std::vector<std::string> checks;  // NAME, or NAME=WARNING,CRITICAL; "all"
  std::string warning, critical;    // numbers, for one check
  std::string expect;               // a text, for one check
  std::vector<std::string> disable;
  std::string format = "text";
  std::string url;          // of the agent; empty: the one of the configuration
  std::string config_file;  // as for the agent
  bool direct = false;      // query no agent
  bool alive = false;       // only whether the agent answers
  bool demo = false;
  bool list = false;
  bool json = false;  // the same as the format json
};

using std::chrono::seconds;

constexpr int kExitUnknown = static_cast<int>(CheckCode::kUnknown);
constexpr Duration kAgentTimeout = seconds(3);
// How often a check that repeats is evaluated, and the pause in between.
constexpr int kLooks = 3;
constexpr Duration kPause = seconds(3);

constexpr const char* kCheckCommandFooter = R"(
  gpulens check gpu_temperature nvlink_status
  gpulens check gpu_temperature=80,88 --json
  gpulens check gpu_num --critical 8
  gpulens check in-use                 all checks that fit a node with jobs
  gpulens check all --disable xid      also those that only an idle node passes
  gpulens check in-use --demo
  gpulens check --alive                for probes of containers

Reads the agent on this machine, or else the GPUs directly; --url and --direct choose. A check with missing input is
UNKNOWN. check.disable in the configuration switches checks off for good.
Exit: 0 OK · 1 WARNING · 2 CRITICAL · 3 UNKNOWN, also wrong use. The worst of several counts.)";

int Complain(const std::string& sentence) {
  std::printf("UNKNOWN - %s\n", Printable(sentence).c_str());
  return kExitUnknown;
}

struct RequestedCheck {
  const CheckSpec* check;
  CheckSettings settings;
  bool by_group = false;  // named by its group
};

bool ReadLimit(const std::string& text, std::optional<double>& out) {
  if (text.empty()) return true;
  out = ParseDouble(text);
  return out && *out == *out;
}

// One word of the command line: NAME or NAME=WARNING,CRITICAL; either limit may be left out.
Result<RequestedCheck> ReadCheck(const std::string& word) {
  std::string_view rest = word;
  std::string_view name = TakeUntil(rest, '=');
  RequestedCheck request{FindCheck(name), {}};
  if (!request.check) {
    std::vector<std::string_view> names;
    for (const CheckSpec& check : AllChecks()) names.push_back(check.name);
    return Status{Code::kInvalidArgument, "no check \"" + std::string(name) + "\"." +
                                              DidYouMean(name, names) + " List them: gpulens check --list"};
  }
  std::string_view first = TakeUntil(rest, ',');
  if (!ReadLimit(std::string(first), request.settings.warning) ||
      !ReadLimit(std::string(rest), request.settings.critical)) {
    return Status{Code::kInvalidArgument, word + ": expected NAME=WARNING,CRITICAL with numbers"};
  }
  return request;
}

Result<std::vector<RequestedCheck>> ReadChecks(const CheckOptions& options) {
  std::vector<RequestedCheck> requests;
  for (const std::string& word : options.checks) {
    if (std::vector<const CheckSpec*> group = FindCheckGroup(word); !group.empty()) {
      for (const CheckSpec* check : group) requests.push_back({check, {}, true});
      continue;
    }
    auto one = ReadCheck(word);
    if (!one) return one.error();
    requests.push_back(std::move(*one));
  }
  if (requests.empty())
    return Status{Code::kInvalidArgument, "no check given; list them: gpulens check --list"};
  bool limits = !options.warning.empty() || !options.critical.empty() || !options.expect.empty();
  if (!limits) return requests;
  if (requests.size() != 1) {
    return Status{
        Code::kInvalidArgument,
        "--warning, --critical and --expect need a single check; for several, use NAME=WARNING,CRITICAL"};
  }
  requests[0].settings.expect = options.expect;
  if (!ReadLimit(options.warning, requests[0].settings.warning) ||
      !ReadLimit(options.critical, requests[0].settings.critical)) {
    return Status{Code::kInvalidArgument, "--warning and --critical must be numbers"};
  }
  return requests;
}

// The first loopback address at which the configured agent listens.
std::string AgentUrl(const Config& config) {
  for (const std::string& address : config.Group("http").Texts("listen")) {
    Result<Endpoint> endpoint = ParseListenAddress(address);
    if (endpoint && endpoint->IsLoopback()) return "http://" + endpoint->ToString();
  }
  return "http://127.0.0.1:9091";
}

class Checker {
 public:
  Checker(const CheckOptions& options, const Config& config, std::vector<RequestedCheck> requests)
      : options_(options), config_(config), requested_(std::move(requests)) {
    disabled_ = config.Group("check").Texts("disable");
    disabled_.insert(disabled_.end(), options.disable.begin(), options.disable.end());
  }

  int Run() {
    bool all_off = std::ranges::all_of(requested_, [&](const RequestedCheck& a) { return Off(a); });
    if (!all_off) {
      Result<CheckData> data = Read();
      if (!data) return Complain(data.error().detail);
      data_ = std::move(*data);
    }
    for (const RequestedCheck& request : requested_) outcomes_.push_back(Validate(request));
    Again();
    if (options_.json || options_.format == "json") {
      std::fputs(CheckJson(outcomes_, data_.source, data_.simulated).c_str(), stdout);
    } else {
      std::fputs(CheckText(outcomes_, data_.simulated).c_str(), stdout);
      if (!data_.source.empty()) ::dprintf(STDERR_FILENO, "source: %s\n", data_.source.c_str());
    }
    return static_cast<int>(WorstOf(outcomes_));
  }

 private:
  bool Off(const RequestedCheck& request) const {
    return std::ranges::find(disabled_, request.check->name) != disabled_.end();
  }

  // Reads again from the source that answered first.
  Result<CheckData> Read() {
    bool use_agent = !options_.direct && !options_.demo && source_ != kHere;
    if (use_agent) {
      Result<CheckData> data =
          QueryAgent(options_.url.empty() ? AgentUrl(config_) : options_.url, kAgentTimeout);
      if (data) source_ = kAgent;
      if (data || !options_.url.empty() || source_ == kAgent) return data;
    }
    source_ = kHere;
    DirectOptions look;
    look.demo = options_.demo;
    look.enough = [this](const CheckData& data) {
      return std::ranges::none_of(requested_, [&](const RequestedCheck& request) {
        return !Off(request) &&
               Evaluate(*request.check, data, request.settings).code == CheckCode::kUnknown &&
               !(request.by_group && request.check->optional);
      });
    };
    return ReadDirectly(config_, look);
  }

  CheckOutcome Validate(const RequestedCheck& request) const {
    if (!Off(request)) {
      CheckOutcome outcome{request.check, false, Evaluate(*request.check, data_, request.settings)};
      // Not every board has all that can be checked; gpu_state checks whether GPUs can be read at all.
      bool skip = request.by_group && request.check->optional && !data_.gpus.empty() &&
                  outcome.result.code == CheckCode::kUnknown && IsUnreported(*request.check, data_);
      if (skip) {
        outcome.result.code = CheckCode::kOk;
        outcome.result.text = "skipped, no GPU here reports it";
      }
      return outcome;
    }
    CheckOutcome outcome{request.check, true, {}};
    outcome.result.code = CheckCode::kOk;
    outcome.result.text = "disabled";
    return outcome;
  }

  // Repeats checks; a fault that disappears is a warning.
  void Again() {
    for (size_t i = 0; i < requested_.size(); ++i) {
      CheckOutcome& outcome = outcomes_[i];
      for (int look = 1; look < kLooks && requested_[i].check->repeats; ++look) {
        if (outcome.disabled || outcome.result.code != CheckCode::kCritical) break;
        std::this_thread::sleep_for(kPause);
        Result<CheckData> data = Read();
        if (!data) break;
        CheckResult again = Evaluate(*requested_[i].check, *data, requested_[i].settings);
        if (again.code == CheckCode::kOk) {
          outcome.result.code = CheckCode::kWarning;
          outcome.result.text += "; fine " + std::to_string(look * 3) + " s later";
        }
      }
    }
  }

  enum Source { kAny, kAgent, kHere };

  const CheckOptions& options_;
  const Config& config_;
  const std::vector<RequestedCheck> requested_;
  std::vector<std::string> disabled_;
  Source source_ = kAny;
  CheckData data_;
  std::vector<CheckOutcome> outcomes_;
};

// The agent's page for probes: it answers, and closes ticks.
int RunAlive(const CheckOptions& options, const Config& config) {
  const std::string base = options.url.empty() ? AgentUrl(config) : options.url;
  Result<HttpUrl> url = ParseHttpUrl(base);
  if (!url) return Complain(url.error().detail);
  url->target = "/-/healthy";
  Result<std::string> page = ReadAgentPage(*url, "", kAgentTimeout, 4 << 10);
  if (page) {
    std::printf("OK - the agent at %s answers\n", url->Authority().c_str());
    return static_cast<int>(CheckCode::kOk);
  }
  std::printf("CRITICAL - the agent at %s: %s\n", url->Authority().c_str(),
              Printable(page.error().detail).c_str());
  return static_cast<int>(CheckCode::kCritical);
}

int RunCheck(const CheckOptions& options) {
  if (options.list) {
    std::fputs(CheckList().c_str(), stdout);
    return 0;
  }
  const bool json = options.json || options.format == "json";
  if (options.alive && (!options.checks.empty() || options.direct || options.demo || json))
    return Complain(
        "--alive only checks that the agent answers: no checks, --direct, --demo or --json with it");
  Result<std::vector<RequestedCheck>> requests =
      options.alive ? std::vector<RequestedCheck>() : ReadChecks(options);
  if (!requests) return Complain(requests.error().detail);
  for (const std::string& name : options.disable) {
    if (!FindCheck(name)) return Complain("--disable: no check \"" + name + "\"");
  }
  const CommandConfig loaded = LoadCommandConfig(options.config_file);
  if (!loaded.ok()) return Complain("the configuration is wrong");
  ::signal(SIGPIPE, SIG_IGN);
  // The output is data: log only errors.
  static_cast<void>(SetLogLevels("error"));
  if (options.alive) return RunAlive(options, loaded.config());
  return Checker(options, loaded.config(), std::move(*requests)).Run();
}

}  // namespace

void AddCheck(CLI::App& app, int& code) {
  auto kept = std::make_shared<CheckOptions>();
  CheckOptions& options = *kept;
  CLI::App* check = app.add_subcommand("check", "Run health checks of GPUs, with the exit codes of Nagios.");
  check->group("Look");
  check->add_option("CHECK", options.checks, "Names of checks, NAME=WARNING,CRITICAL, in-use, or all");
  AddOption(*check, "--warning", options.warning, "Threshold, when one check is named", "X");
  AddOption(*check, "--critical", options.critical, "Threshold, when one check is named", "Y");
  AddOption(*check, "--expect", options.expect, "VBIOS version that vbios_mismatch requires", "TEXT");
  AddOption(*check, "--disable", options.disable, "Always report this check as OK; repeatable", "CHECK")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  check->add_flag("--json", options.json, "JSON");
  check->add_option("--format", options.format, "text or json; --json is shorter")
      ->check(CLI::IsMember({"text", "json"}))
      ->group("");
  AddOption(*check, "--url", options.url, "The agent to query; no other source is tried", "URL");
  check->add_flag("--direct", options.direct, "Read the GPUs directly, without an agent");
  check->add_flag("--alive", options.alive, "Only check that the agent answers and closes ticks");
  AddConfigOption(*check, options.config_file);
  check->add_flag("--demo", options.demo, "Simulate GPUs");
  check->add_flag("--list", options.list, "List every check with its thresholds");
  check->footer(kCheckCommandFooter);
  check->callback([kept, &code] { code = RunCheck(*kept); });
}

}  // namespace gpulens
