#include "plugins/enrichers/kubernetes/kubernetes.h"

#include <algorithm>

#include "base/parse.h"
#include "base/pci_address.h"
#include "sources/kubelet/parse/node_files.h"

namespace gpulens::kubernetes {
namespace {

// More slices than a GPU can have mean that their UUIDs never stop changing.
constexpr size_t kMostSlices = 256, kMostGpus = 256, kMostPlaces = 1024;
constexpr std::string_view kIdentity[] = {
    "gpu.uuid",         "gpu.index", "gpu.mig.instance_id", "gpu.mig.compute_instance_id",
    "gpu.partition.id", "simulated"};

std::string AttributeOrFact(const Entity& entity, std::string_view key) {
  return entity.attributes.Has(key) ? entity.attributes.Text(key) : entity.facts.Text(key);
}

void Append(WorkloadTable::Holders& out, const WorkloadTable& table, const std::string& key) {
  auto found = table.by_device.find(key);
  if (found != table.by_device.end()) out.insert(out.end(), found->second.begin(), found->second.end());
}
// All holders whose key begins with `start`.
void AppendBelow(WorkloadTable::Holders& out, const WorkloadTable& table, const std::string& start) {
  for (auto at = table.by_device.lower_bound(start);
       at != table.by_device.end() && at->first.starts_with(start); ++at)
    out.insert(out.end(), at->second.begin(), at->second.end());
}

// "nvidia", "amd", "gaudi"; where the vendor is unknown, by the form of the UUID.
std::string VendorOf(const Entity& gpu) {
  std::string vendor = AttributeOrFact(gpu, "gpu.vendor");
  if (vendor.empty() && AttributeOrFact(gpu, "gpu.uuid").starts_with("GPU-")) vendor = "nvidia";
  return vendor;
}

// The kernel's form of the address, with the function; empty where it is unknown.
std::string PciOf(const Entity& gpu) {
  auto address = ParsePciAddress(AttributeOrFact(gpu, "gpu.pci.bus_id"));
  return address ? address->ToString() : std::string();
}

// The identifying attributes of a GPU, a slice or a partition.
AttributeSet IdentityOf(const Entity& entity) {
  AttributeSet out;
  for (const Entity* at = &entity; at; at = at->parent.get()) {
    if (at->type != "gpu" && at->type != "mig" && at->type != "gpu.partition") continue;
    std::vector<AttributeSet::Attribute> own;
    for (auto [key, value] : at->attributes) {
      if (std::ranges::find(kIdentity, key) != std::end(kIdentity)) own.push_back({key, value});
    }
    out = out.OverlaidOn(AttributeSet(own));
  }
  return out;
}

bool IsSimulated(const Entity& entity) {
  for (const Entity* at = &entity; at; at = at->parent.get()) {
    if (at->attributes.Text("simulated") == "true") return true;
  }
  return false;
}

bool NamesItsPod(const Entity& entity) {
  const AttributeSet& set = entity.attributes;
  return set.Has("container.id") || set.Has("k8s.pod.uid") ||
         (set.Has("k8s.pod.name") && set.Has("k8s.namespace.name"));
}

const AttributeSet* FindContainer(const WorkloadTable& table, const std::string& id) {
  auto found = table.by_container_id.find(id);
  return found == table.by_container_id.end() ? nullptr : &table.workloads[found->second].attributes;
}
const AttributeSet* FindPod(const std::map<std::string, uint32_t>& by, const std::string& key,
                            const WorkloadTable& table) {
  auto found = by.find(key);
  return found == by.end() ? nullptr : &table.workloads[found->second].attributes;
}

}  // namespace

EntityLookup::EntityLookup(std::string root)
    : root_(std::move(root)), sees_processes_(kubelet::SeesHostProcesses(root_)) {}

// Looks up the entity's own attributes; of a process without them, its cgroup.
AttributeSet EntityLookup::DescribeOwned(const WorkloadTable& table, const Entity& entity) const {
  const AttributeSet& own = entity.attributes;
  std::string container = own.Text("container.id"), uid = own.Text("k8s.pod.uid");
  bool by_cgroup = false;
  if (container.empty() && uid.empty()) {
    if (own.Has("k8s.pod.name")) {
      const AttributeSet* pod =
          FindPod(table.by_name, own.Text("k8s.namespace.name") + "/" + own.Text("k8s.pod.name"), table);
      return pod ? *pod : AttributeSet();
    }
    auto pid = ParseInt<uint32_t>(own.Text("process.pid"));
    if (!pid || !sees_processes_ || IsSimulated(entity)) return {};
    kubelet::CgroupOwner owner = kubelet::OwnerOfProcess(root_, *pid);
    container = std::move(owner.container_id);
    uid = std::move(owner.pod_uid);
    by_cgroup = true;
  }
  const AttributeSet* found = container.empty() ? nullptr : FindContainer(table, container);
  if (!found && !uid.empty()) found = FindPod(table.by_uid, uid, table);
  // The cgroup's ids are certain, also for unknown pods.
  std::vector<AttributeSet::Attribute> out;
  if (by_cgroup && !container.empty()) out.push_back({"container.id", container});
  if (by_cgroup && !uid.empty()) out.push_back({"k8s.pod.uid", uid});
  AttributeSet own_ids(out);
  return found ? own_ids.OverlaidOn(*found) : own_ids;
}

// Returns the keys under which this place may be held, given the ids that the plugins of this node use.
std::vector<std::string> EntityLookup::Place::KeysIn(const WorkloadTable& table) const {
  std::vector<std::string> out = keys;
  // The plugin names the first partition by the board's address; the others have no place.
  bool parts = vendor == "amd" && table.amd_partitions;
  if (pci.empty() || parts != (kind == Kind::kPartition)) return out;
  if (!vendor.empty()) out.push_back(vendor + ":pci:" + pci);
  out.push_back("any:pci:" + pci);
  return out;
}

WorkloadTable::Holders EntityLookup::Place::HoldersIn(const WorkloadTable& table) const {
  WorkloadTable::Holders out;
  for (const std::string& key : KeysIn(table)) Append(out, table, key);
  return out;
}

EntityLookup::Place EntityLookup::PlaceOfGpu(const Entity& gpu) {
  Place out;
  out.vendor = VendorOf(gpu);
  out.pci = PciOf(gpu);
  out.identity = IdentityOf(gpu);
  if (out.vendor.empty()) return out;
  const std::string uuid = AttributeOrFact(gpu, "gpu.uuid"), minor = AttributeOrFact(gpu, "gpu.minor");
  const std::string index = AttributeOrFact(gpu, "gpu.index"), serial = AttributeOrFact(gpu, "gpu.serial");
  const bool nvidia = out.vendor == "nvidia";
  if (!uuid.empty()) out.keys.push_back(out.vendor + (nvidia ? ":gpu:" : ":serial:") + uuid);
  if (!serial.empty()) out.keys.push_back(out.vendor + ":serial:" + serial);
  if (!index.empty()) out.keys.push_back(out.vendor + ":index:" + index);
  if (nvidia && !minor.empty()) out.keys.push_back("nvidia:minor:" + minor);
  return out;
}

EntityLookup::Place EntityLookup::PlaceOfSlice(const Entity& slice) {
  Place out;
  out.kind = Place::Kind::kSlice;
  out.identity = IdentityOf(slice);
  const Entity* gpu = slice.parent.get();
  const std::string uuid = slice.facts.Text("gpu.mig.uuid"),
                    instance = slice.attributes.Text("gpu.mig.instance_id");
  const std::string gpu_uuid = gpu ? AttributeOrFact(*gpu, "gpu.uuid") : std::string(),
                    minor = gpu ? AttributeOrFact(*gpu, "gpu.minor") : std::string();
  if (!uuid.empty()) out.keys.push_back("nvidia:mig:" + uuid);
  if (!gpu_uuid.empty() && !instance.empty())
    out.keys.push_back("nvidia:place:" + gpu_uuid + "/" + instance + "/" +
                       slice.attributes.Text("gpu.mig.compute_instance_id"));
  if (!minor.empty() && !instance.empty()) out.keys.push_back("nvidia:minor:" + minor + "/" + instance);
  return out;
}

EntityLookup::Place EntityLookup::PlaceOfPartition(const Entity& partition) {
  Place out;
  out.kind = Place::Kind::kPartition;
  out.identity = IdentityOf(partition);
  out.vendor = "amd";
  if (partition.attributes.Text("gpu.partition.id") == "0") out.pci = PciOf(*partition.parent);
  return out;
}

// A GPU with a single identifier comes from a receiver: it may be of any machine.
void EntityLookup::Remember(const Place& place, const Entity& entity) const {
  if (place.kind == Place::Kind::kGpu && place.keys.size() + !place.pci.empty() < 2) return;
  std::string id = place.kind == Place::Kind::kGpu ? AttributeOrFact(entity, "gpu.uuid")
                                                   : entity.facts.Text("gpu.mig.uuid");
  if (id.empty()) {
    for (const Entity* at = &entity; at; at = at->parent.get()) {
      for (auto [key, value] : at->attributes) {
        AppendValue(id += std::string(key) + "=", value);
        id += ' ';
      }
    }
  }
  std::lock_guard lock(mutex_);
  auto known = places_.find(id);
  if (known == places_.end() && places_.size() < kMostPlaces) known = places_.emplace(id, place).first;
  // Of two collectors of one GPU, the one with more attributes.
  else if (known != places_.end() && place.identity.size() >= known->second.identity.size())
    known->second = place;
}

AttributeSet EntityLookup::DescribeSlice(const WorkloadTable& table, const Entity& slice,
                                         bool& learned) const {
  const Place place = PlaceOfSlice(slice);
  WorkloadTable::Holders holders = place.HoldersIn(table);
  const std::string uuid = slice.facts.Text("gpu.mig.uuid"),
                    gpu_uuid = slice.parent ? AttributeOrFact(*slice.parent, "gpu.uuid") : std::string();
  if (!uuid.empty() && !gpu_uuid.empty()) {
    std::lock_guard lock(mutex_);
    std::set<std::string>* known = nullptr;
    if (slices_.contains(gpu_uuid) || slices_.size() < kMostGpus) known = &slices_[gpu_uuid];
    if (known && known->size() < kMostSlices && known->insert("nvidia:mig:" + uuid).second)
      learned = !holders.empty();
  }
  Remember(place, slice);
  return kubernetes::Describe(table, std::move(holders));
}

AttributeSet EntityLookup::DescribeGpu(const WorkloadTable& table, const Entity& gpu) const {
  const Place place = PlaceOfGpu(gpu);
  Remember(place, gpu);
  WorkloadTable::Holders holders = place.HoldersIn(table), sliced;
  if (place.vendor == "nvidia") {
    const std::string uuid = AttributeOrFact(gpu, "gpu.uuid"), minor = AttributeOrFact(gpu, "gpu.minor");
    if (!minor.empty()) AppendBelow(sliced, table, "nvidia:minor:" + minor + "/");
    if (!uuid.empty()) {
      AppendBelow(sliced, table, "nvidia:place:" + uuid + "/");
      std::lock_guard lock(mutex_);
      if (auto slices = slices_.find(uuid); slices != slices_.end()) {
        for (const std::string& key : slices->second) Append(sliced, table, key);
      }
    }
  }
  if (sliced.empty()) return kubernetes::Describe(table, std::move(holders));
  // Readings of the board belong to no single slice.
  sliced.insert(sliced.end(), holders.begin(), holders.end());
  return DescribeSliced(table, std::move(sliced));
}

AttributeSet EntityLookup::Describe(const WorkloadTable& table, const Entity& entity, bool& learned) const {
  for (const Entity* at = &entity; at; at = at->parent.get()) {
    if (at->type == "process" || NamesItsPod(*at)) return DescribeOwned(table, *at);
    if (at->type == "mig") return DescribeSlice(table, *at, learned);
    if (at->type == "gpu.partition" && at->parent && table.amd_partitions) {
      const Place place = PlaceOfPartition(*at);
      Remember(place, *at);
      return kubernetes::Describe(table, place.HoldersIn(table));
    }
    if (at->type == "gpu") return DescribeGpu(table, *at);
  }
  return {};
}

uint64_t EntityLookup::CountUnresolved(const WorkloadTable& table) const {
  if (table.by_device.empty()) return 0;
  std::set<std::string> known;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [id, place] : places_) {
      for (std::string& key : place.KeysIn(table)) known.insert(std::move(key));
    }
  }
  return static_cast<uint64_t>(std::ranges::count_if(table.by_device, [&](const auto& entry) {
    return !known.contains(entry.first) && !table.any_device.contains(entry.first);
  }));
}

std::vector<AttributeSet> EntityLookup::Holdings(const WorkloadTable& table) const {
  std::vector<AttributeSet> out;
  std::set<std::pair<uint64_t, uint32_t>> listed;  // two collectors may describe one GPU
  std::lock_guard lock(mutex_);
  for (const auto& [id, place] : places_) {
    WorkloadTable::Holders holders = place.HoldersIn(table);
    std::ranges::sort(holders);
    const auto [end, last] = std::ranges::unique(holders);
    holders.erase(end, last);
    const std::vector<std::string> keys = place.KeysIn(table);
    const bool replica =
        std::ranges::any_of(keys, [&](const std::string& key) { return table.replicas.contains(key); });
    std::string_view allocation = replica || holders.size() > 1 ? "shared" : "exclusive";
    if (place.kind == Place::Kind::kSlice) allocation = "mig";
    if (place.kind == Place::Kind::kPartition) allocation = "partition";
    const AttributeSet own = AttributeSet({{"gpu.allocation", allocation}}).OverlaidOn(place.identity);
    for (uint32_t holder : holders) {
      if (out.size() == kMostHoldings) return out;
      if (!listed.emplace(own.hash(), holder).second) continue;
      out.push_back(own.OverlaidOn(table.workloads[holder].attributes));
    }
  }
  return out;
}

}  // namespace gpulens::kubernetes
