#include "agent/targets/found_targets.h"

#include <algorithm>
#include <set>

#include "agent/targets/own_pages.h"
#include "base/log.h"
#include "base/result.h"
#include "base/text.h"
#include "base/threads.h"
#include "config/loader.h"
#include "net/message/address.h"
#include "pipeline/repeated_fetch.h"
#include "scrape/page_target.h"

namespace gpulens {

namespace {

// Timeout of one run; the plugins have shorter timeouts of their own.
constexpr Duration kRunTimeout = std::chrono::seconds(30);

}  // namespace

struct DiscoveryRunner::Running {
  const DiscoverySpec* spec = nullptr;
  Config config;
  std::unique_ptr<Discovery> discovery;
  std::unique_ptr<RepeatedFetch> fetch;  // null: nothing runs here
  std::vector<FoundTarget> found;        // guarded by the runner's mutex
};

bool IsDiscoveryEnabled(const DiscoverySpec& spec, const Config& config) {
  if (!config.Has("discovery") || !config.Group("discovery").Has(spec.name)) return false;
  return config.Group("discovery").Group(spec.name).Bool("enabled");
}

DiscoveryRunner::DiscoveryRunner(Env& env, std::span<const DiscoverySpec* const> specs,
                                 std::function<void()> changed)
    : env_(env), specs_(specs), changed_(std::move(changed)) {}

DiscoveryRunner::~DiscoveryRunner() = default;

Status DiscoveryRunner::Apply(const Config& config) {
  std::vector<std::shared_ptr<Running>> next, added, present;
  {
    std::lock_guard lock(mutex_);
    present = running_;
  }
  for (const DiscoverySpec* spec : specs_) {
    if (!IsDiscoveryEnabled(*spec, config)) continue;
    const Config& own = config.Group("discovery").Group(spec->name);
    auto old =
        std::ranges::find_if(present, [&](const auto& r) { return r->spec == spec && r->config == own; });
    if (old != present.end()) {
      next.push_back(*old);
      continue;
    }
    auto made = std::make_shared<Running>();
    made->spec = spec;
    made->config = own;
    ASSIGN_OR_RETURN(made->discovery, spec->create(own, env_));
    if (env_.io && env_.workers) {
      const RepeatedFetch::Pace pace{own.Has("refresh") ? own.Time("refresh") : spec->period, kRunTimeout};
      made->fetch = std::make_unique<RepeatedFetch>(
          *made->discovery, pace, env_,
          [this, raw = made.get()](const Status& status) { OnResult(*raw, status); });
    }
    // Keeps the targets of its predecessor until its first result.
    auto before = std::ranges::find_if(present, [&](const auto& r) { return r->spec == spec; });
    if (before != present.end()) {
      std::lock_guard lock(mutex_);
      made->found = (*before)->found;
    }
    next.push_back(made);
    added.push_back(std::move(made));
  }
  {
    std::lock_guard lock(mutex_);
    if (stopped_) return Ok();
    std::erase_if(leaving_, [](const auto& r) { return !r->fetch || !r->fetch->busy(); });
    for (const auto& old : present) {
      if (std::ranges::find(next, old) != next.end()) continue;
      if (old->fetch) old->fetch->Stop();
      leaving_.push_back(old);
    }
    running_ = std::move(next);
  }
  for (const auto& running : added) {
    if (running->fetch) running->fetch->Start();
  }
  return Ok();
}

void DiscoveryRunner::OnResult(Running& running, const Status& status) {
  std::vector<FoundTarget> found;
  if (status) found = running.discovery->Targets();
  else Log(LogLevel::kDebug, "discovery", "look_failed", status.detail, running.spec->name);
  {
    std::lock_guard lock(mutex_);
    if (status && found != running.found) {
      running.found = std::move(found);
      unreported_ = true;
    }
  }
  ReportChanged();
}

// After a full queue it is tried again at the next result.
void DiscoveryRunner::ReportChanged() {
  {
    std::lock_guard lock(mutex_);
    if (!unreported_ || reporting_ || stopped_) return;
    unreported_ = false;
    reporting_ = true;
  }
  bool posted = env_.workers->Post([this] {
    changed_();
    std::lock_guard lock(mutex_);
    reporting_ = false;
  });
  if (posted) return;
  std::lock_guard lock(mutex_);
  unreported_ = true;
  reporting_ = false;
}

void DiscoveryRunner::Stop() {
  std::lock_guard lock(mutex_);
  stopped_ = true;
  for (const auto& running : running_) {
    if (running->fetch) running->fetch->Stop();
  }
}

std::vector<FoundTarget> DiscoveryRunner::found() const {
  std::lock_guard lock(mutex_);
  std::vector<FoundTarget> out;
  for (const auto& running : running_) out.insert(out.end(), running->found.begin(), running->found.end());
  return out;
}

namespace {

constexpr std::string_view kTargets = "targets";
// The loader takes some thousands of values of one text.
constexpr size_t kAtOnce = 100;

const OptionSpec* Find(std::span<const OptionSpec> options, std::string_view key) {
  auto found = std::ranges::find_if(options, [&](const OptionSpec& o) { return o.key == key; });
  return found == options.end() ? nullptr : &*found;
}

// The options of one target; null in a program without any.
const OptionSpec* TargetOptions(const Schema& schema) {
  const OptionSpec* targets = Find(schema.options(), kTargets);
  return targets && targets->type == OptionType::kGroups ? targets : nullptr;
}

// Two forms of one URL are one target.
std::string PageOf(const std::string& text) {
  auto url = ParseHttpUrl(text);
  if (!url) return text;
  if (!url->has_path && url->target == "/") url->target = "/metrics";
  if (url->host == "localhost") url->host = "127.0.0.1";
  return url->ToString();
}

// Numbers and times are written without quotes: a quoted text would have the wrong type.
bool IsBare(std::string_view text) {
  return !text.empty() && text.size() < 32 &&
         std::ranges::all_of(
             text,
             [](char c) {
               return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '.' || c == '-';
             });
}

void AppendTarget(std::string& out, const FoundTarget& target, const OptionSpec& options) {
  out += "{\"name\":";
  AppendJsonString(out, target.name);
  out += ",\"url\":";
  AppendJsonString(out, target.url);
  for (const auto& [key, value] : target.options) {
    // "transport.timeout": one of the group `transport`.
    const size_t dot = key.find('.');
    const OptionSpec* group = dot == key.npos ? nullptr : Find(options.children, key.substr(0, dot));
    const OptionSpec* spec = group ? Find(group->children, key.substr(dot + 1)) : Find(options.children, key);
    if (!spec) continue;
    out += ',';
    if (group) {
      AppendJsonString(out, group->key);
      out += ":{";
    }
    AppendJsonString(out, spec->key);
    out += ':';
    bool text = spec->type == OptionType::kText || spec->type == OptionType::kUrl || !IsBare(value);
    if (text) AppendJsonString(out, value);
    else out += value;
    if (group) out += '}';
  }
  if (!target.attributes.empty()) {
    out += ",\"attributes\":{";
    for (const auto& [key, value] : target.attributes) {
      if (out.back() != '{') out += ',';
      AppendJsonString(out, key);
      out += ':';
      AppendJsonString(out, value);
    }
    out += '}';
  }
  out += "}";
}

// Converts targets by the loader, so that every option has its type and default.
LoadOutcome LoadTargets(const Schema& schema, const OptionSpec& options,
                        std::span<const FoundTarget> targets) {
  std::string text = "{\"targets\":[";
  for (const FoundTarget& target : targets) {
    if (&target != targets.data()) text += ",\n";
    AppendTarget(text, target, options);
  }
  text += "]}";
  ConfigSources sources;
  sources.file_name = "found by discovery";
  sources.file_text = std::move(text);
  sources.inspect_file = nullptr;
  return Load(schema, sources);
}

void AppendLoaded(const LoadOutcome& outcome, std::vector<Config>& out) {
  const std::vector<Config>& loaded = outcome.config.Groups(kTargets);
  out.insert(out.end(), loaded.begin(), loaded.end());
}

// Loads targets in batches. A target that the loader refuses does not affect others.
void Complete(const Schema& schema, const OptionSpec& options, std::span<const FoundTarget> targets,
              std::vector<Config>& out, std::vector<RefusedTarget>& refused) {
  for (size_t first = 0; first < targets.size(); first += kAtOnce) {
    auto some = targets.subspan(first, std::min(kAtOnce, targets.size() - first));
    if (LoadOutcome all = LoadTargets(schema, options, some); all.ok()) {
      AppendLoaded(all, out);
      continue;
    }
    for (const FoundTarget& target : some) {
      LoadOutcome one = LoadTargets(schema, options, {&target, 1});
      if (one.ok()) AppendLoaded(one, out);
      else refused.push_back({target.name, one.errors.empty() ? "" : one.errors.front().message});
    }
  }
}

}  // namespace

Config WithFound(const Config& config, const Schema& schema, std::span<const FoundTarget> found,
                 std::vector<RefusedTarget>& refused) {
  const OptionSpec* options = TargetOptions(schema);
  if (found.empty() || !options) return config;
  const OwnPages own = OwnPages::Of(config);
  std::set<std::string> pages, names;
  std::vector<Config> all = config.Groups(kTargets);
  for (const Config& present : all) {
    pages.insert(PageOf(present.Text("url")));
    names.insert(TargetName(present));
  }
  std::vector<FoundTarget> added;
  for (const FoundTarget& target : found) {
    auto url = ParseHttpUrl(target.url);
    if (const Endpoint* listener = url ? own.Find(*url) : nullptr) {
      refused.push_back(
          {target.name, url->Shown() + " is this agent's own page, at " + listener->ToString()});
      continue;
    }
    if (!pages.insert(PageOf(target.url)).second) continue;
    FoundTarget named = target;
    named.name = TakeFreeName(target.name, names);
    added.push_back(std::move(named));
  }
  Complete(schema, *options, added, all, refused);
  Config out = config;
  out.Set(kTargets, std::move(all), config.origin(kTargets));
  return out;
}

Config WithFound(const Config& config, const Schema& schema, std::span<const FoundTarget> found) {
  std::vector<RefusedTarget> refused;
  Config whole = WithFound(config, schema, found, refused);
  for (const RefusedTarget& target : refused) {
    Log(LogLevel::kWarn, "discovery", "target_refused", target.name + ": " + target.why, target.name);
  }
  return whole;
}

}  // namespace gpulens
