// The readings of GPUs that the ledger is given, from the series of a tick: of any collector or page of GPUs.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/frame.h"
#include "ledger/observation.h"
#include "plugins/analyzers/cost/engine_binding.h"

namespace gpulens::cost {

// The owner that attributes name: process.executable.name, k8s.namespace.name, k8s.pod.name (else
// k8s.pod.uid; of a shared GPU k8s.pod.names), slurm.job.id (else slurm.job.ids, else k8s.job.name), and
// the first of `tenant_keys` that is there.
ledger::Owner OwnerOf(const AttributeSet& attributes, std::span<const std::string> tenant_keys);

// Microjoules of a counter in joules. Exact for a counter of millijoules.
int64_t MicrojoulesOf(double joules) noexcept;

// Follows the layouts of a tick's frames. Not thread-safe. Does not allocate while layouts and readings stay,
// but for the strings of a new reading.
//
// Of two frames with the same GPU (a driver and a page), the first of the tick counts. A GPU without
// permission to read it, or that is not read at the moment, has no reading. One that waits for a reset is
// unavailable only while nothing runs on it.
class GpuReadings {
 public:
  // Further GPUs are not read.
  static constexpr size_t kMostGpus = 256;
  static constexpr int64_t kKeepGone = 90'000'000'000;

  explicit GpuReadings(std::vector<std::string> tenant_keys) : tenant_keys_(std::move(tenant_keys)) {}

  // Follows the frames. True: a layout changed, so that engines should be bound.
  bool Follow(const Snapshot& snapshot);
  // Sets the engines of all users.
  void Bind(const EngineRules& rules, const std::vector<EngineIdentity>& engines);
  // Returns what is new since the last call. Valid until the next Follow.
  std::span<const ledger::GpuReading* const> Take(const Snapshot& snapshot);

  // The entity of a GPU or process in the last tick; null: none. A process is known for kKeepGone after its
  // end, as the ledger closes its last window then.
  EntityRef GpuEntity(std::string_view gpu) const;
  EntityRef ProcessEntity(std::string_view gpu, int64_t pid, int64_t start_ticks) const;

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  // Series of the GPU itself that have one slot each.
  enum class Use : uint8_t {
    kEnergy,
    kEstimate,
    kPower,
    kPowerInstant,
    kPowerState,
    kEngineActive,
    kSmActive,
    kClock,
    kClockMax,
    kSampleAge,
    kEnd,
  };
  enum class State : uint8_t { kAnswers, kNotRead, kBroken };
  enum class Repair : uint8_t { kFlag, kActionNone };  // kActionNone: 0 means that one is needed
  struct Throttle {
    uint32_t slot;
    ledger::Cause cause;
  };
  struct User {
    ProcessIdentity identity;
    int64_t start_ticks = 0;
    EntityRef entity;
    size_t place = 0;  // in all_users
    uint32_t memory = kNone, utilization = kNone, occupancy = kNone;
    std::vector<uint32_t> slots, engine_times;
    double last_time_s = -1;  // of engine_times
    int64_t last_at_ns = 0;
    std::optional<double> busy;  // between the last two readings of engine_times
  };
  struct Slice {
    size_t place = 0;  // in all_slices
    uint32_t engine_active = kNone, sm_active = kNone;
    std::vector<uint32_t> slots;
    PodName pod;
  };
  struct Gpu {
    size_t known = 0;       // in known_
    bool readable = false;  // has series by which it is measured, not only conditions
    EntityRef entity;
    int64_t index = -1;
    PodName pod;
    std::array<uint32_t, static_cast<size_t>(Use::kEnd)> slots;
    std::vector<std::pair<uint32_t, State>> states;
    std::vector<std::pair<uint32_t, Repair>> repairs;
    std::vector<Throttle> throttles;
    std::vector<uint32_t> process_counts, utilizations;
    uint32_t most_slices = kNone;
    std::vector<User> users;
    std::vector<Slice> slices;
    ledger::GpuReading reading;              // texts are set with the layout, numbers with each reading
    std::vector<ledger::GpuUser> all_users;  // those present are copied into the reading
    std::vector<ledger::MigSlice> all_slices;
    int64_t last_at_ns = 0;
  };
  struct Source {
    std::string name;
    uint64_t layout_id = 0, run = 0;
    bool seen = false, fresh = false;
    std::vector<Gpu> gpus;
  };
  // A process that has ended.
  struct Gone {
    std::string gpu;
    int64_t pid = 0, start_ticks = 0;
    EntityRef entity;
    int64_t until_ns = 0;
  };
  // A GPU of any source.
  struct Known {
    std::string key;
    bool needs_repair = false;
    bool taken = false;  // a frame of this tick had it
  };

  void Plan(const Frame& frame, Source& source);
  void KeepGone(const Frame& frame, const std::vector<Gpu>& before, const Source& source);
  void PlanSeries(const SeriesInfo& info, uint32_t slot, Source& source);
  void PlanGpuSeries(const SeriesInfo& info, uint32_t slot, Gpu& gpu) const;
  void PlanUserSeries(const SeriesInfo& info, uint32_t slot, const Entity* slice, Gpu& gpu) const;
  void PlanSliceSeries(const SeriesInfo& info, uint32_t slot, Gpu& gpu) const;
  Gpu* GpuOf(const EntityRef& entity, Source& source);
  Slice& SliceOf(const SeriesInfo& info, Gpu& gpu) const;
  const Gpu* FindGpu(std::string_view gpu) const;
  void ReadRepairs(const Frame& frame, const Gpu& gpu);
  bool Read(const Frame& frame, Gpu& gpu);
  static bool ReadUsers(const Frame& frame, Gpu& gpu);
  static void ReadSlices(const Frame& frame, Gpu& gpu);
  static void ReadThrottles(const Frame& frame, Gpu& gpu);

  const std::vector<std::string> tenant_keys_;
  std::vector<Source> sources_;
  std::vector<Known> known_;
  std::vector<Gone> gone_;
  std::vector<const ledger::GpuReading*> out_;
};

}  // namespace gpulens::cost
