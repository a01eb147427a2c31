// A terminal for `gpulens top`: ncurses, with built-in descriptions of common terminals for machines without
// a terminfo database. It is restored when this is destroyed, and when the process ends by a signal or an
// exception.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "cli/top/top_screen.h"

namespace gpulens {

// What was typed: a character, or one of these.
enum TopKey : int {
  kTopNoKey = -1,
  kTopUp = 0x110000,
  kTopDown,
  kTopPageUp,
  kTopPageDown,
  kTopHome,
  kTopEnd,
  kTopEnter,
  kTopEscape,
  kTopTab,
  kTopBackspace,
};

// One object at a time, used by one thread.
class TopTerminal {
 public:
  // Whether standard input and output are a terminal that can move its cursor; otherwise why not.
  static Status CanOpen();
  // Turns the screen over. `color`: where the terminal has it. kUnavailable: CanOpen.
  static Result<std::unique_ptr<TopTerminal>> Open(bool color);
  ~TopTerminal();
  TopTerminal(const TopTerminal&) = delete;
  TopTerminal& operator=(const TopTerminal&) = delete;

  size_t columns() const noexcept { return columns_; }
  size_t rows() const noexcept { return rows_; }
  bool utf8() const noexcept { return utf8_; }
  // Writes what changed.
  void Draw(const std::vector<TopLine>& lines);
  // The next key, without waiting.
  int ReadKey();
  // Takes the present size.
  void Resize();
  // Gives the terminal back, stops the process, and takes it again when it goes on.
  void Suspend();
  // Puts text into the clipboard of the terminal, where that allows it (OSC 52). At most 8 KiB.
  void Copy(std::string_view text);

 private:
  TopTerminal() = default;
  void Configure();
  size_t columns_ = 80, rows_ = 24;
  bool utf8_ = false, color_ = false;
};

struct TerminalEntry;
// The built-in description of a terminal; of a name that is not known, that of its family ("xterm-kitty");
// else null. Static storage.
const TerminalEntry* BuiltInTerminal(std::string_view name) noexcept;

}  // namespace gpulens
