// Who keeps a collective from ending: progress of the members of communicators, and the graph of who waits
// for whom.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "collectives/diagnosis.h"

namespace gpulens::collectives {

// What is known of a member besides its numbers.
enum class Presence : uint8_t {
  kReports,
  kStopped,  // its process was stopped
  kSilent,   // its agent does not report any more
  kGone,     // its process ended
  kClosed,   // it left the communicator in an orderly way
};

// A collective that waits in one communicator. Members are indices.
struct StuckCollective {
  size_t communicator = 0;  // of the caller
  HangKind kind = HangKind::kNone;
  Function function = Function::kOther;
  uint64_t sequence = 0;
  int64_t age_ns = 0;
  std::vector<uint32_t> waiting;  // members that wait for the others
  // The members for which they wait. Of kLink: from and to, or empty.
  std::vector<uint32_t> targets;
  bool unreported = false;  // they wait for ranks of which nothing is known
  bool sure = true;         // false: a part of the evidence is not measured
};

// Progress of the members of one communicator. Not thread-safe.
class CommunicatorProgress {
 public:
  void Resize(size_t members) { members_ = members; }
  void Set(size_t member, const Progress& progress, int64_t now_ns);
  void Forget(size_t member);

  // For how long a collective waits while no member moves; 0: none waits.
  int64_t PendingFor(int64_t now_ns, std::span<const Presence> presence) const;
  // Members that have not arrived where another one waits.
  size_t Missing(std::span<const Presence> presence) const;
  // Collectives that wait, each with its reason. `ranks` of the communicator may be more than its members.
  std::vector<StuckCollective> FindStuck(int64_t age_ns, size_t ranks,
                                         std::span<const Presence> presence) const;
  bool any_done() const noexcept { return any_done_; }
  size_t memory() const noexcept;

 private:
  struct State {
    uint64_t enqueued = 0, started = 0, done = 0, bytes = 0;
    int32_t peer = -1;
    ProxyWait wait = ProxyWait::kUnknown;
    bool known = false;
    bool pending() const noexcept { return enqueued > done; }
  };
  struct Track {
    std::vector<State> states;  // by member
    bool starts_known = false;  // `started` is measured
  };

  void FindStuckPeers(const Track& track, Function function, int64_t age_ns,
                      std::vector<StuckCollective>& out) const;

  size_t members_ = 0;
  std::array<std::unique_ptr<Track>, kFunctions> tracks_;
  int64_t moved_ns_ = 0;  // when a number changed last
  bool any_done_ = false;
};

// A hang with its root. `stuck` are indices of the input that belong to it.
struct Hang {
  HangKind kind = HangKind::kNone;
  size_t root = 0;                 // index in the input
  std::vector<uint32_t> culprits;  // members of the root's communicator; empty: not known which
  bool sure = true;
  std::vector<size_t> stuck;
};

// Follows who waits for whom over all communicators. `process_of(i, member)` is a number of the process of a
// member of stuck[i], less than `processes`.
std::vector<Hang> FindHangs(std::span<const StuckCollective> stuck, size_t processes,
                            const std::function<uint32_t(size_t, uint32_t)>& process_of);

}  // namespace gpulens::collectives
