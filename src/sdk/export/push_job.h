// Exports all samples of a registry periodically, as OTLP, over a transport.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include <gpulens/registry.h>
#include <gpulens/status.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "core/attribute_set.h"
#include "net/blocking/blocking_post.h"
#include "sdk/export/exporter_seat.h"

namespace gpulens::sdk {

// Outcome of a request. A plain value.
struct OtlpDelivery {
  Status status;
  Duration come_again{};  // requested by the receiver; 0: none
};

// Sends requests to an OTLP receiver.
class OtlpTransport {
 public:
  virtual ~OtlpTransport() = default;
  // Waits for the answer. One thread at a time.
  virtual OtlpDelivery Send(std::shared_ptr<const std::string> request, Duration timeout) = 0;
  // Ends the current Send, and each later one. Called by any thread.
  virtual void Cut() noexcept = 0;
  // Called in the child after a fork: closes its descriptors. No other function is called afterwards.
  virtual void LeaveBehind() noexcept = 0;
  // Address of the receiver, without passwords.
  virtual std::string address() const = 0;
};

// Reads an OTLP/HTTP answer, which is untrusted. `retry_after` is that header field.
OtlpDelivery ValidateOtlpAnswer(int http_status, std::string_view body, std::string_view retry_after,
                                Instant now);
// Reads the message of a successful answer, which may reject points.
Status ValidateOtlpSuccess(std::string_view answer);

// OTLP over plain HTTP, by TCP or by a Unix socket.
class PlainTransport : public OtlpTransport {
 public:
  // `headers`: whole lines, each with its line end, without Content-Type.
  PlainTransport(HttpUrl url, std::string headers);

  OtlpDelivery Send(std::shared_ptr<const std::string> request, Duration timeout) override;
  void Cut() noexcept override { post_.Cut(); }
  void LeaveBehind() noexcept override { post_.LeaveBehind(); }
  std::string address() const override { return url_.ToString(); }

 protected:
  OtlpDelivery SendTo(std::string unix_socket, const std::string& request, Duration timeout);

 private:
  const HttpUrl url_;
  const std::string headers_;
  BlockingPost post_;
};

// Schedule of exports. Pure.
class PushPace {
 public:
  static constexpr Duration kLeast = std::chrono::seconds(1), kMost = std::chrono::seconds(60);
  explicit PushPace(Duration interval)
      : interval_(interval), backoff_({.initial = kLeast, .cap = kMost, .jitter = 0}, 0) {}
  // Returns the wait after this attempt.
  Duration After(const OtlpDelivery& delivered);

 private:
  const Duration interval_;
  Backoff backoff_;
};

// Exporter's job. Thread-safe except for Run.
class PushJob final : public ExportJob {
 public:
  struct Options {
    Registry* registry = nullptr;
    Duration interval{}, timeout{};
    AttributeSet resource;
    std::string peer;  // for people: "an agent at /run/gpulens/otlp.sock"
  };
  PushJob(Options options, std::unique_ptr<OtlpTransport> transport);

  void Run() override;
  void Finish(Duration timeout) override;
  void Cut() override;
  Status status() const override;
  Status Flush(Duration timeout) override;
  std::string address() const override { return transport_->address(); }
  void LeaveBehind() noexcept override { transport_->LeaveBehind(); }

 private:
  // Samples per request: some hundred kilobytes.
  static constexpr size_t kSamples = 1'000;

  OtlpDelivery SendAll(Duration timeout);
  void Record(const OtlpDelivery& delivered, bool last);

  const Options options_;
  const std::unique_ptr<OtlpTransport> transport_;
  // Used by the thread alone.
  PushPace pace_;
  Code reported_ = Code::kOk;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable wake_, sent_;
  uint64_t requested_ = 0, done_ = 0;  // flushes
  bool finishing_ = false, cut_ = false, over_ = false;
  Instant end_;
  Status status_;
  uint64_t failed_ = 0;  // failed attempts in a row
};

}  // namespace gpulens::sdk
