// Which workload an entity belongs to: a GPU, a part of one, a process. Pure but for the cgroup of a process.
#pragma once

#include <map>
#include <mutex>
#include <set>
#include <string>

#include "core/layout.h"
#include "enrichers/kubernetes/workloads.h"

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

 private:
  AttributeSet DescribeOwned(const Table& table, const Entity& entity) const;
  Table::Holders HoldersOfSlice(const Table& table, const Entity& slice, bool& learned) const;
  Table::Holders HoldersOfGpu(const Table& table, const Entity& gpu) const;

  const std::string root_;
  const bool sees_processes_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::set<std::string>> slices_;  // by the GPU's UUID: keys of its slices
};

}  // namespace gpulens::kubernetes
