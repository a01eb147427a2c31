// How often a counter is written, learnt from watching it closely for a while. Pure.
//
// What is read between two writes is old. That a value was not there at one reading and is at the next says
// when it was written, to within the two; of counters that are written in even steps a few such sightings,
// close enough, say how old a value may be.
#pragma once

#include <cstdint>
#include <optional>

namespace gpulens::energy {

class CounterStep {
 public:
  // A new value was written between these two times.
  void Saw(int64_t early_ns, int64_t late_ns) noexcept;
  // The value is still the one of the last sighting. Longer than the lag, and the lag was wrong.
  void SawNone(int64_t at_ns) noexcept;

  // How old a value may be; nothing while that is not known.
  std::optional<int64_t> lag_ns() const noexcept;

 private:
  int64_t early_ns_ = 0, late_ns_ = 0;  // of the last sighting
  int64_t longest_ns_ = 0;
  uint32_t sightings_ = 0;
  bool seen_ = false;
};

}  // namespace gpulens::energy
