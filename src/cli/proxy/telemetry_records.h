// Records of a proxy's settled requests in a telemetry store.
#pragma once

#include <memory>
#include <string>

#include <gpulens/status.h>

#include "base/clock.h"
#include "proxy/proxy_records.h"

namespace gpulens {

struct TelemetryRecordsOptions {
  std::string place;      // a path, postgresql://… or clickhouse://…
  Duration retention{0};  // older rows of the store are deleted; 0: none are
  size_t queue_records = 16'384;
  Duration flush_interval = std::chrono::seconds(1);
};

// The path of a place that is a file, whole; empty for a server.
std::string TelemetryFile(const std::string& place);

// A file is opened now, and an error returned; a server when there are records for it, and again after each
// failure, so that one that is away holds up nothing. A thread writes. Destroyed, it writes what waits, for
// at most 5 s.
Result<std::unique_ptr<proxy::RequestRecords>> OpenTelemetryRecords(const TelemetryRecordsOptions& options);

}  // namespace gpulens
