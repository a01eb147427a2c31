// The text that WebSocket clients are sent: the frame of the zernel telemetry API.
//
//   {"gpu_utilization":[{"key":"4242:0","current_bytes":1,"peak_bytes":2}],"cuda_latency_p50_us":0.0,…,
//    "last_update_ms":1711800000000,"valid":{"gpu_utilization":true,"cuda_latency_p50_us":false,…}}
//
// Its clients format every field as a number, so what is not known is 0.0 there, and `valid` says so.
#pragma once

#include <string>

#include "core/frame.h"
#include "core/series_finder.h"
#include "wire/json/json_snapshot.h"

namespace gpulens {

// Not thread-safe.
class PushFrame {
 public:
  PushFrame();
  // The frame of a snapshot; of null one in which nothing is known.
  std::string Make(const Snapshot* snapshot);

 private:
  bool GpusAreRead(const Snapshot& snapshot);

  MemoryByProcess memory_;
  SeriesFinder collector_up_;
};

}  // namespace gpulens
