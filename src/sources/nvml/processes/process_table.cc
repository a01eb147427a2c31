#include "sources/nvml/processes/process_table.h"

#include <unistd.h>

#include <array>
#include <charconv>

#include "base/files.h"
#include "base/parse.h"
#include "base/text.h"
#include "sources/nvml/processes/process_text.h"

namespace gpulens::nvml {
namespace {

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

ProcessTable::ProcessTable(std::string root) : root_(root == "/" ? "" : std::move(root)) {
  // The second process of a host is the parent of all kernel threads, and only there is it one.
  std::optional<StatLine> second;
  if (Read(2, "stat", text_)) second = ReadStatLine(text_);
  sees_host_ = second && (second->flags & kKernelThread) && text_.find("(kthreadd)") != std::string::npos;
}

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

const ProcessDetails& ProcessTable::Look(uint32_t pid) {
  static const ProcessDetails kNothing;
  if (!sees_host_) return kNothing;
  auto found = kept_.find(pid);
  if (found == kept_.end()) {
    if (kept_.size() >= kMaxKept) return kNothing;
    found = kept_.emplace(pid, Kept{}).first;
  }
  Kept& kept = found->second;
  if (kept.round == round_) return kept.details;
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
}

std::string ProcessTable::OwnerOf(uint32_t uid) {
  if (auto known = owners_.find(uid); known != owners_.end()) return known->second;
  if (owners_.size() >= kMaxOwners) owners_.clear();
  // The users of the host are in the file that its first process sees. Our own is the host's, too, unless we
  // are in a container, where the same number may be somebody else.
  std::string passwd, name;
  bool host = ReadFile((root_ + "/proc/1/root/etc/passwd").c_str(), passwd, kPasswdLimit).ok();
  if (!host && !InContainer(root_))
    host = ReadFile((root_ + "/etc/passwd").c_str(), passwd, kPasswdLimit).ok();
  if (host) name = FindUserName(passwd, uid);
  // The one number that is the same user everywhere.
  if (name.empty()) name = uid == 0 ? "root" : std::to_string(uid);
  return owners_.emplace(uid, std::move(name)).first->second;
}

}  // namespace gpulens::nvml
