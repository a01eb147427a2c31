#include "cli/driver_command.h"

#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/memory.h"
#include "base/parse.h"
#include "sdk/energy/engine.h"
#include "sdk/energy/feed/feed_server.h"
#include "sdk/energy/sources/amd_energy.h"
#include "sdk/energy/sources/nvml_energy.h"
#include "sources/amdsmi/reader/amdsmi_library.h"
#include "sources/amdsmi/simulated/fake_amdsmi.h"
#include "sources/nvml/capture/recorder.h"
#include "sources/nvml/reader/nvml_process.h"
#include "sources/nvml/simulated/fake_nvml.h"

namespace gpulens {

namespace {

// What stands behind `key` in one of the arguments, which is taken out of them.
std::string_view TakeValue(std::vector<std::string_view>& arguments, std::string_view key) {
  for (auto at = arguments.begin(); at != arguments.end(); ++at) {
    if (!at->starts_with(key)) continue;
    std::string_view value = at->substr(key.size());
    arguments.erase(at);
    return value;
  }
  return {};
}

// Reads for programs that ask the agent. What this process may use was not said of them.
int RunEnergyReader(std::string_view listening, bool simulated) {
  const auto fd = ParseInt<int>(listening);
  if (!fd || *fd < 3) return nvml::kReaderBadStart;
  for (const char* name : {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"})
    ::unsetenv(name);
  sdk::FeedServer::Sources sources = {
      std::make_shared<sdk::NvmlEnergy>(simulated ? nvml::FakeNvmlLookup : nullptr, RealClock())};
  if (!simulated) sources.push_back(std::make_shared<sdk::AmdEnergy>(nullptr, RealClock()));
  sdk::FeedServer server(UniqueFd(*fd), std::move(sources), sdk::SteadyClock(),
                         {.mark = simulated ? " (simulated)" : ""});
  server.Run();
  return 0;
}

}  // namespace

bool IsDriverProcess(std::string_view library) noexcept {
  return library == "nvml" || library == "amdsmi" || library == "energy";
}

void RunReader(std::span<const std::string_view> arguments) {
  ReleaseStartPages();  // Half of what is mapped by now is relocations, and the start of a larger program.
  std::vector<std::string_view> rest(arguments.begin(), arguments.end());
  if (rest.empty()) ::_exit(nvml::kReaderBadStart);
  std::string_view library = rest.front();
  rest.erase(rest.begin());
  // Ctrl-C and the end of a terminal reach its whole group. This process ends when the agent closes the
  // socket.
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) ::signal(signal, SIG_IGN);
  bool simulated = !rest.empty() && rest.front() == "--simulated";
  if (simulated) rest.erase(rest.begin());
  if (library == "energy") ::_exit(RunEnergyReader(TakeValue(rest, "--listen-fd="), simulated));
  std::string_view spool = TakeValue(rest, "--record="), gpus = TakeValue(rest, "--record-gpus=");
  if (library == "amdsmi")
    ::_exit(amdsmi::RunAmdsmiReader(rest, simulated ? amdsmi::FakeAmdsmiLookup : nullptr));
  CHECK(library == "nvml");
  auto options = nvml::ParseReaderArguments(rest);
  if (!options) ::_exit(nvml::kReaderBadStart);
  if (simulated) options->lookup = nvml::FakeNvmlLookup;
  if (!spool.empty()) {
    nvml::RecorderOptions recorder{.spool = std::string(spool),
                                   .library_path = options->library_path,
                                   .lookup = options->lookup,
                                   .clock = nullptr,
                                   .gpus = {}};
    while (!gpus.empty()) {
      if (auto gpu = ParseInt<unsigned>(TakeUntil(gpus, ','))) recorder.gpus.push_back(*gpu);
    }
    if (!nvml::StartRecorder(std::move(recorder)).ok()) ::_exit(nvml::kReaderBadStart);
    options->lookup = nvml::RecorderLookup;
  }
  ::_exit(nvml::RunNvmlReader(*options));
}

}  // namespace gpulens
