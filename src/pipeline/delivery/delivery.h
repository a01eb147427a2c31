// All that waits for network sinks: the request logs, by folder, and a sender for each sink. Both outlive
// reloads: a sender keeps its place in its logs and what is under way, whatever changes.
//
// A log has the readers of one group of sinks: those whose encoder is the same, or all that take received
// data. A group that loses a sink goes on in another folder, so that nothing is kept for one that is not
// there; what waits in the folder of before is sent first, and then the folder is removed.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "delivery/leftover_watch.h"
#include "delivery/request_log.h"
#include "delivery/request_sender.h"
#include "pipeline/delivery/delivery_stats.h"
#include "pipeline/delivery/send_setup.h"
#include "plugins/receiver.h"

namespace gpulens {

// Thread-safe; Apply by one thread at a time.
class Delivery final : public OtlpForward {
 public:
  struct Wanted {
    std::string name;  // "otlp/b"
    const SinkSpec* spec = nullptr;
    Config config;
  };
  // What shall run. Made by Prepare.
  struct Plan {
    struct Destination {
      Wanted wanted;
      std::shared_ptr<const SendSetup> setup;
      ReaderBounds bounds;
      std::shared_ptr<RequestLog> own, received;  // null: it does not send such data
    };
    std::vector<Destination> destinations;
    std::shared_ptr<RequestLog> received;
    size_t packing = 0;  // of what is put into it
    // Whether a sink sends it, by source and signal.
    std::array<std::array<bool, kOtlpSignals>, kRecordSources> taken{};
    bool carries_histograms = false;
    bool discards = false;  // a sink takes received data and drops it
  };

  // `env` outlives it.
  explicit Delivery(Env& env);
  ~Delivery() override;

  // Whether the sink sends the agent's own data, and what receivers take in.
  static bool SendsOwn(const Config& config);
  static bool SendsReceived(const SinkSpec& spec, const Config& config);

  // Where what waits for a sink is kept by default; empty: in memory.
  std::string DefaultFolder(const std::string& sink) const;
  // Adds a sink to `plan`; kInvalidArgument for options that contradict each other.
  Status Add(const Wanted& wanted, Plan& plan) const;
  // The log of a group, one that is open or one that is opened now. `base`: the sink whose folder it is.
  std::shared_ptr<RequestLog> LogOf(const std::string& base, const std::vector<std::string>& members,
                                    RequestLogOptions options);
  // Chooses the log of received data, where there are receivers.
  void PlanReceived(bool receivers, Plan& plan);
  // From now on it runs so. Sinks that are gone get until `deadline` for what is under way.
  void Apply(Plan plan, Instant deadline);
  // Sends what waits as long as there is time, and ends. What each sink says of it: not ok when something is
  // left or was lost.
  std::map<std::string, Status> Finish(Instant deadline);

  // False for a sink that does not send over a network.
  bool ReadStats(std::string_view sink, DeliveryStats& out);
  // Lets go of logs that are done. To be called now and then.
  void Tidy();
  // What waits on disk for sinks that are not configured. As of the last look: after a reload, and each
  // minute.
  std::vector<QueueLeftover> leftovers() const { return leftovers_->found(); }

  // OtlpForward
  bool wanted() const override;
  size_t packing() const override;
  bool carries_histograms() const override;
  void Forward(const ReceivedOtlp& received, Done done) override;

 private:
  static constexpr std::string_view kReceivedLog = "received";
  struct Destination;
  struct OpenLog {
    std::shared_ptr<RequestLog> log;
    std::vector<std::string> members;
    bool current = false;  // something is, or may be, appended to it
    bool closing = false;  // its readers leave: it is not used any more
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
  // As in Plan.
  size_t packing_ = 0;
  std::array<std::array<bool, kOtlpSignals>, kRecordSources> taken_{};
  bool discards_ = false;
  std::atomic<bool> carries_histograms_{false};
  std::string record_;  // guarded by forward_mutex_
  std::mutex forward_mutex_;
  bool swept_ = false;
  const std::shared_ptr<LeftoverWatch> leftovers_ = std::make_shared<LeftoverWatch>();
};

}  // namespace gpulens
