// Rows as text for a terminal, and cells as CSV. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpulens {

inline constexpr const char* kNoValue = "–";  // not known

// Characters of UTF-8, each a column of a terminal.
size_t WidthOf(std::string_view text) noexcept;
// At most so many characters, the last one "…" where something was cut.
std::string Shortened(std::string_view text, size_t width);
// 1,204
std::string CountText(int64_t count);

// Cells in columns as wide as the widest cell.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> head) : right_(head.size(), false) { Add(std::move(head)); }
  void AlignRight(size_t column) { right_[column] = true; }
  // Bytes that are not to be printed are escaped. As many cells as the head has.
  void Add(std::vector<std::string> cells);
  // Columns that do not fit into `width` are left out from the right, but for the first; 0: any width.
  std::string Text(size_t width = 0) const;
  // How many columns Text leaves out.
  size_t LeftOut(size_t width) const;

 private:
  std::vector<size_t> Widths() const;
  static size_t Fitting(const std::vector<size_t>& widths, size_t width) noexcept;

  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;
};

// `text` line by line without what steers a terminal: for text of people that is shown as it is.
std::string TerminalLines(std::string_view text);
// Writes to the standard output, to a terminal as TerminalLines. False when it cannot be written.
bool WriteOut(std::string_view text);
// Appends words and a newline, broken at `width`; the first line begins at column `at`, further ones at
// `indent`.
void AppendWrapped(std::string& out, std::string_view text, size_t at, size_t indent, size_t width);
// `text` in lines of at most `width` columns, broken between words. The rest of a line is indented like its
// last column, which begins after two blanks, or two columns deeper than its beginning. A longer word stays
// whole.
std::string WrappedLines(std::string_view text, size_t width);
// Writes text for people to the standard output: as WriteOut, to a terminal as WrappedLines.
bool WriteText(std::string_view text);
// Writes a line to the standard error, without what steers a terminal; to a terminal as WrappedLines.
void WriteNote(std::string_view line);

// Quotes where CSV needs it, and marks as text what a spreadsheet would compute.
void AppendCsvField(std::string& out, std::string_view text);

// $COLUMNS when set, else the terminal's width, else 80.
int TerminalColumns(int fd) noexcept;
// Whether the locale is one of UTF-8: LC_ALL, else LC_CTYPE, else LANG.
bool LocaleIsUtf8() noexcept;

}  // namespace gpulens
