// What keys and values of the configuration were called before, so that a file of an older version is refused
// with the new name.
#pragma once

#include <string>
#include <string_view>

namespace gpulens {

// Of a key that is unknown in the group at `path` ("sinks.prometheus"): "now called names". Empty: it has no
// newer name.
std::string RenamedKeyHint(std::string_view path, std::string_view key);
// The same of a value that an option does not take.
std::string RenamedValueHint(std::string_view value);

}  // namespace gpulens
