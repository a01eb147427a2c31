#include "sources/nvml/recording/yaml_nodes.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <sstream>
#include <string_view>
#include <unordered_set>

namespace gpulens::nvml {
namespace {

constexpr size_t kMaxDepth = 8, kMaxNodes = 1'000'000;

struct Stop {
  int line;
  std::string what;
};

class Builder final : public YAML::EventHandler {
 public:
  YamlValue Take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) throw Stop{Line(mark), "a second document"};
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { Add(mark, anchor, {}, YamlValue{}); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    throw Stop{Line(mark), "aliases are not supported"};
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    YamlValue node;
    node.text = value;
    node.quoted = tag == "!";
    Add(mark, anchor, tag == "!" ? std::string() : tag, std::move(node));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(mark, tag, anchor, YamlValue::Kind::kList);
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Open(mark, tag, anchor, YamlValue::Kind::kMap);
  }
  void OnMapEnd() override { Close(); }

 private:
  struct Level {
    YamlValue node;
    std::unordered_set<std::string> keys;
  };

  static int Line(const YAML::Mark& mark) { return mark.line + 1; }

  void Open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, YamlValue::Kind kind) {
    Check(mark, anchor, tag);
    if (open_.size() == kMaxDepth) throw Stop{Line(mark), "nested too deeply"};
    Level& level = open_.emplace_back();
    level.node.kind = kind;
    level.node.line = Line(mark);
  }
  void Close() {
    Level level = std::move(open_.back());
    open_.pop_back();
    Attach(std::move(level.node));
  }
  void Add(const YAML::Mark& mark, YAML::anchor_t anchor, const std::string& tag, YamlValue node) {
    Check(mark, anchor, tag);
    node.line = Line(mark);
    Attach(std::move(node));
  }
  void Check(const YAML::Mark& mark, YAML::anchor_t anchor, const std::string& tag) {
    if (anchor != YAML::NullAnchor) throw Stop{Line(mark), "anchors are not supported"};
    if (!tag.empty() && tag != "?") throw Stop{Line(mark), "tags are not supported"};
    if (++nodes_ > kMaxNodes) throw Stop{Line(mark), "too large"};
  }
  void Attach(YamlValue node) {
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Level& level = open_.back();
    if (level.node.kind == YamlValue::Kind::kMap && level.node.items.size() % 2 == 0) {
      if (node.kind != YamlValue::Kind::kScalar) throw Stop{node.line, "a key must be a single value"};
      if (!level.keys.insert(node.text).second) throw Stop{node.line, "duplicate key '" + node.text + "'"};
    }
    level.node.items.push_back(std::move(node));
  }

  YamlValue root_;
  std::vector<Level> open_;
  size_t nodes_ = 0, documents_ = 0;
};

Status Wrong(int line, const std::string& what) {
  return {Code::kInvalidArgument, "recording line " + std::to_string(line) + ": " + what};
}

}  // namespace

Result<YamlValue> ParseYamlNodes(const std::string& text) {
  Builder builder;
  try {
    std::istringstream in(text);
    YAML::Parser parser(in);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const Stop& stop) {
    return Wrong(stop.line, stop.what);
  } catch (const YAML::Exception& error) {
    return Wrong(error.mark.line + 1, error.msg);
  }
  return builder.Take();
}

}  // namespace gpulens::nvml
