#include "reader/hardware.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/files.h"
#include "base/parse.h"

namespace gpulens::reader {
namespace {

constexpr size_t kMaxEntries = 4096;

// The name of a group in /etc/group: "render:x:109:user".
std::string GroupName(const std::string& root, gid_t group) {
  std::string text = ReadFile(root + "/etc/group").value_or("");
  std::string_view rest = text;
  while (!rest.empty()) {
    std::string_view line = TakeUntil(rest, '\n');
    std::string_view name = TakeUntil(line, ':');
    TakeUntil(line, ':');
    if (ParseInt<gid_t>(TakeUntil(line, ':')) == group) return std::string(name);
  }
  return {};
}

}  // namespace

std::vector<std::string> EntriesIn(const std::string& folder) {
  std::vector<std::string> out;
  static_cast<void>(ForEachName(folder, [&](std::string_view name) {
    if (!name.starts_with('.')) out.emplace_back(name);
    return out.size() < kMaxEntries;
  }));
  std::ranges::sort(out);
  return out;
}

std::string FirstLineOf(const std::string& path) {
  std::string text = ReadFile(path, 4096).value_or("");
  std::string_view rest = text;
  return std::string(Trim(TakeUntil(rest, '\n')));
}

std::vector<std::string> PciGpus(const std::string& root, std::string_view vendor,
                                 bool (*is_gpu)(std::string_view kind)) {
  std::vector<std::string> out;
  std::string pci = root + "/sys/bus/pci/devices";
  for (const std::string& address : EntriesIn(pci)) {
    if (FirstLineOf(pci + "/" + address + "/vendor") != vendor) continue;
    if (is_gpu(FirstLineOf(pci + "/" + address + "/class"))) out.push_back(address);
  }
  return out;
}

void AddDevice(const std::string& root, const std::string& path, VendorHardware& out) {
  struct stat state{};
  std::string file = root + path;
  if (::stat(file.c_str(), &state) != 0) return;
  out.devices.push_back(path);
  if (::access(file.c_str(), R_OK | W_OK) == 0) return;
  bool helps = (state.st_mode & S_IRGRP) && (state.st_mode & S_IWGRP);
  out.unreadable.push_back({path, helps ? GroupName(root, state.st_gid) : ""});
}

}  // namespace gpulens::reader
