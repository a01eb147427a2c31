// GPU performance monitoring: shares and rates over the time between two samples, of a whole GPU or of
// one of its MIG GPU instances. Hopper and later.
#pragma once

#include <bitset>
#include <cstdint>
#include <memory>
#include <vector>

#include "sources/nvml/driver/nvml_library.h"
#include "sources/nvml/driver/parts/parts_abi.h"
#include "sources/nvml/parts/nvml_parts.h"

namespace gpulens::nvml {

// Used by one thread; `caller` outlives it. Allocates when a part is first read. What the GPU does not
// support is learnt at the first answer and not asked for again until the next Reset.
class GpmReader {
 public:
  // `more`: whether single engines, caches and cycles are read, too.
  GpmReader(Caller& caller, uint32_t index, bool more = false) noexcept
      : caller_(caller), index_(index), more_(more) {}

  ~GpmReader() { Reset(nullptr); }
  GpmReader(const GpmReader&) = delete;
  GpmReader& operator=(const GpmReader&) = delete;

  // A GPU was attached: forgets everything. The samples of before are given back to the library.
  void Reset(Device device);

  // Takes a sample and, when an older one is at least 100 ms old, appends what both tell. `key` names
  // whom the readings are of: the whole GPU, or the MIG device that stands for its GPU instance.
  void Read(const PartKey& key, std::vector<PartReading>& out);
  // Gives back the samples of parts that are not in `present`.
  void KeepOnly(const std::vector<PartKey>& present);

 private:
  struct Pair {
    PartKey key;
    GpmSample older = nullptr, spare = nullptr;
    int64_t older_ns = 0;  // 0: no sample yet
    bool absent = false;
  };

  bool Supported();
  Pair& Find(const PartKey& key);
  void Free(Pair& pair);
  void Compute(Pair& pair, int64_t boot_ns, std::vector<PartReading>& out);

  Caller& caller_;
  const uint32_t index_;
  const bool more_;
  Device device_ = nullptr;
  enum class Support : uint8_t { kUnknown, kYes, kNo } support_ = Support::kUnknown;
  std::bitset<kGpmFieldCount> absent_[2];  // [1]: on GPU instances
  unsigned newest_metric_ = ~0U;           // Older libraries refuse a request with an unknown number.
  std::vector<Pair> pairs_;
  std::unique_ptr<GpmMetricsGet> request_;
};

}  // namespace gpulens::nvml
