// Targets from files in the format of Prometheus's file_sd.

#include <glob.h>

#include <algorithm>
#include <map>

#include "base/files.h"
#include "base/log.h"
#include "base/workers.h"
#include "plugins/discovery/file_sd/file_sd_text.h"
#include "plugins/plugin.h"

namespace gpulens {
namespace {

using std::chrono::seconds;

constexpr size_t kMaxFiles = 256;
constexpr size_t kMaxTargets = 5000;

// The files that match, each once, in order. A pattern without a match is no error: it may come.
std::vector<std::string> Matching(const std::vector<std::string>& patterns, bool& too_many) {
  std::vector<std::string> out;
  for (const std::string& pattern : patterns) {
    glob_t found{};
    if (::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found) == 0) {
      for (size_t i = 0; i < found.gl_pathc; ++i) out.emplace_back(found.gl_pathv[i]);
    }
    ::globfree(&found);
  }
  std::sort(out.begin(), out.end());
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

// Scan runs on a worker during a Fetch, Targets on the loop between two: never at once.
class FileSd final : public Discovery {
 public:
  FileSd(const Config& config, Env& env)
      : patterns_(config.Texts("files")), kind_(config.Text("kind")), workers_(env.workers) {}

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
  std::vector<Finding> findings;
  bool too_many = false;
  for (const std::string& path : Matching(config.Texts("files"), too_many)) {
    auto read = ReadTargets(path, config.Text("kind"));
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

constexpr std::string_view kKinds[] = {"auto", "prometheus", "engine", "gpu"};
constexpr OptionSpec kOptions[] = {
    {.key = "files",
     .type = OptionType::kTexts,
     .help = "Files of targets in Prometheus's file_sd format, JSON or YAML; patterns like "
             "/etc/gpulens/targets/*.yaml.",
     .required = true},
    {.key = "kind",
     .fallback = "auto",
     .help =
         "The kind of the targets; a group's label __kind__ overrides it with any kind of targets[].kind.",
     .allowed = kKinds},
    {.key = "refresh",
     .type = OptionType::kTime,
     .fallback = "5s",
     .help = "How often the files are checked.",
     .min = 0.1,
     .max = 86400},
};

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
