// Who the processes on simulated GPUs are, and which pods and jobs have these GPUs: what the kernel, the
// kubelet and Slurm report of real ones.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "core/attribute_set.h"
#include "core/layout.h"

namespace gpulens {

// Thread-safe.
class SimulatedOwners {
 public:
  struct Process {
    std::string name, user;    // empty: unknown
    uint64_t start_ticks = 0;  // another one under the same pid is another process
  };

  virtual ~SimulatedOwners() = default;
  virtual Process ProcessOf(uint32_t pid) const = 0;
  // Further attributes of an entity, with the keys of the enrichers kubernetes and slurm. Empty for one that
  // is not simulated.
  virtual AttributeSet OwnerOf(const Entity& entity) const = 0;
  // Changes when an answer of OwnerOf may have changed.
  virtual uint64_t generation() const noexcept = 0;
};

// For an nvml::ProcessTable, whose ProcessDetails are `Details`: the simulated processes of `owners`. Null
// where there are none.
template <class Details>
std::function<Details(uint32_t pid)> FindSimulated(const SimulatedOwners* owners) {
  if (!owners) return nullptr;
  return [owners](uint32_t pid) {
    SimulatedOwners::Process process = owners->ProcessOf(pid);
    Details out;
    out.simulated = out.visible = !process.name.empty();
    out.name = std::move(process.name);
    out.owner = std::move(process.user);
    out.start_ticks = process.start_ticks;
    return out;
  };
}

}  // namespace gpulens
