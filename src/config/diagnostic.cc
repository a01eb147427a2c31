#include "config/diagnostic.h"

#include <algorithm>
#include <climits>
#include <tuple>
#include <utility>

#include "base/text.h"

namespace gpulens {
namespace {

constexpr int kExcerptWidth = 100;
constexpr int kExcerptBefore = 50;
constexpr size_t kStride = 256;  // so that a place in a long line is found without walking it

bool BeginsCharacter(char c) noexcept { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

// Takes one character off the front; a byte that is no UTF-8 counts as one.
std::string_view TakeCharacter(std::string_view& rest) noexcept {
  std::string_view head = rest.substr(0, std::max<size_t>(1, Utf8Length(rest)));
  rest.remove_prefix(head.size());
  return head;
}

// Always one column wide, so that carets line up.
void AppendColumn(std::string& out, std::string_view character) {
  unsigned char first = static_cast<unsigned char>(character[0]);
  if (first == '\t') {
    out += ' ';
  } else if (first < 0x20 || first == 0x7F || Utf8Length(character) == 0) {
    out += '?';
  } else {
    out += character;
  }
}

}  // namespace

size_t CountCharacters(std::string_view text) noexcept {
  size_t count = 0;
  for (; !text.empty(); ++count) TakeCharacter(text);
  return count;
}

std::string QuotedText(std::string_view text) {
  constexpr size_t kLongest = 60;
  std::string out = "\"";
  std::string_view rest = text;
  for (size_t i = 0; i < kLongest && !rest.empty(); ++i) AppendPrintable(out, TakeCharacter(rest));
  if (!rest.empty()) out += "…";
  return out + '"';
}

std::string WordHint(std::string_view word, std::vector<std::string_view> allowed) {
  std::ranges::sort(allowed);
  std::string out;
  if (std::string_view near = NearestWord(word, allowed); !near.empty()) {
    out.append("did you mean ").append(near).append("?");
  }
  if (allowed.empty()) return out;
  if (!out.empty()) out += "   ";
  out += "allowed:";
  for (std::string_view one : allowed) out.append(" ").append(one);
  return out;
}

SourceText::SourceText(std::string name, std::string text) : name_(std::move(name)), text_(std::move(text)) {
  std::string_view rest = text_;
  while (!rest.empty()) {
    size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines_.push_back(line);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  uint32_t count = 0;
  for (size_t i = 0; i < text_.size(); ++i) {
    if (i % kStride == 0) checkpoints_.push_back(count);
    count += BeginsCharacter(text_[i]);
  }
  checkpoints_.push_back(count);
}

size_t SourceText::CharactersBefore(size_t byte) const noexcept {
  size_t count = checkpoints_[byte / kStride];
  for (size_t i = byte / kStride * kStride; i < byte; ++i) count += BeginsCharacter(text_[i]);
  return count;
}

std::string_view SourceText::Line(int line) const noexcept {
  return line < 1 || line > lines() ? std::string_view{} : lines_[static_cast<size_t>(line - 1)];
}

SourceText::Span SourceText::SpanOf(const YamlMark& mark) const noexcept {
  std::string_view whole = Line(mark.line);
  size_t at = std::min(static_cast<size_t>(std::max(mark.byte, 0)), whole.size());
  if (whole.empty()) return {mark.line, 1, 1};
  size_t start = static_cast<size_t>(whole.data() - text_.data());
  size_t before = CharactersBefore(start + at);
  size_t length = CharactersBefore(start + at + std::min(mark.bytes, whole.size() - at)) - before;
  return {mark.line, static_cast<int>(before - CharactersBefore(start)) + 1,
          std::max(static_cast<int>(length), 1)};
}

SourcePlace SourceText::SpotOf(const YamlMark& mark) const {
  const Span span = SpanOf(mark);
  return {name_, span.line, span.column, span.length, {}, 0};
}

bool SourceText::IsHidden(int line, int column) const noexcept {
  return std::ranges::any_of(hidden_, [&](const Span& span) {
    return span.line == line && column >= span.column && column - span.column < span.length;
  });
}

void SourceText::Quote(SourcePlace& spot) const {
  std::string_view rest = Line(spot.line);
  if (rest.empty()) return;
  int first = spot.column > kExcerptWidth - kExcerptBefore / 2 ? spot.column - kExcerptBefore : 1;
  int column = 1;
  for (; column < first && !rest.empty(); ++column) TakeCharacter(rest);
  spot.excerpt = first > 1 ? "…" : "";
  spot.caret = spot.column - first + (first > 1 ? 1 : 0);
  for (int width = 0; width < kExcerptWidth && !rest.empty(); ++width, ++column) {
    std::string_view character = TakeCharacter(rest);
    AppendColumn(spot.excerpt, IsHidden(spot.line, column) ? "*" : character);
  }
  // The carets end with what is shown, one past it at most: something may be missing at the end.
  spot.length = std::clamp(spot.length, 1, std::max(1, column - spot.column));
  if (!rest.empty()) spot.excerpt += "…";
}

void ConfigProblems::Add(SourcePlace spot, std::string message, std::string hint) {
  ++count_;
  if (kept_.size() < kKept) kept_.push_back({std::move(spot), std::move(message), std::move(hint)});
}

std::vector<Diagnostic> ConfigProblems::Shown(const SourceText* source) const {
  // Variables and flags have no line: they come last, in the order of Add.
  std::vector<std::tuple<int, int, size_t>> order;
  for (size_t i = 0; i < kept_.size(); ++i) {
    order.emplace_back(kept_[i].line == 0 ? INT_MAX : kept_[i].line, kept_[i].column, i);
  }
  std::ranges::sort(order);
  if (order.size() > kShown) order.resize(kShown);
  std::vector<Diagnostic> out;
  for (const auto& [line, column, index] : order) out.push_back(kept_[index]);
  for (Diagnostic& one : out) {
    if (source != nullptr && one.line > 0) source->Quote(one);
  }
  return out;
}

std::string ConfigProblems::Files() const {
  std::vector<std::string_view> names;
  for (const Diagnostic& one : kept_) {
    if (std::ranges::find(names, one.file) == names.end()) names.push_back(one.file);
  }
  std::string out;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) out += i + 1 == names.size() ? " and " : ", ";
    if (names[i] == "environment" || names[i] == "command line") out += "the ";
    AppendPrintable(out, names[i]);
  }
  return out;
}

namespace {

struct Reworded {
  std::string_view theirs, message, hint;
};
constexpr Reworded kReworded[] = {
    {"end of map flow not found", "\"}\" is missing", ""},
    {"end of sequence flow not found", "\"]\" is missing", ""},
    {"end of map not found", "this does not belong to the keys above it",
     "all keys of one block must begin in the same column"},
    {"end of sequence not found", "this does not belong to the list above it",
     "all - of one list must be in the same column"},
    {"illegal map value", "a second \":\" in one line", "put the value between quotes"},
    {"illegal EOF in scalar", "the closing quote is missing", ""},
    {"the referenced anchor is not defined", "an alias without its anchor",
     "put a text that begins with * between quotes"},
    {"unknown token", "this character cannot begin a value", "put the value between quotes"},
};

// The first tab that indents `line`; npos: none.
size_t IndentingTab(std::string_view line) {
  size_t first = line.find_first_not_of(" \t");
  size_t tab = line.find('\t');
  return tab < std::min(first, line.size()) ? tab : std::string_view::npos;
}

void AddSyntaxError(const SourceText& source, const YamlProblem& error, ConfigProblems& problems) {
  YamlMark mark = error.mark;
  for (int candidate : {mark.line, mark.line - 1}) {
    size_t tab = IndentingTab(source.Line(candidate));
    if (tab == std::string_view::npos) continue;
    problems.Add(source.SpotOf({candidate, static_cast<int>(tab), 1}), "a tab at the start of the line",
                 "indent with spaces only");
    return;
  }
  std::string message = Printable(error.message), hint;
  for (const Reworded& row : kReworded) {
    if (error.message == row.theirs) message = row.message, hint = row.hint;
  }
  if (mark.line > source.lines() && source.lines() > 0) {  // past the last line: point at its end
    mark.line = source.lines();
    mark.byte = static_cast<int>(source.Line(mark.line).size());
  }
  problems.Add(source.SpotOf(mark), std::move(message), std::move(hint));
}

}  // namespace

YamlTree ParseYaml(const SourceText& source, ConfigProblems& problems) {
  std::vector<YamlProblem> found;
  YamlLimits limits;
  limits.key_bytes = kConfigKeyBytes;
  YamlTree tree = ParseYaml(source.text(), limits, found);
  for (YamlProblem& problem : found) {
    if (problem.kind == YamlProblem::kSyntax) {
      AddSyntaxError(source, problem, problems);
    } else if (problem.kind == YamlProblem::kDuplicateKey) {
      const SourcePlace first = source.SpotOf(problem.first);
      problems.Add(source.SpotOf(problem.mark),
                   "duplicate key " + QuotedText(problem.key) + ", first at " + std::to_string(first.line) +
                       ":" + std::to_string(first.column),
                   "two blocks: put their keys into one");
    } else if (problem.mark.line == 0) {
      const bool large = problem.kind == YamlProblem::kTooLarge;
      problems.Add({source.name(), 0, 0, 1, {}, 0}, std::move(problem.message),
                   large ? "a configuration is smaller than that" : "");
    } else {
      problems.Add(source.SpotOf(problem.mark), std::move(problem.message), std::move(problem.hint));
    }
  }
  return tree;
}

std::string Render(const Diagnostic& diagnostic) {
  std::string out = Printable(diagnostic.file);
  std::string number;
  if (diagnostic.line > 0) {
    number = std::to_string(diagnostic.line);
    out += ":" + number + ":" + std::to_string(diagnostic.column);
  }
  out += ": " + diagnostic.message + "\n";
  if (diagnostic.excerpt.empty()) {
    if (!diagnostic.hint.empty()) out += "  " + diagnostic.hint + "\n";
    return out;
  }
  if (number.empty()) number = " ";
  out += "  " + number + " | " + diagnostic.excerpt + "\n  " + std::string(number.size(), ' ') + " | ";
  out.append(static_cast<size_t>(std::max(diagnostic.caret, 0)), ' ');
  out += '^';
  out.append(static_cast<size_t>(std::max(diagnostic.length - 1, 0)), '~');
  if (!diagnostic.hint.empty()) out += "  " + diagnostic.hint;
  return out + "\n";
}

}  // namespace gpulens
