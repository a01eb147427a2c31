#include "plugins/discovery/file_sd/file_sd_text.h"

#include <algorithm>

#include "base/result.h"
#include "base/text.h"
#include "base/yaml/yaml.h"
#include "net/message/address.h"
#include "scrape/engine/engine_row.h"

namespace gpulens::file_sd {
namespace {

std::string Shown(std::string_view text) {
  std::string out = "'";
  AppendPrintable(out, text.substr(0, 80));
  return out + "'";
}

Status Wrong(int line, const std::string& what) { return YamlError("line ", line, what); }
Status Exceeded(int line, const std::string& what) {
  Status status = Wrong(line, what);
  status.code = Code::kExhausted;
  return status;
}

Status WrongKind(const YamlNode& node, const std::string& expected) {
  const char* const kGot[] = {"nothing", "", "a list", "a map"};
  std::string got = node.kind == YamlNode::kScalar ? Shown(node.text) : kGot[node.kind];
  return Wrong(node.mark.line, "expected " + expected + ", got " + got);
}

// The null of JSON, which yaml-cpp gives as a plain text.
bool IsNothing(const YamlNode& node) { return !node.quoted && (node.text == "null" || node.text == "~"); }

Status CheckText(int line, std::string_view text) {
  if (text.size() > kLabelBytes)
    return Exceeded(line, "a text of more than " + std::to_string(kLabelBytes) + " bytes");
  if (std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20; })) {
    return Wrong(line, Shown(text) + " is not a single line of text");
  }
  return Ok();
}

Status ReadTargets(const YamlNode& node, size_t& total, Group& out) {
  if (node.kind == YamlNode::kNull) return Ok();
  if (node.kind != YamlNode::kList) return WrongKind(node, "a list of targets");
  for (const YamlNode* target : node.items) {
    if (target->kind != YamlNode::kScalar) return WrongKind(*target, "a target like host:port");
    RETURN_IF_ERROR(CheckText(target->mark.line, target->text));
    if (++total > kFileTargets)
      return Exceeded(target->mark.line, "more than " + std::to_string(kFileTargets) + " targets");
    if (target->text.empty() || IsNothing(*target)) return Wrong(target->mark.line, "an empty target");
    out.targets.push_back(target->text);
  }
  return Ok();
}

Status ReadLabels(const YamlNode& node, Group& out) {
  if (node.kind == YamlNode::kNull) return Ok();
  if (node.kind != YamlNode::kMap) return WrongKind(node, "a map of labels");
  if (node.members.size() > kGroupLabels)
    return Exceeded(node.mark.line, "more than " + std::to_string(kGroupLabels) + " labels");
  auto good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
  };
  for (const auto& [key, mark, value] : node.members) {
    RETURN_IF_ERROR(CheckText(mark.line, key));
    if (key.empty() || (key[0] >= '0' && key[0] <= '9') || !std::all_of(key.begin(), key.end(), good)) {
      return Wrong(mark.line, Shown(key) + " is not a valid label name");
    }
    if (value->kind != YamlNode::kScalar) return WrongKind(*value, "the text of a label");
    RETURN_IF_ERROR(CheckText(value->mark.line, value->text));
    out.labels[key] = IsNothing(*value) ? "" : value->text;
  }
  return Ok();
}

bool HasLabel(const Group& group, const std::string& key) {
  const auto label = group.labels.find(key);
  return label != group.labels.end() && !label->second.empty();
}

// What a group's labels say of all its targets.
Status Steer(const Group& group, FoundTarget& all, std::string& scheme, std::string& path) {
  std::string query;
  for (const auto& [key, value] : group.labels) {
    if (value.empty()) continue;  // as in Prometheus: an empty label is none
    const bool names_engine = engine_page::FindEngine(value) && !HasLabel(group, "__kind__");
    if (key == "__scheme__") {
      scheme = value;
    } else if (key == "__metrics_path__") {
      path = value[0] == '/' ? value : "/" + value;
    } else if (key == "__kind__" || (key == "engine" && names_engine)) {
      all.options["kind"] = value;
    } else if (key == "__collector__") {
      return {Code::kInvalidArgument, "__collector__ is now called __kind__: engine, prometheus or gpu"};
    } else if (key == "__scrape_interval__") {
      all.options["interval"] = value;
    } else if (key == "__scrape_timeout__") {
      all.options["transport.timeout"] = value;
    } else if (key.starts_with("__param_")) {
      query += query.empty() ? '?' : '&';
      query += PercentEncoded(key.substr(8));
      query += '=';
      query += PercentEncoded(value);
    } else if (key == "target") {
      all.name = value;
    } else if (!key.starts_with("__")) {
      all.attributes[key] = value;
    }
  }
  if (scheme != "http" && scheme != "https") {
    return {Code::kInvalidArgument, "__scheme__ " + Shown(scheme) + " is neither http nor https"};
  }
  path += query;
  return Ok();
}

}  // namespace

Result<std::vector<Group>> ParseGroups(std::string_view text) {
  if (text.size() > kFileBytes) return Status{Code::kExhausted, "the file is longer than 1 MiB"};
  // Groups without targets count as well; each has two keys, each label a key and a value.
  const YamlLimits limits{.values = 4 * kFileTargets + kFileTargets * (2 * kGroupLabels + 4),
                          .key_bytes = kFileBytes,
                          .anchors = false};
  std::vector<YamlProblem> problems;
  YamlTree tree = ParseYaml(text, limits, problems);
  if (!problems.empty()) {
    const YamlProblem& problem = problems[0];
    std::string what = problem.message;
    if (problem.kind == YamlProblem::kDuplicateKey) {
      const bool key = problem.key == "targets" || problem.key == "labels";
      what = (key ? "duplicate key " : "duplicate label ") + problem.key;
    }
    Status status = Wrong(problem.mark.line, what);
    if (problem.kind == YamlProblem::kTooLarge) status.code = Code::kExhausted;
    return status;
  }
  std::vector<Group> groups;
  const YamlNode* root = tree.root();
  if (!root || root->kind == YamlNode::kNull) return groups;
  if (root->kind != YamlNode::kList) return WrongKind(*root, "a list of {targets, labels}");
  if (root->items.size() > kFileTargets) {
    return Exceeded(root->items[kFileTargets]->mark.line,
                    "more than " + std::to_string(kFileTargets) + " groups");
  }
  size_t targets = 0;
  for (const YamlNode* node : root->items) {
    if (node->kind != YamlNode::kMap) return WrongKind(*node, "a map with targets and labels");
    Group& group = groups.emplace_back(Group{node->mark.line, {}, {}});
    for (const auto& [key, mark, value] : node->members) {
      if (key != "targets" && key != "labels") {
        return Wrong(mark.line, "unknown key " + Shown(key) + "; known: targets, labels");
      }
      RETURN_IF_ERROR(key == "targets" ? ReadTargets(*value, targets, group) : ReadLabels(*value, group));
    }
  }
  return groups;
}

Result<std::vector<FoundTarget>> ToTargets(const std::vector<Group>& groups, std::string_view kind) {
  std::vector<FoundTarget> out;
  for (const Group& group : groups) {
    auto wrong = [&](const std::string& what) {
      return Status{Code::kInvalidArgument, "line " + std::to_string(group.line) + ": " + what};
    };
    FoundTarget all;
    all.options["kind"] = kind;
    std::string scheme = "http", path = "/metrics";
    if (Status status = Steer(group, all, scheme, path); !status) return wrong(status.detail);
    for (const std::string& address : group.targets) {
      if (address.find('/') != std::string::npos || address.find('@') != std::string::npos) {
        return wrong(Shown(address) + " is not host:port; set the path in __metrics_path__");
      }
      auto url = ParseHttpUrl(scheme + "://" + address + path);
      if (!url) return wrong(Shown(address) + ": " + url.error().detail);
      FoundTarget target = all;
      if (target.name.empty()) target.name = address;
      target.url = url->ToString();
      out.push_back(std::move(target));
    }
  }
  return out;
}

}  // namespace gpulens::file_sd
