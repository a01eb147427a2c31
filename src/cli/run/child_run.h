// A program that runs as our child with its output passed through: what it prints is seen as it comes,
// unchanged, and signals that are meant for it reach it.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

namespace gpulens {

struct ChildRun {
  std::string program;                 // a path
  std::vector<std::string> arguments;  // without argv[0]
  // Bytes of its standard output (1) or error output (2), after they were passed on.
  std::function<void(int stream, std::string_view bytes)> on_output;
};

// Blocks, for this thread and those that it starts from now on, the signals that RunChild hands on. To be
// called before any thread is started.
void BlockHandedSignals();
// Returns its wait status when it has ended and its output was read. A reader of ours that goes away takes
// the child's stream along, as it would without us.
Result<int> RunChild(const ChildRun& run);

}  // namespace gpulens
