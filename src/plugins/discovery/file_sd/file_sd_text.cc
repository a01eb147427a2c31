#include "plugins/discovery/file_sd/file_sd_text.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <sstream>

#include "base/result.h"
#include "base/text.h"
#include "net/message/address.h"
#include "scrape/engine/engine_row.h"

namespace gpulens::file_sd {
namespace {

// Thrown through the parser to end it; the builder holds what is wrong.
struct Stop {};

std::string Shown(std::string_view text) {
  std::string out = "'";
  AppendPrintable(out, text.substr(0, 80));
  return out + "'";
}

// The shape is fixed, so the parser's events need no tree: where we are tells what may come. Depth,
// aliases and anything else are refused when they are met.
class Builder final : public YAML::EventHandler {
 public:
  std::vector<Group> groups;
  Status problem;

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) Fail(mark, "a second document; a file must be one list");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override {
    if (at_ == At::kTop) return;  // an empty file
    if (at_ == At::kTargetsValue || at_ == At::kLabelsValue) {
      at_ = At::kGroup;
      return;
    }
    Fail(mark, "expected " + Wanted() + ", got nothing");
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { Fail(mark, "aliases are not supported"); }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                const std::string& value) override {
    // A plain empty value of a label comes as "null" or "~" in JSON and YAML alike.
    bool nothing = tag == "?" && (value == "null" || value == "~");
    if (value.size() > kLabelBytes)
      Exceed(mark, "a text of more than " + std::to_string(kLabelBytes) + " bytes");
    if (!IsUtf8(value) || std::any_of(value.begin(), value.end(), [](unsigned char c) { return c < 0x20; })) {
      Fail(mark, Shown(value) + " is not a single line of text");
    }
    switch (at_) {
      case At::kGroup: return Key(mark, value);
      case At::kTargets:
        if (++targets_ > kFileTargets) Exceed(mark, "more than " + std::to_string(kFileTargets) + " targets");
        if (value.empty() || nothing) Fail(mark, "an empty target");
        groups.back().targets.push_back(value);
        return;
      case At::kLabels: return LabelKey(mark, value);
      case At::kLabelValue:
        groups.back().labels[key_] = nothing ? "" : value;
        at_ = At::kLabels;
        return;
      default: Fail(mark, "expected " + Wanted() + ", got " + Shown(value));
    }
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    if (at_ == At::kTop) at_ = At::kList;
    else if (at_ == At::kTargetsValue) at_ = At::kTargets;
    else Fail(mark, "expected " + Wanted() + ", got a list");
  }
  void OnSequenceEnd() override { at_ = at_ == At::kTargets ? At::kGroup : At::kEnd; }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    if (at_ == At::kList) {
      // A group may be without targets, so these are counted, too.
      if (groups.size() == kFileTargets)
        Exceed(mark, "more than " + std::to_string(kFileTargets) + " groups");
      groups.push_back({mark.line + 1, {}, {}});
      has_targets_ = has_labels_ = false;
      at_ = At::kGroup;
    } else if (at_ == At::kLabelsValue) {
      at_ = At::kLabels;
    } else {
      Fail(mark, "expected " + Wanted() + ", got a map");
    }
  }
  void OnMapEnd() override { at_ = at_ == At::kLabels ? At::kGroup : At::kList; }

 private:
  enum class At { kTop, kList, kGroup, kTargetsValue, kTargets, kLabelsValue, kLabels, kLabelValue, kEnd };

  [[noreturn]] void Fail(const YAML::Mark& mark, const std::string& what) {
    problem = {Code::kInvalidArgument, "line " + std::to_string(mark.line + 1) + ": " + what};
    throw Stop{};
  }
  [[noreturn]] void Exceed(const YAML::Mark& mark, const std::string& what) {
    problem = {Code::kExhausted, "line " + std::to_string(mark.line + 1) + ": " + what};
    throw Stop{};
  }
  std::string Wanted() const {
    switch (at_) {
      case At::kTop: return "a list of {targets, labels}";
      case At::kList: return "a map with targets and labels";
      case At::kGroup: return "a key";
      case At::kTargetsValue: return "a list of targets";
      case At::kTargets: return "a target like host:port";
      case At::kLabelsValue: return "a map of labels";
      case At::kLabels: return "the key of a label";
      case At::kLabelValue: return "the text of a label";
      case At::kEnd: break;
    }
    return "the end";
  }
  void Key(const YAML::Mark& mark, const std::string& value) {
    bool targets = value == "targets";
    if (!targets && value != "labels") Fail(mark, "unknown key " + Shown(value) + "; known: targets, labels");
    bool& seen = targets ? has_targets_ : has_labels_;
    if (seen) Fail(mark, "duplicate key " + value);
    seen = true;
    at_ = targets ? At::kTargetsValue : At::kLabelsValue;
  }
  void LabelKey(const YAML::Mark& mark, const std::string& value) {
    auto good = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
             c == '.';
    };
    bool digit = !value.empty() && value[0] >= '0' && value[0] <= '9';
    if (value.empty() || digit || !std::all_of(value.begin(), value.end(), good)) {
      Fail(mark, Shown(value) + " is not a valid label name");
    }
    if (groups.back().labels.contains(value)) Fail(mark, "duplicate label " + value);
    if (groups.back().labels.size() == kGroupLabels) {
      Exceed(mark, "more than " + std::to_string(kGroupLabels) + " labels");
    }
    key_ = value;
    at_ = At::kLabelValue;
  }

  At at_ = At::kTop;
  int documents_ = 0;
  size_t targets_ = 0;
  bool has_targets_ = false, has_labels_ = false;
  std::string key_;
};

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
  Builder builder;
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const Stop&) {
    return builder.problem;
  } catch (const YAML::Exception& error) {
    return Status{Code::kInvalidArgument, "line " + std::to_string(error.mark.line + 1) + ": " + error.msg};
  } catch (const std::exception& error) {
    return Status{Code::kInvalidArgument, error.what()};
  }
  return std::move(builder.groups);
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
