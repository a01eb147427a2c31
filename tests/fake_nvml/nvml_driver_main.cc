// The reader process as a program of its own, for tests. Its first argument may be --simulated (the
// simulated library instead of a file), --garbage (sends what is no message) or --silent (says nothing).
#include <sys/socket.h>
#include <unistd.h>

#include <string_view>
#include <vector>

#include "sources/nvml/reader/nvml_driver.h"
#include "sources/nvml/simulated/fake_nvml.h"

int main(int argc, char** argv) {
  std::vector<std::string_view> arguments(argv + 1, argv + argc);
  std::string_view mode;
  if (!arguments.empty() && arguments.front().find('=') == std::string_view::npos) {
    mode = arguments.front();
    arguments.erase(arguments.begin());
  }
  auto options = gpulens::nvml::ParseDriverArguments(arguments);
  if (!options) _exit(gpulens::nvml::kDriverBadStart);
  if (mode == "--garbage") ::send(options->socket_fd, "garbage", 7, MSG_NOSIGNAL);
  if (mode == "--garbage" || mode == "--silent") {
    while (true) ::pause();
  }
  if (mode == "--simulated") options->lookup = gpulens::nvml::FakeNvmlLookup;
  _exit(gpulens::nvml::RunNvmlDriver(*options));
}
