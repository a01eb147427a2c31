#include "sources/amdsmi/probe/amd_probe.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/files.h"
#include "base/parse.h"

namespace gpulens::amdsmi {
namespace {

constexpr size_t kMaxEntries = 4096;

std::vector<std::string> Entries(const std::string& folder) {
  std::vector<std::string> out;
  DIR* dir = ::opendir(folder.c_str());
  if (!dir) return out;
  while (dirent* entry = ::readdir(dir)) {
    if (entry->d_name[0] != '.' && out.size() < kMaxEntries) out.emplace_back(entry->d_name);
  }
  ::closedir(dir);
  std::sort(out.begin(), out.end());
  return out;
}

std::string Line(const std::string& path) {
  std::string text = ReadFile(path, 4096).value_or("");
  std::string_view rest = text;
  return std::string(Trim(TakeUntil(rest, '\n')));
}

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

// VGA, other display, 3D controllers, and the "processing accelerators" that MI300 calls itself.
bool IsGpu(std::string_view kind) { return kind.starts_with("0x03") || kind.starts_with("0x1200"); }

void AddDevice(const std::string& root, const std::string& path, AmdProbe& out) {
  struct stat state{};
  std::string file = root + path;
  if (::stat(file.c_str(), &state) != 0) return;
  out.devices.push_back(path);
  if (::access(file.c_str(), R_OK | W_OK) == 0) return;
  bool helps = (state.st_mode & S_IRGRP) && (state.st_mode & S_IWGRP);
  out.unreadable.push_back({path, helps ? GroupName(root, state.st_gid) : ""});
}

}  // namespace

AmdProbe ProbeGpus(const std::string& root) {
  AmdProbe out;
  std::string pci = root + "/sys/bus/pci/devices";
  for (const std::string& address : Entries(pci)) {
    if (Line(pci + "/" + address + "/vendor") != "0x1002") continue;
    if (IsGpu(Line(pci + "/" + address + "/class"))) out.pci_gpus.push_back(address);
  }
  out.kernel_driver = ::access((root + "/sys/module/amdgpu").c_str(), F_OK) == 0;
  out.kernel_driver_version = Line(root + "/sys/module/amdgpu/version");
  if (out.pci_gpus.empty()) return out;  // A render node without an AMD GPU is another vendor's.
  for (const std::string& name : Entries(root + "/dev/dri")) {
    if (!name.starts_with("renderD")) continue;
    std::string vendor = Line(root + "/sys/class/drm/" + name + "/device/vendor");
    if (vendor.empty() || vendor == "0x1002") AddDevice(root, "/dev/dri/" + name, out);
  }
  AddDevice(root, "/dev/kfd", out);
  return out;
}

}  // namespace gpulens::amdsmi
