// The page at "/": what is seen and where to read it, in plain HTML without a script.
#pragma once

#include <string>
#include <string_view>

#include "core/frame.h"
#include "pipeline/pipeline.h"

namespace gpulens {

// An HTML table of the GPUs of a tick, by vendor's source and index; empty when there is none. What is not
// known is "–", what is stale begins with "~". Safe from any thread.
std::string MakeGpuTable(const Snapshot& snapshot);

// Text as HTML shows it.
void AppendHtml(std::string& out, std::string_view text);

// `host`: under which name and port the reader found this machine, as the request says; a scraper finds it
// there, too. Safe from any thread.
std::string MakeLandingPage(const Env& env, const Pipeline& pipeline, std::string_view host);

}  // namespace gpulens
