#include "agent/targets/found_targets.h"

#include <algorithm>
#include <map>
#include <set>

#include "agent/targets/own_pages.h"
#include "base/log.h"
#include "base/text.h"
#include "config/loader.h"
#include "net/message/address.h"
#include "scrape/page_target.h"

namespace gpulens {
namespace {

constexpr std::string_view kTargets = "targets";
// The loader takes some thousands of values of one text.
constexpr size_t kAtOnce = 100;

const OptionSpec* Find(std::span<const OptionSpec> options, std::string_view key) {
  auto found =
      std::find_if(options.begin(), options.end(), [&](const OptionSpec& o) { return o.key == key; });
  return found == options.end() ? nullptr : &*found;
}

// The options of one target; null in a program without any.
const OptionSpec* TargetOptions(const Schema& schema) {
  const OptionSpec* targets = Find(schema.options(), kTargets);
  return targets && targets->type == OptionType::kGroups ? targets : nullptr;
}

// Two spellings of one page are one target.
std::string PageOf(const std::string& text) {
  auto url = ParseHttpUrl(text);
  if (!url) return text;
  if (!url->has_path && url->target == "/") url->target = "/metrics";
  if (url->host == "localhost") url->host = "127.0.0.1";
  return url->ToString();
}

// Numbers and times stand bare in the file; a text in quotes would be of the wrong kind there.
bool IsBare(std::string_view text) {
  return !text.empty() && text.size() < 32 &&
         std::all_of(
             text.begin(), text.end(),
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

// Every option with its type and default, by the loader that reads the file.
LoadOutcome LoadTargets(const Schema& schema, const OptionSpec& options,
                        std::span<const FoundTarget> targets) {
  std::string text = "{\"targets\":[";
  for (const FoundTarget& target : targets) {
    if (&target != targets.data()) text += ",\n";
    AppendTarget(text, target, options);
  }
  text += "]}";
  Sources sources;
  sources.file_name = "found by discovery";
  sources.file_text = std::move(text);
  sources.look = nullptr;
  return Load(schema, sources);
}

void AppendLoaded(const LoadOutcome& outcome, std::vector<Config>& out) {
  const std::vector<Config>& loaded = outcome.config.Groups(kTargets);
  out.insert(out.end(), loaded.begin(), loaded.end());
}

// A target that the loader refuses does not take the others with it.
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
