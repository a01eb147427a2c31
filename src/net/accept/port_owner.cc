#include "net/accept/port_owner.h"

#include <dirent.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "base/files.h"
#include "base/parse.h"

namespace gpulens {
namespace {

struct CloseDir {
  void operator()(DIR* folder) const { ::closedir(folder); }
};
using DirPtr = std::unique_ptr<DIR, CloseDir>;

// The inodes of sockets that listen on `port`, as "socket:[123]", which is what their links in
// /proc/PID/fd say.
void AddListening(const char* table, uint16_t port, std::vector<std::string>& links) {
  auto text = ReadFile(table, 16 << 20);
  if (!text) return;
  std::string_view rest = *text;
  TakeUntil(rest, '\n');
  while (!rest.empty()) {
    std::string_view line = TakeUntil(rest, '\n');
    std::string_view fields[10];
    for (auto& field : fields) {
      line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
      field = TakeUntil(line, ' ');
    }
    size_t colon = fields[1].rfind(':');
    if (fields[3] != "0A" || colon == std::string_view::npos) continue;  // 0A: TCP_LISTEN
    if (ParseInt<uint16_t>(fields[1].substr(colon + 1), 16) == port) {
      links.push_back("socket:[" + std::string(fields[9]) + "]");
    }
  }
}

bool HoldsOne(const std::string& fd_folder, const std::vector<std::string>& links) {
  DirPtr folder(::opendir(fd_folder.c_str()));
  if (!folder) return false;
  while (const dirent* entry = ::readdir(folder.get())) {
    char target[64];
    ssize_t size = ::readlink((fd_folder + "/" + entry->d_name).c_str(), target, sizeof(target));
    if (size <= 0) continue;
    std::string_view seen(target, static_cast<size_t>(size));
    for (const std::string& link : links) {
      if (seen == link) return true;
    }
  }
  return false;
}

}  // namespace

std::string FindPortOwner(const Endpoint& at) {
  std::vector<std::string> links;
  if (at.family == Endpoint::Family::kUnix) return {};
  AddListening("/proc/net/tcp", at.port, links);
  AddListening("/proc/net/tcp6", at.port, links);
  if (links.empty()) return {};
  DirPtr proc(::opendir("/proc"));
  while (const dirent* entry = proc ? ::readdir(proc.get()) : nullptr) {
    std::string_view name = entry->d_name;
    if (!ParseInt<int>(name)) continue;
    std::string base = "/proc/" + std::string(name);
    if (!HoldsOne(base + "/fd", links)) continue;
    auto command = ReadFile(base + "/comm");
    return (command ? std::string(Trim(*command)) : "a process") + " (pid " + std::string(name) + ")";
  }
  return {};
}

}  // namespace gpulens
