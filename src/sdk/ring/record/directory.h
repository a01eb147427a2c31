// Directory of the kernels of a runtime or collector by id, and their export.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/kernel_telemetry.h>
#include <gpulens/registry.h>

#include "instruments/instrument_registry.h"
#include "sdk/ring/record/record.h"

namespace gpulens::ring {

// Maximum number of exported ids; further kernels are one series, with otel.metric.overflow="true".
inline constexpr size_t kMostExportedIds = 2'000;

// Exports the telemetry of all kernels as series of a registry: ring_kernel.* by ring_kernel.id. One object
// per registry, never destroyed: counts outlive their kernels and continue when an id is launched again.
// Thread-safe.
class ExportedKernels final : public instruments::SampleSource {
 public:
  static ExportedKernels& Of(const Registry& registry);

  // Exports the kernel until it is retired; its counts remain.
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

  // Guarded by the lock of the sources.
  std::map<std::string, Entry, std::less<>> kernels_;
  Entry overflow_;
  bool overflows_ = false;
  uint32_t forks_ = 0;
};

// Maximum number of ended kernels whose telemetry is kept; beyond it the oldest are removed.
inline constexpr size_t kMostEnded = 1'000;

}  // namespace gpulens::ring

namespace gpulens::internal {

// The kernels by id, including ended ones. Thread-safe.
class KernelDirectory {
 public:
  using Source = std::shared_ptr<ring::KernelSource>;

  explicit KernelDirectory(Registry* exported) : exported_(exported) {}
  ~KernelDirectory();
  KernelDirectory(const KernelDirectory&) = delete;
  KernelDirectory& operator=(const KernelDirectory&) = delete;

  // Adds a kernel, replacing one with the same id.
  void Add(const std::string& id, Source kernel);
  // Returns the kernel with this id, or adds the result of `make` if there is none or it has ended.
  Source FindOrAdd(std::string_view id, const std::function<Source(std::string)>& make);
  Source Find(std::string_view id) const;  // null: none
  std::optional<KernelTelemetry> Copy(std::string_view id) const;
  std::vector<KernelTelemetry> CopyAll() const;
  KernelSummary Summary() const;
  void Reset(std::string_view id);

 private:
  struct Entry {
    Source kernel;
    uint64_t number = 0;  // in the order of addition
  };
  using Kernels = std::map<std::string, Entry, std::less<>>;
  void AddLocked(const std::string& id, Source kernel);
  Kernels::iterator Forget(Kernels::iterator at);
  void ForgetEnded();
  std::vector<Source> Sources() const;

  Registry* const exported_;
  mutable std::mutex mutex_;  // guards what follows
  Kernels kernels_;
  uint64_t added_ = 0;
  size_t prune_at_ = ring::kMostEnded + 1;  // number of kernels at which ended ones are removed
};

}  // namespace gpulens::internal
