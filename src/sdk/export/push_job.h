// Sends all samples of a registry again and again, as OTLP.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>

#include <gpulens/registry.h>

#include "base/backoff.h"
#include "core/attribute_set.h"
#include "sdk/export/exporter_seat.h"
#include "sdk/export/transport.h"

namespace gpulens::sdk {

// Schedule of exports. Pure.
class Pace {
 public:
  static constexpr Duration kLeast = std::chrono::seconds(1), kMost = std::chrono::seconds(60);
  explicit Pace(Duration interval)
      : interval_(interval), backoff_({.initial = kLeast, .cap = kMost, .jitter = 0}, 0) {}
  // Returns the wait after this attempt.
  Duration After(const Delivered& delivered);

 private:
  const Duration interval_;
  Backoff backoff_;
};

class PushJob final : public ExportJob {
 public:
  struct Options {
    Registry* registry = nullptr;
    Duration interval{}, timeout{};
    AttributeSet resource;
    std::string peer;  // for people: "an agent at /run/gpulens/otlp.sock"
  };
  PushJob(Options options, std::unique_ptr<Transport> transport);

  void Run() override;
  void Finish(Duration timeout) override;
  void Cut() override;
  Status status() const override;
  Status Flush(Duration timeout) override;
  std::string address() const override { return transport_->address(); }
  void LeaveBehind() noexcept override { transport_->LeaveBehind(); }

 private:
  // Samples of one request: some hundred kilobytes.
  static constexpr size_t kSamples = 1'000;

  Delivered SendAll(Duration timeout);
  void Record(const Delivered& delivered, bool last);

  const Options options_;
  const std::unique_ptr<Transport> transport_;
  // Used by the thread alone.
  Pace pace_;
  Code reported_ = Code::kOk;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable wake_, sent_;
  uint64_t requested_ = 0, done_ = 0;  // flushes
  bool finishing_ = false, cut_ = false, over_ = false;
  Instant end_;
  Status status_;
  uint64_t failed_ = 0;  // tries in a row
};

}  // namespace gpulens::sdk
