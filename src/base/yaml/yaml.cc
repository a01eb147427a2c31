#include "base/yaml/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <sstream>
#include <unordered_map>

#include "base/parse.h"
#include "base/text.h"

namespace gpulens {
namespace {

constexpr size_t kListItems = 256;

// Ends the parser once the problem is recorded.
struct Stop {};

}  // namespace

const YamlNode* YamlNode::Find(std::string_view key) const noexcept {
  auto found = std::find_if(members.begin(), members.end(), [&](const Member& m) { return m.key == key; });
  return found == members.end() ? nullptr : found->value;
}

YamlMark YamlNode::Within(size_t at, size_t length) const noexcept {
  if (!literal || length == 0) return mark;
  at = std::min(at, text.size());
  return {mark.line, text_byte + static_cast<int>(at), std::min(length, text.size() - at)};
}

std::string YamlNode::TextOf(std::string_view key) const {
  const YamlNode* value = Find(key);
  return value ? value->text : std::string();
}

const YamlNode& YamlTree::top() const noexcept {
  static const YamlNode kNone = [] {
    YamlNode node;
    node.mark.line = 1;
    return node;
  }();
  return root_ ? *root_ : kNone;
}

// Turns the parser's events into nodes. Outside the unnamed namespace because YamlTree names it as its
// friend.
class YamlBuilder final : public YAML::EventHandler {
 public:
  YamlBuilder(std::string_view text, const YamlLimits& limits, std::vector<YamlProblem>& problems)
      : limits_(limits), problems_(problems) {
    for (std::string_view rest = text; !rest.empty();) lines_.push_back(TakeUntil(rest, '\n'));
  }

  YamlTree Take() && { return std::move(tree_); }
  void Finish() { tree_.root_ = root_; }
  // False where the last scalar may be a quote that is never closed.
  bool last_quote_ends_here() const noexcept { return last_quote_ends_here_; }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) {
      Fail(YamlProblem::kOther, At(mark), "a second document",
           "one file is one document: remove the line ---");
    }
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    YamlNode& node = Make(mark, anchor, YamlNode::kNull);
    if (!open_.empty() && open_.back().want_value) node.mark = open_.back().key_mark;
    Attach(&node, node.mark);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (!limits_.anchors) Fail(YamlProblem::kOther, At(mark), "aliases are not supported");
    auto found = anchors_.find(anchor);
    if (found == anchors_.end() || std::any_of(open_.begin(), open_.end(), [&](const Open& open) {
          return open.node == found->second;
        })) {
      Fail(YamlProblem::kOther, At(mark), "an alias that refers to itself");
    }
    Attach(found->second, At(mark));
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    CheckTag(mark, tag);
    YamlNode& node = Make(mark, anchor, YamlNode::kScalar);
    node.text = value;
    node.quoted = tag == "!";
    Locate(mark, node);
    Attach(&node, node.mark);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Begin(mark, tag, anchor, YamlNode::kList);
  }
  void OnSequenceEnd() override { End(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Begin(mark, tag, anchor, YamlNode::kMap);
  }
  void OnMapEnd() override { End(); }

 private:
  struct Open {
    YamlNode* node = nullptr;
    std::unordered_map<std::string, YamlMark> keys;
    bool want_value = false;
    bool drop_value = false;  // of a duplicate key
    std::string key;
    YamlMark key_mark;
  };

  [[noreturn]] void Fail(YamlProblem::Kind kind, YamlMark mark, std::string message, std::string hint = {}) {
    problems_.push_back({kind, mark, std::move(message), std::move(hint), {}, {}});
    throw Stop{};
  }
  static YamlMark At(const YAML::Mark& mark) { return {mark.line + 1, std::max(mark.column, 0), 1}; }

  // Finds the text of a scalar in its line, so that errors can point into it.
  void Locate(const YAML::Mark& mark, YamlNode& node) {
    size_t index = static_cast<size_t>(std::max(mark.line, 0));
    std::string_view line = index < lines_.size() ? lines_[index] : std::string_view{};
    if (line.ends_with('\r')) line.remove_suffix(1);
    std::string_view rest = line.substr(std::min(static_cast<size_t>(node.mark.byte), line.size()));
    bool quoted = rest.starts_with('"') || rest.starts_with('\'');
    std::string_view inner = rest.substr(quoted ? 1 : 0);
    node.literal =
        inner.starts_with(node.text) && (!quoted || inner.substr(node.text.size()).starts_with(rest[0]));
    last_quote_ends_here_ = node.literal || !quoted;
    node.mark.bytes = node.literal ? node.text.size() + (quoted ? 2 : 0) : rest.size();
    node.text_byte = node.mark.byte + (quoted ? 1 : 0);
  }

  void CheckTag(const YAML::Mark& mark, const std::string& tag) {
    constexpr std::string_view kCore = "tag:yaml.org,2002:";
    constexpr std::string_view kPlain[] = {"str", "int", "float", "bool", "null", "map", "seq"};
    if (tag.empty() || tag == "?" || tag == "!") return;
    if (!limits_.anchors) Fail(YamlProblem::kOther, At(mark), "tags are not supported");
    std::string_view name = std::string_view(tag).substr(tag.starts_with(kCore) ? kCore.size() : 0);
    if (std::find(std::begin(kPlain), std::end(kPlain), name) != std::end(kPlain)) return;
    Fail(YamlProblem::kOther, At(mark),
         "the tag \"" + Printable(std::string_view(tag).substr(0, 60)) + "\" is not supported here",
         "remove it");
  }

  YamlNode& Make(const YAML::Mark& mark, YAML::anchor_t anchor, YamlNode::Kind kind) {
    YamlNode& node = tree_.nodes_.emplace_back();
    node.kind = kind;
    node.mark = At(mark);
    if (tree_.nodes_.size() > limits_.values) {
      Fail(YamlProblem::kTooLarge, node.mark, "more than " + std::to_string(limits_.values) + " values");
    }
    if (anchor == YAML::NullAnchor) return node;
    if (!limits_.anchors) Fail(YamlProblem::kOther, node.mark, "anchors are not supported");
    anchors_[anchor] = &node;
    return node;
  }

  void CheckDepth(YamlMark mark, size_t depth) {
    if (depth <= limits_.depth) return;
    Fail(YamlProblem::kTooDeep, mark, "nested deeper than " + std::to_string(limits_.depth) + " levels");
  }

  void Begin(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, YamlNode::Kind kind) {
    CheckTag(mark, tag);
    YamlNode& node = Make(mark, anchor, kind);
    CheckDepth(node.mark, open_.size() + 1);
    if (!open_.empty() && open_.back().node->kind == YamlNode::kMap && !open_.back().want_value) {
      Fail(YamlProblem::kKeyIsNotText, node.mark, "a key must be a text",
           "put it between quotes, or close its brackets");
    }
    open_.emplace_back().node = &node;
  }

  void End() {
    YamlNode* node = open_.back().node;
    open_.pop_back();
    Attach(node, node->mark);
  }

  void Key(const YamlNode& node, YamlMark mark) {
    Open& open = open_.back();
    if (node.kind != YamlNode::kScalar) Fail(YamlProblem::kKeyIsNotText, mark, "a key must be a text");
    if (node.text.size() > limits_.key_bytes) {
      Fail(YamlProblem::kOther, mark, "a key of more than " + std::to_string(limits_.key_bytes) + " bytes");
    }
    auto [first, is_new] = open.keys.emplace(node.text, mark);
    if (!is_new) {
      problems_.push_back({YamlProblem::kDuplicateKey,
                           mark,
                           "duplicate key '" + node.text + "'",
                           {},
                           node.text,
                           first->second});
    }
    open.drop_value = !is_new;
    open.want_value = true;
    open.key = node.text;
    open.key_mark = mark;
  }

  void Attach(const YamlNode* node, YamlMark mark) {
    if (open_.empty()) {
      root_ = node;
      return;
    }
    Open& open = open_.back();
    if (open.node->kind == YamlNode::kMap && !open.want_value) return Key(*node, mark);
    open.node->expanded += node->expanded;
    open.node->height = std::max(open.node->height, node->height + 1);
    if (open.node->expanded > limits_.values) {
      Fail(YamlProblem::kTooLarge, mark,
           "aliases expand to more than " + std::to_string(limits_.values) + " values");
    }
    CheckDepth(mark, open_.size() + node->height - 1);
    if (open.node->kind == YamlNode::kList) return open.node->items.push_back(node);
    open.want_value = false;
    if (!open.drop_value) open.node->members.push_back({std::move(open.key), open.key_mark, node});
  }

  const YamlLimits& limits_;
  std::vector<YamlProblem>& problems_;
  std::vector<std::string_view> lines_;
  YamlTree tree_;
  const YamlNode* root_ = nullptr;
  std::vector<Open> open_;
  std::unordered_map<YAML::anchor_t, const YamlNode*> anchors_;
  int documents_ = 0;
  bool last_quote_ends_here_ = true;
};

namespace {

// Ignores all events: for a parse whose errors alone are wanted.
class NullHandler final : public YAML::EventHandler {
  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
  }
  void OnMapEnd() override {}
};

void ParseAll(std::string_view text, YAML::EventHandler& handler) {
  std::istringstream stream{std::string(text)};
  YAML::Parser parser(stream);
  while (parser.HandleNextDocument(handler)) {
  }
}

// The first byte that no YAML text holds.
std::optional<YamlProblem> FindForeignByte(std::string_view text) {
  int line = 1;
  const char* start = text.data();
  for (size_t length = 0; !text.empty(); text.remove_prefix(length)) {
    length = Utf8Length(text);
    const bool zero = text[0] == '\0';
    if (length == 0 || zero) {
      return YamlProblem{YamlProblem::kOther,
                         {line, static_cast<int>(text.data() - start), 1},
                         zero ? "a zero byte" : "a byte that is not UTF-8",
                         "save the file as text in UTF-8",
                         {},
                         {}};
    }
    if (text[0] == '\n') ++line, start = text.data() + 1;
  }
  return std::nullopt;
}

}  // namespace

YamlTree ParseYaml(std::string_view text, const YamlLimits& limits, std::vector<YamlProblem>& problems) {
  auto wrong = [&](YamlProblem::Kind kind, YamlMark mark, std::string message) {
    problems.push_back({kind, mark, std::move(message), {}, {}, {}});
  };
  if (text.size() > limits.bytes) {
    wrong(YamlProblem::kTooLarge, {}, "larger than " + std::to_string(limits.bytes >> 20) + " MiB");
    return {};
  }
  if (auto problem = FindForeignByte(text)) {
    problems.push_back(std::move(*problem));
    return {};
  }
  YamlBuilder builder(text, limits, problems);
  try {
    ParseAll(text, builder);
    if (!builder.last_quote_ends_here()) {
      // yaml-cpp misses a quote that is never closed when blanks or newlines end the text.
      NullHandler none;
      ParseAll(text.substr(0, text.find_last_not_of(" \t\r\n") + 1), none);
    }
    builder.Finish();
  } catch (const Stop&) {
  } catch (const YAML::Exception& error) {
    wrong(YamlProblem::kSyntax, {std::max(error.mark.line, 0) + 1, std::max(error.mark.column, 0), 1},
          error.msg);
  } catch (const std::exception& error) {
    wrong(YamlProblem::kOther, {}, std::string("cannot be read as YAML: ") + error.what());
  }
  return std::move(builder).Take();
}

std::string YamlProblem::Text() const {
  return "yaml-cpp: error at line " + std::to_string(mark.line) + ", column " +
         std::to_string(mark.byte + 1) + ": " + message;
}

Result<YamlTree> ReadYaml(std::string_view text, const YamlLimits& limits, std::string_view what) {
  std::vector<YamlProblem> problems;
  YamlTree tree = ParseYaml(text, limits, problems);
  if (problems.empty()) return tree;
  const YamlProblem& problem = problems[0];
  if (problem.kind == YamlProblem::kSyntax)
    return Status{Code::kInvalidArgument, std::string(what) + ": " + problem.Text()};
  Status error = YamlError(std::string(what) + " line ", std::max(problem.mark.line, 1), problem.message);
  if (problem.kind == YamlProblem::kTooLarge) error.code = Code::kExhausted;
  return error;
}

Status YamlError(std::string_view where, int line, std::string_view what) {
  return {Code::kInvalidArgument, std::string(where) + std::to_string(line) + ": " + std::string(what)};
}

YamlFields::YamlFields(const YamlNode& map, std::string_view where) : map_(map), where_(where) {
  if (map.kind != YamlNode::kMap) FailAt(map, "expected a map");
}

YamlFields& YamlFields::FailAt(const YamlNode& node, std::string_view what) {
  if (status_.ok()) status_ = YamlError(where_, node.mark.line, what);
  return *this;
}

YamlFields& YamlFields::Fail(std::string_view key, std::string_view what) {
  const YamlNode* value = map_.Find(key);
  return FailAt(value ? *value : map_, std::string(key) + " " + std::string(what));
}

const YamlNode* YamlFields::Child(std::string_view key) {
  known_.emplace_back(key);
  return map_.Find(key);
}

const std::string* YamlFields::Text(std::string_view key) {
  const YamlNode* value = Child(key);
  if (!value || !status_.ok()) return nullptr;
  if (value->kind == YamlNode::kScalar) return &value->text;
  Fail(key, "must be a single value");
  return nullptr;
}

bool YamlFields::Parse(std::string_view key, int64_t& out, int64_t low, int64_t high) {
  const std::string* text = Text(key);
  if (!text) return false;
  std::optional<int64_t> value =
      text->starts_with("0x") ? ParseInt<int64_t>(text->substr(2), 16) : ParseInt<int64_t>(*text);
  if (!value) {  // 1e6
    std::optional<double> number = ParseDouble(*text);
    if (number && std::abs(*number) < 1e18 && std::floor(*number) == *number) {
      value = static_cast<int64_t>(*number);
    }
  }
  if (value && *value >= low && *value <= high) return out = *value, true;
  Fail(key, "is not a whole number in range");
  return false;
}

bool YamlFields::Parse(std::string_view key, double& out, double low, double high) {
  const std::string* text = Text(key);
  if (!text) return false;
  std::optional<double> value = ParseDouble(*text);
  if (value && std::isfinite(*value) && *value >= low && *value <= high) return out = *value, true;
  Fail(key, "is not a number in range");
  return false;
}

int YamlFields::IndexOf(std::string_view key, std::initializer_list<std::string_view> words) {
  const std::string* text = Text(key);
  if (!text) return -1;
  auto found = std::find(words.begin(), words.end(), *text);
  if (found != words.end()) return static_cast<int>(found - words.begin());
  Fail(key, "has an unknown value '" + *text + "'");
  return -1;
}

YamlFields& YamlFields::Flag(std::string_view key, bool& out) {
  const std::string* text = Text(key);
  if (text && *text != "true" && *text != "false") return Fail(key, "is not true or false");
  if (text) out = *text == "true";
  return *this;
}

YamlFields& YamlFields::Bytes(std::string_view key, double& out) {
  const std::string* text = Text(key);
  if (!text) return *this;
  std::string_view digits = *text;
  double unit = 1;
  for (auto [suffix, size] : {std::pair<std::string_view, double>{"GiB", 1 << 30}, {"MiB", 1 << 20}}) {
    if (!digits.ends_with(suffix)) continue;
    digits.remove_suffix(suffix.size());
    unit = size;
  }
  std::optional<double> value = ParseDouble(digits);
  if (!value || !(*value >= 0 && *value < 1e15)) return Fail(key, "is not a size");
  out = *value * unit;
  return *this;
}

YamlFields& YamlFields::String(std::string_view key, std::string& out) {
  if (const std::string* text = Text(key)) out = *text;
  return *this;
}

bool YamlFields::IsShortList(const YamlNode& list, std::string_view key) {
  if (list.kind == YamlNode::kList && list.items.size() <= kListItems) return true;
  Fail(key, "must be a short list");
  return false;
}

Status YamlFields::Done() {
  for (const YamlNode::Member& member : map_.members) {
    if (status_.ok() && std::find(known_.begin(), known_.end(), member.key) == known_.end())
      status_ = YamlError(where_, member.key_mark.line, "unknown key '" + member.key + "'");
  }
  return status_;
}

}  // namespace gpulens
