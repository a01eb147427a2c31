#include "sources/kubelet/parse/node_files.h"

#include <dirent.h>

#include <algorithm>
#include <functional>
#include <memory>

#include "base/files.h"

namespace gpulens::kubelet {
namespace {

constexpr size_t kMostNames = 8192, kMostCgroup = 64u << 10;

std::string Below(const std::string& root, const std::string& path) {
  return root.empty() || root == "/" ? path : root + path;
}

void ForEachName(const std::string& folder, const std::function<void(std::string_view)>& visit) {
  std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(folder.c_str()), &::closedir);
  if (!dir) return;
  for (size_t i = 0; i < kMostNames; ++i) {
    const dirent* entry = ::readdir(dir.get());
    if (!entry) return;
    visit(entry->d_name);
  }
}

}  // namespace

NodeFiles::NodeFiles(std::string root, std::string checkpoint)
    : root_(std::move(root)), checkpoint_file_(Below(root_, checkpoint)) {}

Status NodeFiles::ReadCheckpoint() {
  FileMark mark = MarkOf(checkpoint_file_);
  if (known_ && mark.there() && mark == checkpoint_mark_) return Ok();
  auto text = ReadFile(checkpoint_file_, kMostCheckpointBytes);
  if (!text) {
    entries_.clear();
    known_ = false;
    return std::move(text).error();
  }
  auto entries = ParseCheckpoint(*text);
  if (!entries) return std::move(entries).error();
  entries_ = std::move(*entries);
  known_ = true;
  checkpoint_mark_ = mark;
  return Ok();
}

void NodeFiles::ReadLogs() {
  const std::string pods = Below(root_, "/var/log/pods"), containers = Below(root_, "/var/log/containers");
  // A folder's time moves whenever a name comes or goes.
  if (FileMark mark = MarkOf(pods); !mark.there() || mark != pods_mark_) {
    pods_mark_ = mark;
    pods_.clear();
    ForEachName(pods, [&](std::string_view name) {
      auto folder = ParsePodLogFolder(name);
      if (folder)
        pods_.push_back({std::string(folder->pod_namespace), std::string(folder->pod_name),
                         std::string(folder->pod_uid)});
    });
  }
  if (FileMark mark = MarkOf(containers); !mark.there() || mark != containers_mark_) {
    containers_mark_ = mark;
    containers_.clear();
    ForEachName(containers, [&](std::string_view name) {
      auto log = ParseContainerLogName(name);
      if (log)
        containers_.push_back({std::string(log->pod_namespace), std::string(log->pod_name),
                               std::string(log->container), std::string(log->container_id)});
    });
  }
}

bool SeesHostProcesses(const std::string& root) {
  // The second process of a host is the parent of all kernel threads, and only there is it one.
  auto stat = ReadFile(Below(root, "/proc/2/stat"));
  return stat && stat->starts_with("2 (kthreadd) ");
}

CgroupOwner OwnerOfProcess(const std::string& root, uint32_t pid) {
  auto text = ReadFile(Below(root, "/proc/" + std::to_string(pid) + "/cgroup"), kMostCgroup);
  return text ? FindCgroupOwner(*text) : CgroupOwner{};
}

}  // namespace gpulens::kubelet
