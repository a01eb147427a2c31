// The vGPUs that a GPU carries, on a virtualisation host: which there are, their memory and shares.
#pragma once

#include <cstdint>
#include <vector>

#include "reader/process/query_backoff.h"
#include "sources/nvml/reader/mig_reader.h"

namespace gpulens::nvml {

// Used by one thread; `caller` outlives it. A GPU that is no vGPU host is asked once.
class VgpuReader {
 public:
  VgpuReader(Caller& caller, uint32_t index) noexcept : caller_(caller), index_(index) {}

  void Reset(Device gpu);
  // Looks which vGPUs there are; true when they are others than before, or are told for the first time.
  bool Scan();
  bool host() const noexcept { return host_; }
  const std::vector<PartKey>& vgpus() const noexcept { return vgpus_; }

  // uuid, type, vm, driver; what the library would not tell is left out.
  void Identify(const PartKey& key, PartFacts& out);
  // Appends readings of all vGPUs: memory and shares; the licence when `slow`. `unix_ns`: now.
  void Read(int64_t unix_ns, bool slow, std::vector<PartReading>& out);

 private:
  void Emit(uint32_t vgpu, PartField field, double value, std::vector<PartReading>& out);
  void ReadShares(uint64_t since_us, std::vector<PartReading>& out);
  int ReadSharesV1(uint64_t since_us, std::vector<PartReading>& out);

  Caller& caller_;
  const uint32_t index_;
  Device gpu_ = nullptr;
  bool host_ = false;
  driver::QueryBackoff list_, info_, shares_;
  std::vector<PartKey> vgpus_;
  std::vector<VgpuUtilizationInfo> infos_;
  std::vector<VgpuUtilizationSample> samples_;
};

}  // namespace gpulens::nvml
