// The schema beside the tree of a file: every option gets its value, its origin, or a problem.
#pragma once

#include <string>
#include <utility>

#include "config/diagnostic.h"
#include "config/overlay.h"
#include "config/schema.h"
#include "config/validate.h"
#include "config/yaml_tree.h"
#include "plugins/config.h"

namespace gpulens {

// One per tree: defaults that are lists or maps are trees of their own, of origin kDefault. Not
// thread-safe; what it is given must outlive it.
class Walk {
 public:
  struct Shared {
    const Schema& schema;
    const Overlay& overlay;
    Problems& problems;
    ValueSpots spots;
  };

  Walk(Shared& shared, const SourceText& source, Origin::Where where)
      : shared_(shared), source_(source), where_(where) {}

  Config Group(const OptionSpec& group, const YamlNode* node, const std::string& path);
  Config::Value Value(const OptionSpec& spec, const YamlNode* node, const std::string& path);

 private:
  static std::string Below(const std::string& path, std::string_view key) {
    return path.empty() ? std::string(key) : path + "." + std::string(key);
  }
  Origin OriginOf(const YamlNode* node) const {
    if (node == nullptr || where_ == Origin::kDefault) return {};
    Origin origin{where_, source_.name(), node->span.line, node->span.column};
    origin.secret = node->secret;
    for (const YamlNode* item : node->items) origin.secret = origin.secret || item->secret;
    for (const YamlNode::Member& member : node->members)
      origin.secret = origin.secret || member.value->secret;
    return origin;
  }

  void AddAt(TextSpan span, std::string message, std::string hint = {}) {
    shared_.problems.Add(source_.SpotOf(span), std::move(message), std::move(hint));
  }
  void CheckKeys(const OptionSpec& group, const YamlNode& node, const std::string& path);
  void CheckRequired(const OptionSpec& group, const YamlNode* node, const Config& config,
                     const std::string& path);
  Config::Entry Option(const OptionSpec& spec, const YamlNode* node, const std::string& path);
  bool Text(const OptionSpec& spec, const YamlNode& node, const std::string& path, Config::Value& out);
  Config::Value Texts(const OptionSpec& spec, const YamlNode& node, const std::string& path);
  Config::Value TextMap(const OptionSpec& spec, const YamlNode& node, const std::string& path);
  Config::Value Groups(const OptionSpec& spec, const YamlNode& node, const std::string& path);
  Config::Value Default(const OptionSpec& spec, const std::string& path);
  bool FromOverlay(const OptionSpec& spec, const Setting& setting, const std::string& path,
                   Config::Value& out);
  void WrongKind(const OptionSpec& spec, const YamlNode& node, const std::string& path);

  Shared& shared_;
  const SourceText& source_;
  Origin::Where where_;
  bool required_matters_ = true;  // not in a plugin that is off
};

}  // namespace gpulens
