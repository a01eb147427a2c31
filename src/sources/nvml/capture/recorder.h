// Records, inside a reader process, the answers of the library: writes each answer when it has changed. Calls
// that the reader does not make are not recorded. The file it writes (the spool) stays when the process
// crashes, hangs or is killed; ReadSpool makes a recording of it.
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
  std::string spool;              // An existing file, which is appended to.
  std::string library_path;       // Empty: the usual places.
  SymbolLookup lookup = nullptr;  // Instead of a file: the simulated library.
  const Clock* clock = nullptr;   // Outlives the process; null: the machine's.
  std::vector<unsigned> gpus;     // Other GPUs are hidden; empty: none is.
};

// Called once per process before RecorderLookup is used; again only while no call is in progress.
// kUnavailable when the spool cannot be written.
Status StartRecorder(RecorderOptions options);
// A SymbolLookup over the recorded library, which is opened at the first look-up; null for all when it
// cannot be opened: the spool has the reason.
void* RecorderLookup(const char* name);

// The contents of a spool.
struct CaptureSpool {
  NvmlRecording recording;    // Identity kept; without made_by and the like.
  std::string library_error;  // Why the library could not be opened.
  bool full = false;          // There was more than the spool may hold.
  size_t bad_lines = 0;       // A process that was killed in the middle of one leaves one.
};
// Accepts any bytes: bad lines are counted; GPUs and questions above a recording's limits are left out.
CaptureSpool ReadSpool(std::string_view text);

inline constexpr size_t kMaxSpoolBytes = 64 << 20;

}  // namespace gpulens::nvml
