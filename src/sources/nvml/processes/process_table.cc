#include "sources/nvml/processes/process_table.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/files.h"
#include "base/parse.h"
#include "base/process_files.h"
#include "base/text.h"

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

constexpr size_t kFileLimit = 64 * 1024, kPasswdLimit = 4 << 20, kMaxOwners = 1024;
constexpr uint64_t kKernelThread = 0x00200000;

// Where a container's own files are, not the host's.
bool InContainer(const std::string& root) {
  for (const char* mark : {"/.dockerenv", "/run/.containerenv"}) {
    if (::access((root + mark).c_str(), F_OK) == 0) return true;
  }
  return false;
}

}  // namespace

std::optional<StatLine> ReadStatLine(std::string_view text) noexcept {
  // The name is in brackets and may contain any byte: the last bracket ends it.
  size_t end = text.rfind(')');
  if (end == std::string_view::npos) return std::nullopt;
  std::string_view rest = Trim(text.substr(end + 1));
  StatLine out;
  constexpr int kParent = 4, kFlags = 9, kStart = 22;
  for (int field = 3; field <= kStart; ++field) {
    std::string_view word = TakeUntil(rest, ' ');
    if (field == kParent) out.parent = ParseInt<uint32_t>(word).value_or(0);
    if (field != kFlags && field != kStart) continue;
    std::optional<uint64_t> number = ParseInt<uint64_t>(word);
    if (!number) return std::nullopt;
    (field == kFlags ? out.flags : out.start_ticks) = *number;
  }
  return out;
}

std::string AncestorsOf(const std::string& root, uint32_t pid) {
  std::string out;
  const std::string folder = (root == "/" ? "" : root) + "/proc/";
  for (size_t i = 0; i < kMostAncestors; ++i) {
    Result<std::string> text = ReadFile(folder + std::to_string(pid) + "/stat", kFileLimit);
    const std::optional<StatLine> stat = text ? ReadStatLine(*text) : std::nullopt;
    if (!stat || stat->parent <= 1) break;
    pid = stat->parent;
    out.append(out.empty() ? "" : ",").append(std::to_string(pid));
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
    // Of several hierarchies, the more specific one.
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

ProcessTable::ProcessTable(std::string root, std::function<ProcessDetails(uint32_t pid)> find)
    : root_(root == "/" ? "" : std::move(root)), find_(std::move(find)) {
  // The second process of a host is the parent of all kernel threads, and only there is it one.
  std::optional<StatLine> second;
  if (Read(2, "stat", text_)) second = ReadStatLine(text_);
  sees_host_ = second && (second->flags & kKernelThread) && text_.find("(kthreadd)") != std::string::npos;
}

ProcessTable::ProcessTable(std::function<ProcessDetails(uint32_t pid)> find)
    : find_(std::move(find)), only_find_(true), sees_host_(true) {}

bool ProcessTable::Read(uint32_t pid, const char* file, std::string& out) {
  std::array<char, 16> digits;
  auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), pid);
  path_.assign(root_);
  path_.append("/proc/").append(digits.data(), end).append("/").append(file);
  return ReadFile(path_.c_str(), out, kFileLimit).ok();
}

void ProcessTable::NextRound() {
  std::erase_if(kept_, [this](const auto& entry) { return entry.second.round < round_; });
  ++round_;
}

const ProcessDetails& ProcessTable::Find(uint32_t pid) {
  static const ProcessDetails kNothing;
  if (!sees_host_ && !find_) return kNothing;
  auto found = kept_.find(pid);
  if (found == kept_.end()) {
    if (kept_.size() >= kMaxKept) return kNothing;
    found = kept_.emplace(pid, Kept{}).first;
    if (find_) found->second.details = find_(pid);
  }
  Kept& kept = found->second;
  if (only_find_ || kept.details.simulated) kept.round = round_;
  if (kept.round == round_ || !sees_host_) return kept.details;
  kept.round = round_;
  std::optional<StatLine> stat;
  if (Read(pid, "stat", text_)) stat = ReadStatLine(text_);
  if (!stat) {
    if (kept.details.visible) kept.details = {};
  } else if (!kept.details.visible || stat->start_ticks != kept.details.start_ticks) {
    kept.details = {};
    kept.details.start_ticks = stat->start_ticks;
    Fill(pid, kept.details);
  }
  return kept.details;
}

void ProcessTable::Fill(uint32_t pid, ProcessDetails& out) {
  out.visible = true;
  // The kernel keeps 15 bytes of a name, which may end inside a character; a process may set any bytes.
  std::string room;
  if (Read(pid, "comm", text_)) out.name = ValidUtf8(Trim(text_), room);
  if (Read(pid, "status", text_)) {
    if (std::optional<uint32_t> uid = ReadUid(text_)) out.owner = OwnerOf(*uid);
  }
  if (Read(pid, "cgroup", text_)) {
    CgroupNames names = ReadCgroupNames(text_);
    out.container_id = names.container_id;
    out.pod_uid = PodUid(names.pod_uid);
  }
  out.parents = AncestorsOf(root_, pid);
}

std::string ProcessTable::OwnerOf(uint32_t uid) {
  if (auto known = owners_.find(uid); known != owners_.end()) return known->second;
  if (owners_.size() >= kMaxOwners) owners_.clear();
  // The users of the host are in the file that its first process sees. Our own is the host's, too, unless we
  // are in a container, where the same number may be another process.
  std::string passwd, name;
  bool host = ReadProcessFile(root_ + "/proc/1/root/etc/passwd", passwd, kPasswdLimit).ok();
  if (!host && !InContainer(root_))
    host = ReadFile((root_ + "/etc/passwd").c_str(), passwd, kPasswdLimit).ok();
  if (host) name = FindUserName(passwd, uid);
  // The one number that is the same user everywhere.
  if (name.empty()) name = uid == 0 ? "root" : std::to_string(uid);
  return owners_.emplace(uid, std::move(name)).first->second;
}

}  // namespace gpulens::nvml
