// GPU performance monitoring: shares and rates over the time between two samples, of a whole GPU or of
// one of its MIG GPU instances. Hopper and later.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "reader/process/library_caller.h"
#include "sources/nvml/nvml_slices.h"
#include "sources/nvml/reader/nvml_abi.h"
#include "sources/nvml/reader/nvml_library.h"

namespace gpulens::nvml {

// Used by one thread; `caller` outlives it. Allocates when a slice is first read. What the GPU does not
// support is learnt at the first answer, and queried again as QueryBackoff decides.
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

  // Takes a sample and, when an older one is at least 100 ms old, appends the values between both. `key`: the
  // whole GPU, or the MIG device that represents its GPU instance.
  void Read(const SliceKey& key, std::vector<SliceReading>& out);
  // It will report the whole GPU, and has not yet: a first sample is not enough for that.
  bool beginning() const noexcept { return supported_ && !reported_ && reads_ < kReadsToBegin; }
  // Gives back the samples of slices that are not in `present`.
  void KeepOnly(const std::vector<SliceKey>& present);

 private:
  struct Pair {
    SliceKey key;
    GpmSample older = nullptr, spare = nullptr;
    int64_t older_ns = 0;  // 0: no sample yet
    reader::QueryBackoff again{};
  };

  bool Supported();
  Pair& Find(const SliceKey& key);
  bool Allocate(Pair& pair);
  void Free(Pair& pair);
  void Compute(Pair& pair, int64_t boot_ns, std::vector<SliceReading>& out);

  Caller& caller_;
  const uint32_t index_;
  const bool more_;
  Device device_ = nullptr;
  bool supported_ = false;
  reader::QueryBackoff support_;
  std::array<reader::QueryBackoff, kGpmFieldCount> metrics_[2];  // [1]: on GPU instances
  unsigned newest_metric_ = ~0U;  // Older libraries refuse a request with an unknown number.
  std::vector<Pair> pairs_;
  static constexpr int kReadsToBegin = 6;
  int reads_ = 0;  // Up to kReadsToBegin.
  bool reported_ = false;
  std::unique_ptr<GpmMetricsGet> request_;
};

}  // namespace gpulens::nvml
