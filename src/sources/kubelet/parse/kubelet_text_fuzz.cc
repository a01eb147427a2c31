// Any bytes as text of the kubelet, the API server, /proc or a device plugin: the first byte selects which.
#include <cmath>

#include "base/check.h"
#include "base/rfc3339.h"
#include "base/text.h"
#include "sources/kubelet/parse/api_objects.h"
#include "sources/kubelet/parse/node_files.h"
#include "sources/kubelet/parse/pod_resources.h"

namespace {

using namespace gpulens;
using namespace gpulens::kubelet;

void FuzzPodResources(std::string_view text) {
  auto pods = ParsePodResources(text);
  if (!pods) return;
  for (const HolderPod& pod : *pods) {
    CHECK(IsUtf8(pod.name) && !pod.containers.empty());
    for (const HolderContainer& container : pod.containers) {
      CHECK(!container.devices.empty() || !container.claimed.empty());
    }
  }
}

void FuzzDeviceId(std::string_view text) {
  for (DeviceVendor vendor :
       {DeviceVendor::kNvidia, DeviceVendor::kAmd, DeviceVendor::kGaudi, DeviceVendor::kIntel}) {
    if (auto id = ParseDeviceId(vendor, text)) CHECK(id->Key().size() <= 200);
  }
  if (auto id = ParseRenamedId(text)) {
    CHECK(id->Key().size() <= 200 && id->kind != DeviceId::Kind::kIndex &&
          id->kind != DeviceId::Kind::kSerial);
  }
  (void)GpuVendorOf(text);
  (void)NamesGpu(text);
}

void FuzzCgroup(std::string_view text) {
  CgroupOwner owner = FindCgroupOwner(text);
  CHECK(owner.pod_uid.empty() || owner.pod_uid.size() == 36 || owner.pod_uid.size() == 32);
  CHECK(owner.container_id.empty() || owner.container_id.size() == 64);
  if (auto folder = ParsePodLogFolder(text)) CHECK(!folder->uid.empty());
  if (auto log = ParseContainerLogName(text)) CHECK(log->id.size() == 64);
}

void FuzzObjects(std::string_view text) {
  if (auto list = ParsePodList(text)) {
    for (const Pod& pod : list->pods) CHECK(pod.deployment().size() <= pod.owner_name.size());
  }
  (void)ParsePodEvent(text).ok();
  (void)ParseNode(text).ok();
  (void)ParseResourceSlices(text).ok();
}

void FuzzStats(std::string_view text) {
  (void)ParseStatsSummary(text).ok();
  size_t bad = 0;
  for (const OomEvents& one : ReadOomEvents(text, bad)) CHECK(one.count >= 0 && std::isfinite(one.count));
  (void)ParseRfc3339(text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 6) {
    case 0: FuzzPodResources(text); break;
    case 1: FuzzDeviceId(text); break;
    case 2: FuzzCgroup(text); break;
    case 3: FuzzObjects(text); break;
    case 4: FuzzStats(text); break;
    default:
      if (auto entries = ParseCheckpoint(text)) {
        for (const CheckpointEntry& entry : *entries) CHECK(!entry.pod_uid.empty() && !entry.ids.empty());
      }
  }
  return 0;
}
