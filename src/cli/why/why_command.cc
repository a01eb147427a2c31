#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "cli/common/output.h"
#include "cli/help/help.h"
#include "cli/node/node_json.h"
#include "cli/node/node_reader.h"
#include "cli/why/why_page.h"

namespace gpulens {
namespace {

inline constexpr const char* kWhyFooter = R"(
  gpulens why                          what limits each GPU, engine and job now
  gpulens why gpu 2
  gpulens why engine chat-a --json
  gpulens why job 48213                of Slurm, or namespace/pod
  gpulens why pid 4711
  gpulens why https://n1:9091 gpu 2    another machine's agent
  gpulens why --rules                  what is looked at, and when it is found

A history that has just begun is waited for. The rules: docs/why.md.
Exit: 0 nothing was found · 1 something was found · 2 wrong use · 3 not known: no
agent answers, there is no such thing, or nothing could be looked at)";

// Nothing that a rule needs takes longer than a minute; beyond, a rule itself reports what is missing.
constexpr std::chrono::seconds kLongestWait(75);

struct WhyOptions {
  std::vector<std::string> about;  // "gpu", "2"
  std::string window = "5m", format = "text";
  bool json = false, rules = false, no_wait = false;
  NodeOptions node;
};

int PrintRules(const WhyOptions& options) {
  if (options.json || options.format == "json") return WriteOut(WhyRulesJson()) ? 0 : 1;
  if (options.format == "md") return WriteOut(WhyRulesMarkdown()) ? 0 : 1;
  return WriteText(WhyRulesText()) ? 0 : 1;
}

int RunWhy(WhyOptions options) {
  if (options.rules) return PrintRules(options);
  if (options.format != "text")
    return FailCommand("why", "--format is for --rules; --json prints the findings as JSON", 2);
  constexpr std::array<std::string_view, 4> kKinds = {"gpu", "pid", "job", "engine"};
  std::vector<std::pair<std::string_view, std::string>> parameters = {{"window", options.window}};
  const auto url = std::ranges::find_if(
      options.about, [](const std::string& word) { return word.find("://") != std::string::npos; });
  if (url != options.about.end()) {
    options.node.url = *url;
    options.about.erase(url);
  }
  if (!options.about.empty()) {
    const auto kind = std::ranges::find(kKinds, options.about[0]);
    if (kind == kKinds.end() || options.about.size() != 2)
      return FailCommand(
          "why", "one of gpu N, pid P, job J and engine E, not \"" + Joined(options.about, " ") + "\"", 2);
    parameters.emplace_back(*kind, options.about[1]);
  }
  auto opened = NodeReader::Open(options.node);
  if (!opened)
    return FailCommand("why", opened.error().detail, opened.error().code == Code::kInvalidArgument ? 2 : 3);
  NodeReader& node = **opened;
  if (!node.why_direct().empty())
    WriteNote("gpulens why: " + node.why_direct() + "; this process reads by itself");
  const std::string target = NodeTarget("/api/why", parameters);
  const auto begin = std::chrono::steady_clock::now();
  bool noted = false;
  while (true) {
    const Result<std::string> text = node.Get(target);
    const bool again = std::chrono::steady_clock::now() - begin < kLongestWait && !options.no_wait;
    if (!text) {
      // Also a GPU or an engine that was not read yet.
      if (again && node.kind() == NodeReader::kThisProcess && text.error().code == Code::kUnavailable &&
          std::chrono::steady_clock::now() - begin < std::chrono::seconds(10)) {
        std::this_thread::sleep_for(std::chrono::seconds(1));
        continue;
      }
      return FailCommand("why", node.name() + ": " + text.error().detail,
                         text.error().code == Code::kInvalidArgument ? 2 : 3);
    }
    const Result<WhyPage> page = ParseWhyPage(*text);
    if (!page) return FailCommand("why", node.name() + ": " + page.error().detail, 3);
    if (again && page->wait_seconds > 0) {
      if (!noted)
        WriteNote("gpulens why: the history has just begun; rules need " +
                  std::to_string(page->wait_seconds) + " s more of it (--no-wait)");
      noted = true;
      std::this_thread::sleep_for(std::chrono::seconds(std::min(page->wait_seconds, 60)));
      continue;
    }
    const bool written = options.json ? WriteOut(*text) : WriteText(WhyText(*page, node.name()));
    if (!written) return 3;
    if (!page->findings.empty()) return 1;
    return page->looked.empty() ? 3 : 0;  // nothing found where nothing could be looked at
  }
}

}  // namespace

void AddWhy(CLI::App& app, int& code) {
  auto kept = std::make_shared<WhyOptions>();
  WhyOptions& options = *kept;
  CLI::App* why = app.add_subcommand("why", "Explain what holds GPUs, engines and jobs back, with evidence.");
  why->group("Look");
  why->footer(kWhyFooter);
  why->add_option("ABOUT", options.about,
                  "gpu N, pid P, job J or engine E; default: everything. A URL: the agent there")
      ->expected(0, 3);
  AddOption(*why, "--window", options.window, "Look back so far for when it began: 1m to 1h; default 5m",
            "D");
  why->add_flag("--json", options.json, "JSON");
  why->add_flag("--rules", options.rules, "Print the table of rules");
  why->add_option("--format", options.format, "Of --rules: text, md or json")
      ->check(CLI::IsMember({"text", "md", "json"}));
  why->add_flag("--no-wait", options.no_wait, "Do not wait for a history that has just begun");
  AddNodeOptions(*why, options.node);
  why->callback([kept, &code] { code = RunWhy(*kept); });
}

}  // namespace gpulens
