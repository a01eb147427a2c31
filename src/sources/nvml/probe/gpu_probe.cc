#include "sources/nvml/probe/gpu_probe.h"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>

#include "base/files.h"
#include "base/parse.h"

namespace gpulens::nvml {
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

// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue …": the first word of two or three
// numbers with dots between.
std::string VersionIn(std::string_view line) {
  while (!line.empty()) {
    std::string_view word = TakeUntil(line, ' '), rest = word;
    int numbers = 0;
    bool good = !word.empty();
    while (good && !rest.empty()) {
      good = ParseInt<unsigned>(TakeUntil(rest, '.')).has_value();
      ++numbers;
    }
    if (good && numbers >= 2 && numbers <= 3) return std::string(word);
  }
  return {};
}

bool IsDevice(std::string_view name) {
  constexpr std::string_view kPrefix = "nvidia";
  if (!name.starts_with(kPrefix)) return false;
  std::string_view rest = name.substr(kPrefix.size());
  return rest == "ctl" || rest == "-uvm" || ParseInt<unsigned>(rest).has_value();
}

}  // namespace

GpuProbe ProbeGpus(const std::string& root) {
  GpuProbe out;
  std::string pci = root + "/sys/bus/pci/devices";
  for (const std::string& address : Entries(pci)) {
    if (Line(pci + "/" + address + "/vendor") != "0x10de") continue;
    if (Line(pci + "/" + address + "/class").starts_with("0x03")) out.pci_gpus.push_back(address);
  }
  std::string version = Line(root + "/proc/driver/nvidia/version");
  out.kernel_driver = ::access((root + "/proc/driver/nvidia").c_str(), F_OK) == 0;
  out.kernel_driver_version = VersionIn(version);
  for (const std::string& name : Entries(root + "/dev")) {
    if (!IsDevice(name)) continue;
    out.devices.push_back("/dev/" + name);
    if (::access((root + "/dev/" + name).c_str(), R_OK | W_OK) != 0) out.unreadable.push_back("/dev/" + name);
  }
  return out;
}

}  // namespace gpulens::nvml
