#include "sources/kubelet/parse/api_objects.h"

#include "base/json_scanner.h"
#include "sources/kubelet/parse/cgroup_owner.h"
#include "sources/kubelet/parse/rfc3339.h"

namespace gpulens::kubelet {
namespace {

constexpr size_t kMostContainersOfPod = 1024, kMostDevices = 65'536;

// Where a list comes from and goes on.
void ReadListMeta(JsonScanner& json, std::string& version, std::string& next) {
  json.Object([&](std::string_view key) {
    if (key == "resourceVersion") version = json.Text();
    else if (key == "continue") next = json.Text();
  });
}

void ReadLabels(JsonScanner& json, std::map<std::string, std::string>& labels) {
  json.Object([&](std::string_view key) {
    std::string name(key);
    std::string value(json.Text());
    if (labels.size() < kMostLabels) labels.emplace(std::move(name), std::move(value));
  });
}

// Several owners may stand there; only the controlling one made it.
void ReadOwner(JsonScanner& json, Pod& pod) {
  std::string kind, name;
  bool controls = false;
  json.Object([&](std::string_view key) {
    if (key == "kind") kind = json.Text();
    else if (key == "name") name = json.Text();
    else if (key == "controller") controls = json.Bool().value_or(false);
  });
  if (!controls) return;
  pod.owner_kind = std::move(kind);
  pod.owner_name = std::move(name);
}

void ReadPodMeta(JsonScanner& json, Pod& pod, std::string& version) {
  json.Object([&](std::string_view key) {
    if (key == "name") pod.name = json.Text();
    else if (key == "namespace") pod.name_space = json.Text();
    else if (key == "uid") pod.uid = json.Text();
    else if (key == "resourceVersion") version = json.Text();
    else if (key == "creationTimestamp") pod.created_unix_ns = ParseRfc3339(json.Text()).value_or(0);
    else if (key == "labels") ReadLabels(json, pod.labels);
    else if (key == "ownerReferences") json.Array([&] { ReadOwner(json, pod); });
  });
}

void ReadCondition(JsonScanner& json, Pod& pod) {
  std::string type, status;
  std::optional<int64_t> since;
  json.Object([&](std::string_view key) {
    if (key == "type") type = json.Text();
    else if (key == "status") status = json.Text();
    else if (key == "lastTransitionTime") since = ParseRfc3339(json.Text());
  });
  if (type == "PodScheduled" && status == "True" && since) pod.scheduled_unix_ns = *since;
}

void ReadContainer(JsonScanner& json, Pod& pod) {
  PodContainer one;
  json.Object([&](std::string_view key) {
    if (key == "name") one.name = json.Text();
    else if (key == "containerID") one.id = ContainerIdOf(json.Text());
    else if (key == "restartCount") one.restarts = json.Unsigned();
    else if (key == "ready") one.ready = json.Bool();
  });
  if (!one.name.empty() && pod.containers.size() < kMostContainersOfPod)
    pod.containers.push_back(std::move(one));
}

void ReadPodStatus(JsonScanner& json, Pod& pod) {
  auto container = [&] { ReadContainer(json, pod); };
  json.Object([&](std::string_view key) {
    if (key == "phase") pod.phase = json.Text();
    else if (key == "conditions") json.Array([&] { ReadCondition(json, pod); });
    else if (key == "containerStatuses" || key == "initContainerStatuses" ||
             key == "ephemeralContainerStatuses")
      json.Array(container);
  });
}

Pod ReadPod(JsonScanner& json, std::string& version) {
  Pod pod;
  json.Object([&](std::string_view key) {
    if (key == "metadata") ReadPodMeta(json, pod, version);
    else if (key == "status") ReadPodStatus(json, pod);
    else if (key == "spec")
      json.Object([&](std::string_view part) {
        if (part == "nodeName") pod.node = json.Text();
      });
  });
  return pod;
}

bool Named(const Pod& pod) noexcept {
  return !pod.name.empty() && !pod.name_space.empty() && !pod.uid.empty();
}

// An attribute of a device: {"uuid": {"string": "GPU-…"}}; its name may carry its driver's domain.
void ReadDeviceAttributes(JsonScanner& json, SliceDevice& device) {
  json.Object([&](std::string_view key) {
    std::string name(key.substr(key.find('/') == std::string_view::npos ? 0 : key.find('/') + 1));
    std::string value;
    json.Object([&](std::string_view type) {
      if (type == "string") value = json.Text();
    });
    if (name == "uuid" || name == "UUID") device.uuid = value;
    else if (name == "parentUUID" || name == "parentUuid") device.parent_uuid = value;
    else if (name == "pcieBusID" || name == "pciBusID" || name == "pciAddr" || name == "pciAddress")
      device.pci = value;
  });
}

void ReadDevice(JsonScanner& json, std::vector<SliceDevice>& out) {
  SliceDevice device;
  json.Object([&](std::string_view key) {
    if (key == "name") device.device = json.Text();
    else if (key == "attributes") ReadDeviceAttributes(json, device);
    else if (key == "basic")  // before v1
      json.Object([&](std::string_view part) {
        if (part == "attributes") ReadDeviceAttributes(json, device);
      });
  });
  bool told = !device.uuid.empty() || !device.pci.empty();
  if (told && !device.device.empty()) out.push_back(std::move(device));
}

void ReadSlice(JsonScanner& json, SliceList& list) {
  std::string driver, pool;
  size_t first = list.devices.size();
  auto device = [&] {
    if (list.devices.size() >= kMostDevices)
      return static_cast<void>(json.Fail("too many devices", Code::kExhausted));
    ReadDevice(json, list.devices);
  };
  json.Object([&](std::string_view key) {
    if (key != "spec") return;
    json.Object([&](std::string_view part) {
      if (part == "driver") driver = json.Text();
      else if (part == "pool")
        json.Object([&](std::string_view name) {
          if (name == "name") pool = json.Text();
        });
      else if (part == "devices") json.Array(device);
    });
  });
  for (size_t i = first; i < list.devices.size(); ++i) {
    list.devices[i].driver = driver;
    list.devices[i].pool = pool;
  }
}

Status Broken(std::string_view what, const Status& status, bool whole) {
  if (!status) return {status.code, std::string(what) + ": " + status.detail};
  return whole ? Ok() : Status{Code::kDataLoss, std::string(what) + ": unexpected object"};
}

}  // namespace

std::string_view Pod::deployment() const noexcept {
  auto hash = labels.find("pod-template-hash");
  if (owner_kind != "ReplicaSet" || hash == labels.end() || hash->second.empty()) return {};
  std::string_view set = owner_name;
  if (!set.ends_with(hash->second)) return {};
  set.remove_suffix(hash->second.size());
  if (set.size() < 2 || set.back() != '-') return {};
  set.remove_suffix(1);
  return set;
}

Result<PodList> ParsePodList(std::string_view text) {
  PodList list;
  JsonScanner json(text);
  bool whole = false;
  auto pod = [&] {
    if (list.pods.size() >= kMostPods) return static_cast<void>(json.Fail("too many pods", Code::kExhausted));
    std::string version;
    Pod one = ReadPod(json, version);
    if (Named(one)) list.pods.push_back(std::move(one));
  };
  json.Object([&](std::string_view key) {
    if (key == "metadata") ReadListMeta(json, list.resource_version, list.next);
    if (key != "items") return;
    whole = true;  // null where there are none
    json.Array(pod);
  });
  if (Status status = Broken("list of pods", json.Finish(), whole); !status) return status;
  return list;
}

Result<PodEvent> ParsePodEvent(std::string_view line) {
  PodEvent event;
  std::string type, message;
  std::optional<uint64_t> code;
  JsonScanner json(line);
  auto object = [&](std::string_view key) {
    if (key == "code") code = json.Unsigned();
    else if (key == "message") message = json.Text();
    else if (key == "metadata") ReadPodMeta(json, event.pod, event.resource_version);
    else if (key == "status" && json.Peek() == JsonScanner::kObject) ReadPodStatus(json, event.pod);
    else if (key == "spec")
      json.Object([&](std::string_view part) {
        if (part == "nodeName") event.pod.node = json.Text();
      });
  };
  json.Object([&](std::string_view key) {
    if (key == "type") type = json.Text();
    else if (key == "object") json.Object(object);
  });
  if (Status status = Broken("watch of pods", json.Finish(), !type.empty()); !status) return status;
  bool stands = type == "ADDED" || type == "MODIFIED", gone = type == "DELETED";
  if ((stands || gone) && !Named(event.pod))
    return Status{Code::kDataLoss, "watch of pods: one without a name"};
  event.why = std::move(message);
  if (stands || gone) event.type = stands ? PodEvent::Type::kStands : PodEvent::Type::kGone;
  else if (type != "ERROR") event.type = PodEvent::Type::kBookmark;
  else event.type = code == 410u ? PodEvent::Type::kExpired : PodEvent::Type::kError;
  return event;
}

Result<Node> ParseNode(std::string_view text) {
  Node node;
  std::map<std::string, std::string> labels;
  JsonScanner json(text);
  json.Object([&](std::string_view key) {
    if (key == "metadata")
      json.Object([&](std::string_view part) {
        if (part == "name") node.name = json.Text();
        else if (part == "labels") ReadLabels(json, labels);
      });
    else if (key == "spec")
      json.Object([&](std::string_view part) {
        if (part == "providerID") node.provider_id = json.Text();
      });
  });
  if (Status status = Broken("node", json.Finish(), !node.name.empty()); !status) return status;
  auto label = [&](std::string_view name, std::string_view old) {
    auto at = labels.find(std::string(name));
    if (at == labels.end()) at = labels.find(std::string(old));
    return at == labels.end() ? std::string() : at->second;
  };
  node.zone = label("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone");
  node.region = label("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region");
  return node;
}

Result<SliceList> ParseResourceSlices(std::string_view text) {
  SliceList list;
  std::string version;
  JsonScanner json(text);
  bool whole = false;
  json.Object([&](std::string_view key) {
    if (key == "metadata") ReadListMeta(json, version, list.next);
    if (key != "items") return;
    whole = true;
    json.Array([&] { ReadSlice(json, list); });
  });
  if (Status status = Broken("list of resource slices", json.Finish(), whole); !status) return status;
  return list;
}

}  // namespace gpulens::kubelet
