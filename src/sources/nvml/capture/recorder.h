// The recorder inside a reader process: stands between the reader and the library, and writes down what each
// call answered, at once and only when it has changed. What the reader never asks is not recorded. The file
// it writes (the spool) stays when the process crashes, hangs or is killed; ReadSpool makes a recording of
// it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "sources/nvml/reader/nvml_library.h"
#include "sources/nvml/recording/recording.h"

namespace gpulens::nvml {

struct RecorderOptions {
  std::string spool;              // A file that is there; is added to.
  std::string library_path;       // Empty: the usual places.
  SymbolLookup lookup = nullptr;  // Instead of a file: the simulated library.
  const Clock* clock = nullptr;   // Outlives the process; null: the machine's.
  std::vector<unsigned> gpus;     // The machine then seems to have these alone. Empty: all.
};

// Before RecorderLookup is used, once per process; again only when nobody is inside. kUnavailable when the
// spool cannot be written.
Status StartRecorder(RecorderOptions options);
// A SymbolLookup over the recorded library, which is opened when the first symbol is asked for; null for all
// when it cannot be opened: the spool says why.
void* RecorderLookup(const char* name);

// What a spool tells.
struct Spool {
  Recording recording;        // Identity kept; without what a person is told (made_by, …).
  std::string library_error;  // Why the library could not be opened.
  bool full = false;          // There was more than the spool may hold.
  size_t bad_lines = 0;       // A process that was killed in the middle of one leaves one.
};
// Any bytes: bad lines are counted, and more GPUs or questions than a recording may have are left out.
Spool ReadSpool(std::string_view text);

inline constexpr size_t kMaxSpoolBytes = 64 << 20;

}  // namespace gpulens::nvml
