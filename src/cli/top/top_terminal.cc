#include "cli/top/top_terminal.h"

#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <clocale>
#include <cstddef>
#include <cstdlib>
#include <utility>

#include "base/text.h"
#include "cli/common/output.h"
#include "cli/top/terminal_entries.h"

// Its macros have names of ours.
#define NCURSES_NOMACROS
#include <ncursesw/curses.h>
#include <ncursesw/term.h>
#undef columns
#undef lines

namespace gpulens {
namespace {

// For handlers of signals, which may neither allocate nor call ncurses.
struct Restore {
  termios modes{};
  std::array<char, 256> bytes{};
  size_t size = 0;
  volatile sig_atomic_t active = 0;
};
Restore restore;

void RestoreNow() noexcept {
  if (!restore.active) return;
  restore.active = 0;
  static_cast<void>(!::write(STDOUT_FILENO, restore.bytes.data(), restore.size));
  ::tcsetattr(STDOUT_FILENO, TCSANOW, &restore.modes);
}

constexpr int kFatal[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};

void OnFatal(int signal) {
  RestoreNow();
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

// Of the terminal's description; empty: it has none.
std::string_view Capability(const char* name) {
  const char* text = ::tigetstr(name);
  return text && text != reinterpret_cast<const char*>(-1) ? std::string_view(text) : std::string_view();
}

void KeepRestore() {
  ::tcgetattr(STDOUT_FILENO, &restore.modes);
  restore.size = 0;
  for (const char* name : {"sgr0", "cnorm", "rmkx", "rmcup"}) {
    const std::string_view text = Capability(name);
    if (restore.size + text.size() > restore.bytes.size()) break;
    std::ranges::copy(text, restore.bytes.begin() + static_cast<std::ptrdiff_t>(restore.size));
    restore.size += text.size();
  }
}

// Makes the terminal's description available. Empty: it is; otherwise why not.
std::string FindDescription() {
  const char* term = std::getenv("TERM");
  const std::string name = term ? term : "";
  if (name.empty()) return "TERM is not set";
  int found = 0;
  if (::setupterm(name.c_str(), STDOUT_FILENO, &found) != OK) {
    const TerminalEntry* entry = BuiltInTerminal(name);
    if (!entry) return "the terminal \"" + Printable(name) + "\" is not known; try TERM=xterm";
    // ncurses takes a description for the name that is in it.
    ::setenv("TERMINFO", entry->description, 1);
    ::setenv("TERM", std::string(entry->name).c_str(), 1);
    if (::setupterm(nullptr, STDOUT_FILENO, &found) != OK)
      return "the built-in description of \"" + Printable(name) + "\" cannot be read";
  }
  const bool moves = !Capability("cup").empty() && !Capability("clear").empty();
  ::del_curterm(cur_term);
  return moves ? "" : "the terminal \"" + Printable(name) + "\" cannot move its cursor";
}

// Whether names of this locale are UTF-8; sets it. Machines without any locale have C.UTF-8 in the library.
bool SetLocale() {
  if (!LocaleIsUtf8()) return false;
  if (std::setlocale(LC_CTYPE, "") && MB_CUR_MAX > 1) return true;
  return std::setlocale(LC_CTYPE, "C.UTF-8") != nullptr;
}

constexpr short kColors[] = {COLOR_GREEN, COLOR_YELLOW, COLOR_RED, COLOR_CYAN};

}  // namespace

const TerminalEntry* BuiltInTerminal(std::string_view name) noexcept {
  for (const TerminalEntry& entry : kTerminalEntries) {
    if (entry.name == name) return &entry;
  }
  // "xterm-kitty", "screen.xterm-256color", "tmux-direct": as the family is.
  const std::string_view family = name.substr(0, name.find_first_of("-."));
  for (const TerminalEntry& entry : kTerminalEntries) {
    if (entry.name == family) return &entry;
  }
  for (std::string_view like :
       {"alacritty", "foot", "ghostty", "kitty", "konsole", "rxvt", "st", "vte", "wezterm"}) {
    if (family == like) return BuiltInTerminal("xterm");
  }
  return nullptr;
}

Status TopTerminal::CanOpen() {
  if (::isatty(STDIN_FILENO) == 0) return {Code::kUnavailable, "standard input is not a terminal"};
  if (::isatty(STDOUT_FILENO) == 0) return {Code::kUnavailable, "standard output is not a terminal"};
  if (const std::string why = FindDescription(); !why.empty()) return {Code::kUnavailable, why};
  return Ok();
}

Result<std::unique_ptr<TopTerminal>> TopTerminal::Open(bool color) {
  if (Status status = CanOpen(); !status) return status;
  auto terminal = std::unique_ptr<TopTerminal>(new TopTerminal);
  terminal->utf8_ = SetLocale();
  termios before{};
  ::tcgetattr(STDOUT_FILENO, &before);
  // A single Escape is known after this time, in ms.
  ::set_escdelay(25);
  if (!::newterm(nullptr, stdout, stdin)) return Status{Code::kUnavailable, "the terminal cannot be opened"};
  KeepRestore();
  restore.modes = before;
  restore.active = 1;
  for (int signal : kFatal) ::signal(signal, &OnFatal);
  terminal->color_ = color && ::has_colors();
  if (terminal->color_) {
    ::start_color();
    ::use_default_colors();
    for (size_t i = 0; i < std::size(kColors); ++i) ::init_pair(static_cast<short>(i + 1), kColors[i], -1);
  }
  terminal->Configure();
  terminal->Resize();
  return terminal;
}

TopTerminal::~TopTerminal() {
  ::endwin();
  restore.active = 0;
  for (int signal : kFatal) ::signal(signal, SIG_DFL);
}

void TopTerminal::Configure() {
  ::cbreak();
  ::noecho();
  ::nonl();
  ::keypad(stdscr, TRUE);
  ::nodelay(stdscr, TRUE);
  ::curs_set(0);
}

void TopTerminal::Resize() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0)
    ::resizeterm(size.ws_row, size.ws_col);
  columns_ = static_cast<size_t>(std::max(1, getmaxx(stdscr)));
  rows_ = static_cast<size_t>(std::max(1, getmaxy(stdscr)));
}

void TopTerminal::Draw(const std::vector<TopLine>& lines) {
  ::werase(stdscr);
  for (size_t row = 0; row < std::min(lines.size(), rows_); ++row) {
    ::wmove(stdscr, static_cast<int>(row), 0);
    for (const TopRun& run : lines[row]) {
      attr_t attributes = A_NORMAL;
      short pair = 0;
      switch (run.style) {
        case TopStyle::kPlain: break;
        case TopStyle::kStrong: attributes = A_BOLD; break;
        case TopStyle::kDim: attributes = A_DIM; break;
        case TopStyle::kGood: pair = 1; break;
        case TopStyle::kLook: pair = 2; break;
        case TopStyle::kAct: pair = 3; break;
        case TopStyle::kTyped: pair = 4; break;
      }
      // Without colour what needs a look is bold.
      if (!color_ && (pair == 2 || pair == 3)) attributes = A_BOLD;
      if (!color_) pair = 0;
      ::wattr_set(stdscr, attributes, pair, nullptr);
      ::waddnstr(stdscr, run.text.data(), static_cast<int>(run.text.size()));
    }
  }
  ::wattr_set(stdscr, A_NORMAL, 0, nullptr);
  ::wnoutrefresh(stdscr);
  ::doupdate();
}

int TopTerminal::ReadKey() {
  const int key = ::wgetch(stdscr);
  switch (key) {
    case ERR: return kTopNoKey;
    case KEY_UP: return kTopUp;
    case KEY_DOWN: return kTopDown;
    case KEY_PPAGE: return kTopPageUp;
    case KEY_NPAGE: return kTopPageDown;
    case KEY_HOME: return kTopHome;
    case KEY_END: return kTopEnd;
    case KEY_ENTER:
    case '\r':
    case '\n': return kTopEnter;
    case 27: return kTopEscape;
    case '\t': return kTopTab;
    case KEY_BACKSPACE:
    case 127:
    case '\b': return kTopBackspace;
    default: return key;
  }
}

void TopTerminal::Suspend() {
  ::endwin();
  restore.active = 0;
  ::raise(SIGSTOP);
  restore.active = 1;
  Configure();
  ::clearok(curscr, TRUE);
  Resize();
}

void TopTerminal::Copy(std::string_view text) {
  std::string sequence = "\033]52;c;";
  AppendBase64(sequence, text.substr(0, 8 << 10));
  sequence += "\a";
  WriteAll(STDOUT_FILENO, sequence);
}

}  // namespace gpulens
