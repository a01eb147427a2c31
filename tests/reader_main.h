// A reader process as a program of its own, for tests. Its first argument may be --simulated (the simulated
// library instead of a file), --garbage (sends what is no message) or --silent (sends nothing).
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <string_view>
#include <vector>

#include "reader/process/reader_loop.h"

namespace gpulens {

// `run` runs the reader process with the arguments; `simulated`: whether on the simulated library. Does not
// return.
template <class Run>
[[noreturn]] void RunTestReader(int argc, char** argv, const Run& run) {
  std::vector<std::string_view> arguments(argv + 1, argv + argc);
  std::string_view mode;
  if (!arguments.empty() && arguments.front().find('=') == std::string_view::npos) {
    mode = arguments.front();
    arguments.erase(arguments.begin());
  }
  auto accept_all = [](std::string_view, std::string_view) { return true; };
  auto options = reader::ParseReaderArguments(arguments, accept_all);
  if (!options) _exit(reader::kReaderBadStart);
  if (mode == "--garbage") ::send(options->socket_fd, "garbage", 7, MSG_NOSIGNAL);
  if (mode == "--garbage" || mode == "--silent") {
    while (true) ::pause();
  }
  _exit(run(arguments, mode == "--simulated"));
}

}  // namespace gpulens
