// Problems of a configuration: the place, the source line with carets, and a hint.
//
//   gpulens.yaml:1:11: interval: expected a duration, got the text "fast"
//     1 | interval: fast
//       |           ^~~~  a number and a unit: 500ms 1s 5m 2h
//
// Independent of options. Plain values: safe to copy between threads, not to share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/yaml/yaml.h"

namespace gpulens {

inline constexpr size_t kConfigKeyBytes = 256;

// A place of a message: in a file, or in a variable or flag, which have no line. Lines and
// columns count from 1, columns and lengths in characters, not bytes.
struct SourcePlace {
  std::string file;  // "gpulens.yaml", "environment", "command line"
  int line = 0, column = 0, length = 1;
  std::string excerpt;  // the source line, printable; empty: nothing is quoted
  int caret = 0;        // characters of `excerpt` before the first caret
};

struct Diagnostic : SourcePlace {
  std::string message;
  std::string hint;
};

// The text of one file, split into lines for quoting. Owns the text; cannot be moved.
class SourceText {
 public:
  SourceText(std::string name, std::string text);
  SourceText(const SourceText&) = delete;
  SourceText& operator=(const SourceText&) = delete;

  const std::string& name() const noexcept { return name_; }
  std::string_view text() const noexcept { return text_; }
  // The line without its line end; empty for an absent one.
  std::string_view Line(int line) const noexcept;
  int lines() const noexcept { return static_cast<int>(lines_.size()); }
  // The place without its excerpt, which Quote adds once all secrets are hidden.
  SourcePlace SpotOf(const YamlMark& mark) const;
  // Quotes show this text as stars.
  void Hide(const YamlMark& mark) { hidden_.push_back(SpanOf(mark)); }
  // Sets the excerpt. A line that is too long for a terminal is cut around the place.
  void Quote(SourcePlace& spot) const;

 private:
  struct Span {
    int line, column, length;
  };
  Span SpanOf(const YamlMark& mark) const noexcept;
  size_t CharactersBefore(size_t byte) const noexcept;
  bool IsHidden(int line, int column) const noexcept;

  std::string name_, text_;
  std::vector<std::string_view> lines_;
  std::vector<uint32_t> checkpoints_;  // characters before each kStride-th byte
  std::vector<Span> hidden_;
};

// Collects problems: counts all, keeps at most kKept.
class ConfigProblems {
 public:
  static constexpr size_t kKept = 1000;
  static constexpr size_t kShown = 20;

  void Add(SourcePlace spot, std::string message, std::string hint = {});
  size_t count() const noexcept { return count_; }
  // Whether further problems are only counted.
  bool full() const noexcept { return count_ >= kKept; }
  // The first kShown in the order of the file, then variables and flags; quoted from `source`.
  std::vector<Diagnostic> Shown(const SourceText* source) const;
  // "gpulens.yaml and the environment".
  std::string Files() const;

 private:
  std::vector<Diagnostic> kept_;
  size_t count_ = 0;
};

// Parses the file under the limits of a configuration; adds errors to `problems`.
YamlTree ParseYaml(const SourceText& source, ConfigProblems& problems);

// Formats a diagnostic as above, with a newline at the end of each line.
std::string Render(const Diagnostic& diagnostic);

size_t CountCharacters(std::string_view text) noexcept;
// `text` between double quotes, printable, cut when it is long.
std::string QuotedText(std::string_view text);
// "did you mean X?   allowed: a b c", each part where there is one.
std::string WordHint(std::string_view word, std::vector<std::string_view> allowed);

}  // namespace gpulens
