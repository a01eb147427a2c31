// Which workload an entity belongs to: a GPU, a part of one, a process. Pure but for the cgroup of a process.
#pragma once

#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "core/layout.h"
#include "plugins/enrichers/kubernetes/workloads.h"

namespace gpulens::kubernetes {

// Thread-safe.
class EntityLookup {
 public:
  // `root`: where /proc is found. Processes are looked up there only when it is the host's.
  explicit EntityLookup(std::string root);

  // Everything that holds of the entity, its parents' share included. A process is described by its own
  // cgroup and never by the GPU it uses. `learned` is set when answers about another entity have changed by
  // this question: a MIG slice told which GPU it is of.
  AttributeSet Describe(const Table& table, const Entity& entity, bool& learned) const;
  bool sees_processes() const noexcept { return sees_processes_; }

  // Devices that pods hold and that are no GPU and no slice that Describe was asked about.
  uint64_t CountUnresolved(const Table& table) const;
  // For each GPU, slice or partition that Describe was asked about, and each container that holds it: what is
  // known of the container, gpu.uuid, gpu.index, the slice's or partition's numbers, and gpu.allocation
  // ("exclusive", "shared", "mig", "partition"). Sorted by nothing; at most kMostHoldings.
  std::vector<AttributeSet> Holdings(const Table& table) const;
  static constexpr size_t kMostHoldings = 4096;

 private:
  // A GPU or a part of one.
  struct Place {
    enum class Kind { kGpu, kSlice, kPartition } kind = Kind::kGpu;
    std::vector<std::string> keys;  // of Table::by_device
    std::string vendor, pci;        // of the board; empty: not known
    AttributeSet identity;

    std::vector<std::string> KeysIn(const Table& table) const;
    Table::Holders HoldersIn(const Table& table) const;
  };

  static Place PlaceOfGpu(const Entity& gpu);
  static Place PlaceOfSlice(const Entity& slice);
  static Place PlaceOfPartition(const Entity& partition);
  AttributeSet DescribeOwned(const Table& table, const Entity& entity) const;
  AttributeSet DescribeGpu(const Table& table, const Entity& gpu) const;
  AttributeSet DescribeSlice(const Table& table, const Entity& slice, bool& learned) const;
  void Remember(const Place& place, const Entity& entity) const;

  const std::string root_;
  const bool sees_processes_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::set<std::string>> slices_;  // by the GPU's UUID: keys of its slices
  mutable std::map<std::string, Place> places_;                  // by a UUID, else by all that identifies it
};

}  // namespace gpulens::kubernetes
