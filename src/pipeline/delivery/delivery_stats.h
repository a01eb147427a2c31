// What became of what a network sink was given: for self-metrics. A plain value.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace gpulens {

struct DeliveryStats {
  struct Signal {
    std::string_view name;  // "metrics", "logs"; static storage
    // Points or records: taken, and left out by the receiver although it took their request.
    uint64_t delivered = 0, rejected = 0;
  };
  std::vector<Signal> signals;
  std::map<std::string, uint64_t, std::less<>> requests;  // by HTTP status, or the name of the failure
  uint64_t retries = 0, sent_bytes = 0;
  uint64_t left_out = 0, untranslated = 0;  // points or records, as in SendParts
  bool up = true;                           // the last request was taken, or there was none
  int64_t last_success_unix_ns = 0;

  bool on_disk = false;
  bool unusable = false;  // a folder cannot be used: what waits is in memory
  uint64_t queued_records = 0, queued_bytes = 0, queue_limit = 0;
  std::optional<Duration> oldest_age;
  std::array<std::pair<std::string_view, uint64_t>, 6> lost{};  // records by reason; static storage
};

}  // namespace gpulens
