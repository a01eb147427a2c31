// Delivery of network sinks: request logs, by folder, and a sender for each sink. Both survive reloads: a
// sender keeps its position in its logs and its requests in flight.
//
// A log has the readers of one group of sinks: those with equal encoders, or all that send received data.
// When a sink leaves a group, the group continues in another folder, so that nothing is kept for the removed
// sink; the previous folder is emptied first, and then removed.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "delivery/queue_folders.h"
#include "delivery/request_log.h"
#include "delivery/request_sender.h"
#include "pipeline/delivery/send_setup.h"
#include "plugins/plugin.h"
#include "plugins/receiver.h"

namespace gpulens {

// Counters of one network sink, for self-metrics: those of its sender, and of its queues. A plain value.
struct DeliveryStats : RequestSender::Stats {
  std::vector<std::string_view> signal_names;  // "metrics", "logs", by index of `signals`
  bool on_disk = false;
  bool unusable = false;  // a folder is unusable: the queue is in memory
  uint64_t queued_records = 0, queued_bytes = 0, queue_limit = 0;
  std::optional<Duration> oldest_age;
  std::array<std::pair<std::string_view, uint64_t>, 6> dropped{};  // records by reason; static storage
};

// Thread-safe; Apply by one thread at a time.
class Delivery final : public OtlpForward {
 public:
  // Name of the folder in which received data waits, next to those of sinks.
  static constexpr std::string_view kReceivedLog = "received";

  struct SinkSetup {
    std::string name;  // "otlp/b"
    const SinkSpec* spec = nullptr;
    Config config;
  };
  // The destinations and logs to run, built by Add and PlanReceived.
  struct Plan {
    struct Destination {
      SinkSetup sink;
      std::shared_ptr<const SendSetup> setup;
      ReaderBounds bounds;
      std::shared_ptr<RequestLog> own, received;  // null: sends no such data
    };
    std::vector<Destination> destinations;
    std::shared_ptr<RequestLog> received;
    size_t packing = 0;  // compression of its requests
    // Whether a sink sends the data, by source and signal.
    std::array<std::array<bool, kOtlpSignals>, kRecordSources> sends{};
    bool carries_histograms = false;
    bool discards = false;  // a sink accepts received data and discards it
  };

  // `env` outlives it.
  explicit Delivery(Env& env);
  ~Delivery() override;

  // Whether the sink sends the agent's own data, and received data.
  static bool SendsOwn(const Config& config);
  static bool SendsReceived(const SinkSpec& spec, const Config& config);

  // Default folder of the queue of a sink; empty: in memory.
  std::string DefaultFolder(const std::string& sink) const;
  // Adds a sink to `plan`; kInvalidArgument for options that contradict each other.
  Status Add(const SinkSetup& sink, Plan& plan) const;
  // Returns or opens the log of a group. `base`: the sink that owns the folder.
  std::shared_ptr<RequestLog> LogOf(const std::string& base, const std::vector<std::string>& members,
                                    RequestLogOptions options);
  // Chooses the log of received data, if there are receivers.
  void PlanReceived(bool receivers, Plan& plan);
  // Runs `plan`. Removed sinks have until `deadline` for their requests.
  void Apply(Plan plan, Instant deadline);
  // Delivers until `deadline`, and ends. Statuses by sink: not ok when data is left or was refused.
  std::map<std::string, Status> Finish(Instant deadline);

  // False for a sink that does not send over a network.
  bool ReadStats(std::string_view sink, DeliveryStats& out);
  // Closes logs that are done. Call periodically.
  void Tidy();
  // Data on disk that waits for sinks which are not configured, as of the last scan: after a reload, and
  // every minute.
  std::vector<QueueLeftover> leftovers() const { return leftovers_->found(); }

  // OtlpForward
  bool has_sink() const override;
  size_t packing() const override;
  bool carries_histograms() const override;
  void Forward(const ReceivedOtlp& received, Done done) override;

 private:
  struct Destination;
  struct OpenLog {
    std::shared_ptr<RequestLog> log;
    std::vector<std::string> members;
    bool current = false;  // is, or may be, appended to
    bool closing = false;  // its readers leave; not used again
  };
  OpenLog* FindLog(const std::string& folder);
  std::string QueueFolder() const;
  void Attach(Destination& destination, const std::shared_ptr<RequestLog>& log, RequestSender::Chain chain);
  void WatchLeftovers();
  void SweepAbandoned();
  void AttachLeftovers(Destination& destination, const Plan::Destination& planned);

  Env& env_;
  mutable std::mutex mutex_;
  std::vector<OpenLog> logs_;
  std::map<std::string, std::unique_ptr<Destination>, std::less<>> destinations_;
  std::shared_ptr<RequestLog> received_;
  std::vector<std::shared_ptr<LogReader>> received_readers_;
  // Values of the running plan.
  size_t packing_ = 0;
  std::array<std::array<bool, kOtlpSignals>, kRecordSources> sends_{};
  bool discards_ = false;
  std::atomic<bool> carries_histograms_{false};
  std::string record_;  // guarded by forward_mutex_
  std::mutex forward_mutex_;
  bool swept_ = false;
  const std::shared_ptr<LeftoverWatch> leftovers_ = std::make_shared<LeftoverWatch>();
};

// A sink for a command, which has no pipeline. That of a network sink includes its delivery: Flush waits for
// it.
Result<std::unique_ptr<Sink>> MakeStandaloneSink(const SinkSpec& spec, const Config& config, Env& env);

}  // namespace gpulens
