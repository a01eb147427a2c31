// Names the rank, host, GPU or link that slows a job down, or for which a job waits for ever: a pure object,
// driven by batches and the time.
//
// In a collective all ranks end together, so the rank that arrives last has the SHORTEST duration: the others
// wait for it. Lateness of a rank is the median duration of all ranks less its own, each on the clock of its
// own GPU; no common clock is needed. A long duration is never blamed: it belongs to those who wait. See
// docs/stragglers.md for the rules and what they find, ADR 80 for the reasons.
//
//   Diagnosis diagnosis({});
//   diagnosis.Add(batch, now);                      // of each host, as it comes
//   diagnosis.Advance(now);                         // a few times a second
//   for (const FaultChange& change : diagnosis.TakeChanges()) …
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "collectives/batch.h"

namespace gpulens::collectives {

enum class FaultKind : uint8_t {
  kSlowRank,           // ranks arrive late again and again
  kSlowCommunication,  // all ranks arrive in time, and the collective itself takes longer than before
  kHang,               // a collective makes no progress
};
inline constexpr size_t kFaultKinds = 3;

// What a hang is.
enum class HangKind : uint8_t {
  kNone,        // no hang
  kNotArrived,  // culprits run and have not called the collective for which the others wait
  kGpuQueue,    // culprits have called it, and their GPU has not started it
  kLink,        // all have started, and it does not end
  kProcess,     // the process or the host of culprits is gone, stopped, or no longer reported
  kProgram,     // ranks call different collectives, or in a different order, and wait for each other
};
inline constexpr size_t kHangKinds = 6;

// What the culprits of a fault are.
enum class FaultScope : uint8_t { kRank, kHost, kLink, kCommunicator };

// A rule for slow ranks; docs/stragglers.md has its numbers.
enum class LatenessRule : uint8_t {
  kFast,          // much time in each of three short windows
  kSteady,        // little time, in almost each collective of three long windows
  kIntermittent,  // much time in some collectives of three long windows
};
inline constexpr size_t kLatenessRules = 3;

// "slow_rank", "not_arrived", "rank", "gpu_clock", "fast", "all_reduce", …. Static storage.
std::string_view NameOf(FaultKind kind) noexcept;
std::string_view NameOf(HangKind kind) noexcept;
std::string_view NameOf(FaultScope scope) noexcept;
std::string_view NameOf(Cause cause) noexcept;
std::string_view NameOf(LatenessRule rule) noexcept;
std::string_view NameOf(Function function) noexcept;

// A rank with its place.
struct Culprit {
  int32_t rank = -1;
  Process process;  // without texts where no agent reports it
};

struct Fault {
  uint64_t id = 0;  // of this process; equal in raised, changed and cleared
  FaultKind kind = FaultKind::kSlowRank;
  HangKind hang = HangKind::kNone;
  FaultScope scope = FaultScope::kRank;
  Cause cause = Cause::kUnknown;
  LatenessRule rule = LatenessRule::kFast;
  // Where it was seen. A rank is one of this communicator.
  uint64_t communicator = 0;
  std::string communicator_name;
  int32_t ranks = 0;
  Function function = Function::kOther;
  uint64_t sequence = 0;  // of a hang: the collective that waits
  // At most kCulprits of culprit_count; by rank. Empty for a communicator. A link: from, to.
  static constexpr size_t kCulprits = 64;
  std::vector<Culprit> culprits;
  size_t culprit_count = 0;
  // 0 to 1: how much of what would decide is known.
  double confidence = 0;
  // Slow rank: mean lateness of a collective, and the share of the job's time that is lost by it. Slow
  // communication: the longer duration less the usual one, and the same share. Hang: 0.
  double lateness_s = 0, lost_share = 0;
  double hung_s = 0;  // for how long nothing moved
  // What it holds up.
  uint32_t jobs = 0, pods = 0, affected_ranks = 0, communicators = 0;
  std::string evidence;  // a sentence with the numbers, and with the hint that names the cause
  Instant since;         // when it was raised
};

struct FaultChange {
  enum class Kind : uint8_t {
    kRaised,
    kChanged,  // other culprits, another kind of hang, or a cause, by better evidence
    kCleared,
  } kind = Kind::kRaised;
  Fault fault;
};

// Lateness and lost time of one rank. NaN where nothing was measured yet.
struct RankState {
  uint64_t communicator = 0;
  std::string_view communicator_name;
  int32_t ranks = 0, rank = 0;
  const Process* process = nullptr;
  double lateness_s = 0;   // mean of the last short window; negative: earlier than the median
  double lost_time_s = 0;  // total time by which it ended later than the second-latest
  bool slow = false;       // a fault names it
};

struct CommunicatorState {
  uint64_t communicator = 0;
  std::string_view name, job;
  int32_t ranks = 0;
  int32_t reported = 0;  // ranks of which something is known
  int32_t missing = 0;   // ranks that have not arrived where another one waits
  double pending_s = 0;  // for how long a collective waits without any progress; 0: none
  bool hung = false;
};

// What was not used, and why.
struct DiagnosisCounts {
  uint64_t samples = 0, collectives = 0;  // taken, and joined
  uint64_t duplicate = 0;                 // samples that came again, or after a later one
  uint64_t late = 0;                      // samples of a collective that was already joined
  uint64_t incomplete = 0;                // collectives of which too few ranks came
  uint64_t invalid = 0;                   // members and samples that cannot be true
  uint64_t refused = 0;                   // members beyond a limit
  uint64_t ambiguous = 0;                 // members of a communicator whose ranks two jobs claim
};

// Not thread-safe. Memory is bounded by the options; what is beyond is refused and counted.
class Diagnosis {
 public:
  struct Options {
    Duration short_window = std::chrono::milliseconds(950);
    Duration long_window = std::chrono::seconds(5);
    Duration grace = std::chrono::seconds(2);             // for the ranks of a collective to come
    Duration hang_after = std::chrono::seconds(30);       // least time without progress
    Duration first_hang_after = std::chrono::minutes(5);  // before a communicator has ended one
    Duration silent_after = std::chrono::seconds(15);     // then an agent does not report any more
    Duration forget_after = std::chrono::minutes(10);     // a communicator of which nothing comes
    size_t communicators = 16'384;
    size_t members = 131'072;  // ranks of all communicators
  };

  explicit Diagnosis(const Options& options);
  ~Diagnosis();
  Diagnosis(const Diagnosis&) = delete;
  Diagnosis& operator=(const Diagnosis&) = delete;

  // Takes what one host reports. `now` is the clock of this machine; it must not run backwards.
  void Add(const Batch& batch, Instant now);
  // Takes what another source noticed about the GPU or host of a rank; Add does so with those of a batch. A
  // hint is a cause of a fault of the same GPU or host alone: one that lasts for a minute after it was seen,
  // one that happened from a minute before the fault began until the fault ends.
  void AddHint(const Hint& hint, Instant now);
  // Joins what waited long enough, closes windows, and applies the rules for hangs. Call a few times a
  // second.
  void Advance(Instant now);

  // Faults that hold now, by id.
  std::span<const Fault> faults() const noexcept;
  // What was raised or cleared since the last call, in order.
  std::vector<FaultChange> TakeChanges();
  // Whether steps of the network should be measured for a while (Level::kLink) to find a slow link.
  bool wants_links(uint64_t communicator) const noexcept;

  void ForEachRank(const std::function<void(const RankState&)>& visit) const;
  void ForEachCommunicator(const std::function<void(const CommunicatorState&)>& visit) const;
  const DiagnosisCounts& counts() const noexcept;
  size_t memory() const noexcept;  // bytes, about

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gpulens::collectives
