#include "sources/nvml/simulated/replay_profile.h"

#include <string_view>
#include <utility>

#include "base/files.h"
#include "sources/nvml/recording/recording.h"

namespace gpulens::nvml {

bool IsRecording(const std::string& yaml) {
  constexpr std::string_view kKey = "gpulens_recording:";
  return yaml.starts_with(kKey) || yaml.find("\n" + std::string(kKey)) != yaml.npos;
}

Status LoadRecording(const std::string& path, const std::string& at_end, FakeProfile& out) {
  if (at_end != "loop" && at_end != "hold") return {Code::kInvalidArgument, "at_end must be loop or hold"};
  Result<std::string> text = ReadFile(path, kMaxRecordingBytes);
  if (!text) return {Code::kInvalidArgument, text.error().detail};
  Result<Recording> recording = ReadRecording(*text);
  if (!recording) return {Code::kInvalidArgument, path + ": " + recording.error().detail};
  out.recording = std::make_shared<const Recording>(*std::move(recording));
  out.recording_holds = at_end == "hold";
  return Status{};
}

}  // namespace gpulens::nvml
