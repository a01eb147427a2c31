// Discovery of targets in files of the format of Prometheus's file_sd.

#include "plugins/discovery/file_sd/file_sd.h"

#include <glob.h>

#include <algorithm>

#include "base/files.h"
#include "base/log.h"
#include "base/result.h"
#include "base/text.h"
#include "base/threads.h"
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

// JSON's null, which yaml-cpp returns as plain text.
bool IsNothing(const YamlNode& node) { return !node.quoted && (node.text == "null" || node.text == "~"); }

Status CheckText(int line, std::string_view text) {
  if (text.size() > kLabelBytes)
    return Exceeded(line, "a text of more than " + std::to_string(kLabelBytes) + " bytes");
  if (std::ranges::any_of(text, [](unsigned char c) { return c < 0x20; }))
    return Wrong(line, Shown(text) + " is not a single line of text");
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
    if (key.empty() || (key[0] >= '0' && key[0] <= '9') || !std::ranges::all_of(key, good))
      return Wrong(mark.line, Shown(key) + " is not a valid label name");
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

// Applies a group's labels to all its targets.
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
  if (scheme != "http" && scheme != "https")
    return {Code::kInvalidArgument, "__scheme__ " + Shown(scheme) + " is neither http nor https"};
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
      if (key != "targets" && key != "labels")
        return Wrong(mark.line, "unknown key " + Shown(key) + "; known: targets, labels");
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
      if (address.find('/') != std::string::npos || address.find('@') != std::string::npos)
        return wrong(Shown(address) + " is not host:port; set the path in __metrics_path__");
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

namespace gpulens {
namespace {

using std::chrono::seconds;

constexpr size_t kMaxFiles = 256;
constexpr size_t kMaxTargets = 5000;

constexpr std::string_view kKinds[] = {"auto", "prometheus", "engine", "gpu"};
constexpr OptionSpec kOptions[] = {
    {.key = "files",
     .type = OptionType::kTexts,
     .help = "Files of targets in Prometheus's file_sd format, JSON or YAML; patterns like "
             "/etc/gpulens/targets/*.yaml.",
     .required = true},
    TextOption(
        "kind", "auto",
        "The kind of the targets; a group's label __kind__ overrides it with any kind of targets[].kind.",
        kKinds),
    TimeOption("refresh", "5s", "How often the files are checked.", 0.1, 86400),
};
using Options = OptionsOf<kOptions>;

// Returns the matching files, each once, in order. A pattern may match no file yet.
std::vector<std::string> Matching(const std::vector<std::string>& patterns, bool& too_many) {
  std::vector<std::string> out;
  for (const std::string& pattern : patterns) {
    glob_t found{};
    if (::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found) == 0) {
      for (size_t i = 0; i < found.gl_pathc; ++i) out.emplace_back(found.gl_pathv[i]);
    }
    ::globfree(&found);
  }
  std::ranges::sort(out);
  out.erase(std::unique(out.begin(), out.end()), out.end());
  too_many = out.size() > kMaxFiles;
  if (too_many) out.resize(kMaxFiles);
  return out;
}

Result<std::vector<FoundTarget>> ReadTargets(const std::string& path, const std::string& kind) {
  Result<std::string> text = ReadFile(path, file_sd::kFileBytes);
  if (!text) return text.error();
  auto groups = file_sd::ParseGroups(*text);
  if (!groups) return groups.error();
  return file_sd::ToTargets(*groups, kind);
}

// Scan runs on a worker during a Fetch, Targets on the loop between two: never concurrently.
class FileSd final : public Discovery {
 public:
  FileSd(const Options& options, Env& env)
      : patterns_(options.Texts("files")), kind_(options.Text("kind")), workers_(env.workers) {}

  void Fetch(Instant, std::function<void(Status)> done) override {
    auto shared = std::make_shared<std::function<void(Status)>>(std::move(done));
    bool posted = workers_ && workers_->Post([this, shared] {
      Scan();
      (*shared)(Ok());
    });
    if (!posted) (*shared)({Code::kExhausted, "the work queue is full"});
  }
  std::vector<FoundTarget> Targets() const override { return targets_; }

 private:
  struct File {
    FileMark mark;
    std::vector<FoundTarget> targets;
    bool seen = false;
  };

  void Scan() {
    bool too_many = false, changed = false;
    for (auto& [path, file] : files_) file.seen = false;
    for (const std::string& path : Matching(patterns_, too_many)) changed |= Read(path);
    if (too_many)
      Log(LogLevel::kWarn, "discovery", "file_sd_limit", "more than 256 files match; the rest is left out");
    changed |= std::erase_if(files_, [](const auto& entry) { return !entry.second.seen; }) != 0;
    if (!changed) return;
    targets_.clear();
    for (const auto& [path, file] : files_) {
      for (const FoundTarget& target : file.targets) {
        if (targets_.size() < kMaxTargets) targets_.push_back(target);
        else
          Log(LogLevel::kWarn, "discovery", "file_sd_limit", "more than 5000 targets; the rest is left out");
      }
    }
  }
  // The mark is taken before the bytes: a write in between shows as another mark next time.
  bool Read(const std::string& path) {
    File& file = files_[path];
    file.seen = true;
    FileMark mark = MarkOf(path);
    if (mark == file.mark) return false;
    file.mark = mark;
    auto read = ReadTargets(path, kind_);
    if (!read) {
      Log(LogLevel::kWarn, "discovery", "file_sd_bad",
          path + ": " + read.error().detail + "; its last valid targets are kept", path);
      return false;
    }
    file.targets = std::move(*read);
    return true;
  }

  const std::vector<std::string> patterns_;
  const std::string kind_;
  Workers* const workers_;
  std::map<std::string, File> files_;
  std::vector<FoundTarget> targets_;
};

Result<std::unique_ptr<Discovery>> Create(const Config& config, Env& env) {
  return std::unique_ptr<Discovery>(std::make_unique<FileSd>(config, env));
}

std::vector<Finding> Probe(const Config& config, Env&) {
  const Options options(config);
  std::vector<Finding> findings;
  bool too_many = false;
  for (const std::string& path : Matching(options.Texts("files"), too_many)) {
    auto read = ReadTargets(path, options.Text("kind"));
    if (read) {
      findings.push_back(
          {Finding::kFound, "file_sd", path + ": " + std::to_string(read->size()) + " targets", "", ""});
    } else if (read.error().code == Code::kPermissionDenied) {
      findings.push_back({Finding::kNoPermission, "file_sd", path, read.error().detail, "chmod o+r " + path});
    } else {
      findings.push_back({Finding::kBroken, "file_sd", path, read.error().detail, ""});
    }
  }
  if (findings.empty())
    findings.push_back({Finding::kNotHere, "file_sd", "", "no file matches discovery.file_sd.files", ""});
  return findings;
}

}  // namespace

extern const DiscoverySpec file_sd_discovery;
const DiscoverySpec file_sd_discovery{
    .name = "file_sd",
    .help = "Targets from files, as Prometheus's file_sd_configs reads them.",
    .on_by_default = false,
    .period = seconds(5),
    .options = kOptions,
    .create = &Create,
    .probe = &Probe};

}  // namespace gpulens
