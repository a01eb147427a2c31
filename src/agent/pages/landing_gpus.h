// The GPUs on the page at "/": one line each, with what people look for first.
#pragma once

#include <string>

#include "core/frame.h"

namespace gpulens {

// An HTML table of the GPUs of a tick, by vendor's source and index; empty when there is none. What is not
// known is "–", what is stale begins with "~". Safe from any thread.
std::string MakeGpuTable(const Snapshot& snapshot);

// Text as HTML shows it.
void AppendHtml(std::string& out, std::string_view text);

}  // namespace gpulens
