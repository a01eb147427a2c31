// How a profile of the simulated library comes by its recording.
#pragma once

#include <string>

#include "sources/nvml/simulated/fake_profile.h"

namespace gpulens::nvml {

// Whether the text is a recording and not a profile that names one.
bool IsRecording(const std::string& yaml);

// Reads the file; `at_end`: "loop" or "hold". kInvalidArgument says what is wrong with it.
Status LoadRecording(const std::string& path, const std::string& at_end, FakeProfile& out);

}  // namespace gpulens::nvml
