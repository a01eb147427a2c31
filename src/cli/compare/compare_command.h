// `gpulens doctor --compare`: every field of a vendor's own tool beside what gpulens reads of the same
// machine.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace gpulens {

struct CompareOptions {
  bool compare = false;
  std::string tool;                // a name or path; empty: the first of the known tools that is here
  std::vector<std::string> files;  // its output instead of a run; of amd-smi two
  std::string config_file;
  bool json = false;
  bool demo = false;

  // A file to compare with implies it.
  bool IsRequested() const noexcept { return compare || !files.empty(); }
};

// Adds the options to those of `doctor`; --config and --json are the command's own.
void AddCompare(CLI::App& doctor, CompareOptions& options);

// 0 every difference has a reason, 1 one has none, 2 wrong use, or nothing can be compared: no tool, output
// that is not what it prints, no GPU that gpulens reads.
int RunCompare(const CompareOptions& options);

}  // namespace gpulens
