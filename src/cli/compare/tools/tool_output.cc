#include "cli/compare/tools/tool_output.h"

#include "base/parse.h"

namespace gpulens::compare {
namespace {

constexpr std::string_view kNvidiaCommands[] = {"-q -x"};
constexpr std::string_view kAmdCommands[] = {"static --json", "metric --json"};
constexpr std::string_view kHlCommands[] = {
    "-Q "
    "index,module_id,uuid,name,serial,bus_id,driver_version,memory.total,memory.used,memory.free,power.draw,"
    "power.max,temperature.aip,utilization.aip,ecc.errors.uncorrected.volatile.total,"
    "ecc.errors.uncorrected.aggregate.total,clocks.current.soc,clocks.limit.soc,rows.replaced,rows.pending"
    " -f csv"};

constexpr Tool kTools[] = {
    {ToolKind::kNvidiaSmi, "nvidia-smi", "nvidia", KeyBy::kUuid, &NvidiaRows, kNvidiaCommands},
    {ToolKind::kAmdSmi, "amd-smi", "amd", KeyBy::kIndex, &AmdRows, kAmdCommands},
    {ToolKind::kHlSmi, "hl-smi", "gaudi", KeyBy::kIndex, &GaudiRows, kHlCommands},
};

}  // namespace

std::span<const Tool> AllTools() noexcept { return kTools; }

const Tool* ToolNamed(std::string_view program) noexcept {
  std::string_view name = program.substr(program.rfind('/') + 1);
  for (const Tool& tool : kTools) {
    if (name.find(tool.name) != name.npos) return &tool;
  }
  return nullptr;
}

const Tool* ToolThatPrinted(std::string_view output) noexcept {
  if (output.starts_with("\xEF\xBB\xBF")) output.remove_prefix(3);
  output = Trim(output.substr(0, 4096));
  if (output.empty()) return nullptr;
  if (output.front() == '<') return &kTools[0];
  if (output.front() == '[' || output.front() == '{') return &kTools[1];
  std::string_view header = output;
  if (TakeUntil(header, '\n').find(',') != std::string_view::npos) return &kTools[2];
  return nullptr;
}

Result<std::vector<ToolField>> ReadToolOutput(const Tool& tool, std::string_view output) {
  switch (tool.kind) {
    case ToolKind::kNvidiaSmi: return ReadNvidiaSmi(output);
    case ToolKind::kAmdSmi: return ReadAmdSmi(output);
    case ToolKind::kHlSmi: return ReadHlSmi(output);
  }
  return Status{Code::kInvalidArgument, "unknown tool"};
}

}  // namespace gpulens::compare
