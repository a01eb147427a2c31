// Identifies the build. Static storage.
#pragma once

#include <string_view>

namespace gpulens {

std::string_view Version() noexcept;    // "0.1.0"
std::string_view Revision() noexcept;   // "a1b2c3d", or "unknown" outside a repository
std::string_view Compiler() noexcept;   // "gcc 12.2.0"
std::string_view BuildType() noexcept;  // "release", "dev", "asan" …

}  // namespace gpulens
