#include "sources/kubelet/parse/node_files.h"

#include <algorithm>

#include "base/json.h"
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

constexpr size_t kMostEntries = 16'384, kMostIds = 65'536;

void ReadIds(JsonScanner& json, std::vector<std::string>& ids) {
  json.Array([&] {
    std::string id(json.Text());
    if (ids.size() >= kMostIds) return static_cast<void>(json.Fail("too many devices", Code::kExhausted));
    if (!id.empty()) ids.push_back(std::move(id));
  });
}

// One of the two forms comes; the other call passes over what it is not.
void ReadDeviceIds(JsonScanner& json, std::vector<std::string>& ids, bool by_node) {
  if (by_node) return json.Object([&](std::string_view) { ReadIds(json, ids); });
  ReadIds(json, ids);
}

CheckpointEntry ReadEntry(JsonScanner& json) {
  CheckpointEntry entry;
  json.Object([&](std::string_view key) {
    if (key == "PodUID") entry.pod_uid = json.Text();
    else if (key == "ContainerName") entry.container = json.Text();
    else if (key == "ResourceName") entry.resource = json.Text();
    else if (key == "DeviceIDs") ReadDeviceIds(json, entry.ids, json.Peek() == JsonScanner::kObject);
  });
  std::sort(entry.ids.begin(), entry.ids.end());
  return entry;
}

constexpr size_t kMostNames = 8192, kMostCgroup = 64u << 10;

std::string Below(const std::string& root, const std::string& path) {
  return root.empty() || root == "/" ? path : root + path;
}

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

std::optional<LogPod> ParsePodLogFolder(std::string_view name) {
  std::string_view name_space = TakeUntil(name, '_'), pod = TakeUntil(name, '_'), uid = name;
  if (!IsName(name_space) || !IsName(pod) || !IsPodUid(uid) || uid.find('_') != uid.npos) return std::nullopt;
  return LogPod{std::string(name_space), std::string(pod), std::string(uid)};
}

std::optional<LogContainer> ParseContainerLogName(std::string_view name) {
  if (!name.ends_with(".log")) return std::nullopt;
  name.remove_suffix(4);
  std::string_view pod = TakeUntil(name, '_'), name_space = TakeUntil(name, '_');
  if (name.size() < kIdSize + 2 || name[name.size() - kIdSize - 1] != '-') return std::nullopt;
  std::string_view id = name.substr(name.size() - kIdSize),
                   container = name.substr(0, name.size() - kIdSize - 1);
  if (!AllHex(id) || !IsName(container) || !IsName(pod) || !IsName(name_space)) return std::nullopt;
  return LogContainer{std::string(name_space), std::string(pod), std::string(container), std::string(id)};
}

Result<std::vector<CheckpointEntry>> ParseCheckpoint(std::string_view text) {
  if (text.size() > kMostCheckpointBytes) return Status{Code::kExhausted, "checkpoint: too large"};
  std::vector<CheckpointEntry> entries;
  JsonScanner json(text);
  bool whole = false;
  auto entry = [&] {
    CheckpointEntry one = ReadEntry(json);
    if (entries.size() >= kMostEntries)
      return static_cast<void>(json.Fail("too many entries", Code::kExhausted));
    if (!one.pod_uid.empty() && !one.ids.empty()) entries.push_back(std::move(one));
  };
  json.Object([&](std::string_view key) {
    if (key != "Data") return;
    json.Object([&](std::string_view part) {
      if (part != "PodDeviceEntries") return;
      whole = true;  // null where no pod has a device
      json.Array(entry);
    });
  });
  Status status = json.Finish();
  if (status.ok() && !whole) status = {Code::kDataLoss, "no PodDeviceEntries"};
  if (!status) return Status{status.code, "checkpoint: " + status.detail};
  return entries;
}

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
  // A folder's time moves whenever a name comes or goes.
  auto read = [](const std::string& folder, FileMark& last, auto parse, auto& out) {
    FileMark mark = MarkOf(folder);
    if (mark.there() && mark == last) return;
    last = mark;
    out.clear();
    size_t count = 0;
    static_cast<void>(ForEachName(folder, [&](std::string_view name) {
      if (auto parsed = parse(name)) out.push_back(*std::move(parsed));
      return ++count < kMostNames;
    }));
  };
  read(Below(root_, "/var/log/pods"), pods_mark_, ParsePodLogFolder, pods_);
  read(Below(root_, "/var/log/containers"), containers_mark_, ParseContainerLogName, containers_);
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
