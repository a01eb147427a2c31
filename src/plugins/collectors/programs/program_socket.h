// The Unix socket at which programs of this machine tell the agent of themselves: OTLP over HTTP.
#pragma once

#include <memory>
#include <string>

#include <gpulens/status.h>

#include "net/http/http_server.h"
#include "plugins/collectors/programs/program_registry.h"
#include "plugins/plugin.h"

namespace gpulens {

// Where it is when the configuration does not say: beside the control socket. Empty: there is no such place.
std::string DefaultProgramSocket();

// Serves while it lives. Made and destroyed on any thread but the loop's.
class ProgramSocket {
 public:
  // Makes the folder, when it is not there, and the socket, which every user may connect to: who comes is
  // known by the kernel. What `env` names outlives it.
  static Result<std::unique_ptr<ProgramSocket>> Open(const std::string& path,
                                                     std::shared_ptr<ProgramRegistry> table, Env& env);

 private:
  ProgramSocket(std::shared_ptr<ProgramRegistry> table, Env& env);
  void Handle(const HttpRequest& request, HttpResponder responder);

  const std::shared_ptr<ProgramRegistry> table_;
  Env& env_;
  HttpRouter router_;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace gpulens
