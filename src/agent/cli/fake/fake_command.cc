#include "agent/cli/fake/fake_command.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "agent/cli/fake/ask_agent.h"
#include "agent/control/control_command.h"
#include "base/clock.h"
#include "sources/nvml/fake/faults/live_fault.h"

namespace gpulens {
namespace {

constexpr const char* kFakeFooter = R"(
  gpulens agent --demo &
  gpulens fake nvml fail gpu=3 mode=fallen_off_bus after=5s for=20s
  gpulens fake nvml status
  gpulens fake nvml heal

Only simulated GPUs: an agent that reads real ones refuses. Faults end with the agent.
Exit: 0 done · 1 no agent, or it refuses · 2 wrong use)";

constexpr const char* kFailFooter = R"(
  gpulens fake nvml fail gpu=3 mode=lost                                 until it is healed
  gpulens fake nvml fail gpu=3 mode=xid code=79 after=5s
  gpulens fake nvml fail gpu=all mode=slow delay=200ms for=1m
  gpulens fake nvml fail gpu=0 mode=error call=nvmlDeviceGetTemperature code=999
  gpulens fake nvml fail gpu=0 mode=wrong_value reading=power value=all_ones

gpu=N (as numbered at the start) or gpu=all; after=TIME, for=TIME: 500ms 10s 5m, or seconds. mode is one of:
)";

struct FakeOrder {
  std::vector<std::string> words;
  std::string socket, config_file;
};

int Run(const FakeOrder& order, const std::string& verb) {
  AgentQuestion question{"gpulens fake", "nvml " + verb, order.socket, order.config_file};
  std::string words;
  for (const std::string& word : order.words) words += " " + word;
  if (verb == "fail") {
    Result<nvml::LiveFault> fault = nvml::ParseFaultOrder(words, RealClock().Now().boot_ns);
    if (!fault) {
      ::dprintf(STDERR_FILENO, "gpulens fake: %s   All of them: gpulens fake nvml fail --help\n",
                fault.error().detail.c_str());
      return 2;
    }
  }
  question.command += words;
  if (question.command.size() > kMaxControlLine) {
    ::dprintf(STDERR_FILENO, "gpulens fake: the fault has too many words\n");
    return 2;
  }
  return AskAndPrint(question);
}

}  // namespace

void AddFake(CLI::App& app, int& code) {
  CLI::App* fake = app.add_subcommand("fake", "Let something go wrong with simulated GPUs.");
  fake->require_subcommand(1);
  fake->footer(kFakeFooter);
  CLI::App* nvml = fake->add_subcommand("nvml", "With those of an agent that runs with --demo.");
  nvml->require_subcommand(1);
  nvml->footer(kFakeFooter);
  auto order = std::make_shared<FakeOrder>();
  auto add = [&](const char* verb, const char* wire, const char* help) {
    CLI::App* command = nvml->add_subcommand(verb, help);
    command->add_option("--socket", order->socket, "The agent's control socket")->type_name("PATH");
    command->add_option("--config", order->config_file, "Configuration file (YAML)")->type_name("FILE");
    command->callback([order, wire, &code] { code = Run(*order, wire); });
    return command;
  };
  CLI::App* fail = add("fail", "fail", "Put a fault in.");
  fail->add_option("WORDS", order->words, "gpu=N mode=MODE …")->type_name("KEY=VALUE")->required();
  fail->footer(kFailFooter + nvml::FaultHelp());
  add("heal", "heal", "End all faults, or those of one GPU; counts stay.")
      ->add_option("WORDS", order->words, "gpu=N or id=N")
      ->type_name("KEY=VALUE");
  add("status", "faults", "Which faults there are.");
}

}  // namespace gpulens
