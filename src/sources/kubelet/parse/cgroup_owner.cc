#include "sources/kubelet/parse/cgroup_owner.h"

#include <algorithm>

#include "base/parse.h"

namespace gpulens::kubelet {
namespace {

constexpr size_t kIdSize = 64, kUidSize = 36, kStaticUidSize = 32;
// Kubernetes' own limits are 253 for names of pods and 63 for the rest.
constexpr size_t kMostName = 253;

bool IsHex(char c) noexcept { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }
bool AllHex(std::string_view text) noexcept { return std::all_of(text.begin(), text.end(), IsHex); }

// 8-4-4-4-12 digits with "-" or, from systemd, "_" between them; or the 32 digits of a static pod.
bool IsPodUid(std::string_view text) noexcept {
  if (text.size() == kStaticUidSize) return AllHex(text);
  if (text.size() != kUidSize) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    bool between = i == 8 || i == 13 || i == 18 || i == 23;
    if (between ? text[i] != '-' && text[i] != '_' : !IsHex(text[i])) return false;
  }
  return true;
}

std::string_view Without(std::string_view text, std::string_view end) noexcept {
  if (text.ends_with(end)) text.remove_suffix(end.size());
  return text;
}

// "cri-containerd-<id>.scope", "crio-<id>.scope", "docker-<id>.scope", "libpod-<id>.scope", "<id>". What
// only watches a container ("crio-conmon-<id>.scope") is not in it.
std::string_view ContainerIn(std::string_view folder) noexcept {
  folder = Without(folder, ".scope");
  if (folder.size() < kIdSize) return {};
  std::string_view id = folder.substr(folder.size() - kIdSize);
  std::string_view runtime = folder.substr(0, folder.size() - kIdSize);
  if (!AllHex(id) || (!runtime.empty() && runtime.back() != '-')) return {};
  return runtime.find("conmon") == std::string_view::npos ? id : std::string_view{};
}

// "kubepods-burstable-pod<uid>.slice", "kubelet-kubepods-pod<uid>.slice", "pod<uid>".
std::string_view PodIn(std::string_view folder) noexcept {
  folder = Without(folder, ".slice");
  size_t at = folder.rfind("pod");
  if (at == std::string_view::npos || (at != 0 && folder[at - 1] != '-')) return {};
  std::string_view uid = folder.substr(at + 3);
  return IsPodUid(uid) ? uid : std::string_view{};
}

CgroupOwner OwnerOfPath(std::string_view path) {
  CgroupOwner out;
  while (!path.empty()) {
    std::string_view folder = TakeUntil(path, '/');
    // "kubepods-….slice:cri-containerd:<id>" where systemd's names reach a cgroupfs driver.
    while (!folder.empty()) {
      std::string_view part = TakeUntil(folder, ':');
      if (std::string_view pod = PodIn(part); !pod.empty()) {
        out.pod_uid = pod;
        out.container_id.clear();  // of the node around it, in kind
      } else if (std::string_view id = ContainerIn(part); !id.empty()) {
        if (out.pod_uid.empty() || out.container_id.empty()) out.container_id = id;
      }
    }
  }
  std::replace(out.pod_uid.begin(), out.pod_uid.end(), '_', '-');
  return out;
}

bool IsName(std::string_view text) noexcept { return !text.empty() && text.size() <= kMostName; }

}  // namespace

CgroupOwner FindCgroupOwner(std::string_view cgroup) {
  CgroupOwner best;
  while (!cgroup.empty()) {
    std::string_view line = TakeUntil(cgroup, '\n');
    TakeUntil(line, ':');  // the hierarchy
    TakeUntil(line, ':');  // its controllers
    CgroupOwner owner = OwnerOfPath(line);
    bool more = best.pod_uid.empty() && !owner.pod_uid.empty();
    if (more || (best.pod_uid == owner.pod_uid && best.container_id.empty())) best = std::move(owner);
    if (!best.pod_uid.empty() && !best.container_id.empty()) break;
  }
  return best;
}

std::string_view ContainerIdOf(std::string_view status_text) noexcept {
  size_t at = status_text.find("://");
  if (at == std::string_view::npos) return {};
  std::string_view id = status_text.substr(at + 3);
  return id.size() == kIdSize && AllHex(id) ? id : std::string_view{};
}

std::optional<PodLogFolder> ParsePodLogFolder(std::string_view name) noexcept {
  PodLogFolder out;
  out.pod_namespace = TakeUntil(name, '_');
  out.pod_name = TakeUntil(name, '_');
  out.pod_uid = name;
  if (!IsName(out.pod_namespace) || !IsName(out.pod_name)) return std::nullopt;
  if (!IsPodUid(out.pod_uid) || out.pod_uid.find('_') != std::string_view::npos) return std::nullopt;
  return out;
}

std::optional<ContainerLogName> ParseContainerLogName(std::string_view name) noexcept {
  if (!name.ends_with(".log")) return std::nullopt;
  name.remove_suffix(4);
  ContainerLogName out;
  out.pod_name = TakeUntil(name, '_');
  out.pod_namespace = TakeUntil(name, '_');
  if (name.size() < kIdSize + 2 || name[name.size() - kIdSize - 1] != '-') return std::nullopt;
  out.container_id = name.substr(name.size() - kIdSize);
  out.container = name.substr(0, name.size() - kIdSize - 1);
  if (!AllHex(out.container_id) || !IsName(out.container)) return std::nullopt;
  if (!IsName(out.pod_name) || !IsName(out.pod_namespace)) return std::nullopt;
  return out;
}

}  // namespace gpulens::kubelet
