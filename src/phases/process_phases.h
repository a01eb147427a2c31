// Which phase a process is in, and for how long it was in each, from evidence of several sources. Pure: it is
// given what was seen and the time. Not thread-safe.
//
//   ProcessPhases phases(now);
//   phases.Mark(Phase::kOptimizerStep, at);                      // since the last Advance, in any order
//   phases.Interval(Evidence::kDataWait, from, to);
//   phases.Amount(Evidence::kDevice, Phase::kGpuCompute, ns);
//   phases.Advance(now);
//   phases.time_ns(Phase::kGpuCompute);
//
// At each moment the phase is that of the best evidence that holds: `Evidence` is in their order. Time is
// added at each Advance, so the phase that lasts is in it, and the sum over all phases is the time since the
// start exactly. What becomes known of the time before the last Advance changes nothing any more. Times are
// CLOCK_BOOTTIME in nanoseconds.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string_view>
#include <vector>

#include "job_page/job_page.h"

namespace gpulens::phases {

using Phase = job_page::Phase;
inline constexpr size_t kPhaseCount = static_cast<size_t>(Phase::kCount);
// "data_loading", "gpu_compute", …. Static storage.
std::string_view PhaseName(Phase phase) noexcept;

// Best first.
enum class Evidence : uint8_t {
  kMark,             // the job marks its phases
  kEngine,           // the page of an LLM engine: tokens, running and waiting requests
  kDataWait,         // the job measures its waits for a batch
  kDataWaitOutside,  // off the CPU until a worker of the loader woke it
  kExposed,          // in a collective, and no kernel of the job's own runs
  kCollective,       // in a collective; what else runs is not known
  kDevice,           // kernels or launches, or a wait for the device
  kUtilization,      // samples of the GPU's utilisation
  kNone,
  kCount,
};
inline constexpr size_t kEvidenceCount = static_cast<size_t>(Evidence::kCount);
// "mark", "engine", "data_wait", "waker", "collective", "device", "utilization", "none": kExposed and
// kCollective have one name. Static storage.
std::string_view EvidenceName(Evidence evidence) noexcept;
// How sure a phase is by this evidence, from 0 (kNone) to 1 (kMark).
double ConfidenceOf(Evidence evidence) noexcept;

class ProcessPhases {
 public:
  // Its time begins at `now_ns`.
  explicit ProcessPhases(int64_t now_ns) noexcept : begun_ns_(now_ns), now_ns_(now_ns) {}

  // The job began this phase; it lasts until the next mark. kUnknown: it is in none that it marks.
  void Mark(Phase phase, int64_t at_ns);
  // The evidence held from then to then. Of kDataWait … kDevice, whose phase is known. Intervals may overlap;
  // those that were seen before are cut to the time since the last Advance.
  void Interval(Evidence evidence, int64_t from_ns, int64_t to_ns);
  // The evidence held for so long since the last Advance, at times that are not known. It takes time from
  // worse evidence, from the worst first, and never more than there is.
  void Amount(Evidence evidence, Phase phase, int64_t ns);
  // A polled sample. A phase begins with the second of two equal ones, and lasts until two equal others.
  void Sample(Evidence evidence, Phase phase, int64_t at_ns);
  // The source of samples is gone.
  void EndSamples(Evidence evidence, int64_t at_ns);
  // Settles all up to now; an earlier time than that of the last call changes nothing.
  void Advance(int64_t now_ns);

  int64_t begun_ns() const noexcept { return begun_ns_; }
  int64_t settled_ns() const noexcept { return now_ns_; }
  // Of the last moment that is settled.
  Phase phase() const noexcept { return phase_; }
  Evidence evidence() const noexcept { return evidence_; }
  int64_t time_ns(Phase phase) const noexcept;
  int64_t time_ns(Phase phase, Evidence evidence) const noexcept {
    return times_[static_cast<size_t>(evidence)][static_cast<size_t>(phase)];
  }
  // Changes of the phase. Of amounts only those that are seen at an Advance.
  uint64_t transitions() const noexcept { return transitions_; }
  // Times at which the phase was decided.
  uint64_t decisions() const noexcept { return decisions_; }
  // Mean of the last minute, weighted by time; 0 before the first Advance.
  double confidence() const noexcept;

 private:
  using Times = std::array<std::array<int64_t, kPhaseCount>, kEvidenceCount>;
  struct Edge {
    int64_t at_ns;
    Evidence evidence;
    Phase phase;
    int8_t change;  // +1 begins, -1 ends, 0 sets
  };
  struct Portion {
    Evidence evidence;
    Phase phase;
    int64_t ns;
  };
  struct State {
    std::array<int, kEvidenceCount> open{};
    std::array<Phase, kEvidenceCount> set{};
  };
  struct Sampled {
    Phase last = Phase::kCount;  // kCount: none yet
  };
  struct Share {
    int64_t end_ns, ns;
    double weighted_ns;
  };

  void Set(Evidence evidence, Phase phase, int64_t at_ns);
  void Decide(Evidence& evidence, Phase& phase) const noexcept;
  void Sweep(int64_t until_ns, Times& stretch);
  void Apply(const Edge& edge) noexcept;
  void Take(const Portion& portion, Times& stretch);
  void AddConfidence(const Times& stretch);

  const int64_t begun_ns_;
  int64_t now_ns_;
  Times times_{};
  State state_;
  std::array<Sampled, kEvidenceCount> samples_;
  std::vector<Edge> edges_;        // since the last Advance
  std::vector<Portion> portions_;  // the same
  std::deque<Share> shares_;       // of the last minute
  Phase phase_ = Phase::kUnknown;
  Evidence evidence_ = Evidence::kNone;
  uint64_t transitions_ = 0, decisions_ = 0;
};

}  // namespace gpulens::phases
