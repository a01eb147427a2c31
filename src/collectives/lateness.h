// Which members of one communicator arrive late: sums of lateness in windows, and the three rules.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "collectives/diagnosis.h"

namespace gpulens::collectives {

// A collective, or a run of collectives of one function, with the mean duration of each member.
struct JoinedCollective {
  Function function = Function::kOther;
  double count = 1;                // how many a mean is of
  double interval_ns = 0;          // from one to the next; 0: unknown
  std::span<const float> mean_ns;  // by member; NaN: nothing came of it
  size_t present = 0;              // members with a mean
};

// Not thread-safe.
class LatenessWindows {
 public:
  struct Options {
    double short_ns = 0.95e9, long_ns = 5e9;
  };
  // What is known of a member. Shares are of the time of the job.
  struct MemberState {
    double lost_ns = 0;     // total by which it came after the second-latest
    float lateness_ns = 0;  // mean of a collective in the last short window
    float share = 0;        // of the last short window, over the median of all members
    float long_share = 0;   // of the last long window
    // `share` and `long_share` of the whole time, which has pauses between collectives that come close
    // together; the rules leave them out.
    float lost_share = 0, long_lost_share = 0;
    float deviations = 0;   // robust standard deviations of `share` or `long_share`, of the rule that holds
    bool measured = false;  // a window has ended
    bool suspect = false;   // late in the last short window, perhaps not for long enough
    std::array<bool, kLatenessRules> holds{};
    bool slow() const noexcept { return holds[0] || holds[1] || holds[2]; }
    // The first rule that holds.
    LatenessRule rule() const noexcept;
    double worst_share() const noexcept { return holds[0] ? share : long_share; }
    double worst_lost_share() const noexcept { return holds[0] ? lost_share : long_lost_share; }
  };

  explicit LatenessWindows(const Options& options) : options_(options) {}

  // New members have no history.
  void Resize(size_t members);
  // True when a rule begins or ceases to hold for a member. Functions in which not every rank waits for all
  // others are passed over.
  bool Add(const JoinedCollective& collective);

  std::span<const MemberState> members() const noexcept { return states_; }
  double interval_ns() const noexcept { return interval_ns_; }  // of the last collective; 0: unknown
  size_t memory() const noexcept;

 private:
  struct Sums {
    float sum = 0, most = 0;  // ns
    uint16_t points = 0;      // with this member
    uint16_t above = 0;       // later than kSteadyPoint
    uint16_t far_above = 0;   // later than kIntermittentPoint
  };
  struct Streaks {
    std::array<uint8_t, kLatenessRules> hits{}, misses{};
  };
  struct Window {
    std::array<double, kFunctions> elapsed_ns{};
    std::array<double, kFunctions> collectives{};
    uint32_t points = 0;
    std::vector<Sums> sums;
    std::vector<std::pair<Function, float>> intervals;  // of the points
    double elapsed() const noexcept;
    // Without the time of a few collectives that took very long, whichever rank was late in them.
    double UsualElapsed() const;
    double all() const noexcept;
    void Clear() noexcept;
  };

  bool CloseShort();
  bool CloseLong();
  // Fills shares_ with the lost share of each member, NaN where too little came; returns median and scale.
  struct Spread {
    double median = 0, scale = 0;
    double usual = 1;  // UsualElapsed() as a part of elapsed()
    size_t members = 0;
  };
  Spread Shares(const Window& window);
  bool Count(size_t member, LatenessRule rule, bool hit, bool miss);

  const Options options_;
  Window short_, long_;
  std::vector<MemberState> states_;
  std::vector<Streaks> streaks_;
  std::vector<float> scratch_, shares_;
  double interval_ns_ = 0;
};

// The median of the values that are no NaN, which it reorders; NaN when there is none.
double MedianOf(std::vector<float>& values) noexcept;

}  // namespace gpulens::collectives
