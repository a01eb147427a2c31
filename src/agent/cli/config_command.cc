#include "agent/cli/config_command.h"

#include <unistd.h>

#include <cstdio>

#include "agent/cli/table/text_table.h"
#include "agent/config/print.h"
#include "agent/run/config_file.h"
#include "agent/run/plan.h"
#include "agent/run/refusals.h"

namespace gpulens {
namespace {

// Loads, and says on stderr what is wrong. True when there is nothing wrong.
bool LoadAndReport(const Schema& schema, const std::string& file, const std::vector<FlagValue>& flags,
                   LoadOutcome& outcome) {
  outcome = LoadConfig(schema, file, flags);
  std::string report = outcome.FullReport();
  if (!report.empty()) ::dprintf(STDERR_FILENO, "%s", TerminalLines(report).c_str());
  return outcome.ok();
}

}  // namespace

int RunConfigCheck(const std::string& file, const std::vector<FlagValue>& flags) {
  std::unique_ptr<Schema> schema = MakeSchema();
  std::string found = FindConfigFile(file);
  LoadOutcome outcome;
  if (!LoadAndReport(*schema, found, flags, outcome)) return 2;
  if (Status refused = RefuseBeforeStart(outcome.config); !refused) {
    WriteNote("gpulens: " + refused.detail);
    return 2;
  }
  std::puts(CheckSummary(*schema, outcome.config, found).c_str());
  return 0;
}

int RunConfigPrint(const std::string& file, const std::vector<FlagValue>& flags) {
  std::unique_ptr<Schema> schema = MakeSchema();
  LoadOutcome outcome;
  if (!LoadAndReport(*schema, FindConfigFile(file), flags, outcome)) return 2;
  std::fputs(PrintConfig(*schema, outcome.config).c_str(), stdout);
  return 0;
}

int RunConfigSchema(bool json) {
  std::unique_ptr<Schema> schema = MakeSchema();
  std::fputs((json ? PrintJsonSchema(*schema) : PrintSchema(*schema)).c_str(), stdout);
  return 0;
}

}  // namespace gpulens
