// Finds the workload of an entity: a GPU, a part of one, a process. Pure but for the cgroup of a process.
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
  // `root` contains /proc, which is used only when it is the host's.
  explicit EntityLookup(std::string root);

  // All attributes of the entity, those of its parents included. A process is described by its own cgroup and
  // never by the GPU it uses. `learned` is set when the call changed the answers about another entity: the
  // GPU of a MIG slice.
  AttributeSet Describe(const Table& table, const Entity& entity, bool& learned) const;
  bool sees_processes() const noexcept { return sees_processes_; }

  // Number of devices that pods hold and that Describe was never called for.
  uint64_t CountUnresolved(const Table& table) const;
  // For each GPU, slice or partition that Describe was called for, and each container that holds it: the
  // container's attributes, gpu.uuid, gpu.index, the slice's or partition's numbers, and gpu.allocation
  // ("exclusive", "shared", "mig", "partition"). Unsorted; at most kMostHoldings.
  std::vector<AttributeSet> Holdings(const Table& table) const;
  static constexpr size_t kMostHoldings = 4096;

 private:
  // A GPU or a part of one.
  struct Place {
    enum class Kind { kGpu, kSlice, kPartition } kind = Kind::kGpu;
    std::vector<std::string> keys;  // of Table::by_device
    std::string vendor, pci;        // of the board; empty: unknown
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
