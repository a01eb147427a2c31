#include "sdk/energy/processes/run_family.h"

#include <unistd.h>

#include <array>
#include <cstdlib>

#include "base/files.h"
#include "sources/host/parse/process.h"

namespace gpulens::sdk {
namespace {

// The kernel gives the first namespace of process numbers this number, always.
constexpr std::string_view kFirstNamespace = "pid:[4026531836]";
constexpr std::string_view kVariable = "GPULENS_RUN_ID=";
constexpr size_t kStatBytes = 4096, kEnvironmentBytes = 1 << 20;
// Of ancestors: deeper trees are loops of a file system that lies.
constexpr int kMostAncestors = 64;

}  // namespace

RunFamily::RunFamily(std::string root) : root_(root == "/" ? "" : std::move(root)) {
  std::array<char, 64> target;
  const ssize_t size = ::readlink((root_ + "/proc/self/ns/pid").c_str(), target.data(), target.size());
  sees_host_ = size > 0 && std::string_view(target.data(), static_cast<size_t>(size)) == kFirstNamespace;
}

bool RunFamily::Read(uint32_t pid, const char* file, size_t limit) {
  path_ = root_ + "/proc/" + std::to_string(pid) + "/" + file;
  return ReadFile(path_.c_str(), text_, limit).ok();
}

bool RunFamily::Descends(uint32_t pid, uint32_t first) {
  ProcessStat stat;
  for (int i = 0; i < kMostAncestors && pid > 1; ++i) {
    if (pid == first) return true;
    if (!Read(pid, "stat", kStatBytes) || !ParseProcessStat(text_, stat).ok()) return false;
    pid = static_cast<uint32_t>(stat.parent);
  }
  return false;
}

// As it was when the process began; only its own user may read it.
bool RunFamily::Carries(uint32_t pid, std::string_view run_id) {
  if (run_id.empty() || !Read(pid, "environ", kEnvironmentBytes)) return false;
  for (std::string_view rest = text_; !rest.empty();) {
    const std::string_view entry = rest.substr(0, rest.find('\0'));
    if (entry.starts_with(kVariable) && entry.substr(kVariable.size()) == run_id) return true;
    rest.remove_prefix(std::min(rest.size(), entry.size() + 1));
  }
  return false;
}

bool RunFamily::Has(uint32_t pid, uint32_t first, std::string_view run_id) {
  if (run_id != run_id_ || kept_.size() >= kMostKept) kept_.clear();
  run_id_ = run_id;
  const auto key = std::pair(first, pid);
  ProcessStat stat;
  if (!Read(pid, "stat", kStatBytes) || !ParseProcessStat(text_, stat).ok()) {
    kept_.erase(key);
    return false;
  }
  if (auto kept = kept_.find(key); kept != kept_.end() && kept->second.start_ticks == stat.start_ticks)
    return kept->second.ours;
  const bool ours = Descends(pid, first) || Carries(pid, run_id);
  kept_[key] = {stat.start_ticks, ours};
  return ours;
}

std::string OwnRunId() {
  const char* id = std::getenv("GPULENS_RUN_ID");
  return id ? id : "";
}

}  // namespace gpulens::sdk
