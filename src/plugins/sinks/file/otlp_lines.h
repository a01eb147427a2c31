// Snapshots and events as lines of OTLP JSON, each a whole request: what the OpenTelemetry Collector's
// receiver `otlpjsonfile` reads.
#pragma once

#include <string>

#include <gpulens/status.h>

#include "wire/otlp/otlp_metrics.h"

namespace gpulens {

// Not thread-safe.
class OtlpLines {
 public:
  explicit OtlpLines(SeriesNamer namer);

  // Appends a line for each request with what is new since the last Commit.
  Status Append(const Snapshot& snapshot, std::string& out);
  // What was appended last of a snapshot has arrived.
  void Commit() { metrics_.Commit(); }
  // One line, or none when there is no event.
  Status Append(const Events& events, std::string& out);

 private:
  OtlpMetrics metrics_;
  std::string request_, json_;
};

}  // namespace gpulens
