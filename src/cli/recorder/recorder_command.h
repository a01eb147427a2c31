// `gpulens flight-recorder`: what dumps of PyTorch's flight recorder show. AddFlightRecorder of
// cli/help/help.h adds the command.
#pragma once

#include <span>
#include <string>

#include "sources/torch_recorder/recorder_dump.h"

namespace gpulens {

// For people: the first collective that not all ranks matched, who did not, who waits, in a few lines.
std::string RecorderText(const torch_recorder::RecorderFinding& finding,
                         std::span<const torch_recorder::RecorderDump> dumps);
std::string RecorderJson(const torch_recorder::RecorderFinding& finding,
                         std::span<const torch_recorder::RecorderDump> dumps);
// "0-3, 7, 9-11"; at most 20 ranges, then "…".
std::string RanksText(std::span<const int> sorted_ranks);

}  // namespace gpulens
