#include "sources/kubelet/parse/checkpoint.h"

#include <algorithm>

#include "base/json_scanner.h"

namespace gpulens::kubelet {
namespace {

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

}  // namespace

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

}  // namespace gpulens::kubelet
