// An AnyValue of OTLP as the value of a label.
#pragma once

#include <string>
#include <string_view>

namespace gpulens::remote_write_out {

// The text of an AnyValue message: a string as it is; "true", "false" and numbers as JSON has them; bytes as
// base64; lists and maps as JSON. A view into `message` or `room`, whose content is replaced. Empty for a
// value that is not set. `message` passed otlp_in::CheckMessage, which bounds how deep values nest. Pure.
std::string_view ValueText(std::string_view message, std::string& room);

}  // namespace gpulens::remote_write_out
