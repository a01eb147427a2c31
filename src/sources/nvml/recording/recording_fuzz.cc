// Whatever is called a recording is refused with a line, or can be written and read again as the same.
#include <cstdlib>
#include <string>

#include "sources/nvml/recording/recording.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gpulens::nvml;
  auto recording = ReadRecording(std::string(reinterpret_cast<const char*>(data), size));
  if (!recording) {
    if (recording.error().detail.empty()) std::abort();
    return 0;
  }
  for (const RecordedGpu& gpu : recording->gpus) {
    for (const auto& [question, track] : gpu.calls) static_cast<void>(track.At(recording->seconds / 2));
  }
  HideIdentity(*recording);
  std::string text = WriteRecording(*recording, 0);
  auto again = ReadRecording(text);
  if (!again || again->gpus.size() != recording->gpus.size()) std::abort();
  if (WriteRecording(*again, 0) != text) std::abort();
  return 0;
}
