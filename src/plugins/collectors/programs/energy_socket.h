// Where programs of this machine ask for the energy of its GPUs: a Unix socket, and behind it a process that
// opens the vendors' libraries, reads, and answers (src/sdk/energy/feed). It runs while somebody asks: who
// comes first starts it, and it ends when nobody has asked for a while.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include <gpulens/status.h>

#include "base/fd.h"
#include "base/process.h"
#include "plugins/plugin.h"

namespace gpulens {

// "energy.sock" beside the socket of programs.
std::string EnergySocketBeside(const std::string& program_socket);

// Watches while it lives, by one thread that waits. Made and destroyed by any thread.
class EnergySocket {
 public:
  struct Options {
    std::string path;
    std::string program = "/proc/self/exe";  // started as `driver energy --listen-fd=N`
    bool simulated = false;                  // the GPUs are
    DriverControl* control = nullptr;        // while devices are released there is no process
  };
  // Makes the folder, when it is not there, and the socket, which every user may connect to: what it tells,
  // the device files tell, too.
  static Result<std::unique_ptr<EnergySocket>> Open(Options options);
  ~EnergySocket();

 private:
  EnergySocket(Options options, UniqueFd listening, UniqueFd stop);
  void Watch();
  bool Released() const;
  void Start();

  const Options options_;
  const UniqueFd listening_, stop_;
  ChildProcess reader_;  // the thread's
  std::thread thread_;
};

}  // namespace gpulens
