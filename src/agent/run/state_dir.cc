#include "agent/run/state_dir.h"

#include <unistd.h>

#include <cstdlib>

namespace gpulens {

std::string StateDir(const std::string& configured) {
  if (!configured.empty()) return configured;
  // systemd lists several, colons between, when the unit asks for several.
  if (const char* given = ::getenv("STATE_DIRECTORY"); given && *given) {
    std::string first(given);
    return first.substr(0, first.find(':'));
  }
  if (::geteuid() == 0) return "/var/lib/gpulens";
  if (const char* state = ::getenv("XDG_STATE_HOME"); state && *state == '/')
    return std::string(state) + "/gpulens";
  if (const char* home = ::getenv("HOME"); home && *home == '/')
    return std::string(home) + "/.local/state/gpulens";
  return {};
}

}  // namespace gpulens
