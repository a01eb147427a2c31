#include "migrate/promql.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace gpulens::migrate {
namespace {

constexpr size_t kMaxVariableBytes = 256, kMaxSelectors = 1000, kMaxLabels = 1000;

constexpr bool IsDigit(char c) noexcept { return c >= '0' && c <= '9'; }
constexpr bool IsNameCharacter(char c) noexcept { return IsLabelCharacter(c) || c == ':'; }
constexpr bool IsBlank(char c) noexcept { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

std::string Lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

bool IsOneOf(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}

struct Word {
  TextSpan at;
  bool variable = false;  // has one in it
  std::string lower;      // for keywords
};

// A recursive descent over the text. The first error stays.
class QueryReader {
 public:
  explicit QueryReader(std::string_view text) : text_(text) {}

  Result<QueryParts> Read() {
    if (text_.size() > kMaxQueryBytes) return Status{Code::kExhausted, "longer than 64 KiB"};
    Expression();
    Blanks();
    if (!failed() && at_ < text_.size()) Fail("not expected here");
    if (failed()) return std::move(error_);
    return std::move(parts_);
  }

 private:
  // Deeper by one, until the end of the scope.
  class Deeper {
   public:
    explicit Deeper(QueryReader& reader) : reader_(reader) {
      if (++reader_.depth_ > kMaxQueryDepth) reader_.Fail("nested too deep", Code::kExhausted);
    }
    ~Deeper() { --reader_.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    QueryReader& reader_;
  };

  bool failed() const noexcept { return !error_.ok(); }

  bool Fail(std::string_view why, Code code = Code::kInvalidArgument) {
    if (!failed()) {
      error_ = {code, "byte " + std::to_string(at_ + 1) + ": " + std::string(why) +
                          (at_ < text_.size() ? ": \"" + Printable(text_.substr(at_, 20)) + "\""
                                              : std::string(" at the end"))};
    }
    return false;
  }

  void Blanks() {
    while (at_ < text_.size()) {
      if (text_[at_] == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else if (IsBlank(text_[at_])) {
        ++at_;
      } else {
        return;
      }
    }
  }

  bool Sees(std::string_view what) {
    Blanks();
    return text_.substr(at_).starts_with(what);
  }
  bool Take(std::string_view what) {
    if (!Sees(what)) return false;
    at_ += what.size();
    return true;
  }
  bool Expect(std::string_view what) { return Take(what) || Fail("expected " + std::string(what)); }

  // The length of the Grafana variable at `at`; 0: there is none.
  size_t VariableAt(size_t at) const {
    const std::string_view rest = text_.substr(at);
    if (rest.starts_with("${")) {
      const size_t end = rest.substr(0, kMaxVariableBytes).find_first_of("}\n\"");
      return end == rest.npos || rest[end] != '}' || end == 2 ? 0 : end + 1;
    }
    if (rest.starts_with("[[")) {
      size_t end = 2;
      while (end < rest.size() && end < kMaxVariableBytes && (IsNameCharacter(rest[end]) || rest[end] == '.'))
        ++end;
      return end > 2 && rest.substr(end).starts_with("]]") ? end + 2 : 0;
    }
    if (rest.size() < 2 || rest[0] != '$' || !IsLabelCharacter(rest[1])) return 0;
    size_t end = 1;
    while (end < rest.size() && IsLabelCharacter(rest[end])) ++end;
    return end;
  }

  // A name, perhaps with variables in it, without blanks; nothing where none begins.
  Word PeekWord() {
    Blanks();
    Word word{{at_, at_}, false, {}};
    size_t& end = word.at.end;
    while (end < text_.size()) {
      if (const size_t length = VariableAt(end)) {
        word.variable = true;
        end += length;
      } else if (IsNameCharacter(text_[end]) && (end > at_ || !IsDigit(text_[end]))) {
        ++end;
      } else {
        break;
      }
    }
    word.lower = Lower(Text(word.at));
    return word;
  }
  Word TakeWord() {
    Word word = PeekWord();
    at_ = word.at.end;
    return word;
  }
  bool TakeKeyword(std::initializer_list<std::string_view> words) {
    const Word word = PeekWord();
    if (word.at.empty() || word.variable || !IsOneOf(word.lower, words)) return false;
    at_ = word.at.end;
    return true;
  }

  std::string_view Text(TextSpan span) const { return text_.substr(span.begin, span.end - span.begin); }

  // A string in any quotes; `out` without them and without the simple escapes.
  bool String(std::string* out) {
    Blanks();
    if (at_ >= text_.size()) return Fail("expected a string");
    const char quote = text_[at_];
    if (quote != '"' && quote != '\'' && quote != '`') return Fail("expected a string");
    const size_t begin = at_;
    for (size_t i = at_ + 1; i < text_.size(); ++i) {
      if (text_[i] == quote) return at_ = i + 1, true;
      if (text_[i] == '\\' && quote != '`' && i + 1 < text_.size()) {
        if (out && (text_[i + 1] != quote && text_[i + 1] != '\\')) *out += '\\';
        ++i;
      }
      if (out) *out += text_[i];
    }
    at_ = begin;
    return Fail("a string without its end");
  }
  bool SeesString() { return Sees("\"") || Sees("'") || Sees("`"); }

  // Binary operators, all of one precedence: what is looked for does not depend on it.
  void Expression() {
    Deeper deeper(*this);
    if (failed()) return;
    const size_t selectors = parts_.selectors.size(), labels = parts_.labels.size();
    Unary();
    bool operators = false;
    while (!failed() && Operator()) {
      operators = true;
      Blanks();
      if (bare_group_ != 0) parts_.bare_groups.push_back({std::exchange(bare_group_, 0), at_});
      Unary();
    }
    if (!operators) return;
    GiveSelectors(labels, selectors);
    if (parts_.selectors.size() - selectors < 2) return;
    for (size_t i = selectors; i < parts_.selectors.size(); ++i)
      parts_.selectors[i].operand = !parts_.selectors[i].aggregated;
  }

  // The labels from `labels` on that are not about other selectors are about those from `selectors` on.
  void GiveSelectors(size_t labels, size_t selectors) {
    for (size_t i = labels; i < parts_.labels.size(); ++i) {
      LabelUse& use = parts_.labels[i];
      if (use.last != SIZE_MAX) continue;
      use.first = selectors;
      use.last = parts_.selectors.size();
    }
  }

  void AddLabel(LabelUse use) {
    if (parts_.labels.size() >= kMaxLabels)
      return static_cast<void>(Fail("more than 1000 labels", Code::kExhausted));
    parts_.labels.push_back(std::move(use));
  }

  bool Operator() {
    static constexpr std::string_view kSymbols[] = {"==", "!=", ">=", "<=", ">", "<",
                                                    "+",  "-",  "*",  "/",  "%", "^"};
    bool found = false;
    for (const std::string_view symbol : kSymbols) {
      if ((found = Take(symbol))) break;
    }
    if (!found && !TakeKeyword({"and", "or", "unless", "atan2", "default", "if", "ifnot"})) return false;
    TakeKeyword({"bool"});
    if (TakeKeyword({"on", "ignoring"})) {
      Labels();
      const Word word = PeekWord();
      if (!failed() && IsOneOf(word.lower, {"group_left", "group_right"}) && !word.variable) {
        at_ = word.at.end;
        if (Sees("(")) Labels();
        else bare_group_ = word.at.end;
      }
    }
    return !failed();
  }

  // The labels in parentheses of by, on and the like.
  void Labels() {
    if (!Expect("(")) return;
    while (!failed() && !Take(")")) {
      if (SeesString()) {
        LabelUse use{{}, {at_, at_}, true};
        if (!String(&use.label)) return;
        use.at.end = at_;
        AddLabel(std::move(use));
      } else {
        const Word word = TakeWord();
        if (word.at.empty()) return static_cast<void>(Fail("expected a label"));
        if (!word.variable) AddLabel({std::string(Text(word.at)), word.at});
      }
      if (!Take(",") && !Sees(")")) return static_cast<void>(Fail("expected a comma or )"));
    }
  }

  void Unary() {
    while (Take("-") || Take("+")) {
    }
    Blanks();
    const size_t begin = at_, selectors = parts_.selectors.size();
    const bool selected = Primary();
    Postfix(begin, selected && parts_.selectors.size() == selectors + 1 ? selectors : SIZE_MAX);
  }

  // Returns whether it was a bare selector.
  bool Primary() {
    Blanks();
    if (at_ >= text_.size()) return Fail("expected a value");
    const char c = text_[at_];
    if (c == '(') {
      ++at_;
      Expression();
      if (!failed()) Expect(")");
      return false;
    }
    if (c == '{') return SelectorFrom({});
    if (SeesString()) return static_cast<void>(String(nullptr)), false;
    if (IsDigit(c) || c == '.') return Number(), false;
    const Word word = TakeWord();
    if (word.at.empty()) return Fail("not expected here");
    if (!word.variable && IsOneOf(word.lower, {"inf", "nan"})) return false;
    const size_t labels = parts_.labels.size();
    if (Sees("(")) return Call(word, labels), false;
    const Word next = PeekWord();
    if (IsOneOf(next.lower, {"by", "without"}) && !next.variable) {
      const size_t back = at_;
      at_ = next.at.end;
      if (Sees("(")) {
        Labels();
        if (!failed() && Sees("(")) return Call(word, labels, next.lower == "without"), false;
        return failed() ? false : Fail("expected (");
      }
      at_ = back;
    }
    // A variable alone may be a number, a duration or a metric.
    return SelectorFrom(word);
  }

  // 1, 0x1F, 1e-3, 5m, 1Ki.
  void Number() {
    const bool hexadecimal = text_.substr(at_).starts_with("0x") || text_.substr(at_).starts_with("0X");
    while (at_ < text_.size() && (IsLabelCharacter(text_[at_]) || text_[at_] == '.')) {
      const bool exponent = !hexadecimal && (text_[at_] == 'e' || text_[at_] == 'E');
      ++at_;
      if (exponent && at_ < text_.size() && (text_[at_] == '-' || text_[at_] == '+')) ++at_;
    }
  }

  // `first_label`: the first of its labels, which may be before the parentheses; `without`: they are those of
  // without.
  void Call(const Word& word, size_t first_label, bool without = false) {
    Expect("(");
    const size_t selectors = parts_.selectors.size();
    const bool joins_labels = word.lower == "label_join", replaces = word.lower == "label_replace";
    const bool values = word.lower == "label_values";
    if (IsOneOf(word.lower, {"metrics", "label_names"})) return SkipCall();
    for (size_t index = 0; !failed() && !Take(")"); ++index) {
      const bool labels = (replaces && index == 3) || (joins_labels && index >= 3);
      if (labels && SeesString()) {
        LabelUse use{{}, {at_, at_}, true};
        if (!String(&use.label)) return;
        use.at.end = at_;
        AddLabel(std::move(use));
      } else if (!(values && LastLabel())) {
        Argument(word.lower);
      }
      if (failed()) return;
      if (!Take(",") && !Sees(")")) return static_cast<void>(Fail("expected a comma or )"));
    }
    // The function turns a range into one value, which is what a change of unit applies to.
    for (size_t i = selectors; i < parts_.selectors.size(); ++i) {
      Selector& selector = parts_.selectors[i];
      if (!selector.range || !selector.value.empty()) continue;
      selector.value = {word.at.begin, at_};
      selector.function = word.lower;
    }
    const Word grouping = PeekWord();
    const bool grouped = !grouping.variable && IsOneOf(grouping.lower, {"by", "without"});
    if (grouped) {
      at_ = grouping.at.end;
      Labels();
      for (size_t i = selectors; i < parts_.selectors.size(); ++i) {
        if (parts_.selectors[i].range && parts_.selectors[i].value.begin == word.at.begin)
          parts_.selectors[i].value.end = at_;
      }
    }
    GiveSelectors(first_label, selectors);
    if (without || (grouped && grouping.lower == "without") ||
        !IsOneOf(word.lower, {"sum", "min", "max", "avg", "count", "group", "stddev", "stdvar", "quantile"}))
      return;
    for (size_t i = selectors; i < parts_.selectors.size(); ++i)
      parts_.selectors[i].aggregated = !parts_.selectors[i].operand;
  }

  // The last argument of Grafana's label_values(metric, label), which is a label.
  bool LastLabel() {
    const Word word = PeekWord();
    const size_t back = at_;
    at_ = word.at.end;
    const bool last = !word.at.empty() && Sees(")");
    if (!last) return at_ = back, false;
    if (!word.variable) AddLabel({std::string(Text(word.at)), word.at});
    return true;
  }

  void Argument(const std::string& function) {
    Blanks();
    const size_t selectors = parts_.selectors.size(), begin = at_;
    Expression();
    if (failed() || parts_.selectors.size() != selectors + 1) return;
    Selector& selector = parts_.selectors.back();
    if (!selector.range && selector.value.begin == begin &&
        Text({selector.value.end, at_}).find_first_not_of(" \t\r\n") == std::string_view::npos)
      selector.function = function;
  }

  // Parentheses whose content is no PromQL.
  void SkipCall() {
    for (size_t open = 1; at_ < text_.size(); ++at_) {
      if (text_[at_] == '(') ++open;
      if (text_[at_] == ')' && --open == 0) return static_cast<void>(++at_);
    }
    Fail("expected )");
  }

  bool SelectorFrom(const Word& word) {
    if (parts_.selectors.size() >= kMaxSelectors) return Fail("more than 1000 selectors", Code::kExhausted);
    Selector selector;
    Blanks();
    size_t begin = word.at.empty() ? at_ : word.at.begin;
    if (!word.at.empty()) {
      selector.name = word.at;
      selector.variable_name = word.variable;
      if (!word.variable) selector.metric = Text(word.at);
      at_ = word.at.end;
    }
    size_t end = at_;
    if (Sees("{")) {
      Matchers(selector);
      end = at_;
    }
    if (failed()) return false;
    selector.value = {begin, end};
    // A variable alone may be a metric, or a number.
    const bool is_metric =
        !word.variable || !selector.braces.empty() || VariableAt(begin) != word.at.end - begin;
    if (is_metric) parts_.selectors.push_back(std::move(selector));
    if (!is_metric) parts_.bare_variable = true;
    return is_metric;
  }

  void Matchers(Selector& selector) {
    Expect("{");
    selector.braces.begin = at_ - 1;
    while (!failed() && !Take("}")) {
      Matcher matcher;
      Blanks();
      matcher.all.begin = at_;
      bool quoted = SeesString();
      bool variable = false;
      if (quoted) {
        if (!String(&matcher.label)) return;
      } else {
        const Word word = TakeWord();
        if (word.at.empty()) return static_cast<void>(Fail("expected a label"));
        matcher.label = Text(word.at);
        variable = word.variable;
      }
      matcher.rest.begin = matcher.rest.end = at_;
      for (const std::string_view op : {"=~", "!~", "!=", "="}) {
        if (!Take(op)) continue;
        matcher.op = op;
        matcher.rest.begin = at_ - op.size();
        if (SeesString()) {
          if (!String(&matcher.value)) return;
        } else if (TakeWord().at.empty()) {  // a variable without quotes
          return static_cast<void>(Fail("expected a string"));
        }
        matcher.rest.end = at_;
        break;
      }
      matcher.all.end = at_;
      if (matcher.op.empty()) {
        if (quoted) {
          selector.name_matcher = static_cast<int>(selector.matchers.size());
          selector.metric = matcher.label;
        } else if (!variable) {
          return static_cast<void>(Fail("expected an operator"));
        }
        if (variable) matcher.label.clear();
      } else if (matcher.label == "__name__") {
        selector.name_matcher = static_cast<int>(selector.matchers.size());
        if (matcher.op == "=" && matcher.value.find('$') == std::string::npos &&
            matcher.value.find("[[") == std::string::npos) {
          selector.metric = matcher.value;
        } else {
          selector.variable_name = true;
        }
      }
      if (++matchers_ > kMaxLabels) return static_cast<void>(Fail("more than 1000 labels", Code::kExhausted));
      selector.matchers.push_back(std::move(matcher));
      if (!Take(",") && !Sees("}")) return static_cast<void>(Fail("expected a comma or }"));
    }
    selector.braces.end = at_;
  }

  // Ranges, subqueries, offset and @. `index`: the selector before them.
  void Postfix(size_t begin, size_t index) {
    while (!failed()) {
      Blanks();
      if (Sees("[")) {
        bool subquery = false;
        if (!Range(subquery)) return;
        if (index != SIZE_MAX && !subquery) {
          parts_.selectors[index].range = true;
          parts_.selectors[index].value = {};
        }
        if (subquery) index = SIZE_MAX;
        continue;
      }
      if (Take("@") || TakeKeyword({"offset"})) {
        Modifier();
      } else if (!TakeKeyword({"keep_metric_names"})) {
        return;
      }
      if (index != SIZE_MAX && !parts_.selectors[index].range) parts_.selectors[index].value = {begin, at_};
    }
  }

  // The value after offset and @: a duration, a number, start(), a variable, parentheses.
  void Modifier() {
    Take("-");
    if (Take("(")) {
      Expression();
      if (!failed()) Expect(")");
      return;
    }
    Blanks();
    if (at_ < text_.size() && (IsDigit(text_[at_]) || text_[at_] == '.')) return Number();
    if (TakeWord().at.empty()) return static_cast<void>(Fail("expected a time"));
    const size_t end = at_;
    if (Take("(")) Expect(")");
    else at_ = end;  // a comment after it is not part of it
  }

  bool Range(bool& subquery) {
    const size_t open = at_++;
    while (at_ < text_.size() && at_ - open < kMaxVariableBytes) {
      if (const size_t length = VariableAt(at_)) {
        at_ += length;
        continue;
      }
      const char c = text_[at_];
      if (c == ']') {
        const bool has_time = Text({open + 1, at_}).find_first_not_of(" \t\r\n") != std::string_view::npos;
        if (!has_time) return Fail("a range without a time");
        return ++at_, true;
      }
      if (c == ':') subquery = true;
      if (!IsLabelCharacter(c) && !IsBlank(c) &&
          std::string_view(":.+-*/()").find(c) == std::string_view::npos)
        return Fail("not expected in a range");
      ++at_;
    }
    at_ = open;
    return Fail("a range without its end");
  }

  const std::string_view text_;
  size_t at_ = 0, depth_ = 0, matchers_ = 0;
  size_t bare_group_ = 0;  // the end of a group_left without parentheses before the operand; 0: none
  Status error_;
  QueryParts parts_;
};

}  // namespace

Result<QueryParts> ReadQuery(std::string_view query) { return QueryReader(query).Read(); }

}  // namespace gpulens::migrate
