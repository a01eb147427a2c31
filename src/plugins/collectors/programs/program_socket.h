// Unix sockets for the programs of this machine: OTLP over HTTP, and the energy of its GPUs.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include <gpulens/status.h>

#include "base/fd.h"
#include "base/process.h"
#include "net/http/http_server.h"
#include "plugins/collectors/programs/program_registry.h"
#include "plugins/plugin.h"

namespace gpulens {

// The default path, next to the control socket. Empty: no folder for it.
std::string DefaultProgramSocket();

// Accepts metrics of programs while it lives. Created and destroyed on any thread but the loop's.
class ProgramSocket {
 public:
  // Creates the folder if missing and the socket, which every user may connect to; the kernel identifies the
  // sender. `env` outlives it.
  static Result<std::unique_ptr<ProgramSocket>> Open(const std::string& path,
                                                     std::shared_ptr<ProgramRegistry> registry, Env& env);

 private:
  ProgramSocket(std::shared_ptr<ProgramRegistry> registry, Env& env);
  void Handle(const HttpRequest& request, HttpResponder responder);

  const std::shared_ptr<ProgramRegistry> registry_;
  Env& env_;
  HttpRouter router_;
  std::unique_ptr<HttpServer> server_;
};

// Returns the path of energy.sock in the folder of the socket of programs.
std::string EnergySocketNextTo(const std::string& program_socket);

// The socket at which programs query the energy of GPUs, and the reader process that opens the vendors'
// libraries and answers (src/sdk/energy/feed). The first query starts the process, and it ends after a while
// without any. Waits in a thread of its own. Created and destroyed by any thread.
class EnergySocket {
 public:
  struct Options {
    std::string path;
    std::string program = "/proc/self/exe";  // started as `driver energy --listen-fd=N`
    bool simulated = false;                  // GPUs
    DriverControl* control = nullptr;        // no process while devices are released
  };
  // Creates the folder if missing and the socket, which every user may connect to: the device files show the
  // same.
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
