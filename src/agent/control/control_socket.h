// The agent's control socket: a Unix socket on which its owner and root give commands to the running agent.
//
// A client sends one line and gets one line. It has a few seconds and 256 bytes for its line, 4 KiB for
// "get". At most eight clients are served at the same time; further ones are disconnected.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "agent/control/memory_file.h"
#include "base/clock.h"
#include "base/fd.h"
#include "net/io_loop.h"
#include "net/server/server.h"
#include "plugins/plugin.h"
#include "plugins/reader_control.h"
#include "sources/nvml/simulated/fault_list.h"

namespace gpulens {

inline constexpr size_t kMaxControlLine = 256;     // bytes of a command
inline constexpr size_t kMaxGetLine = 4096;        // bytes of "get TARGET"
inline constexpr size_t kMaxGetAnswer = 16 << 20;  // bytes of the answer to "get"

// "agent status"; "get TARGET", with the path and the query of a page of docs/api.md; "xid clear [GPU]", with
// an index or a UUID; "nvml release 60s", "nvml release", "nvml resume", "nvml status"; of simulated GPUs
// "nvml fail WORDS", "nvml heal [WORDS]", "nvml faults"; of `agent --demo` "demo set WORDS", "demo stop
// WORDS".
struct ControlCommand {
  enum Verb : uint8_t {
    kAgentStatus,
    kGet,
    kXidClear,
    kRelease,
    kResume,
    kStatus,
    kFail,
    kHeal,
    kFaults,
    kDemo
  } verb = kStatus;
  std::string
      words;  // a fault, which FaultFile parses; the GPU of kXidClear; a target; a command for the demo
  Duration length{};  // of a release; 0: until it is resumed
};

// `line` is without its newline. kInvalidArgument names the error and the expected commands.
Result<ControlCommand> ParseControlCommand(std::string_view line);

// Default path of the socket; empty: no folder for it.
std::string DefaultControlSocket();

// Converts `status`, the answer to "nvml status" without its "ok ". Empty when the driver is fine or no agent
// answers.
std::optional<Finding> DriverFinding(std::string_view status);

// File of simulated faults, for the reader process. Used by one thread.
class FaultFile {
 public:
  // Creates an empty script. An error of the kernel leaves fd() negative.
  Status Open() { return file_.Open(); }
  // For the reader process; see MemoryFile.
  int fd() const noexcept { return file_.fd(); }
  std::string path() const { return file_.path(); }

  // Change the list as FaultList does, and write it for the reader process.
  Result<std::string> Fail(std::string_view words, int64_t now_ns, size_t gpus);
  Result<std::string> Heal(std::string_view words, int64_t now_ns);
  const nvml::FaultList& list() const noexcept { return list_; }

 private:
  nvml::FaultList list_;
  MemoryFile file_;
};

class EventQueue;
class Workers;

// What the socket serves besides the driver. Commands for null members get an error.
struct ControlHooks {
  Workers* workers = nullptr;           // runs `status`
  std::function<std::string()> status;  // one line of JSON; may block
  EventQueue* events = nullptr;         // gets the event that XIDs are cleared
  // Calls `done` once, on any thread, with the JSON of a page below /api. False, and `done` is not called:
  // too many requests wait.
  std::function<bool(std::string target, std::function<void(Result<std::string>)> done)> get;
  // "set WORDS", "stop WORDS", "heal WORDS" and "status" of a simulated node; null: there is none. Does not
  // block. Answers are one line with ";" where others begin.
  std::function<Result<std::string>(std::string_view command)> demo;
};

// Lives on the loop's thread, as its constructor, Open and destructor do: call them with IoLoop::Call.
class ControlSocket final : private Acceptor {
 public:
  // `faults`: where those of simulated GPUs are put; null: there are none.
  ControlSocket(IoLoop& loop, const Clock& clock, ReaderControl& nvml, FaultFile* faults = nullptr,
                ControlHooks hooks = {});
  ~ControlSocket();

  // Makes a missing folder and the socket in it (for the owner only), and listens. kExhausted
  // when another agent listens there.
  Status Open(const std::string& path);

 private:
  class Client;

  void OnAccept(UniqueFd socket, const Endpoint& peer) override;
  bool MakeRoom() override { return false; }
  // The answer to a command, or empty while it has to wait.
  std::string Answer() const;
  std::string ClearXids(const ControlCommand& command);
  std::string ObeyFault(const ControlCommand& command);
  std::string ObeyDemo(const std::string& words) const;
  void Forget(Client* client);

  IoLoop& loop_;
  const Clock& clock_;
  ReaderControl& nvml_;
  FaultFile* const faults_;
  const ControlHooks hooks_;
  Listeners listeners_;
  using Clients = std::vector<std::shared_ptr<Client>>;
  Clients clients_;
  // Ended clients, which may still be on the call stack; freed by the next task of the loop, or with this.
  std::shared_ptr<Clients> gone_ = std::make_shared<Clients>();
};

// Sends one command to the agent at `path` and waits up to `timeout` for its answer. kUnavailable when no
// agent listens there, kExhausted for an answer longer than kMaxGetAnswer. Blocks; for the command line.
Result<std::string> QueryAgent(const std::string& path, const std::string& command, Duration timeout);

}  // namespace gpulens
