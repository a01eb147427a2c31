// What is known of the terminal that a descriptor is.
#pragma once

namespace gpulens {

// $COLUMNS when it is set, else what the terminal says, else 80.
int TerminalColumns(int fd) noexcept;
// Whether the locale is one of UTF-8: LC_ALL, else LC_CTYPE, else LANG.
bool LocaleIsUtf8() noexcept;

}  // namespace gpulens
