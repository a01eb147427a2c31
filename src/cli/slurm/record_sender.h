// Hands records to a sink, some hundreds at a time.
#pragma once

#include <gpulens/status.h>

#include "core/frame.h"
#include "plugins/plugin.h"

namespace gpulens {

// Used by one thread.
class RecordSender {
 public:
  static constexpr size_t kBatch = 500;

  RecordSender(Sink& sink, AttributeSet resource) : sink_(sink), resource_(std::move(resource)) {}

  // What was not ok once stays: later records are not sent.
  Status Add(Event record);
  // Sends what waits.
  Status Send();
  uint64_t sent() const noexcept { return sent_; }

 private:
  Sink& sink_;
  const AttributeSet resource_;
  Events batch_;
  Status failed_;
  uint64_t sent_ = 0;
};

}  // namespace gpulens
