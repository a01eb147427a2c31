#include "cli/table/terminal.h"

#include <sys/ioctl.h>

#include <cstdlib>
#include <string_view>

#include "base/parse.h"

namespace gpulens {

int TerminalColumns(int fd) noexcept {
  if (const char* told = std::getenv("COLUMNS")) {
    if (auto columns = ParseInt<int>(told); columns && *columns > 0) return *columns;
  }
  winsize size{};
  return ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

bool LocaleIsUtf8() noexcept {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (!value || !*value) continue;
    const std::string_view locale(value);
    for (std::string_view ending : {"UTF-8", "utf-8", "UTF8", "utf8"}) {
      if (locale.find(ending) != std::string_view::npos) return true;
    }
    return false;
  }
  return false;
}

}  // namespace gpulens
