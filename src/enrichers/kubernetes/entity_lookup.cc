#include "enrichers/kubernetes/entity_lookup.h"

#include "base/parse.h"
#include "base/pci/pci_address.h"
#include "sources/kubelet/node/node_files.h"

namespace gpulens::kubernetes {
namespace {

// More slices than a GPU can have mean that their UUIDs never stop changing.
constexpr size_t kMostSlices = 256, kMostGpus = 256;

std::string Told(const Entity& entity, std::string_view key) {
  return entity.attributes.Has(key) ? entity.attributes.Text(key) : entity.facts.Text(key);
}

void Append(Table::Holders& out, const Table& table, const std::string& key) {
  auto found = table.by_device.find(key);
  if (found != table.by_device.end()) out.insert(out.end(), found->second.begin(), found->second.end());
}
// All whose key begins so.
void AppendBelow(Table::Holders& out, const Table& table, const std::string& start) {
  for (auto at = table.by_device.lower_bound(start);
       at != table.by_device.end() && at->first.starts_with(start); ++at)
    out.insert(out.end(), at->second.begin(), at->second.end());
}

// "nvidia", "amd", "gaudi" or, when nobody says, by the form of the UUID.
std::string VendorOf(const Entity& gpu) {
  std::string vendor = Told(gpu, "gpu.vendor");
  if (vendor.empty() && Told(gpu, "gpu.uuid").starts_with("GPU-")) vendor = "nvidia";
  return vendor;
}

std::string PciKey(const Entity& gpu, const std::string& vendor) {
  auto address = ParsePciAddress(Told(gpu, "gpu.pci.bus_id"));
  if (!address) return {};
  address->function = 0;
  return vendor + ":pci:" + address->ToString();
}

bool Simulated(const Entity& entity) {
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

const AttributeSet* FindContainer(const Table& table, const std::string& id) {
  auto found = table.by_container_id.find(id);
  return found == table.by_container_id.end() ? nullptr : &table.workloads[found->second].attributes;
}
const AttributeSet* FindPod(const std::map<std::string, uint32_t>& by, const std::string& key,
                            const Table& table) {
  auto found = by.find(key);
  return found == by.end() ? nullptr : &table.workloads[found->second].attributes;
}

}  // namespace

EntityLookup::EntityLookup(std::string root)
    : root_(std::move(root)), sees_processes_(kubelet::SeesHostProcesses(root_)) {}

// By what the entity says of itself; a process that says nothing is asked for its cgroup.
AttributeSet EntityLookup::DescribeOwned(const Table& table, const Entity& entity) const {
  const AttributeSet& own = entity.attributes;
  std::string container = own.Text("container.id"), uid = own.Text("k8s.pod.uid");
  bool asked = false;
  if (container.empty() && uid.empty()) {
    if (own.Has("k8s.pod.name")) {
      const AttributeSet* pod =
          FindPod(table.by_name, own.Text("k8s.namespace.name") + "/" + own.Text("k8s.pod.name"), table);
      return pod ? *pod : AttributeSet();
    }
    auto pid = ParseInt<uint32_t>(own.Text("process.pid"));
    if (!pid || !sees_processes_ || Simulated(entity)) return {};
    kubelet::CgroupOwner owner = kubelet::OwnerOfProcess(root_, *pid);
    container = std::move(owner.container_id);
    uid = std::move(owner.pod_uid);
    asked = true;
  }
  const AttributeSet* found = container.empty() ? nullptr : FindContainer(table, container);
  if (!found && !uid.empty()) found = FindPod(table.by_uid, uid, table);
  // What the cgroup says is true, whether or not anybody can name it.
  std::vector<AttributeSet::Attribute> out;
  if (asked && !container.empty()) out.push_back({"container.id", std::string_view(container)});
  if (asked && !uid.empty()) out.push_back({"k8s.pod.uid", std::string_view(uid)});
  AttributeSet told{std::span<const AttributeSet::Attribute>(out)};
  return found ? told.OverlaidOn(*found) : told;
}

Table::Holders EntityLookup::HoldersOfSlice(const Table& table, const Entity& slice, bool& learned) const {
  Table::Holders out;
  const Entity* gpu = slice.parent.get();
  std::string uuid = slice.facts.Text("gpu.mig.uuid"),
              instance = slice.attributes.Text("gpu.mig.instance_id");
  std::string gpu_uuid = gpu ? Told(*gpu, "gpu.uuid") : std::string();
  if (!uuid.empty()) {
    std::string key = "nvidia:mig:" + uuid;
    Append(out, table, key);
    if (!gpu_uuid.empty()) {
      std::lock_guard lock(mutex_);
      std::set<std::string>* known = nullptr;
      if (slices_.contains(gpu_uuid) || slices_.size() < kMostGpus) known = &slices_[gpu_uuid];
      if (known && known->size() < kMostSlices && known->insert(key).second) learned = !out.empty();
    }
  }
  if (!gpu_uuid.empty() && !instance.empty()) {
    std::string place =
        gpu_uuid + "/" + instance + "/" + slice.attributes.Text("gpu.mig.compute_instance_id");
    Append(out, table, "nvidia:place:" + place);
  }
  std::string minor = gpu ? Told(*gpu, "gpu.minor") : std::string();
  if (!minor.empty() && !instance.empty()) Append(out, table, "nvidia:minor:" + minor + "/" + instance);
  return out;
}

Table::Holders EntityLookup::HoldersOfGpu(const Table& table, const Entity& gpu) const {
  Table::Holders out;
  const std::string vendor = VendorOf(gpu), uuid = Told(gpu, "gpu.uuid"), minor = Told(gpu, "gpu.minor");
  if (vendor.empty()) return out;
  const std::string index = Told(gpu, "gpu.index"), serial = Told(gpu, "gpu.serial");
  if (!uuid.empty()) Append(out, table, vendor + (vendor == "nvidia" ? ":gpu:" : ":serial:") + uuid);
  if (!serial.empty()) Append(out, table, vendor + ":serial:" + serial);
  if (!index.empty()) Append(out, table, vendor + ":index:" + index);
  std::string pci = PciKey(gpu, vendor);
  if (!pci.empty() && !(vendor == "amd" && table.amd_partitions)) Append(out, table, pci);
  if (vendor != "nvidia") return out;
  // The slices' pods share what is measured on the whole board.
  if (!minor.empty()) {
    Append(out, table, "nvidia:minor:" + minor);
    AppendBelow(out, table, "nvidia:minor:" + minor + "/");
  }
  if (!uuid.empty()) {
    AppendBelow(out, table, "nvidia:place:" + uuid + "/");
    std::lock_guard lock(mutex_);
    if (auto slices = slices_.find(uuid); slices != slices_.end()) {
      for (const std::string& key : slices->second) Append(out, table, key);
    }
  }
  return out;
}

AttributeSet EntityLookup::Describe(const Table& table, const Entity& entity, bool& learned) const {
  for (const Entity* at = &entity; at; at = at->parent.get()) {
    if (at->type == "process" || NamesItsPod(*at)) return DescribeOwned(table, *at);
    if (at->type == "mig") return kubernetes::Describe(table, HoldersOfSlice(table, *at, learned));
    if (at->type == "gpu.partition" && at->parent && table.amd_partitions) {
      // The plugin names the first partition by the board's address and tells of the others no place.
      Table::Holders holders;
      if (at->attributes.Text("gpu.partition.id") == "0") Append(holders, table, PciKey(*at->parent, "amd"));
      return kubernetes::Describe(table, std::move(holders));
    }
    if (at->type == "gpu") return kubernetes::Describe(table, HoldersOfGpu(table, *at));
  }
  return {};
}

}  // namespace gpulens::kubernetes
