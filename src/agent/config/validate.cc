#include "agent/config/validate.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "agent/config/text/value_parse.h"
#include "base/fd.h"
#include "base/parse.h"

namespace gpulens {
namespace {

std::string UserName(unsigned uid) {
  std::array<char, 4096> buffer;
  passwd entry{};
  passwd* found = nullptr;
  if (getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr)
    return found->pw_name;
  return std::to_string(uid);
}

Spot SpotAt(const ValueSpots& spots, std::string_view path, size_t index) {
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
    if (std::find(std::begin(kLevels), std::end(kLevels), level) != std::end(kLevels)) continue;
    std::string hint =
        WordHint(level, {std::begin(kLevels), std::end(kLevels)}) + "   like info,nvidia=debug";
    size_t at = level.empty() ? 0 : static_cast<size_t>(level.data() - text.data());
    return ValueError{QuotedText(level) + " is no level", std::move(hint), at, level.size()};
  } while (!rest.empty());
  return std::nullopt;
}

void CheckReachable(const Config& config, std::string_view group, const ValueSpots& spots,
                    Problems& problems) {
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

}  // namespace

std::string DescribeOwner(const std::string& path, unsigned owner, unsigned mode, unsigned reader) {
  char octal[16];
  std::snprintf(octal, sizeof octal, "%04o", mode & 07777);
  std::string who = UserName(reader);
  return "owned by " + UserName(owner) + ", mode " + octal + "; this runs as " + who + ".   do: chown " +
         who + " " + path;
}

FileAnswer LookAtFile(const std::string& path) {
  UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  int error = errno;
  struct stat facts{};
  if (file) {
    if (fstat(file.get(), &facts) != 0 || !S_ISDIR(facts.st_mode)) return {};
    return {"it is a folder", "name the file in it"};
  }
  if (error == ENOENT) return {"no such file", "do: write it, or take the key away"};
  if (error == EACCES && stat(path.c_str(), &facts) == 0) {
    return {"permission denied", DescribeOwner(path, facts.st_uid, facts.st_mode, geteuid())};
  }
  if (error == EACCES) return {"permission denied", "a folder on the way to it may not be entered"};
  return {std::strerror(error), ""};
}

bool WantsSpots(std::string_view path) noexcept {
  return path == "http.listen" || path == "websocket.listen" || path == "http.web_config";
}

ValueCheck CheckRootText(std::string_view path, std::string_view text) {
  if (path == "log.level") return CheckLevels(text);
  if (path != "http.listen" && path != "websocket.listen") return std::nullopt;
  ListenAddress ignored;
  return ParseListenValue(text, ignored);
}

void Validate(const Config& config, const ValueSpots& spots,
              const std::function<FileAnswer(const std::string&)>& look, Problems& problems) {
  const Config& http = config.Group("http");
  const std::string& web_config = http.Text("web_config");
  if (!http.Bool("insecure") && web_config.empty()) {
    CheckReachable(config, "http", spots, problems);
    CheckReachable(config, "websocket", spots, problems);
  }
  if (web_config.empty() || !look) return;
  FileAnswer answer = look(web_config);
  if (answer.problem.empty()) return;
  problems.Add(SpotAt(spots, "http.web_config", 0),
               "http.web_config: cannot read " + web_config + ": " + answer.problem, answer.hint);
}

}  // namespace gpulens
