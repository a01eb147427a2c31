#include "cli/common/output.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "agent/plugin_tables.h"
#include "agent/run/config_file.h"
#include "agent/run/plan.h"
#include "base/files.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/process.h"
#include "base/result.h"
#include "base/text.h"
#include "cli/collect/collect_command.h"
#include "cli/compare/comparison.h"
#include "cli/help/help.h"

namespace gpulens {
namespace compare {
namespace {

// A value stays unexplained if it is in this many comparisons.
constexpr size_t kMostLooks = 3;
// Slow readings arrive one GPU per tick: after this many ticks without new ones they are complete.
constexpr int kSteadyTicks = 2, kMostTicks = 60;
constexpr Duration kToolTimeout = std::chrono::seconds(60);
constexpr size_t kMostToolOutput = 16u << 20;

int ComplainOfCompare(const std::string& sentence) { return FailCommand("doctor --compare", sentence, 2); }

// The source of the tool's output.
struct OutputOrigin {
  const VendorTool* tool = nullptr;
  std::string program;  // empty: files
  std::vector<std::string> outputs;
};

Result<OutputOrigin> OriginOf(const CompareOptions& options) {
  OutputOrigin out;
  if (!options.tool.empty()) {
    out.tool = ToolNamed(options.tool);
    if (!out.tool)
      return Status{Code::kInvalidArgument,
                    "--tool: expected nvidia-smi, amd-smi or hl-smi, got " + options.tool};
  }
  for (const std::string& file : options.files) {
    ASSIGN_OR_RETURN(std::string text, ReadFile(file, kMostToolOutput));
    if (!out.tool) out.tool = ToolThatPrinted(text);
    if (!out.tool)
      return Status{Code::kDataLoss, file + ": not the output of nvidia-smi -q -x, amd-smi --json or hl-smi"};
    out.outputs.push_back(std::move(text));
  }
  if (!out.outputs.empty()) return out;
  if (out.tool) {
    ASSIGN_OR_RETURN(out.program, FindProgram(options.tool));
    return out;
  }
  for (const VendorTool& tool : AllTools()) {
    Result<std::string> found = FindProgram(std::string(tool.name));
    if (!found) continue;
    out.tool = &tool;
    out.program = *std::move(found);
    return out;
  }
  return Status{Code::kUnavailable,
                "none of nvidia-smi, amd-smi, hl-smi is in PATH.   use --tool PATH, or pass its output with "
                "--compare-with FILE"};
}

Result<std::vector<ToolField>> ReadAllOutputs(const VendorTool& tool,
                                              const std::vector<std::string>& outputs) {
  std::vector<ToolField> fields;
  for (const std::string& output : outputs) {
    ASSIGN_OR_RETURN(std::vector<ToolField> more, ReadToolOutput(tool, output));
    fields.insert(fields.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  }
  return fields;
}

// Runs each command of the tool.
Result<std::vector<ToolField>> RunTool(const OutputOrigin& origin, const Clock& clock) {
  std::vector<std::string> outputs;
  for (std::string_view command : origin.tool->commands) {
    RunOptions run;
    run.program = origin.program;
    run.timeout = kToolTimeout;
    run.most_output = kMostToolOutput;
    std::string_view rest = command;
    while (!rest.empty()) run.arguments.emplace_back(TakeUntil(rest, ' '));
    RunResult result = RunBounded(run, clock);
    if (!result.status) return std::move(result.status);
    outputs.push_back(std::move(result.output));
  }
  return ReadAllOutputs(*origin.tool, outputs);
}

// Compares the tool with the snapshots before its run and after it.
class CompareSink : public Sink {
 public:
  CompareSink(const OutputOrigin& origin, const Env& env) : origin_(origin), env_(env) {}

  Status Write(const Snapshot& snapshot) override {
    OwnReadings now = ReadOwn(snapshot, origin_.tool->key_by);
    for (const OwnValue& value : now["machine"]) simulated = simulated || value.Text("simulated") == "true";
    if (looking_) return Looked(snapshot, std::move(now));
    size_t values = 0;
    for (const auto& [subject, of] : now) values += of.size();
    steady_ = values == values_ ? steady_ + 1 : 0;
    values_ = values;
    if ((steady_ >= kSteadyTicks && values > 0) || ++ticks_ >= kMostTicks) Look(std::move(now));
    return Ok();
  }

  // The session may end.
  bool done = false;
  bool simulated = false;
  Status failed;
  ToolComparison comparison;
  size_t looks = 0;

 private:
  void Look(OwnReadings now) {
    input_ = {.rows = origin_.tool->rows(),
              .tool = {},
              .before = std::move(now),
              .after = {},
              .recorded = origin_.program.empty()};
    Result<std::vector<ToolField>> fields = origin_.program.empty()
                                                ? ReadAllOutputs(*origin_.tool, origin_.outputs)
                                                : RunTool(origin_, *env_.clock);
    if (!fields) {
      failed = std::move(fields).error();
      done = true;
      return;
    }
    input_.tool = *std::move(fields);
    looked_at_ = env_.clock->Now();
    looking_ = true;
    ticks_ = 0;
  }

  Status Looked(const Snapshot& snapshot, OwnReadings now) {
    for (const SnapshotEntry& entry : snapshot.frames) {
      if (entry.frame->read_at - looked_at_ >= Duration(0)) continue;
      if (++ticks_ < kMostTicks) return Ok();
      failed = {Code::kTimeout, "the GPUs are no longer read; see gpulens doctor"};
      done = true;
      return Ok();
    }
    input_.after = now;
    ToolComparison look = Compare(input_);
    if (++looks == 1) comparison = std::move(look);
    else MergeLook(comparison, look);
    looking_ = false;
    done = input_.recorded || looks == kMostLooks || comparison.Count(FieldVerdict::kUnexplained) == 0;
    if (!done) Look(std::move(now));
    return Ok();
  }

  const OutputOrigin& origin_;
  const Env& env_;
  CompareInput input_;
  Instant looked_at_;
  bool looking_ = false;
  size_t values_ = 0;
  int steady_ = 0, ticks_ = 0;
};

// Enables readings that only this command needs.
void AddReadings(const VendorTool& tool, std::vector<FlagValue>& flags) {
  if (tool.kind != ToolKind::kNvidiaSmi) return;
  for (const char* option : {"collectors.nvidia.details", "collectors.nvidia.serial"})
    flags.push_back({"--compare", option, "true"});
}

int RunComparison(const CompareOptions& options) {
  Result<OutputOrigin> origin = OriginOf(options);
  if (!origin) return ComplainOfCompare(origin.error().detail);
  // Reports unreadable output before GPUs are read.
  if (Result<std::vector<ToolField>> fields = ReadAllOutputs(*origin->tool, origin->outputs); !fields)
    return ComplainOfCompare(fields.error().detail);
  std::vector<FlagValue> flags;
  AddReadings(*origin->tool, flags);
  const CommandConfig loaded = LoadCommandConfig(options.config_file, &LoadOutcome::Report, flags);
  if (!loaded.ok()) return 2;
  const CollectorSpec* collector = FindCollector(origin->tool->vendor);
  if (!collector)
    return ComplainOfCompare("this gpulens has no collector " + std::string(origin->tool->vendor));
  static_cast<void>(SetLogLevels("error"));

  SessionOptions session_options;
  session_options.demo = options.demo;
  session_options.collectors = {collector};
  session_options.command = "doctor --compare";
  CollectSession session(session_options, loaded.config());
  CompareSink sink(*origin, session.env());
  const int code = session.Run(sink, &sink.done);
  if (!sink.failed) return ComplainOfCompare(sink.failed.detail);
  if (sink.looks == 0) return code == 0 ? ComplainOfCompare("interrupted") : 2;

  ReportHead head{.tool = std::string(origin->tool->name),
                  .where = origin->program,
                  .looks = sink.looks,
                  .simulated = options.demo || sink.simulated};
  for (const std::string& file : options.files) head.where += (head.where.empty() ? "" : ", ") + file;
  std::fputs((options.json ? JsonReport(head, sink.comparison) : TextReport(head, sink.comparison)).c_str(),
             stdout);
  return sink.comparison.Count(FieldVerdict::kUnexplained) == 0 ? 0 : 1;
}

}  // namespace
}  // namespace compare

void AddCompare(CLI::App& doctor, CompareOptions& options) {
  doctor.add_flag("--compare", options.compare,
                  "Compare each reading with what nvidia-smi, amd-smi or hl-smi prints of this machine");
  AddOption(doctor, "--tool", options.tool, "With --compare: the tool, by name or path", "PATH");
  AddOption(doctor, "--compare-with", options.files,
            "With --compare: a file with the tool's output; of amd-smi two", "FILE");
  doctor.add_flag("--demo", options.demo, "With --compare: simulated GPUs");
}

int RunCompare(const CompareOptions& options) { return compare::RunComparison(options); }

}  // namespace gpulens
