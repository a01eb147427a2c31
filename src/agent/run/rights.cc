#include "agent/run/rights.h"

#include "base/files.h"
#include "base/version.h"

namespace gpulens {

Rights RightsOf(const Config& config, const Env& env) {
  Rights out;
  if (!env.state_dir.empty()) out.folders.push_back(env.state_dir);
  std::string socket = config.Group("control").Text("socket");
  if (socket.empty()) socket = OwnAgentSocket("gpulens.sock");
  if (socket.starts_with('/')) out.folders.push_back(socket.substr(0, socket.rfind('/')));
  out.programs.push_back(
      {.path = "/proc/self/exe",
       .arguments = {"reader", "nvml", "amdsmi", "energy", "page", "--simulated",
                     "--build-id=" + std::string(Version()) + " " + std::string(Revision())},
       .prefixes = {"--socket-fd=", "--page-fd=", "--interval-ns=", "--medium-ns=", "--slow-ns=",
                    "--build-id=", "--leave-out=", "--watch=", "--details=", "--events=", "--listen-fd=",
                    "--max-body=", "--max-samples="},
       .variables = {"GPULENS_FAKE_", "LD_LIBRARY_PATH"},
       .devices = {},
       .network = false,
       .confines_itself = true,
       .reads_processes = true});
  return out;
}

std::string MissingRights(const Rights&, const Rights&) { return {}; }

}  // namespace gpulens
