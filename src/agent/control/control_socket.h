// The agent's control socket: a Unix socket on which its owner and root give commands to the running agent.
//
// A client sends one line and gets one line. It has a few seconds and 256 bytes for its own; few clients are
// served at the same time, further ones are turned away.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "agent/control/control_command.h"
#include "base/fd.h"
#include "net/io_loop.h"
#include "net/server/server.h"
#include "plugins/driver_control.h"
#include "sources/nvml/simulated/fault_list.h"

namespace gpulens {

// Used by one thread. The file is in memory and has no name of its own: it is reached through this process
// in /proc, by processes of the same user, and ends with it.
class FaultFile {
 public:
  // An empty script. kUnavailable and its like when the kernel gives none; path() is then empty.
  Status Open();
  // For the reader process. The same as long as this lives.
  const std::string& path() const noexcept { return path_; }

  // As FaultList does, and written for the reader process to see.
  Result<std::string> Fail(std::string_view words, int64_t now_ns, size_t gpus);
  Result<std::string> Heal(std::string_view words, int64_t now_ns);
  const nvml::FaultList& list() const noexcept { return list_; }

 private:
  Status Write();

  nvml::FaultList list_;
  UniqueFd file_;
  std::string path_;
};

class EventQueue;
class Workers;

// What the socket serves besides the driver. Members that are null are refused in words.
struct ControlHooks {
  Workers* workers = nullptr;           // where `status` runs
  std::function<std::string()> status;  // one line of JSON; may block
  EventQueue* events = nullptr;         // where it is reported that XIDs are dealt with
};

// Lives on the loop's thread, as its constructor, Open and destructor do: call them with IoLoop::Call.
class ControlSocket final : private Acceptor {
 public:
  // `faults`: where those of simulated GPUs are put; null: there are none.
  ControlSocket(IoLoop& loop, const Clock& clock, DriverControl& nvml, FaultFile* faults = nullptr,
                ControlHooks hooks = {});
  ~ControlSocket();

  // Makes the folder, when it is not there, the socket in it (for the owner alone), and listens. kExhausted
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
  void Forget(Client* client);

  IoLoop& loop_;
  const Clock& clock_;
  DriverControl& nvml_;
  FaultFile* const faults_;
  const ControlHooks hooks_;
  Listeners listeners_;
  using Clients = std::vector<std::shared_ptr<Client>>;
  Clients clients_;
  // Those that are over but may be among the callers; freed by the next task of the loop, or with this.
  std::shared_ptr<Clients> gone_ = std::make_shared<Clients>();
};

// Sends one command to the agent at `path` and waits for its answer at most `patience`. kUnavailable when no
// agent listens there. Blocks: for the command line.
Result<std::string> QueryAgent(const std::string& path, const std::string& command, Duration timeout);

}  // namespace gpulens
