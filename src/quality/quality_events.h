// Rejected readings as events: the first of a series and reason, then at most one in ten minutes.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "core/frame_writer.h"

namespace gpulens {

class EventQueue;

// Used inside one instance's runs; not thread-safe. Allocates for an event only.
class QualityEvents {
 public:
  // Series and reasons that are remembered; when so many were told in ten minutes, further ones are not.
  static constexpr size_t kMaxKnown = 4096;

  // After the run: tells what it rejected.
  void Report(const FrameWriter& run, EventQueue& queue);

 private:
  std::unordered_map<uint64_t, int64_t> reported_ns_;  // by series and reason
};

}  // namespace gpulens
