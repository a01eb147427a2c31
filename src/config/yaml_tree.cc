#include "config/yaml_tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <sstream>
#include <unordered_map>
#include <utility>

#include "base/text.h"

namespace gpulens {
namespace {

// Thrown through the parser to end it; what is wrong has been said.
struct Stop {};

}  // namespace

const YamlNode::Member* YamlNode::FindMember(std::string_view key) const noexcept {
  auto found = std::find_if(members.begin(), members.end(), [&](const Member& m) { return m.key == key; });
  return found == members.end() ? nullptr : &*found;
}

const YamlNode* YamlNode::Find(std::string_view key) const noexcept {
  const Member* member = FindMember(key);
  return member == nullptr ? nullptr : member->value;
}

TextSpan YamlNode::Within(size_t at, size_t length) const noexcept {
  if (!literal || length == 0) return span;
  at = std::min(at, text.size());
  std::string_view rest = text;
  int before = static_cast<int>(CountCharacters(rest.substr(0, at)));
  int characters = static_cast<int>(CountCharacters(rest.substr(at, length)));
  return {span.line, text_column + before, std::max(characters, 1)};
}

// The parser's events to nodes. A class of its own and not in the unnamed namespace because YamlTree
// names it as its friend.
class YamlBuilder final : public YAML::EventHandler {
 public:
  YamlBuilder(const SourceText& source, Problems& problems) : source_(source), problems_(problems) {}

  YamlTree Take() && { return std::move(tree_); }
  void Finish() { tree_.root_ = root_; }
  // Whether the last scalar surely ends in its own line.
  bool last_quote_ends_here() const noexcept { return last_quote_ends_here_; }

  [[noreturn]] void Fail(TextSpan span, std::string message, std::string hint = {}) {
    problems_.Add(source_.SpotOf(span), std::move(message), std::move(hint));
    throw Stop{};
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) {
      Fail(SpanAt(mark, 1), "a second document", "one file is one document: remove the line ---");
    }
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { Nothing(mark, anchor); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    auto found = anchors_.find(anchor);
    if (found == anchors_.end() || std::any_of(open_.begin(), open_.end(), [&](const Open& open) {
          return open.node == found->second;
        })) {
      Fail(SpanAt(mark, 1), "an alias that refers to itself");
    }
    Attach(found->second, SpanAt(mark, 1));
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    CheckTag(mark, tag);
    YamlNode& node = Make(mark, anchor, YamlNode::kScalar);
    node.text = value;
    Locate(mark, node);
    Attach(&node, node.span);
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
    std::unordered_map<std::string, TextSpan> keys;
    bool want_value = false;
    bool drop_value = false;  // of a duplicate key
    std::string key;
    TextSpan key_span;
  };

  TextSpan SpanAt(const YAML::Mark& mark, size_t bytes) const {
    return source_.SpanOf(mark.line, mark.column, bytes);
  }

  // Where the text of a scalar stands in its line, so that carets can point into it.
  void Locate(const YAML::Mark& mark, YamlNode& node) {
    std::string_view line = source_.Line(mark.line + 1);
    size_t at = std::min(static_cast<size_t>(std::max(mark.column, 0)), line.size());
    std::string_view rest = line.substr(at);
    bool quoted = rest.starts_with('"') || rest.starts_with('\'');
    std::string_view inner = rest.substr(quoted ? 1 : 0);
    last_quote_ends_here_ = !quoted;
    node.literal =
        inner.starts_with(node.text) && (!quoted || inner.substr(node.text.size()).starts_with(rest[0]));
    if (node.literal) {
      node.span = SpanAt(mark, node.text.size() + (quoted ? 2 : 0));
      node.text_column = node.span.column + (quoted ? 1 : 0);
      last_quote_ends_here_ = true;
    } else {
      node.span = SpanAt(mark, rest.size());
    }
  }

  void CheckTag(const YAML::Mark& mark, const std::string& tag) {
    constexpr std::string_view kCore = "tag:yaml.org,2002:";
    constexpr std::string_view kPlain[] = {"str", "int", "float", "bool", "null", "map", "seq"};
    if (tag.empty() || tag == "?" || tag == "!") return;
    std::string_view name = std::string_view(tag).substr(tag.starts_with(kCore) ? kCore.size() : 0);
    if (std::find(std::begin(kPlain), std::end(kPlain), name) != std::end(kPlain)) return;
    Fail(SpanAt(mark, 1), "the tag " + QuotedText(tag) + " is not supported here", "remove it");
  }

  YamlNode& Make(const YAML::Mark& mark, YAML::anchor_t anchor, YamlNode::Kind kind) {
    YamlNode& node = tree_.nodes_.emplace_back();
    node.kind = kind;
    node.span = SpanAt(mark, 1);
    if (tree_.nodes_.size() > kConfigValues) {
      Fail(node.span, "more than " + std::to_string(kConfigValues) + " values");
    }
    if (anchor != YAML::NullAnchor) anchors_[anchor] = &node;
    return node;
  }

  void Nothing(const YAML::Mark& mark, YAML::anchor_t anchor) {
    YamlNode& node = Make(mark, anchor, YamlNode::kNull);
    // Nothing stands there: what is said about it points at its key.
    if (!open_.empty() && open_.back().want_value) node.span = open_.back().key_span;
    Attach(&node, node.span);
  }

  void Begin(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, YamlNode::Kind kind) {
    CheckTag(mark, tag);
    YamlNode& node = Make(mark, anchor, kind);
    if (open_.size() >= kConfigDepth) {
      Fail(node.span, "nested deeper than " + std::to_string(kConfigDepth) + " levels");
    }
    if (!open_.empty() && open_.back().node->kind == YamlNode::kMap && !open_.back().want_value) {
      Fail(node.span, "a key must be a text", "put it between quotes, or close its brackets");
    }
    open_.emplace_back().node = &node;
  }

  void End() {
    YamlNode* node = open_.back().node;
    open_.pop_back();
    Attach(node, node->span);
  }

  void Key(const YamlNode& node, TextSpan span) {
    Open& open = open_.back();
    if (node.kind != YamlNode::kScalar) Fail(span, "a key must be a text");
    if (node.text.size() > kConfigKeyBytes) {
      Fail(span, "a key of more than " + std::to_string(kConfigKeyBytes) + " bytes");
    }
    auto [first, is_new] = open.keys.emplace(node.text, span);
    if (!is_new) {
      std::string place = std::to_string(first->second.line) + ":" + std::to_string(first->second.column);
      problems_.Add(source_.SpotOf(span), "duplicate key " + QuotedText(node.text) + ", first at " + place,
                    "two blocks: put their keys into one");
    }
    open.drop_value = !is_new;
    open.want_value = true;
    open.key = node.text;
    open.key_span = span;
  }

  void Attach(const YamlNode* node, TextSpan span) {
    if (open_.empty()) {
      root_ = node;
      return;
    }
    Open& open = open_.back();
    if (open.node->kind == YamlNode::kMap && !open.want_value) return Key(*node, span);
    open.node->expanded += node->expanded;
    open.node->height = std::max(open.node->height, node->height + 1);
    if (open.node->expanded > kConfigValues) {
      Fail(span, "aliases expand to more than " + std::to_string(kConfigValues) + " values");
    }
    if (static_cast<int>(open_.size()) + node->height > kConfigDepth + 1) {
      Fail(span, "nested deeper than " + std::to_string(kConfigDepth) + " levels");
    }
    if (open.node->kind == YamlNode::kList) return open.node->items.push_back(node);
    open.want_value = false;
    if (!open.drop_value) open.node->members.push_back({std::move(open.key), open.key_span, node});
  }

  const SourceText& source_;
  Problems& problems_;
  YamlTree tree_;
  const YamlNode* root_ = nullptr;
  std::vector<Open> open_;
  std::unordered_map<YAML::anchor_t, const YamlNode*> anchors_;
  int documents_ = 0;
  bool last_quote_ends_here_ = true;
};

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

void AddSyntaxError(const SourceText& source, const YAML::Exception& error, Problems& problems) {
  int line = std::max(error.mark.line, 0);
  for (int candidate : {line, line - 1}) {
    size_t tab = IndentingTab(source.Line(candidate + 1));
    if (tab == std::string_view::npos) continue;
    problems.Add(source.SpotOf(source.SpanOf(candidate, static_cast<int>(tab), 1)),
                 "a tab at the start of the line", "indent with spaces only");
    return;
  }
  std::string message, hint;
  AppendPrintable(message, error.msg);
  for (const Reworded& row : kReworded) {
    if (error.msg == row.theirs) message = row.message, hint = row.hint;
  }
  int column = std::max(error.mark.column, 0);
  if (line >= source.lines() && source.lines() > 0) {  // past the last line: point at its end
    line = source.lines() - 1;
    column = static_cast<int>(source.Line(line + 1).size());
  }
  problems.Add(source.SpotOf(source.SpanOf(line, column, 1)), std::move(message), std::move(hint));
}

// Hears nothing: for a parse whose errors alone are wanted.
class Deaf final : public YAML::EventHandler {
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

// Bytes that no YAML text holds. True when something was said.
bool HasForeignBytes(const SourceText& source, Problems& problems) {
  for (int line = 1; line <= source.lines(); ++line) {
    std::string_view whole = source.Line(line), rest = whole;
    while (!rest.empty()) {
      size_t length = Utf8Length(rest);
      bool zero = rest[0] == '\0';
      if (length == 0 || zero) {
        TextSpan span = source.SpanOf(line - 1, static_cast<int>(whole.size() - rest.size()), 1);
        problems.Add(source.SpotOf(span), zero ? "a zero byte" : "a byte that is not UTF-8",
                     "save the file as text in UTF-8");
        return true;
      }
      rest.remove_prefix(length);
    }
  }
  return false;
}

}  // namespace

YamlTree ParseYaml(const SourceText& source, Problems& problems) {
  if (source.text().size() > kConfigBytes) {
    problems.Add({source.name(), 0, 0, 1, {}, 0}, "larger than 1 MiB",
                 "a configuration is smaller than that");
    return {};
  }
  if (HasForeignBytes(source, problems)) return {};
  YamlBuilder builder(source, problems);
  try {
    ParseAll(source.text(), builder);
    if (!builder.last_quote_ends_here()) {
      // yaml-cpp misses a quote that is never closed when blanks or newlines end the text.
      Deaf deaf;
      ParseAll(source.text().substr(0, source.text().find_last_not_of(" \t\r\n") + 1), deaf);
    }
    builder.Finish();
  } catch (const Stop&) {
  } catch (const YAML::Exception& error) {
    AddSyntaxError(source, error, problems);
  } catch (const std::exception& error) {
    problems.Add({source.name(), 0, 0, 1, {}, 0}, std::string("cannot be read as YAML: ") + error.what());
  }
  return std::move(builder).Take();
}

}  // namespace gpulens
