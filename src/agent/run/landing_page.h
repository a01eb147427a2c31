// The page at "/": what is seen and where to read it, in plain HTML without a script.
#pragma once

#include <string>

#include "pipeline/pipeline.h"

namespace gpulens {

std::string MakeLandingPage(const Env& env, const Pipeline& pipeline);

}  // namespace gpulens
