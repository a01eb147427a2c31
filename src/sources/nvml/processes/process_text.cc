#include "sources/nvml/processes/process_text.h"

#include <algorithm>

#include "base/parse.h"

namespace gpulens::nvml {
namespace {

constexpr size_t kContainerIdSize = 64, kPodUidSize = 36;

bool IsHex(char c) noexcept { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

bool IsContainerId(std::string_view text) noexcept {
  return text.size() == kContainerIdSize && std::all_of(text.begin(), text.end(), IsHex);
}

// 8-4-4-4-12 digits, with "-" or "_" between them.
bool IsPodUid(std::string_view text) noexcept {
  if (text.size() != kPodUidSize) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    bool between = i == 8 || i == 13 || i == 18 || i == 23;
    if (between ? text[i] != '-' && text[i] != '_' : !IsHex(text[i])) return false;
  }
  return true;
}

// "cri-containerd-<id>.scope", "docker-<id>.scope", "<id>".
std::string_view ContainerOf(std::string_view folder) noexcept {
  if (folder.ends_with(".scope")) folder.remove_suffix(6);
  if (folder.size() < kContainerIdSize) return {};
  std::string_view id = folder.substr(folder.size() - kContainerIdSize);
  bool alone = folder.size() == kContainerIdSize || folder[folder.size() - kContainerIdSize - 1] == '-';
  return alone && IsContainerId(id) ? id : std::string_view{};
}

// "kubepods-burstable-pod<uid>.slice", "pod<uid>".
std::string_view PodOf(std::string_view folder) noexcept {
  if (folder.ends_with(".slice")) folder.remove_suffix(6);
  size_t at = folder.rfind("pod");
  if (at == std::string_view::npos || (at != 0 && folder[at - 1] != '-')) return {};
  std::string_view uid = folder.substr(at + 3);
  return IsPodUid(uid) ? uid : std::string_view{};
}

}  // namespace

std::optional<StatLine> ReadStatLine(std::string_view text) noexcept {
  // The name stands in brackets and may contain any byte: the last bracket ends it.
  size_t end = text.rfind(')');
  if (end == std::string_view::npos) return std::nullopt;
  std::string_view rest = Trim(text.substr(end + 1));
  StatLine out;
  constexpr int kFlags = 9, kStart = 22;
  for (int field = 3; field <= kStart; ++field) {
    std::string_view word = TakeUntil(rest, ' ');
    if (field != kFlags && field != kStart) continue;
    std::optional<uint64_t> number = ParseInt<uint64_t>(word);
    if (!number) return std::nullopt;
    (field == kFlags ? out.flags : out.start_ticks) = *number;
  }
  return out;
}

std::optional<uint32_t> ReadUid(std::string_view status) noexcept {
  while (!status.empty()) {
    std::string_view line = TakeUntil(status, '\n');
    if (!line.starts_with("Uid:")) continue;
    std::string_view numbers = Trim(line.substr(4));
    return ParseInt<uint32_t>(numbers.substr(0, numbers.find_first_of("\t ")));
  }
  return std::nullopt;
}

CgroupNames ReadCgroupNames(std::string_view cgroup) noexcept {
  CgroupNames out;
  while (!cgroup.empty()) {
    std::string_view path = TakeUntil(cgroup, '\n');
    CgroupNames names;
    while (!path.empty()) {
      std::string_view folder = TakeUntil(path, '/');
      // "cri-containerd:…" in some versions: the part after the last colon.
      if (size_t colon = folder.rfind(':'); colon != std::string_view::npos) folder.remove_prefix(colon + 1);
      if (std::string_view pod = PodOf(folder); !pod.empty()) names.pod_uid = pod;
      if (std::string_view id = ContainerOf(folder); !id.empty()) names.container_id = id;
    }
    if (names.container_id.empty() && names.pod_uid.empty()) continue;
    // Of several hierarchies, the one that tells more.
    if (out.container_id.empty() || !names.pod_uid.empty()) out = names;
    if (!out.container_id.empty() && !out.pod_uid.empty()) break;
  }
  return out;
}

std::string PodUid(std::string_view found) {
  std::string out(found);
  std::replace(out.begin(), out.end(), '_', '-');
  return out;
}

std::string_view FindUserName(std::string_view passwd, uint32_t uid) noexcept {
  while (!passwd.empty()) {
    std::string_view line = TakeUntil(passwd, '\n');
    std::string_view name = TakeUntil(line, ':');
    TakeUntil(line, ':');
    std::optional<uint32_t> number = ParseInt<uint32_t>(TakeUntil(line, ':'));
    if (number && *number == uid && !name.empty() && name.front() != '#' && name.front() != '+') return name;
  }
  return {};
}

}  // namespace gpulens::nvml
