// `gpulens sim record`: writes down what the GPUs of this machine answer, for replay by the simulated
// library.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace gpulens {

struct CaptureOptions {
  std::string source = "nvml";
  std::string length = "60s", every = "1s";
  std::string file;  // "-": standard output. Empty: a name with the time, here.
  std::string library;
  std::vector<unsigned> gpus;  // Empty: all.
  bool keep_identity = false;
  bool quiet = false;
};

// Adds the command under that name; when it runs, `code` becomes what RunCapture returns. `options` outlives
// the app.
CLI::App* AddCapture(CLI::App& app, const char* name, CaptureOptions& options, int& code);

// 0 written, 1 nothing or only a part could be recorded, 2 wrong use, 130 ended by Ctrl-C and written.
int RunCapture(const CaptureOptions& options);

}  // namespace gpulens
