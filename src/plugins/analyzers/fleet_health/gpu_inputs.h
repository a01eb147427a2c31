// Reads from a tick the inputs of the health of each GPU, of any vendor, by the names of the catalogue.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/series_finder.h"
#include "plugins/analyzers/fleet_health/health_window.h"

namespace gpulens {

// Counts unplanned ends of reader processes by driver. Not thread-safe. Does not allocate while drivers and
// layouts stay.
class DriverFailures {
 public:
  // More within five minutes are a condition.
  static constexpr double kMost = 2;

  struct Driver {
    std::string name;          // "nvml", as in the attribute `driver`
    RecentGrowth recent = {};  // crashed, hung, killed, ended by itself, or wrote what it must not
    double total = 0;          // since the agent started
    bool seen = false;         // in the last tick
  };

  DriverFailures();
  // Call with every tick.
  void Read(const Snapshot& snapshot);
  // Failures within the last five minutes, without those before the first Read; 0 for an unknown driver.
  double Recent(std::string_view driver) const noexcept;
  const std::vector<Driver>& drivers() const noexcept { return drivers_; }

 private:
  Driver& Find(std::string_view name);

  SeriesFinder starts_;
  std::vector<Driver> drivers_;
};

// gpu_inputs.def.
#define INPUT(id, ...) id,
#define MORE(id, ...)
enum class GpuInput : uint8_t {
#include "plugins/analyzers/fleet_health/gpu_inputs.def"
  kEnd,
};
#undef INPUT
#undef MORE
inline constexpr size_t kGpuInputs = static_cast<size_t>(GpuInput::kEnd);

struct GpuNow {
  // Identifies it over restarts: its uuid; without one, its model and index.
  std::string key;
  std::string index;
  // It could not be opened, so only its index is known.
  bool nameless = false;
  // The collector's latest entity.
  EntityRef entity;
  std::array<std::optional<double>, kGpuInputs> values;
  std::string model;
  bool mig = false;              // split into MIG instances
  bool here = false;             // has series in the last tick
  bool others_answer = false;    // another GPU has the state "ok"
  double driver_failures = 0;    // unplanned ends of its vendor's reader process within five minutes
  double links_of_its_kind = 0;  // maximum of links that are up on a GPU of this model in the machine

  std::optional<double> operator[](GpuInput input) const noexcept {
    return values[static_cast<size_t>(input)];
  }
};

// Uses fresh values only. Not thread-safe. Does not allocate while GPUs and layouts stay.
class GpuInputs {
 public:
  // Further GPUs are ignored.
  static constexpr size_t kMaxGpus = 256;

  GpuInputs();
  // Of two sources of a reading, the first frame of the snapshot counts.
  void Gather(const Snapshot& snapshot);
  // All GPUs seen so far, in order of appearance; one that left is not `here`.
  const std::vector<GpuNow>& gpus() const noexcept { return gpus_; }
  // Removes a GPU that is no longer here.
  void Remove(size_t index);

 private:
  // The source of an input: only series of the same entity in the same frame are added up.
  struct Owner {
    const Frame* frame = nullptr;
    const Entity* entity = nullptr;
    bool operator==(const Owner&) const = default;
  };
  struct Owners {
    std::array<Owner, kGpuInputs> of{};
  };
  struct Family {
    SeriesFinder finder;
    size_t first, count;  // rows of the table
  };

  GpuNow* Find(const SeriesInfo& info);
  // Derives values from all readings of a tick.
  void DeriveValues();
  void Take(const Family& family, const SeriesInfo& info, double value, const Frame& frame);

  std::vector<Family> families_;
  DriverFailures failures_;
  std::vector<GpuNow> gpus_;
  std::vector<Owners> owners_;  // by index of gpus_
};

// Returns the attribute if it is text, else empty. A view into the set.
std::string_view TextOf(const AttributeSet& attributes, std::string_view key);

}  // namespace gpulens
