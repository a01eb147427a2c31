
#include "plugins/enrichers/kubernetes/kubernetes.h"

#include <algorithm>
#include <optional>
#include <set>

#include "sources/kubelet/parse/pod_resources.h"

namespace gpulens::kubernetes {
namespace {

using kubelet::DeviceId;
using kubelet::DeviceVendor;
using kubelet::HolderContainer;
using kubelet::HolderPod;
using kubelet::Pod;
using Attribute = AttributeSet::Attribute;

bool Allowed(const std::vector<std::string>& rules, std::string_view key) {
  return std::ranges::any_of(rules, [&](std::string_view rule) {
    if (!rule.ends_with('*')) return rule == key;
    rule.remove_suffix(1);
    return key.starts_with(rule);
  });
}

// The key of a workload's kind: "k8s.job.name". Empty for kinds that have none.
std::string OwnerKey(std::string_view kind) {
  for (std::string_view known : {"ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob"}) {
    if (kind != known) continue;
    std::string lower(known);
    for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    return "k8s." + lower + ".name";
  }
  return {};
}

void MakeUnique(WorkloadTable::Holders& holders) {
  std::ranges::sort(holders);
  const auto [end, last] = std::ranges::unique(holders);
  holders.erase(end, last);
}

struct PodName {
  std::string_view name_space, name, uid;
};

class Joiner {
 public:
  Joiner(const WorkloadSources& sources, const NamingRules& rules) : sources_(sources), rules_(rules) {
    synced_ = sources.api && sources.api->synced;
  }

  void NoteUids(std::vector<HolderPod>& holders) {
    IndexSources();
    for (HolderPod& pod : holders) pod.uid = UidOf(NameOf(pod.name_space, pod.name));
  }

  WorkloadTable Run() {
    IndexSources();
    AddPods();
    if (sources_.holders) {
      FindPartitions();
      for (const HolderPod& pod : *sources_.holders) AddHolder(pod);
    }
    DropConflicts();
    for (auto& [key, holders] : table_.by_device) MakeUnique(holders);
    return std::move(table_);
  }

 private:
  // A holder of a whole device.
  struct Claim {
    std::string key;
    uint32_t workload = 0;
    std::string uid, name, container;
  };

  static std::string NameOf(std::string_view name_space, std::string_view name) {
    return std::string(name_space) + "/" + std::string(name);
  }

  void IndexSources() {
    if (synced_) {
      for (const auto& [uid, pod] : sources_.api->pods) api_by_name_[NameOf(pod.name_space, pod.name)] = &pod;
    }
    if (sources_.log_pods) {
      // Two folders of one name: the old pod's is still there, so the uid is ambiguous.
      for (const kubelet::LogPod& pod : *sources_.log_pods) {
        auto [at, added] = log_uid_by_name_.emplace(NameOf(pod.name_space, pod.name), pod.uid);
        if (!added) at->second.clear();
      }
    }
  }

  AttributeSet AttributesOf(const PodName& pod, const Pod* api, std::string_view container) const {
    std::vector<std::string> label_keys;
    std::vector<Attribute> out = {{"k8s.pod.name", pod.name}, {"k8s.namespace.name", pod.name_space}};
    auto add = [&](std::string_view key, std::string_view value) {
      if (!value.empty()) out.push_back({key, value});
    };
    add("k8s.pod.uid", pod.uid);
    add("k8s.container.name", container);
    add("k8s.node.name", rules_.node);
    add("cloud.availability_zone", rules_.zone);
    add("cloud.region", rules_.region);
    std::string owner_key;
    if (api) {
      add("k8s.deployment.name", api->deployment());
      add("k8s.owner.kind", api->owner_kind);
      add("k8s.owner.name", api->owner_name);
      owner_key = OwnerKey(api->owner_kind);
      if (!owner_key.empty()) add(owner_key, api->owner_name);
      label_keys.reserve(api->labels.size());  // the keys must stay where they are
      for (const auto& [key, value] : api->labels) {
        if (!Allowed(rules_.labels, key)) continue;
        label_keys.push_back("k8s.pod.label." + key);
        out.push_back({label_keys.back(), value});
      }
    }
    return AttributeSet(out);
  }

  uint32_t Add(const PodName& pod, const Pod* api, std::string_view container) {
    table_.workloads.push_back({NameOf(pod.name_space, pod.name), AttributesOf(pod, api, container)});
    return static_cast<uint32_t>(table_.workloads.size() - 1);
  }

  void AddPods() {
    if (synced_) {
      for (const auto& [uid, pod] : sources_.api->pods) {
        PodName name{pod.name_space, pod.name, uid};
        AddPod(name, &pod);
        for (const kubelet::PodContainer& container : pod.containers) {
          if (!container.id.empty()) table_.by_container_id[container.id] = Add(name, &pod, container.name);
        }
      }
    }
    if (sources_.log_pods) {
      for (const kubelet::LogPod& pod : *sources_.log_pods) {
        if (!table_.by_uid.contains(pod.uid)) AddPod({pod.name_space, pod.name, pod.uid}, nullptr);
      }
    }
    if (sources_.log_containers) AddLogContainers();
  }

  void AddPod(const PodName& name, const Pod* api) {
    uint32_t workload = Add(name, api, {});
    table_.by_uid[std::string(name.uid)] = workload;
    // Of pods of one name, the API server's is the current one.
    std::string key = NameOf(name.name_space, name.name);
    if (api || UidOf(key) == name.uid) table_.by_name[key] = workload;
  }

  void AddLogContainers() {
    for (const kubelet::LogContainer& container : *sources_.log_containers) {
      if (table_.by_container_id.contains(container.id)) continue;
      std::string key = NameOf(container.name_space, container.pod);
      // The link has no uid: the pod of this name must be unambiguous.
      std::string uid = UidOf(key);
      if (uid.empty()) continue;
      auto api = api_by_name_.find(key);
      PodName name{container.name_space, container.pod, uid};
      table_.by_container_id[container.id] =
          Add(name, api == api_by_name_.end() ? nullptr : api->second, container.container);
    }
  }

  // The uid of the current pod of this name; empty: ambiguous.
  std::string UidOf(const std::string& key) const {
    if (auto api = api_by_name_.find(key); api != api_by_name_.end()) return api->second->uid;
    auto log = log_uid_by_name_.find(key);
    return log == log_uid_by_name_.end() ? std::string() : log->second;
  }

  // The uid by the devices of the container, if exactly one entry of the checkpoint and one container hold
  // them.
  std::string UidByCheckpoint(const HolderContainer& container) const {
    if (!sources_.checkpoint) return {};
    std::string found;
    for (const kubelet::HeldDevices& held : container.devices) {
      for (const kubelet::CheckpointEntry& entry : *sources_.checkpoint) {
        bool same = entry.container == container.name && entry.resource == held.resource &&
                    std::ranges::find(entry.ids, held.ids.front()) != entry.ids.end();
        if (!same || entry.pod_uid == found) continue;
        if (!found.empty()) return {};
        found = entry.pod_uid;
      }
    }
    if (found.empty()) return {};
    size_t holding = 0;
    for (const HolderPod& pod : *sources_.holders) {
      for (const HolderContainer& other : pod.containers) {
        holding += other.name == container.name && !other.devices.empty() &&
                   other.devices.front() == container.devices.front();
      }
    }
    return holding == 1 ? found : std::string();
  }

  bool InCheckpoint(std::string_view uid, std::string_view container, std::string_view resource,
                    std::string_view id) const {
    if (!sources_.checkpoint || uid.empty()) return false;
    return std::any_of(
        sources_.checkpoint->begin(), sources_.checkpoint->end(), [&](const kubelet::CheckpointEntry& entry) {
          return entry.pod_uid == uid && entry.container == container && entry.resource == resource &&
                 std::ranges::find(entry.ids, id) != entry.ids.end();
        });
  }

  void FindPartitions() {
    for (const HolderPod& pod : *sources_.holders) {
      for (const HolderContainer& container : pod.containers) {
        for (const kubelet::HeldDevices& held : container.devices) {
          auto vendor = kubelet::GpuVendorOf(held.resource);
          if (vendor && vendor != DeviceVendor::kAmd) continue;
          bool partition = std::ranges::any_of(held.ids, [&](const std::string& id) {
            auto device = vendor ? kubelet::ParseDeviceId(*vendor, id) : kubelet::ParseRenamedId(id);
            return device && device->kind == DeviceId::Kind::kPartition;
          });
          if (partition || (vendor && held.resource != "amd.com/gpu")) table_.amd_partitions = true;
        }
      }
    }
  }

  void AddHolder(const HolderPod& pod) {
    const std::string key = NameOf(pod.name_space, pod.name);
    auto found = api_by_name_.find(key);
    const Pod* api = found == api_by_name_.end() ? nullptr : found->second;
    if (api && api->ended()) return;  // old kubelets list it until it is deleted
    bool another = sources_.holders_are_old && !pod.uid.empty() && UidOf(key) != pod.uid;
    if (another) return;  // of the same name
    for (const HolderContainer& container : pod.containers) {
      std::string uid = UidOf(key);
      if (uid.empty()) uid = UidByCheckpoint(container);
      std::optional<uint32_t> workload;
      auto mine = [&] {
        if (!workload) workload = Add({pod.name_space, pod.name, uid}, api, container.name);
        return *workload;
      };
      for (const kubelet::HeldDevices& held : container.devices) {
        for (const std::string& id : held.ids) {
          if (sources_.holders_are_old && !api && !InCheckpoint(uid, container.name, held.resource, id))
            continue;
          std::optional<DeviceId> device = DeviceOf(held.resource, id);
          if (!device) continue;
          AddDevice(*device, held.resource, id,
                    {.key = {}, .workload = mine(), .uid = uid, .name = key, .container = container.name});
        }
      }
      if (sources_.holders_are_old && !api) continue;
      for (const kubelet::ClaimedDevice& claimed : container.claimed) AddClaimed(claimed, mine);
    }
  }

  // Returns none for other devices, and for an id that is counted as unknown.
  std::optional<DeviceId> DeviceOf(const std::string& resource, const std::string& id) {
    auto vendor = kubelet::GpuVendorOf(resource);
    auto device = vendor ? kubelet::ParseDeviceId(*vendor, id) : kubelet::ParseRenamedId(id);
    if (!device && !vendor && !kubelet::NamesGpu(resource)) return std::nullopt;
    // The board of a partition is unknown.
    if (device && device->kind != DeviceId::Kind::kPartition) return device;
    ++table_.unknown_ids;
    return std::nullopt;
  }

  void AddDevice(const DeviceId& device, const std::string& resource, const std::string& id, Claim claim) {
    claim.key = device.Key();
    table_.by_device[claim.key].push_back(claim.workload);
    if (device.replica) table_.replicas.insert(claim.key);
    if (device.vendor == DeviceVendor::kAny && !kubelet::NamesGpu(resource))
      table_.any_device.insert(claim.key);
    // The same id twice is no sharing: shares have ids of their own.
    exact_[resource + " " + id].push_back(std::move(claim));
  }

  template <class Mine>
  void AddClaimed(const kubelet::ClaimedDevice& claimed, Mine& mine) {
    auto vendor = kubelet::GpuVendorOfDriver(claimed.driver);
    if (!vendor) return;
    const kubelet::SliceDevice* found = nullptr;
    if (sources_.slices) {
      for (const kubelet::SliceDevice& one : *sources_.slices) {
        if (one.driver == claimed.driver && one.pool == claimed.pool && one.device == claimed.device)
          found = &one;
      }
    }
    std::optional<DeviceId> device;
    if (found && !found->uuid.empty()) device = kubelet::ParseDeviceId(*vendor, found->uuid);
    else if (found) device = kubelet::ParseDeviceId(DeviceVendor::kAmd, found->pci);
    if (!device) {
      ++table_.unknown_claims;
      return;
    }
    device->vendor = *vendor;
    // A claim may be shared by several pods.
    table_.by_device[device->Key()].push_back(mine());
  }

  // Of several holders of one device, those that are not in the checkpoint have ended.
  void DropConflicts() {
    for (auto& [id, claims] : exact_) {
      std::set<std::string> pods;
      for (const Claim& claim : claims) pods.insert(claim.name);
      if (pods.size() < 2) continue;
      std::string resource = id.substr(0, id.find(' ')), device = id.substr(id.find(' ') + 1);
      std::vector<const Claim*> confirmed;
      for (const Claim& claim : claims) {
        if (InCheckpoint(claim.uid, claim.container, resource, device)) confirmed.push_back(&claim);
      }
      bool clear = confirmed.size() == 1;
      table_.conflicts += !clear && !table_.any_device.contains(claims.front().key);
      WorkloadTable::Holders& holders = table_.by_device[claims.front().key];
      for (const Claim& claim : claims) {
        if (!clear || claim.workload != confirmed.front()->workload) std::erase(holders, claim.workload);
      }
    }
    std::erase_if(table_.by_device, [](const auto& entry) { return entry.second.empty(); });
  }

  const WorkloadSources& sources_;
  const NamingRules rules_;
  bool synced_ = false;
  WorkloadTable table_;
  std::map<std::string, const Pod*> api_by_name_;
  std::map<std::string, std::string> log_uid_by_name_;
  std::map<std::string, std::vector<Claim>> exact_;  // by resource and id
};

// Limit of the names on a series; further ones are counted.
constexpr size_t kMostNames = 16;

std::string NamesOf(const WorkloadTable& table, const WorkloadTable::Holders& holders) {
  std::set<std::string_view> names;
  for (uint32_t holder : holders) names.insert(table.workloads[holder].name);
  std::string out;
  size_t listed = 0;
  for (std::string_view name : names) {
    if (listed == kMostNames) break;
    if (listed++ != 0) out += ',';
    out += name;
  }
  if (names.size() > listed) out += ",+" + std::to_string(names.size() - listed);
  return out;
}

// Whether the attribute is the same for the whole node.
bool IsOfNode(std::string_view key) noexcept {
  return key == "k8s.node.name" || key == "cloud.availability_zone" || key == "cloud.region";
}

AttributeSet DescribeShared(const WorkloadTable& table, const WorkloadTable::Holders& holders,
                            bool of_node_only) {
  const AttributeSet& first = table.workloads[holders.front()].attributes;
  std::string names = NamesOf(table, holders);
  std::vector<Attribute> common = {{"gpu.allocation", "shared"}, {"k8s.pod.names", names}};
  for (auto [key, value] : first) {
    if (of_node_only && !IsOfNode(key)) continue;
    bool all = std::all_of(holders.begin() + 1, holders.end(), [&](uint32_t holder) {
      const AttributeSet& other = table.workloads[holder].attributes;
      return other.Has(key) && other.Find(key, false) == value;
    });
    if (all) common.push_back({key, value});
  }
  return AttributeSet(common);
}

}  // namespace

WorkloadTable Join(const WorkloadSources& sources, const NamingRules& rules) {
  return Joiner(sources, rules).Run();
}

void NoteUids(const WorkloadSources& sources, std::vector<HolderPod>& holders) {
  Joiner(sources, {}).NoteUids(holders);
}

AttributeSet Describe(const WorkloadTable& table, WorkloadTable::Holders holders) {
  MakeUnique(holders);
  if (holders.empty()) return {};
  if (holders.size() == 1) return table.workloads[holders.front()].attributes;
  return DescribeShared(table, holders, false);
}

AttributeSet DescribeSliced(const WorkloadTable& table, WorkloadTable::Holders holders) {
  MakeUnique(holders);
  return holders.empty() ? AttributeSet() : DescribeShared(table, holders, true);
}

}  // namespace gpulens::kubernetes
