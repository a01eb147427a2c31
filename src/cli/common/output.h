// Output of commands: numbers, columns, tables, wrapped lines, notes, CSV and failures.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "base/text.h"

namespace gpulens {

inline constexpr const char* kNoValue = "–";  // an unknown value

// Returns the number of UTF-8 characters, each a column of a terminal.
size_t WidthOf(std::string_view text) noexcept;
// Returns the first `count` characters of `text`.
std::string_view FirstCharacters(std::string_view text, size_t count) noexcept;
// Cuts `text` to `width` characters; a cut text ends with "…".
std::string Shortened(std::string_view text, size_t width);
// `text` followed by blanks up to `width` columns, at least `gap` of them.
std::string Padded(std::string_view text, size_t width, size_t gap = 2);
// `text` preceded by blanks up to `width` columns, at least `gap` of them.
std::string RightAligned(std::string_view text, size_t width, size_t gap = 0);
// 1,204
std::string CountText(int64_t count);
// "1 run", "2 runs".
std::string Plural(size_t count, std::string_view one, std::string_view many);
// A number in a format of printf, at most 63 bytes.
std::string Printed(const char* format, double value);
// Texts, or anything that converts to std::string_view, with `between` in between.
template <class Texts>
std::string Joined(const Texts& texts, std::string_view between) {
  std::string out;
  for (std::string_view text : texts) out.append(out.empty() ? "" : between).append(text);
  return out;
}

// A table whose columns are as wide as their widest cell.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> head) : right_(head.size(), false) { Add(std::move(head)); }
  void AlignRight(size_t column) { right_[column] = true; }
  // Escapes unprintable bytes. A row has as many cells as the head.
  void Add(std::vector<std::string> cells);
  // Leaves out the rightmost columns that do not fit into `width`, except the first; 0: any width.
  std::string Text(size_t width = 0) const;
  // Returns how many columns Text leaves out.
  size_t LeftOut(size_t width) const;

 private:
  std::vector<size_t> Widths() const;
  static size_t Fitting(const std::vector<size_t>& widths, size_t width) noexcept;

  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;
};

// Escapes control characters of `text` line by line.
std::string TerminalLines(std::string_view text);
// Writes to the standard output, to a terminal as TerminalLines. False when it cannot be written.
bool WriteOut(std::string_view text);
// Appends words and a newline, broken at `width`; the first line begins at column `at`, further ones at
// `indent`.
void AppendWrapped(std::string& out, std::string_view text, size_t at, size_t indent, size_t width);
// Breaks `text` between words into lines of at most `width` columns. The rest of a line is indented like its
// last column, which begins after two blanks, or two columns deeper than its beginning. Longer words stay
// whole.
std::string WrappedLines(std::string_view text, size_t width);
// Writes text for people to the standard output, to a terminal as WrappedLines. False when it cannot be
// written.
bool WriteText(std::string_view text);
// Writes a line to the standard error with control characters escaped, to a terminal as WrappedLines.
void WriteNote(std::string_view line);

// Appends a CSV field, quoted if necessary or `always`; formulas of spreadsheets are marked as text.
void AppendCsvField(std::string& out, std::string_view text, bool always = false);

// Returns $COLUMNS, else the terminal's width, else 80.
int TerminalColumns(int fd) noexcept;
// Whether the locale is one of UTF-8: LC_ALL, else LC_CTYPE, else LANG.
bool LocaleIsUtf8() noexcept;

// Writes all of `bytes`; waits for a non-blocking `fd`. False with errno when it cannot be written.
bool WriteAll(int fd, std::string_view bytes);
// Writes `text` unchanged to the standard output. Returns 0, or 1 when it cannot be written.
int PrintText(std::string_view text);
// Writes "gpulens <command>: <text>" as WriteNote does and returns `code`.
int FailCommand(std::string_view command, std::string_view text, int code);
// Does the same; returns 2 for kInvalidArgument, else 1.
int FailCommand(std::string_view command, const Status& status);
// Returns the exit code of a command, or reports its failure.
int ExitCode(std::string_view command, const Result<int>& code);
// Writes the question and reads the answer; false when it is not yes.
bool IsConfirmed(std::string_view question);
// " Did you mean X?" for the candidate that is nearest to `word`; empty when none is near.
std::string DidYouMean(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace gpulens
