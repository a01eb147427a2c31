#include "cli/common/output.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "base/parse.h"

namespace gpulens {

int TerminalColumns(int fd) noexcept {
  if (const char* text = std::getenv("COLUMNS")) {
    if (auto columns = ParseInt<int>(text); columns && *columns > 0) return *columns;
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

constexpr size_t kBetween = 2;  // blanks between columns

size_t WidthOf(std::string_view text) noexcept {
  return static_cast<size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; }));
}

std::string_view FirstCharacters(std::string_view text, size_t count) noexcept {
  size_t bytes = 0;
  for (size_t seen = 0; seen < count && bytes < text.size(); ++seen)
    bytes += std::max<size_t>(1, Utf8Length(text.substr(bytes)));
  return text.substr(0, bytes);
}

std::string Shortened(std::string_view text, size_t width) {
  if (WidthOf(text) <= width) return std::string(text);
  return std::string(FirstCharacters(text, std::max<size_t>(width, 1) - 1)) + "…";
}

std::string Padded(std::string_view text, size_t width, size_t gap) {
  const size_t used = WidthOf(text);
  return std::string(text).append(std::max(width, used + gap) - used, ' ');
}

std::string RightAligned(std::string_view text, size_t width, size_t gap) {
  const size_t used = WidthOf(text);
  return std::string(std::max(width, used + gap) - used, ' ').append(text);
}

std::string Plural(size_t count, std::string_view one, std::string_view many) {
  return std::to_string(count).append(" ").append(count == 1 ? one : many);
}

std::string Printed(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string CountText(int64_t count) {
  std::string digits = std::to_string(count);
  for (size_t at = digits.size(); at > (count < 0 ? 4u : 3u); at -= 3) digits.insert(at - 3, ",");
  return digits;
}

void TextTable::Add(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = Printable(cell);
  rows_.push_back(std::move(cells));
}

std::vector<size_t> TextTable::Widths() const {
  std::vector<size_t> widths(right_.size());
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], WidthOf(row[i]));
  }
  return widths;
}

size_t TextTable::Fitting(const std::vector<size_t>& widths, size_t width) noexcept {
  size_t columns = 0;
  for (size_t used = 0; columns < widths.size(); ++columns) {
    used += widths[columns] + (columns > 0 ? kBetween : 0);
    if (width > 0 && used > width && columns > 0) break;
  }
  return columns;
}

size_t TextTable::LeftOut(size_t width) const { return right_.size() - Fitting(Widths(), width); }

std::string TextTable::Text(size_t width) const {
  const std::vector<size_t> widths = Widths();
  const size_t columns = Fitting(widths, width);
  std::string out;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t i = 0; i < std::min(columns, row.size()); ++i) {
      if (i > 0) line.append(kBetween, ' ');
      line += right_[i] ? RightAligned(row[i], widths[i]) : Padded(row[i], widths[i], 0);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

namespace {

// The column at which the rest of a wrapped line begins.
size_t HangOf(std::string_view line, size_t width) {
  const size_t begin = std::min(line.find_first_not_of(' '), line.size());
  size_t hang = begin + 2, column = WidthOf(line.substr(0, begin));
  for (size_t at = begin; at < line.size() && column <= width / 2; ++at) {
    const bool starts = line[at] != ' ' && at >= begin + 2 && line[at - 1] == ' ' && line[at - 2] == ' ';
    if (starts) hang = column;
    // Continuation bytes of a character take no column.
    column += (static_cast<unsigned char>(line[at]) & 0xC0) != 0x80;
  }
  return hang;
}

void AppendWrappedLine(std::string& out, std::string_view line, size_t width) {
  const size_t hang = HangOf(line, width);
  std::string indent;
  while (indent.size() + WidthOf(line) > width) {
    // The last blank at which the line fits, or else the first one.
    size_t cut = line.npos;
    for (size_t at = line.find(' ', line.find_first_not_of(' ')); at != line.npos;
         at = line.find(' ', at + 1)) {
      if (indent.size() + WidthOf(line.substr(0, at)) > width && cut != line.npos) break;
      // Not within the gap between two columns.
      if (line[at - 1] != ' ') cut = at;
    }
    if (cut == line.npos) break;
    out.append(indent).append(line.substr(0, cut)) += '\n';
    line.remove_prefix(cut);
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    indent.assign(hang, ' ');
  }
  out.append(indent).append(line);
}

// Returns `text` with `append(out, line)` applied to each line.
template <class Append>
std::string ByLine(std::string_view text, Append append) {
  std::string out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    append(out, text.substr(0, end));
    if (end < text.size()) out += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

}  // namespace

void AppendWrapped(std::string& out, std::string_view text, size_t at, size_t indent, size_t width) {
  bool first = true;
  while (!text.empty()) {
    const std::string_view word = TakeUntil(text, ' ');
    if (word.empty()) continue;
    const size_t columns = WidthOf(word);
    if (!first && at + 1 + columns > width) {
      out += '\n';
      out.append(indent, ' ');
      at = indent;
    } else if (!first) {
      out += ' ';
      ++at;
    }
    out += word;
    at += columns;
    first = false;
  }
  out += '\n';
}

std::string TerminalLines(std::string_view text) { return ByLine(text, AppendPrintable); }

bool WriteOut(std::string_view text) {
  const std::string lines = ::isatty(STDOUT_FILENO) == 1 ? TerminalLines(text) : std::string();
  if (!lines.empty()) text = lines;
  return PrintText(text) == 0;
}

std::string WrappedLines(std::string_view text, size_t width) {
  return ByLine(text, [&](std::string& out, std::string_view line) { AppendWrappedLine(out, line, width); });
}

bool WriteText(std::string_view text) {
  if (::isatty(STDOUT_FILENO) != 1) return WriteOut(text);
  return WriteOut(WrappedLines(text, static_cast<size_t>(TerminalColumns(STDOUT_FILENO))));
}

void WriteNote(std::string_view line) {
  std::string safe = Printable(line);
  if (::isatty(STDERR_FILENO) == 1)
    safe = WrappedLines(safe, static_cast<size_t>(TerminalColumns(STDERR_FILENO)));
  ::dprintf(STDERR_FILENO, "%s\n", safe.c_str());
}

void AppendCsvField(std::string& out, std::string_view text, bool always) {
  // A formula is quoted as text.
  const bool formula =
      !text.empty() && std::string_view("=+-@\t\r").find(text.front()) != std::string_view::npos;
  if (!always && !formula && text.find_first_of(",\"\r\n") == std::string_view::npos) {
    out += text;
    return;
  }
  out += formula ? "\"'" : "\"";
  for (char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  out += '"';
}

int FailCommand(std::string_view command, std::string_view text, int code) {
  WriteNote("gpulens " + std::string(command) + ": " + std::string(text));
  return code;
}

int FailCommand(std::string_view command, const Status& status) {
  return FailCommand(command, status.detail, status.code == Code::kInvalidArgument ? 2 : 1);
}

bool WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written > 0) {
      bytes.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EAGAIN) {  // a non-blocking terminal
      pollfd room{fd, POLLOUT, 0};
      ::poll(&room, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

int PrintText(std::string_view text) {
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0 ? 0 : 1;
}

int ExitCode(std::string_view command, const Result<int>& code) {
  return code ? *code : FailCommand(command, code.error());
}

bool IsConfirmed(std::string_view question) {
  ::dprintf(STDERR_FILENO, "%s", Printable(question).c_str());
  char answer[8] = {};
  const ssize_t got = ::read(STDIN_FILENO, answer, sizeof answer - 1);
  return got > 0 && (answer[0] == 'y' || answer[0] == 'Y');
}

std::string DidYouMean(std::string_view word, std::span<const std::string_view> candidates) {
  const std::string_view nearest = NearestWord(word, candidates);
  return nearest.empty() ? "" : " Did you mean " + std::string(nearest) + "?";
}

}  // namespace gpulens
