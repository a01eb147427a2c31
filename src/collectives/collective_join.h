// Joins the samples of the members of one communicator by function and sequence number.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "collectives/diagnosis.h"
#include "collectives/lateness.h"

namespace gpulens::collectives {

// A collective with what its members reported, when it is complete or waited long enough.
struct CompleteCollective {
  JoinedCollective joined;
  uint64_t sequence = 0, bytes = 0;
  Algorithm algorithm = Algorithm::kUnknown;
  Protocol protocol = Protocol::kUnknown;
  float shortest_ns = 0, longest_ns = 0;  // of this collective alone
  size_t expected = 0;                    // members that report this function now
};

// Not thread-safe.
class CollectiveJoin {
 public:
  // Called in the order of completion, in Add and Advance. Its spans end with the call.
  using Sink = std::function<void(const CompleteCollective&)>;

  explicit CollectiveJoin(int64_t grace_ns) : grace_ns_(grace_ns) {}

  void Resize(size_t members) { members_ = members; }
  // `now_ns` never falls.
  void Add(size_t member, const Sample& sample, int64_t now_ns, DiagnosisCounts& counts, const Sink& sink);
  void Advance(int64_t now_ns, DiagnosisCounts& counts, const Sink& sink);
  // A member begins again: another process has its rank.
  void Forget(size_t member);
  size_t memory() const noexcept;

 private:
  struct Last {
    uint64_t sequence = 0, total_ns = 0, total_count = 0;
    int64_t ended_ns = 0;
    int64_t at_ns = 0;  // when it came; 0: nothing came yet
  };
  struct Open {
    uint64_t sequence = 0, bytes = 0;
    Algorithm algorithm = Algorithm::kUnknown;
    Protocol protocol = Protocol::kUnknown;
    int64_t first_at_ns = 0;
    size_t reached = 0, present = 0;  // members that have this number or a later one; that have this one
    double count = 1;
    std::array<double, 3> intervals{};
    size_t interval_count = 0;
    float shortest = 0, longest = 0;
    std::vector<float> mean;  // by member
  };
  struct Track {
    std::vector<Last> last;
    std::deque<std::unique_ptr<Open>> open;  // by sequence
    std::vector<std::unique_ptr<Open>> spare;
    size_t active = 0;  // members of which samples come; 0: not known yet
    int64_t counted_ns = 0;
    uint64_t closed_through = 0;  // sequence + 1 of the latest that was joined
  };

  void Close(Function function, Track& track, DiagnosisCounts& counts, const Sink& sink);
  // The open collective of this number, which may be new; null when it was joined already.
  Open* Find(Track& track, const Sample& sample, int64_t now_ns);
  void CountActive(Track& track, int64_t now_ns) const;

  const int64_t grace_ns_;
  size_t members_ = 0;
  std::array<std::unique_ptr<Track>, kFunctions> tracks_;
};

}  // namespace gpulens::collectives
