#include "sources/kubelet/parse/api_objects.h"

#include <cmath>

#include "base/json.h"
#include "base/parse.h"
#include "base/rfc3339.h"
#include "base/text.h"
#include "sources/kubelet/parse/node_files.h"

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

// A pod may have several owners; only the controlling one made it.
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
    else if (key == "deletionTimestamp") pod.deleting = !json.Text().empty();
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
  if (type == "Ready") pod.ready = status == "True";
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
    else if (key == "podIP") pod.ip = json.Text();
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

bool IsNamed(const Pod& pod) noexcept {
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
  bool identified = !device.uuid.empty() || !device.pci.empty();
  if (identified && !device.device.empty()) out.push_back(std::move(device));
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

constexpr size_t kMostStatsPods = 4096, kMostContainers = 16'384, kMostOomLines = 16'384;

int64_t ReadTime(JsonScanner& json) { return ParseRfc3339(json.Text()).value_or(0); }

void ReadCpu(JsonScanner& json, UsageStats& out) {
  json.Object([&](std::string_view key) {
    if (key == "time") out.cpu_time_ns = ReadTime(json);
    else if (key == "usageNanoCores") out.cpu_nanocores = json.Unsigned();
    else if (key == "usageCoreNanoSeconds") out.cpu_nanoseconds = json.Unsigned();
  });
}

void ReadMemory(JsonScanner& json, UsageStats& out) {
  json.Object([&](std::string_view key) {
    if (key == "time") out.memory_time_ns = ReadTime(json);
    else if (key == "usageBytes") out.memory_bytes = json.Unsigned();
    else if (key == "workingSetBytes") out.working_set_bytes = json.Unsigned();
    else if (key == "rssBytes") out.rss_bytes = json.Unsigned();
    else if (key == "availableBytes") out.available_bytes = json.Unsigned();
  });
}

bool ReadUsage(JsonScanner& json, std::string_view key, UsageStats& out) {
  if (key == "cpu") return ReadCpu(json, out), true;
  if (key == "memory") return ReadMemory(json, out), true;
  return false;
}

void ReadNetwork(JsonScanner& json, PodStats& pod) {
  json.Object([&](std::string_view key) {
    if (key == "rxBytes") pod.received_bytes = json.Unsigned();
    else if (key == "txBytes") pod.sent_bytes = json.Unsigned();
    else if (key == "rxErrors") pod.receive_errors = json.Unsigned();
    else if (key == "txErrors") pod.send_errors = json.Unsigned();
  });
}

class SummaryReader {
 public:
  explicit SummaryReader(std::string_view text) : json_(text) {}

  Result<StatsSummary> Read() {
    StatsSummary out;
    bool whole = false;
    json_.Object([&](std::string_view key) {
      if (key == "node") ReadNode(out);
      if (key != "pods") return;
      whole = true;
      json_.Array([&] {
        if (out.pods.size() >= kMostStatsPods)
          return static_cast<void>(json_.Fail("too many pods", Code::kExhausted));
        PodStats pod = ReadPod();
        if (!pod.name.empty() && !pod.name_space.empty()) out.pods.push_back(std::move(pod));
      });
    });
    Status status = json_.Finish();
    if (status.ok() && !whole) status = {Code::kDataLoss, "no pods"};
    if (!status) return Status{status.code, "/stats/summary: " + status.detail};
    return out;
  }

 private:
  void ReadNode(StatsSummary& out) {
    json_.Object([&](std::string_view key) {
      if (key == "nodeName") out.node = json_.Text();
      else if (key == "startTime") out.node_started_ns = ReadTime(json_);
      else ReadUsage(json_, key, out.node_usage);
    });
  }

  PodStats ReadPod() {
    PodStats pod;
    json_.Object([&](std::string_view key) {
      if (key == "podRef") ReadRef(pod);
      else if (key == "startTime") pod.started_ns = ReadTime(json_);
      else if (key == "network") ReadNetwork(json_, pod);
      else if (key == "containers") json_.Array([&] { ReadContainer(pod); });
      else ReadUsage(json_, key, pod.usage);
    });
    return pod;
  }

  void ReadRef(PodStats& pod) {
    json_.Object([&](std::string_view key) {
      if (key == "name") pod.name = json_.Text();
      else if (key == "namespace") pod.name_space = json_.Text();
      else if (key == "uid") pod.uid = json_.Text();
    });
  }

  void ReadContainer(PodStats& pod) {
    if (++containers_ > kMostContainers)
      return static_cast<void>(json_.Fail("too many containers", Code::kExhausted));
    ContainerStats one;
    json_.Object([&](std::string_view key) {
      if (key == "name") one.name = json_.Text();
      else if (key == "startTime") one.started_ns = ReadTime(json_);
      else ReadUsage(json_, key, one.usage);
    });
    if (!one.name.empty()) pod.containers.push_back(std::move(one));
  }

  JsonScanner json_;
  size_t containers_ = 0;
};

// The labels between the braces, off the front of `rest`. False: they make no sense.
bool ReadLabels(std::string_view& rest, OomEvents& out) {
  std::string value;
  while (!rest.empty() && rest.front() != '}') {
    std::string_view name = TakeUntil(rest, '=');
    if (name.empty() || rest.empty() || rest.front() != '"') return false;
    rest.remove_prefix(1);
    value.clear();
    bool ended = false;
    while (!rest.empty() && !ended) {
      char c = rest.front();
      rest.remove_prefix(1);
      if (c == '"') {
        ended = true;
      } else if (c == '\\' && !rest.empty()) {
        value += rest.front() == 'n' ? '\n' : rest.front();
        rest.remove_prefix(1);
      } else {
        value += c;
      }
    }
    if (!ended || !IsUtf8(value)) return false;
    if (name == "namespace") out.name_space = value;
    else if (name == "pod") out.pod = value;
    else if (name == "container") out.container = value;
    else if (name == "id") out.cgroup = value;
    if (!rest.empty() && rest.front() == ',') rest.remove_prefix(1);
  }
  if (rest.empty()) return false;
  rest.remove_prefix(1);
  return true;
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
    if (IsNamed(one)) list.pods.push_back(std::move(one));
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
  bool changed = type == "ADDED" || type == "MODIFIED", deleted = type == "DELETED";
  if ((changed || deleted) && !IsNamed(event.pod))
    return Status{Code::kDataLoss, "watch of pods: one without a name"};
  event.why = std::move(message);
  if (changed || deleted) event.type = changed ? PodEvent::Type::kChanged : PodEvent::Type::kDeleted;
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

Result<StatsSummary> ParseStatsSummary(std::string_view json) {
  if (json.size() > kMostSummaryBytes) return Status{Code::kExhausted, "/stats/summary: too large"};
  return SummaryReader(json).Read();
}

std::vector<OomEvents> ReadOomEvents(std::string_view page, size_t& bad) {
  constexpr std::string_view kFamily = "container_oom_events_total{";
  std::vector<OomEvents> out;
  bad = 0;
  while (!page.empty() && out.size() < kMostOomLines) {
    std::string_view line = TakeUntil(page, '\n');
    if (!line.starts_with(kFamily)) continue;
    line.remove_prefix(kFamily.size());
    OomEvents one;
    bool good = ReadLabels(line, one);
    line = Trim(line);
    std::string_view number = TakeUntil(line, ' ');  // a time may follow
    auto count = ParseDouble(number);
    if (!good || !count || !std::isfinite(*count) || *count < 0) {
      ++bad;
      continue;
    }
    one.count = *count;
    // Of a pod as a whole, and of what is in no pod, there is a line, too.
    if (!one.pod.empty() && !one.name_space.empty() && !one.container.empty() && one.container != "POD")
      out.push_back(std::move(one));
  }
  return out;
}

}  // namespace gpulens::kubelet
