#include "agent/cli/driver_command.h"

#include <signal.h>
#include <unistd.h>

#include <vector>

#include "base/check.h"
#include "base/process.h"
#include "sources/amdsmi/driver/amdsmi_driver.h"
#include "sources/amdsmi/fake/fake_amdsmi.h"
#include "sources/nvml/driver/nvml_driver.h"
#include "sources/nvml/fake/fake_nvml.h"

namespace gpulens {

bool IsDriverProcess(std::string_view library) noexcept { return library == "nvml" || library == "amdsmi"; }

void RunDriver(std::span<const std::string_view> arguments) {
  LetGoOfStartPages();  // Half of what is mapped by now is relocations, and the start of a larger program.
  std::vector<std::string_view> rest(arguments.begin(), arguments.end());
  if (rest.empty()) ::_exit(nvml::kDriverBadStart);
  std::string_view library = rest.front();
  rest.erase(rest.begin());
  // Ctrl-C reaches the whole group of a terminal. This process ends when the agent closes the socket.
  for (int signal : {SIGINT, SIGTERM}) ::signal(signal, SIG_IGN);
  bool simulated = !rest.empty() && rest.front() == "--simulated";
  if (simulated) rest.erase(rest.begin());
  if (library == "amdsmi")
    ::_exit(amdsmi::RunAmdsmiDriver(rest, simulated ? amdsmi::FakeAmdsmiLookup : nullptr));
  CHECK(library == "nvml");
  auto options = nvml::ParseDriverArguments(rest);
  if (!options) ::_exit(nvml::kDriverBadStart);
  if (simulated) options->lookup = nvml::FakeNvmlLookup;
  ::_exit(nvml::RunNvmlDriver(*options));
}

}  // namespace gpulens
