#include "base/version.h"

#ifndef GPULENS_REVISION
#define GPULENS_REVISION "unknown"
#endif

namespace gpulens {

std::string_view Version() noexcept { return GPULENS_VERSION; }
std::string_view Revision() noexcept { return GPULENS_REVISION; }
std::string_view Compiler() noexcept {
#ifdef __clang__
  return "clang " __clang_version__;
#else
  return "gcc " __VERSION__;
#endif
}
std::string_view BuildType() noexcept { return GPULENS_BUILD; }

}  // namespace gpulens
