// gen_ai metrics and spans of a proxy on their way to an OpenTelemetry receiver.
//
// Requests never wait for it: loops record into cells of their own and put finished spans into a bounded
// buffer. A thread makes export requests of them, and a sender delivers these, from queues in memory with a
// bound for each signal. What does not fit is dropped and counted.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "core/attribute_set.h"
#include "delivery/request_log.h"
#include "delivery/request_sender.h"
#include "net/client/http_client.h"
#include "net/io_loop.h"
#include "proxy/genai_metrics.h"
#include "wire/packing.h"

namespace gpulens::proxy {

struct GenaiOptions {
  // How requests are sent: one route for each encoding of OTLP (NumberOf), whose signals are metrics, logs
  // and traces. Null: no telemetry at all.
  std::shared_ptr<const SendSetup> send = {};
  bool metrics = true, spans = true;
  GenaiVersions versions = {};
  // Part of the requests without a trace of their caller that begin one.
  double sample = 0;
  AttributeSet resource = {};
  Duration interval = std::chrono::seconds(10);  // of metrics
  size_t max_series = 2000;                      // of each instrument
  uint64_t queue_bytes = uint64_t{16} << 20;     // of each signal, not delivered yet
  size_t packing = 0;                            // of kOtlpPackings
};

// What has become of the points and spans. A plain value.
struct GenaiStats {
  struct Signal {
    std::string_view name;  // "metrics", "traces"
    uint64_t delivered = 0, waiting = 0;
    std::map<std::string_view, uint64_t> dropped;  // by reason
  };
  std::array<Signal, 2> signals;
  std::map<std::string, uint64_t, std::less<>> requests;  // by status of HTTP, or how they failed
  bool up = true;                                         // the last request was taken
};

// Thread-safe.
class GenaiTelemetry {
 public:
  // With `options.send`, which must stay usable, starts to deliver. kExhausted: no thread can be started.
  // Without it spans are kept for TakeSpans.
  static Result<std::unique_ptr<GenaiTelemetry>> Start(GenaiOptions options,
                                                       const Clock& clock = RealClock());
  ~GenaiTelemetry();
  GenaiTelemetry(const GenaiTelemetry&) = delete;
  GenaiTelemetry& operator=(const GenaiTelemetry&) = delete;

  const GenaiOptions& options() const noexcept { return options_; }
  const GenaiInstruments& instruments() const noexcept { return instruments_; }
  // A span as OtlpSpanWriter has written it. Dropped and counted while the buffer is full.
  void AddSpan(std::string_view span);
  // Delivers what there is, until the deadline. No call of AddSpan follows.
  void Finish(Duration timeout);
  GenaiStats stats() const;
  // The spans of the buffer, and how many they are.
  std::pair<std::string, uint32_t> TakeSpans();

 private:
  struct Queue {
    std::shared_ptr<RequestLog> log;
    std::shared_ptr<LogReader> reader;
  };
  enum : size_t { kMetrics, kTraces };

  GenaiTelemetry(GenaiOptions options, const Clock& clock);
  Status StartDelivery();
  void Run();
  void ExportSpans();
  void ExportMetrics();
  void Append(size_t queue, std::string_view request, uint32_t items);

  const GenaiOptions options_;
  const Clock& clock_;
  const GenaiInstruments instruments_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  std::string spans_;
  std::vector<size_t> ends_;  // of each span in spans_
  uint64_t spans_dropped_ = 0;
  bool finish_ = false;

  // Of the thread.
  OtlpPacker packer_;
  std::string request_, record_;

  IoLoop io_;
  std::unique_ptr<HttpClient> client_;
  std::unique_ptr<RequestSender> sender_;
  std::array<Queue, 2> queues_;
  std::thread thread_;
};

}  // namespace gpulens::proxy
