// Commands to a running agent over its control socket, and the reader processes that it starts.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "config/loader.h"

namespace CLI {
class App;
}

namespace gpulens {

// Where the agent's control socket is by this configuration. Empty or "none": nowhere.
std::string ControlSocketOf(const Config& config);

struct AgentQuestion {
  std::string who;      // "gpulens gpu", for complaints
  std::string command;  // one line
  std::string socket;   // empty: as configured
  std::string config_file;
};

// Prints the answer on stdout, each part after a ';' on a line of its own, or what is wrong on stderr. Exit
// code: 0 done, 1 not done, 2 wrong configuration.
int QueryAndPrint(const AgentQuestion& question);

// `gpulens gpu release|resume|status`.
struct DriverOrder {
  std::string verb;    // release, resume, status
  std::string length;  // of a release; empty: until it is resumed
  std::string socket;  // empty: as configured
  std::string config_file;
};

// Exit code: 0 done, 1 not done (no agent, the process does not end), 2 wrong use.
int RunDriverOrder(const DriverOrder& order);

// The state of the agent's NVML reader process; empty when no agent answers. For `doctor`.
std::string QueryDriverStatus(const Config& config);

// Whether the word after `driver` names a library, not an order of a person.
bool IsDriverProcess(std::string_view library) noexcept;

// `arguments` after `driver`. Ends the process without clean-up: threads may be stuck in a library.
[[noreturn]] void RunReaderProcess(std::span<const std::string_view> arguments);

struct SimOptions {
  std::string replay_file, config_file;
  bool replays = false;  // an agent is to be run with the recording
};

// Adds `sim`. `code` is set when a command has run, but for replay: that only sets `replays`, and the caller
// runs the agent. `options` outlives the app.
void AddSim(CLI::App& app, SimOptions& options, int& code);

}  // namespace gpulens
