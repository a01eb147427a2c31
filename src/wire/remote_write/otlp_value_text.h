// Attributes of OTLP, and an AnyValue as the value of a label.
#pragma once

#include <string>
#include <string_view>

#include "wire/otlp/otlp_message.h"

namespace gpulens::remote_write_out {

// Whether a message can be used; `readable` is false when it is no message at all.
bool IsGood(otlp_in::MessageShape shape, std::string_view message, bool& readable) noexcept;

// The parts of a KeyValue; `value` is an AnyValue. False: it has no key.
bool ReadKeyValue(std::string_view message, std::string_view& key, std::string_view& value) noexcept;

// The text of an AnyValue message: a string as it is; "true", "false" and numbers as JSON has them; bytes as
// base64; lists and maps as JSON. A view into `message` or `room`, whose content is replaced. Empty for a
// value that is not set. `message` passed otlp_in::CheckMessage, which bounds how deep values nest. Pure.
std::string_view ValueText(std::string_view message, std::string& room);

}  // namespace gpulens::remote_write_out
