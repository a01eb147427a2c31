// Who the processes on simulated GPUs are, and which pods and jobs have these GPUs: what the kernel, the
// kubelet and Slurm report of real ones.
#pragma once

#include <cstdint>
#include <string>

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

}  // namespace gpulens
