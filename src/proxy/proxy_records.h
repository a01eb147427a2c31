// Settled requests as records of the telemetry store (docs/telemetry.md).
#pragma once

#include <cstdint>
#include <string>

#include <gpulens/inference_record.h>

#include "store/charges/charge_record.h"

namespace gpulens::proxy {

// Where records of settled requests go. Thread-safe.
class RequestRecords {
 public:
  virtual ~RequestRecords() = default;

  // Never waits: a record for which there is no room is lost and counted.
  virtual void Add(const ChargeRecord& record, bool streaming) noexcept = 0;

  struct Counts {
    uint64_t stored = 0;
    uint64_t queued = 0;
    uint64_t lost = 0;
    uint64_t set_aside = 0;  // that the store refused for what they contain
    bool failing = false;    // the last attempt to write failed
  };
  virtual Counts counts() const = 0;
};

// The record of a settled request. Its texts are those of `record` and `room`. What is not known is absent:
// tokens that the provider did not count, cached ones of which it named none, and the cost of a request
// without a price, or of one's own machines (the ledger has it).
InferenceRecord RecordOf(const ChargeRecord& record, bool streaming, std::string& room);

}  // namespace gpulens::proxy
