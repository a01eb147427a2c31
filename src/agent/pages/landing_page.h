// The page at "/": what is seen and where to read it, in plain HTML without a script.
#pragma once

#include <string>
#include <string_view>

#include "pipeline/pipeline.h"

namespace gpulens {

// `host`: under which name and port the reader found this machine, as the request says; a scraper finds it
// there, too. Safe from any thread.
std::string MakeLandingPage(const Env& env, const Pipeline& pipeline, std::string_view host);

}  // namespace gpulens
