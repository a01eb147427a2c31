
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "agent/run/config_file.h"
#include "agent/run/plan.h"
#include "base/files.h"
#include "base/text.h"
#include "cli/common/output.h"
#include "cli/help/help.h"
#include "config/print.h"

namespace gpulens {
namespace {

// What most people change first. A test checks that it is a good configuration.
constexpr const char* kFirstConfig = R"(# Every key has a default; gpulens config schema lists them all.
http:
  listen: ["127.0.0.1:9091", "[::1]:9091"]   # other machines: see web_config and insecure
metrics: standard                            # essential, standard or all
attributes: {}                               # of every series: {datacenter: ams1}
sinks:
  prometheus: {names: [native, zernel]}      # add dcgm for dashboards of dcgm-exporter
  # otlp: {endpoint: "http://127.0.0.1:4318"}
  # remote_write: {url: "http://127.0.0.1:9090/api/v1/write"}
# LLM engines and dcgm-exporter on this machine are found; add other pages here.
# targets:
#   - {name: node, url: "http://127.0.0.1:9100/metrics"}
# state_dir: /var/lib/gpulens                # queues, events, health
log: {level: info}
)";

constexpr const char* kConfigInitFooter = R"(
  gpulens config init                       $GPULENS_CONFIG, or /etc/gpulens/gpulens.yaml
  gpulens config init gpulens.yaml
  gpulens config init -                     print it

Exit: 0 written · 1 the file exists, or cannot be written)";

CommandConfig LoadAndReport(const std::string& file) {
  CommandConfig out = LoadCommandConfig(file, nullptr);
  const std::string report = out.loaded.FullReport();
  if (!report.empty()) ::dprintf(STDERR_FILENO, "%s", TerminalLines(report).c_str());
  return out;
}

int RunConfigCheck(const std::string& file) {
  const CommandConfig loaded = LoadAndReport(file);
  if (!loaded.ok()) return 2;
  if (Status refused = RefuseBeforeStart(loaded.config()); !refused) {
    WriteNote("gpulens: " + refused.detail);
    return 2;
  }
  WriteText(CheckSummary(*loaded.schema, loaded.config(), FindConfigFile(file)) + "\n");
  return 0;
}

int RunConfigPrint(const std::string& file) {
  const CommandConfig loaded = LoadAndReport(file);
  return loaded.ok() ? PrintText(PrintConfig(*loaded.schema, loaded.config())) : 2;
}

int RunConfigSchema(const std::string& format) {
  std::unique_ptr<Schema> schema = MakeSchema();
  const std::string text = format == "json" ? PrintJsonSchema(*schema)
                           : format == "md" ? PrintMarkdownSchema(*schema)
                                            : PrintSchema(*schema);
  return PrintText(text);
}

int RunConfigInit(const std::string& file) {
  if (file == "-") return PrintText(kFirstConfig);
  const char* named = std::getenv("GPULENS_CONFIG");
  const std::string path = !file.empty() ? file : named && *named ? named : "/etc/gpulens/gpulens.yaml";
  auto fail = [](const std::string& what) { return FailCommand("config init", what, 1); };
  if (file.empty()) {
    if (Status made = MakeFoldersAbove(path); !made)
      return fail(made.detail + "; or name a file: gpulens config init FILE");
  }
  // Never overwrites an existing file.
  const int out = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (out < 0)
    return fail(errno == EEXIST ? path + " exists and is not changed" : path + ": " + std::strerror(errno));
  const std::string_view text = kFirstConfig;
  const bool written = ::write(out, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (::close(out) != 0 || !written) {
    ::unlink(path.c_str());
    return fail(path + ": cannot be written");
  }
  std::printf("wrote %s\n  gpulens config check %s\n  gpulens agent --config %s\n", path.c_str(),
              path.c_str(), path.c_str());
  return 0;
}

}  // namespace

void AddConfig(CLI::App& app, int& code) {
  struct ConfigOptions {
    std::string file, format = "yaml";
    bool json = false;
  };
  auto kept = std::make_shared<ConfigOptions>();
  CLI::App* config = app.add_subcommand("config", "Write, check and print the configuration.");
  config->group("Set up");
  config->require_subcommand(1);
  CLI::App* check = config->add_subcommand("check", "Report what is wrong with the configuration.");
  CLI::App* print = config->add_subcommand("print", "Print every value in force and where it comes from.");
  for (CLI::App* command : {check, print})
    AddOption(*command, "FILE,--config", kept->file, "Configuration file (YAML)", "FILE");
  check->callback([kept, &code] { code = RunConfigCheck(kept->file); });
  print->callback([kept, &code] { code = RunConfigPrint(kept->file); });
  CLI::App* init = config->add_subcommand("init", "Write a short configuration file to start from.");
  init->add_option("FILE", kept->file, "Default: what the agent reads without --config; - prints it");
  init->footer(kConfigInitFooter);
  init->callback([kept, &code] { code = RunConfigInit(kept->file); });
  CLI::App* schema = config->add_subcommand("schema", "List every key with its type, default and meaning.");
  schema->add_flag("--json", kept->json, "JSON Schema, for editors");
  schema->add_option("--format", kept->format, "yaml, json (JSON Schema) or md (docs/configuration.md)")
      ->check(CLI::IsMember({"yaml", "json", "md"}));
  schema->callback([kept, &code] { code = RunConfigSchema(kept->json ? "json" : kept->format); });
}

}  // namespace gpulens
