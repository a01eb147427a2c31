// The telemetry of all kernels as series of a registry: ring_kernel.* by ring_kernel.id.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <gpulens/registry.h>

#include "instruments/sources.h"
#include "sdk/ring/record/record.h"

namespace gpulens::ring {

// Ids that are told apart. Those of further kernels are told together, with otel.metric.overflow="true".
inline constexpr size_t kMostExportedIds = 2'000;

// Of one registry; never destroyed, so that what kernels have counted outlives them, and the counts of an id
// go on when it is launched again. Thread-safe.
class ExportedKernels final : public instruments::Source {
 public:
  static ExportedKernels& Of(const Registry& registry);

  // From here on the kernel is told, until it is retired, which keeps its counts.
  void Add(const std::string& id, const KernelSource& kernel);
  void Retire(const std::string& id, const KernelSource& kernel);

  void Report(std::vector<Sample>& out) override;

 private:
  struct Entry {
    KernelTotals ended;
    std::vector<const KernelSource*> live;
    int64_t start_unix_ns = 0;
  };
  struct Reported;

  ExportedKernels() = default;
  void ForgetParents();
  Entry& EntryOf(const std::string& id);

  // Under the lock of the sources.
  std::map<std::string, Entry, std::less<>> kernels_;
  Entry overflow_;
  bool overflows_ = false;
  uint32_t forks_ = 0;
};

}  // namespace gpulens::ring
