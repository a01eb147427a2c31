#include "cli/fake/fake_command.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "agent/control/control_command.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/text.h"
#include "cli/fake/query_agent.h"
#include "sources/nvml/recording/recording.h"
#include "sources/nvml/simulated/fault_watch.h"

namespace gpulens {
namespace {

constexpr const char* kSimFooter = R"(
  gpulens sim record --for 60s -o node7.yaml     what the GPUs here answer
  gpulens sim replay node7.yaml                  an agent with the recorded GPUs
  gpulens agent --demo &                         or one with eight GPUs
  gpulens sim fail gpu=3 mode=fallen_off_bus after=5s for=20s
  gpulens sim status
  gpulens sim heal

Faults go into simulated GPUs only: an agent that reads real ones refuses. They end with the agent.
Exit: 0 done · 1 no agent, or it refuses · 2 wrong use)";

constexpr const char* kFailFooter = R"(
  gpulens sim fail gpu=3 mode=lost                           until sim heal
  gpulens sim fail gpu=3 mode=xid code=79 after=5s
  gpulens sim fail gpu=all mode=slow delay=200ms for=1m
  gpulens sim fail gpu=0 mode=error call=nvmlDeviceGetTemperature code=999
  gpulens sim fail gpu=0 mode=wrong_value reading=power value=all_ones

gpu=N, as numbered at the start, or gpu=all. after=TIME and for=TIME are 500ms, 10s, 5m, or seconds. Modes:

)";

constexpr const char* kReplayFooter = R"(
  gpulens sim replay node7.yaml
  gpulens sim replay node7.yaml --config gpulens.yaml

Serves what gpulens agent serves; every GPU series has simulated="true". Exit codes are those of the agent.)";

struct FakeOrder {
  std::vector<std::string> words;
  std::string socket, config_file;
};

int Run(const FakeOrder& order, const std::string& verb) {
  AgentQuestion question{"gpulens sim", "nvml " + verb, order.socket, order.config_file};
  std::string words;
  for (const std::string& word : order.words) words += " " + word;
  if (verb == "fail") {
    Result<nvml::LiveFault> fault = nvml::ParseFaultOrder(words, RealClock().Now().boot_ns);
    if (!fault) {
      ::dprintf(STDERR_FILENO, "gpulens sim fail: %s   gpulens sim fail --help\n",
                fault.error().detail.c_str());
      return 2;
    }
  }
  question.command += words;
  if (question.command.size() > kMaxControlLine) {
    ::dprintf(STDERR_FILENO, "gpulens sim fail: too many words for one fault\n");
    return 2;
  }
  return QueryAndPrint(question);
}

// fail, heal and status, under `sim` and, as they were before, under `fake nvml`.
void AddFaults(CLI::App& app, const std::shared_ptr<FakeOrder>& order, int& code) {
  auto add = [&](const char* verb, const char* wire, const char* help) {
    CLI::App* command = app.add_subcommand(verb, help);
    command->add_option("--socket", order->socket, "The agent's control socket")->type_name("PATH");
    command->add_option("--config", order->config_file, "Configuration file (YAML)")->type_name("FILE");
    command->callback([order, wire, &code] { code = Run(*order, wire); });
    return command;
  };
  CLI::App* fail = add("fail", "fail", "Inject a fault into a running agent with simulated GPUs.");
  fail->add_option("WORDS", order->words, "gpu=N mode=MODE and the keys of the mode, see below")->required();
  fail->footer(kFailFooter + nvml::FaultHelp());
  add("heal", "heal", "End all faults, or those of one GPU; counters keep their values.")
      ->add_option("WORDS", order->words, "gpu=N or id=N");
  add("status", "faults", "List the active faults.");
}

// The simulated library reads the recording when the agent starts it; here it is only checked.
int CheckRecording(const std::string& file) {
  std::string wrong;
  if (Result<std::string> text = ReadFile(file, nvml::kMaxRecordingBytes); !text) wrong = text.error().detail;
  else if (Result<nvml::Recording> recording = nvml::ReadRecording(*text); !recording)
    wrong = file + ": " + recording.error().detail;
  if (wrong.empty()) return 0;
  std::string text;
  AppendPrintable(text, wrong);
  ::dprintf(STDERR_FILENO, "gpulens sim replay: %s\n", text.c_str());
  return 2;
}

}  // namespace

void AddSim(CLI::App& app, SimOptions& options, int& code) {
  CLI::App* sim = app.add_subcommand("sim", "Record GPUs, replay them, and inject faults.");
  sim->group("Simulated GPUs");
  sim->require_subcommand(1);
  sim->footer(kSimFooter);
  AddCapture(*sim, "record", options.record, code);
  CLI::App* replay = sim->add_subcommand("replay", "Run an agent with recorded GPUs.");
  replay->add_option("FILE", options.replay_file, "A recording")->required();
  replay->add_option("--config", options.config_file, "Configuration file (YAML)")->type_name("FILE");
  replay->footer(kReplayFooter);
  replay->callback([&options, &code] {
    code = CheckRecording(options.replay_file);
    options.replays = code == 0;
  });
  auto order = std::make_shared<FakeOrder>();
  AddFaults(*sim, order, code);

  // As they were called before 0.2.
  AddCapture(app, "capture", options.record, code)->group("");
  CLI::App* fake = app.add_subcommand("fake", "The older name of gpulens sim.");
  fake->group("")->require_subcommand(1);
  CLI::App* nvml = fake->add_subcommand("nvml", "The older name of gpulens sim.");
  nvml->require_subcommand(1);
  AddFaults(*nvml, order, code);
}

}  // namespace gpulens
