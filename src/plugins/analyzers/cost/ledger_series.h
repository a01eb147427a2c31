// Series of what the ledger has booked since the agent started.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "core/frame_writer.h"
#include "ledger/ledger.h"

namespace gpulens::cost {

// The entities of the last tick; null: gone. A process is found by GPU, pid and start.
struct LedgerEntities {
  std::function<EntityRef(std::string_view gpu)> gpu;
  std::function<EntityRef(std::string_view gpu, int64_t pid, int64_t start_ticks)> process;
};

// Used inside the analyzer's run. Write does not allocate while owners, processes and GPUs stay.
//
// Of each kind of owner at most `owners` have a series: those with most energy lately. The others, and what
// an owner had before it got its series and after it lost it, are on "(other)", so that totals are kept.
class LedgerSeries {
 public:
  struct Options {
    size_t owners = 20;                       // with a series, of each kind
    int64_t start_unix_ns = 0;                // when all counters were 0
    EntityRef host;                           // of series that are not of a GPU
    Duration keep = std::chrono::minutes(2);  // series of a GPU or process that is gone
  };
  LedgerSeries(Options options, LedgerEntities entities)
      : options_(std::move(options)), entities_(std::move(entities)) {}

  // The ledger follows a GPU: its counters begin at 0 before its first window is closed.
  void Begin(std::string_view gpu) {
    if (gpus_.find(gpu) == gpus_.end()) gpus_.try_emplace(std::string(gpu));
  }
  void Take(const ledger::Ledger::Closed& closed, Instant now);
  void Write(Instant now, FrameWriter& out);

 private:
  // A counter that never falls: it waits until its sum has passed what it has shown.
  struct Total {
    Series series;
    uint64_t refused_in = 0;  // the round in which the table refused its series; 0: none
    int64_t sum = 0, shown = 0;
    void Add(int64_t amount) noexcept {
      sum += amount;
      shown = std::max(shown, sum);
    }
  };
  struct Compute {
    ledger::ComputeState state;
    ledger::Cause cause;
    Total time_ms;
  };
  struct Gpu {
    EntityRef entity;
    int64_t seen_ns = 0;
    std::array<Total, ledger::kEnergyStates> energy;
    Total unattributed;
    std::vector<Compute> compute;
  };
  struct Process {
    EntityRef entity;
    int64_t seen_ns = 0;
    Total energy;
  };
  using ProcessKey = std::tuple<std::string, int64_t, int64_t, ledger::Method>;
  enum class Kind : uint8_t { kTenant, kPod, kJob, kEngine, kModel, kEnd };
  static constexpr size_t kKinds = static_cast<size_t>(Kind::kEnd);
  struct Amounts {
    int64_t energy_uj = 0, allocation_pico = 0, usage_pico = 0;
    bool priced = false;
  };
  struct OwnerTotals {
    Total energy, allocation, usage;
    bool priced = false;  // has had a price
    bool has_series = false;
    double lately_uj = 0;  // older energy counts less
  };
  using Owners = std::map<std::string, OwnerTotals, std::less<>>;

  static std::string NameOf(const ledger::Owner& owner, Kind kind);
  void AddToOwner(Owners& owners, const std::string& name, const Amounts& amounts);
  static void Add(OwnerTotals& to, const Amounts& amounts);
  void RankOwners(Owners& owners, SeriesTable& table);
  void WriteGpus(Instant now, FrameWriter& out);
  void WriteProcesses(Instant now, FrameWriter& out);
  void WriteOwners(FrameWriter& out);
  void WriteRatios(FrameWriter& out);
  void Set(Total& total, const MetricDesc& desc, const EntityRef& entity, double per, FrameWriter& out,
           std::initializer_list<AttributeSet::Attribute> extra);

  const Options options_;
  const LedgerEntities entities_;
  std::map<std::string, Gpu, std::less<>> gpus_;
  std::map<ProcessKey, Process> processes_;
  std::array<Owners, kKinds> owners_;
  bool rank_ = false;
  uint64_t round_ = 1;  // counts windows: a series that was refused is tried again with the next one
  int64_t decayed_ns_ = 0;
  // Time by state in each of the last 60 minutes.
  struct Minute {
    int64_t minute = -1;
    std::array<int64_t, ledger::kComputeStates> ms{};
  };
  std::array<Minute, 60> minutes_;
  std::array<Series, 5> ratios_;
  double residual_j_ = 0;
  Series residual_;
};

}  // namespace gpulens::cost
