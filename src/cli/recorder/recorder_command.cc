#include "cli/recorder/recorder_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <vector>

#include "base/files.h"
#include "base/text.h"
#include "cli/common/output.h"
#include "cli/help/help.h"
#include "wire/json/json_object.h"

namespace gpulens {
namespace {

using torch_recorder::Mismatch;
using torch_recorder::RecorderDump;
using torch_recorder::RecorderFinding;

constexpr size_t kMaxDumpBytes = 64u << 20;
constexpr const char* kRecorderFooter = R"(
  gpulens flight-recorder /tmp/comm_lib_trace_rank_*
                                         one file a rank, as PyTorch writes them
                                         at a timeout
  gpulens flight-recorder rank0.json rank1.json
                                         or what _dump_nccl_trace_json returns
  gpulens flight-recorder --json FILE…

The number at the end of a file's name is its rank. A dump is a pickle: it is
read as plain data, and nothing in it is executed. PyTorch writes dumps with
TORCH_NCCL_DUMP_ON_TIMEOUT=1 and TORCH_FR_BUFFER_SIZE=2000
(TORCH_NCCL_TRACE_BUFFER_SIZE before 2.9).
Exit: 0 all ranks matched · 1 they did not, or a file cannot be read · 2 wrong
      use)";

const char* NameOfMismatch(Mismatch mismatch) {
  switch (mismatch) {
    case Mismatch::kNone: return "none";
    case Mismatch::kNotCalled: return "not_called";
    case Mismatch::kDifferent: return "different";
    case Mismatch::kNotStarted: return "not_started";
    case Mismatch::kNotEnded: return "not_ended";
  }
  return "none";
}

std::string Group(const RecorderFinding& finding) {
  return finding.group_description.empty() ? finding.group
                                           : finding.group + " (" + finding.group_description + ")";
}

// "rank 3", "ranks 3, 5-7"
std::string Named(std::span<const int> ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + RanksText(ranks);
}

std::string Sentence(const RecorderFinding& finding) {
  const std::string call = finding.name + " number " + std::to_string(finding.sequence) +
                           " of the process group " + Group(finding);
  switch (finding.mismatch) {
    case Mismatch::kNone: break;
    case Mismatch::kNotCalled: return Named(finding.culprits) + " did not call " + call;
    case Mismatch::kDifferent: return Named(finding.culprits) + " called something else at " + call;
    case Mismatch::kNotStarted:
      return Named(finding.culprits) + " called " + call +
             ", and the GPU has not begun it: something before it is stuck there";
    case Mismatch::kNotEnded:
      return "all ranks have begun " + call +
             ", and it did not end: a link or a GPU between them, no rank differs";
  }
  return "every collective that the dumps share was called by all ranks alike, and is complete";
}

struct RecorderOptions {
  std::vector<std::string> files;
  bool json = false;
};

int RunFlightRecorder(const RecorderOptions& options) {
  std::vector<RecorderDump> dumps;
  for (const std::string& file : options.files) {
    const auto bytes = ReadFile(file, kMaxDumpBytes);
    if (!bytes) return FailCommand("flight-recorder", bytes.error().detail, 1);
    auto dump = torch_recorder::ParseRecorderDump(*bytes);
    if (!dump) return FailCommand("flight-recorder", file + ": " + dump.error().detail, 1);
    if (dump->rank < 0) dump->rank = torch_recorder::RankOfFile(file).value_or(-1);
    if (dump->rank < 0)
      return FailCommand("flight-recorder", file + ": which rank is it? Its name does not end with a number",
                         2);
    const bool twice = std::ranges::any_of(dumps, [&](const auto& one) { return one.rank == dump->rank; });
    if (twice)
      return FailCommand("flight-recorder", file + ": a second dump of rank " + std::to_string(dump->rank),
                         2);
    dumps.push_back(*std::move(dump));
  }
  const RecorderFinding finding = FindFirstMismatch(dumps);
  const int failed = PrintText(options.json ? RecorderJson(finding, dumps) : RecorderText(finding, dumps));
  return failed != 0 || finding.mismatch != Mismatch::kNone ? 1 : 0;
}

}  // namespace

std::string RanksText(std::span<const int> sorted_ranks) {
  constexpr size_t kRanges = 20;
  std::string text;
  size_t ranges = 0;
  for (size_t i = 0; i < sorted_ranks.size();) {
    size_t end = i + 1;
    while (end < sorted_ranks.size() && sorted_ranks[end] == sorted_ranks[end - 1] + 1) ++end;
    if (!text.empty()) text += ", ";
    if (ranges++ == kRanges) return text + "…";
    text += std::to_string(sorted_ranks[i]);
    if (end - i > 1) text += (end - i == 2 ? ", " : "-") + std::to_string(sorted_ranks[end - 1]);
    i = end;
  }
  return text;
}

std::string RecorderText(const RecorderFinding& finding, std::span<const RecorderDump> dumps) {
  std::string text = Printable(Sentence(finding)) + '\n';
  if (!finding.detail.empty()) text += "  " + Printable(finding.detail) + '\n';
  if (!finding.waiting.empty()) text += "  " + Named(finding.waiting) + " in it, not complete\n";
  if (!finding.absent.empty())
    text += "  no dump of " + Named(finding.absent) + ": nothing is known of " +
            (finding.absent.size() == 1 ? "it" : "them") + '\n';
  size_t entries = 0;
  for (const RecorderDump& dump : dumps) entries += dump.entries.size();
  return text + "  " + Plural(dumps.size(), "dump", "dumps") + ", " +
         CountText(static_cast<int64_t>(entries)) + " collectives\n";
}

std::string RecorderJson(const RecorderFinding& finding, std::span<const RecorderDump> dumps) {
  const auto number = [](std::string& out, int rank) { out += std::to_string(rank); };
  return JsonDocumentText("gpulens.flight_recorder/1", [&](JsonObject& root) {
    root.Text("mismatch", NameOfMismatch(finding.mismatch));
    root.Count("dumps", dumps.size());
    if (finding.mismatch == Mismatch::kNone) return;
    root.Text("process_group", finding.group);
    root.TextIfAny("process_group_description", finding.group_description);
    root.Text("collective", finding.name);
    root.Count("sequence", finding.sequence);
    root.List("culprits", finding.culprits, number);
    root.List("waiting", finding.waiting, number);
    root.List("without_dump", finding.absent, number);
    root.TextIfAny("detail", finding.detail);
    root.Text("text", Sentence(finding));
  });
}

void AddFlightRecorder(CLI::App& app, int& code) {
  auto options = std::make_shared<RecorderOptions>();
  CLI::App* command = app.add_subcommand(
      "flight-recorder", "Name the rank that broke a collective, from PyTorch's flight recorder.");
  command->group("Look");
  command->add_option("FILE", options->files, "Dumps, one a rank")->required();
  command->add_flag("--json", options->json, "JSON");
  command->footer(kRecorderFooter);
  command->callback([options, &code] { code = RunFlightRecorder(*options); });
}

}  // namespace gpulens
