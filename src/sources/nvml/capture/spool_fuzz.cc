// Any bytes as a spool: the recording made of it can be written and read.
#include <cstdlib>
#include <string>

#include "sources/nvml/capture/recorder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gpulens::nvml;
  CaptureSpool spool = ReadSpool({reinterpret_cast<const char*>(data), size});
  NvmlRecording& recording = spool.recording;
  if (recording.gpus.empty()) return 0;
  recording.seconds = 1;
  HideIdentity(recording);
  auto again = ReadRecording(WriteRecording(recording, 0.25));
  // A moment may lie further away than a recording is long.
  if (!again && again.error().detail.find("time in seconds") == std::string::npos) std::abort();
  return 0;
}
