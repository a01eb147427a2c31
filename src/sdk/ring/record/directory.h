// The records of a runtime's or a collector's kernels by their ids, those of ended kernels, too.
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

// Exports the telemetry of all kernels as series of a registry: ring_kernel.* by ring_kernel.id. Kernels
// beyond this number are one series, with otel.metric.overflow="true".
inline constexpr size_t kMostExportedIds = 2'000;

// Directory of one registry; never destroyed, so counts outlive their kernels and continue when an id is
// launched again. Thread-safe.
class ExportedKernels final : public instruments::Source {
 public:
  static ExportedKernels& Of(const Registry& registry);

  // Exports the kernel until it is retired; its counts are kept.
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

namespace gpulens::ring {

// Ended kernels whose telemetry is kept; beyond them, those that were added first are forgotten.
inline constexpr size_t kMostEnded = 1'000;

}  // namespace gpulens::ring

namespace gpulens::internal {

// Thread-safe.
class KernelDirectory {
 public:
  using Source = std::shared_ptr<ring::KernelSource>;

  explicit KernelDirectory(Registry* exported) : exported_(exported) {}
  ~KernelDirectory();
  KernelDirectory(const KernelDirectory&) = delete;
  KernelDirectory& operator=(const KernelDirectory&) = delete;

  // In the place of one with the same id.
  void Add(const std::string& id, Source kernel);
  // The kernel with this id; where there is none, or where it has ended, what `make` makes.
  Source FindOrAdd(std::string_view id, const std::function<Source(std::string)>& make);
  Source Find(std::string_view id) const;  // null: there is none
  std::optional<KernelTelemetry> Copy(std::string_view id) const;
  std::vector<KernelTelemetry> CopyAll() const;
  KernelSummary Summary() const;
  void Reset(std::string_view id);

 private:
  struct Entry {
    Source kernel;
    uint64_t number = 0;  // in the order in which they were added
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
  size_t prune_at_ = ring::kMostEnded + 1;  // so many kernels, and the ended ones are counted
};

}  // namespace gpulens::internal
