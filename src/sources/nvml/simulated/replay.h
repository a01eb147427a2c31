// How a profile of the simulated library comes by its recording.
#pragma once

#include <memory>
#include <string>

#include "sources/nvml/recording/call_text.h"
#include "sources/nvml/recording/recording.h"
#include "sources/nvml/simulated/fake_profile.h"
#include "sources/nvml/simulated/fake_world.h"

namespace gpulens::nvml {

// Whether the text is a recording and not a profile that names one.
bool IsRecording(const std::string& yaml);

// Reads the file; `at_end`: "loop" or "hold". kInvalidArgument names the error.
Status LoadRecording(const std::string& path, const std::string& at_end, FakeProfile& out);

// The simulated library answering from a recording instead of a model: each call as it was answered then, on
// the world's clock, from the moment at which the library was opened. What the recording does not know is
// "not supported". The errors and hangs of the profile come first, as with every other profile.

// A function of the replay; null when the recording's library did not have it, or it is unknown.
void* ReplayLookup(const FakeProfile& profile, std::string_view name);

// One call: its device, and its time in the recording.
class ReplayCall {
 public:
  // For a call that takes no GPU.
  explicit ReplayCall(const char* call);
  ReplayCall(const char* call, Device device);

  // What the call has to answer without being looked up: not open, no such GPU, an error of the profile.
  int code() const noexcept { return code_; }
  // code() when that is an error; kNotSupported when the call was not recorded.
  RecordedAnswer Find(std::string_view question) const;
  // "gpu3", the name in the recording of another GPU.
  std::string PeerName(Device peer) const;

  const FakeProfile& profile() const noexcept { return *profile_; }
  const NvmlRecording& recording() const noexcept { return *profile_->recording; }
  unsigned gpu() const noexcept { return gpu_; }
  double every() const noexcept { return recording().every; }

 private:
  void Enter(const char* call, int gpu);
  void GoOn(std::string_view question, const AnswerTrack& track, RecordedAnswer& answer) const;
  void MakeCopy(std::string_view question, RecordedAnswer& answer) const;

  std::shared_ptr<const FakeProfile> profile_;
  const AnswerTracks* tracks_ = nullptr;
  unsigned gpu_ = 0, copy_ = 0;
  double at_ = 0;        // Seconds in the recording.
  uint64_t rounds_ = 0;  // How often it has been gone through.
  int code_ = 0;
};

int64_t ReplayUnixUs();

// Those of GPULENS_NVML_SPECIAL_CALLS and GPULENS_NVML_PROCESS_CALLS.
std::span<const NamedFunction> ReplaySpecialFunctions() noexcept;

}  // namespace gpulens::nvml
