// The MIG devices of one GPU: which there are, what they are called, and their memory.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "sources/nvml/nvml_parts.h"
#include "sources/nvml/reader/nvml_library.h"
#include "sources/nvml/reader/parts_abi.h"

namespace gpulens::nvml {

using PartFacts = std::vector<std::pair<std::string, std::string>>;

struct MigDevice {
  Device device = nullptr;
  PartKey key;         // id: GPU instance, sub: compute instance.
  bool first = false;  // Of its GPU instance: compute instances share the memory of theirs.
};

// Used by one thread; `caller` outlives it. Allocates only when instances are new.
class MigReader {
 public:
  MigReader(Caller& caller, uint32_t index) noexcept : caller_(caller), index_(index) {}

  void Reset(Device gpu);
  // Looks which instances there are. True when they are others than before. A GPU that does not answer
  // keeps those it had: half a list would look like instances that were destroyed.
  bool Scan();

  // Sorted by instance.
  const std::vector<MigDevice>& devices() const noexcept { return devices_; }
  uint32_t max() const noexcept { return max_; }
  bool known() const noexcept { return max_ != GpuParts::kUnknown; }

  // uuid, name, profile ("3g.40gb", "1c.3g.40gb"), slices; what the library would not tell is left out.
  void Identify(const MigDevice& mig, PartFacts& out);
  // Appends readings of a device that is the first of its GPU instance. False when it has to be looked
  // for again: it does not answer as it did.
  bool Read(const MigDevice& mig, bool slow, std::vector<PartReading>& out);

 private:
  Caller& caller_;
  const uint32_t index_;
  Device gpu_ = nullptr;
  uint32_t max_ = GpuParts::kUnknown;
  uint64_t gpu_memory_ = 0;  // Bytes of the whole GPU; 0: not known.
  std::vector<MigDevice> devices_, found_;
};

// "3g.40gb" as the vendor spells it: compute slices, and memory in eighths of the GPU, rounded up to whole
// GB. Empty when the numbers make no sense.
std::string MigProfileName(const DeviceAttributes& attributes, uint64_t gpu_memory);

}  // namespace gpulens::nvml
