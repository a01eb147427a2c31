// Whether the collectives of one communicator take longer than before although all ranks arrive in time: the
// shortest duration of a collective is that of the rank that came last, so it has no wait in it. And which
// link or rank it is, while steps of the network are measured.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "collectives/collective_join.h"

namespace gpulens::collectives {

// Durations of collectives of one function, size, algorithm and protocol, against their own past. Not
// thread-safe.
class DurationBaseline {
 public:
  // It is not slow unless it takes `least_longer_ns` longer than usual.
  // `complete`: no rank is missing. The shortest of the others may have a wait in it.
  void Add(double shortest_ns, bool complete, double least_longer_ns) noexcept;
  bool slow() const noexcept { return slow_; }
  double usual_ns() const noexcept;  // NaN: not known yet
  // Median of the last five; the least of them where one was not complete. NaN: fewer came.
  double latest_ns() const noexcept;
  double sum() const noexcept { return sum_; }  // of the logarithms above what is allowed

 private:
  static constexpr size_t kRecent = 5, kPast = 96, kLearn = 20;

  void Learn() noexcept;

  std::array<float, kRecent> recent_{};
  std::array<bool, kRecent> complete_{};
  std::array<float, kPast> past_{};  // logarithms of medians
  size_t recent_count_ = 0, past_count_ = 0;
  double usual_ = 0, scale_ = 0;  // of the logarithm
  double sum_ = 0;
  uint32_t good_ = 0;  // in a row, while it is slow
  uint32_t slow_for_ = 0;
  bool slow_ = false;
};

// Delays of steps from one rank to another. Not thread-safe.
class LinkDelays {
 public:
  static constexpr size_t kMost = 16'384;  // pairs; further ones are not kept

  void Add(int32_t rank, const LinkDelay& delay);
  struct Slowest {
    int32_t from = -1, to = -1;  // a link; `to` is -1: all links of `from`
    double delay_ns = 0, usual_ns = 0;
  };
  // A pair whose steps take three times as long as the median, or a rank of which all do; else nothing.
  std::optional<Slowest> Find() const;
  size_t size() const noexcept { return cells_.size(); }
  void Clear() noexcept { cells_.clear(); }

 private:
  struct Cell {
    int32_t rank = 0, peer = 0;
    float delay_ns = 0;
  };
  std::vector<Cell> cells_;  // sorted
};

// Of one communicator. Not thread-safe.
class SlowCommunication {
 public:
  // True when it becomes slow or ceases to be.
  bool Add(const CompleteCollective& collective);
  struct State {
    Function function = Function::kOther;
    double usual_ns = 0, latest_ns = 0, share = 0;  // of the job's time
    double sum = 0;
  };
  // The group that costs most; nothing while none is slow.
  std::optional<State> slowest() const;
  size_t memory() const noexcept { return sizeof *this + groups_.capacity() * sizeof(Group); }

 private:
  struct Group {
    Function function = Function::kOther;
    Algorithm algorithm = Algorithm::kUnknown;
    Protocol protocol = Protocol::kUnknown;
    uint64_t bytes = 0;
    double interval_ns = 0;
    DurationBaseline baseline;
  };
  std::vector<Group> groups_;
};

}  // namespace gpulens::collectives
