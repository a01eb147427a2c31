#include "config/validate.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/fd.h"
#include "base/parse.h"
#include "net/message/address.h"

namespace gpulens {
namespace {

SourcePlace SpotAt(const ValueSpots& spots, std::string_view path, size_t index) {
  auto found = spots.find(path);
  if (found == spots.end() || found->second.empty()) return {"configuration", 0, 0, 1, {}, 0};
  return found->second[std::min(index, found->second.size() - 1)];
}

ValueCheck CheckLevels(std::string_view text) {
  constexpr std::string_view kLevels[] = {"trace", "debug", "info", "warn", "error", "off"};
  std::string_view rest = text;
  do {
    std::string_view level = TakeUntil(rest, ',');
    if (size_t equals = level.find('='); equals != std::string_view::npos) level.remove_prefix(equals + 1);
    level = Trim(level);
    if (std::ranges::find(kLevels, level) != std::end(kLevels)) continue;
    std::string hint =
        WordHint(level, {std::begin(kLevels), std::end(kLevels)}) + "   like info,nvidia=debug";
    size_t at = level.empty() ? 0 : static_cast<size_t>(level.data() - text.data());
    return ValueError{QuotedText(level) + " is not a log level", std::move(hint), at, level.size()};
  } while (!rest.empty());
  return std::nullopt;
}

void CheckReachable(const Config& config, std::string_view group, const ValueSpots& spots,
                    ConfigProblems& problems) {
  std::string path = std::string(group) + ".listen";
  const std::vector<std::string>& addresses = config.Group(group).Texts("listen");
  for (size_t i = 0; i < addresses.size(); ++i) {
    ListenAddress address;
    if (ParseListenValue(addresses[i], address) || address.loopback) continue;
    problems.Add(
        SpotAt(spots, path, i),
        path + ": other machines could reach " + QuotedText(addresses[i]) + " without TLS or a password",
        "do: set http.web_config (TLS and a password), or http.insecure: true on a closed network");
  }
}

// An address at which a part of the agent listens.
struct Listener {
  std::string path, text;  // "websocket.listen", "127.0.0.1:9092"
  Endpoint at;
  SourcePlace spot;
  bool is_default = false;
};

void AddListeners(const Config& group, const std::string& path, const ValueSpots& spots,
                  std::vector<Listener>& out) {
  const std::vector<std::string>& addresses = group.Texts("listen");
  for (size_t i = 0; i < addresses.size(); ++i) {
    auto at = ParseListenAddress(addresses[i]);
    if (!at) continue;  // reported before
    const bool is_default = group.origin("listen").where == Origin::kDefault;
    out.push_back({path, addresses[i], *at, SpotAt(spots, path, i), is_default});
  }
}

// Every address at which the agent itself listens.
std::vector<Listener> Listeners(const Config& config, const ValueSpots& spots) {
  std::vector<Listener> out;
  for (std::string_view group : {"http", "websocket"})
    AddListeners(config.Group(group), std::string(group) + ".listen", spots, out);
  ForEachPluginListen(
      config, [&](const std::string& path, const Config& group) { AddListeners(group, path, spots, out); });
  return out;
}

// Whether a second socket at one of them would be refused.
bool SamePlace(const Endpoint& a, const Endpoint& b) {
  if (a.family == Endpoint::Family::kUnix || b.family == Endpoint::Family::kUnix)
    return a.family == b.family && a.path == b.path;
  if (a.port != b.port || a.port == 0) return false;
  const auto is_any = [](const Endpoint& at) {
    return std::ranges::all_of(at.ip, [](uint8_t byte) { return byte == 0; });
  };
  if (a.any_family || b.any_family) return true;
  if (a.family != b.family) return false;
  return is_any(a) || is_any(b) || a.ip == b.ip;
}

// Refuses addresses that two parts of the agent use.
void CheckListeners(const Config& config, const ValueSpots& spots, ConfigProblems& problems) {
  const std::vector<Listener> listeners = Listeners(config, spots);
  for (size_t i = 0; i < listeners.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const Listener *one = &listeners[i], *other = &listeners[j];
      if (!SamePlace(one->at, other->at)) continue;
      if (one->is_default) std::swap(one, other);  // a default has no place of its own
      const std::string where = other->spot.line > 0 ? " in line " + std::to_string(other->spot.line) : "";
      problems.Add(one->spot,
                   one->path + ": " + QuotedText(one->text) + " is taken by " + other->path + " (" +
                       other->text + ")" + where,
                   "each needs a port of its own");
      break;
    }
  }
}

// Refuses receivers and sinks of their own port that other machines could reach, as CheckReachable does for
// pages.
void CheckPluginListeners(const Config& config, const ValueSpots& spots, ConfigProblems& problems) {
  for (const Listener& listener : Listeners(config, spots)) {
    const size_t dot = listener.path.find('.');
    const std::string group = listener.path.substr(0, dot);
    if ((group != "receivers" && group != "sinks") || listener.at.IsLoopback()) continue;
    const std::string plugin = listener.path.substr(dot + 1, listener.path.find('.', dot + 1) - dot - 1);
    if (config.Group(group).Group(plugin).Bool("insecure")) continue;
    problems.Add(listener.spot,
                 listener.path + ": other machines could reach " + QuotedText(listener.text) +
                     " without TLS or a password",
                 "do: set http.web_config (TLS and a password), or " + group + "." + plugin +
                     ".insecure: true on a closed network");
  }
}

// Whether the plugin at `group` runs; true for other groups.
bool IsOn(const Config& group) { return !group.Has("enabled") || group.Bool("enabled"); }

void WarnOfFiles(const Config& group, const std::string& path, const ConfigSources& sources,
                 std::vector<std::string>& warnings) {
  constexpr size_t kMostWarnings = 20;
  if (!IsOn(group)) return;
  for (const Config::Entry& entry : group.entries()) {
    const std::string here = path.empty() ? entry.key : path + "." + entry.key;
    if (const auto* child = std::get_if<Config>(&entry.value)) WarnOfFiles(*child, here, sources, warnings);
    if (const auto* list = std::get_if<std::vector<Config>>(&entry.value)) {
      for (size_t i = 0; i < list->size(); ++i)
        WarnOfFiles((*list)[i], here + "[" + std::to_string(i) + "]", sources, warnings);
    }
    const auto* file = std::get_if<std::string>(&entry.value);
    if (file == nullptr || file->empty() || !entry.key.ends_with("_file")) continue;
    const FileAnswer answer = sources.inspect_file(*file);
    if (answer.problem.empty() || warnings.size() >= kMostWarnings) continue;
    warnings.push_back(group.Where(entry.key) + ": " + here + ": cannot read " + QuotedText(*file) + ": " +
                       answer.problem + (answer.hint.empty() ? "" : "; ") + answer.hint);
  }
}

}  // namespace

void WarnOfPlaces(const Config& config, const ConfigSources& sources, std::vector<std::string>& warnings) {
  if (sources.inspect_file) WarnOfFiles(config, "", sources, warnings);
  const std::string& folder = config.Text("state_dir");
  if (!sources.inspect_folder || folder.empty()) return;
  const FileAnswer answer = sources.inspect_folder(folder);
  if (answer.problem.empty()) return;
  warnings.push_back(config.Where("state_dir") + ": state_dir: cannot use " + QuotedText(folder) + ": " +
                     answer.problem + "; queues, events and learned values are not kept" +
                     (answer.hint.empty() ? "" : ".   ") + answer.hint);
}

std::string UserName(unsigned uid) {
  std::array<char, 4096> buffer;
  passwd entry{}, *found = nullptr;
  if (::getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found) == 0 && found) return found->pw_name;
  return std::to_string(uid);
}

std::string DescribeOwner(const std::string& path, unsigned owner, unsigned mode, unsigned reader) {
  char octal[16];
  std::snprintf(octal, sizeof octal, "%04o", mode & 07777);
  std::string who = UserName(reader);
  return "owned by " + UserName(owner) + ", mode " + octal + "; this runs as " + who + ".   do: chown " +
         who + " " + path;
}

FileAnswer InspectFile(const std::string& path) {
  UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  int error = errno;
  struct stat facts{};
  if (file) {
    if (fstat(file.get(), &facts) != 0 || !S_ISDIR(facts.st_mode)) return {};
    return {"it is a folder", "name the file in it"};
  }
  if (error == ENOENT) return {"no such file", "do: create it, or remove the key"};
  if (error == EACCES && stat(path.c_str(), &facts) == 0) {
    return {"permission denied", DescribeOwner(path, facts.st_uid, facts.st_mode, geteuid())};
  }
  if (error == EACCES) return {"permission denied", "no permission to enter one of its parent folders"};
  return {std::strerror(error), ""};
}

FileAnswer InspectFolder(const std::string& path) {
  // Missing folders are made below the first one that exists.
  std::string place = path;
  struct stat facts{};
  while (stat(place.c_str(), &facts) != 0) {
    if (errno == EACCES) return {"permission denied", "no permission to enter one of its parent folders"};
    if (errno != ENOENT) return {std::strerror(errno), ""};
    const size_t slash = place.find_last_of('/');
    place = slash == std::string::npos ? "." : slash == 0 ? "/" : place.substr(0, slash);
  }
  if (!S_ISDIR(facts.st_mode)) return {place + " is not a folder", "name another folder"};
  struct statfs system{};
  if (statfs(place.c_str(), &system) != 0) return {std::strerror(errno), ""};
  constexpr unsigned long kKernels[] = {PROC_SUPER_MAGIC, SYSFS_MAGIC};
  if (std::ranges::find(kKernels, static_cast<unsigned long>(system.f_type)) != std::end(kKernels))
    return {place + " is a file system of the kernel", "name another folder"};
  if ((static_cast<unsigned long>(system.f_flags) & ST_RDONLY) != 0)
    return {"read-only file system", "name another folder"};
  if (access(place.c_str(), W_OK | X_OK) == 0) return {};
  return {"permission denied", DescribeOwner(place, facts.st_uid, facts.st_mode, geteuid())};
}

void ForEachPluginListen(const Config& config,
                         const std::function<void(const std::string& path, const Config& group)>& visit) {
  if (config.Has("sinks")) {
    for (const Config::Entry& sink : config.Group("sinks").entries()) {
      const Config& options = std::get<Config>(sink.value);
      if (options.Bool("enabled") && options.Has("listen")) visit("sinks." + sink.key + ".listen", options);
    }
  }
  if (!config.Has("receivers")) return;
  for (const Config::Entry& receiver : config.Group("receivers").entries()) {
    const Config& options = std::get<Config>(receiver.value);
    if (!options.Bool("enabled")) continue;
    for (const Config::Entry& transport : options.entries()) {
      const auto* group = std::get_if<Config>(&transport.value);
      if (group && group->Has("listen"))
        visit("receivers." + receiver.key + "." + transport.key + ".listen", *group);
    }
  }
}

bool WantsSpots(std::string_view path) noexcept {
  return path.ends_with(".listen") || path == "http.web_config";
}

ValueCheck CheckRootText(std::string_view path, std::string_view text) {
  if (path == "log.level") return CheckLevels(text);
  if (!path.ends_with(".listen")) return std::nullopt;
  ListenAddress ignored;
  return ParseListenValue(text, ignored);
}

void Validate(const Config& config, const ValueSpots& spots,
              const std::function<FileAnswer(const std::string&)>& look, ConfigProblems& problems) {
  const Config& http = config.Group("http");
  const std::string& web_config = http.Text("web_config");
  if (!http.Bool("insecure") && web_config.empty()) {
    CheckReachable(config, "http", spots, problems);
    CheckReachable(config, "websocket", spots, problems);
  }
  if (web_config.empty()) CheckPluginListeners(config, spots, problems);
  CheckListeners(config, spots, problems);
  if (web_config.empty() || !look) return;
  FileAnswer answer = look(web_config);
  if (answer.problem.empty()) return;
  problems.Add(SpotAt(spots, "http.web_config", 0),
               "http.web_config: cannot read " + web_config + ": " + answer.problem, answer.hint);
}

}  // namespace gpulens
