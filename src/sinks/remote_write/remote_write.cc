// The remote_write sink: metrics to whatever takes Prometheus remote write, 1.0 or 2.0.

#include <atomic>

#include "base/result.h"
#include "base/version.h"
#include "catalog/self_io.h"
#include "naming/sink_names.h"
#include "pipeline/outbox/outbox.h"
#include "pipeline/outbox/outbox_options.h"
#include "pipeline/plugin.h"
#include "sinks/remote_write/remote_write_answer.h"
#include "sinks/remote_write/remote_write_labels.h"
#include "sinks/remote_write/target_health.h"
#include "wire/remote_write/remote_write.h"
#include "wire/remote_write/remote_write_downgrade.h"
#include "wire/remote_write/snappy_block.h"

namespace gpulens {
namespace {

constexpr std::string_view kAuto = "auto", kFirst = "1.0", kSecond = "2.0";
// Parcels on disk keep the version they were made in.
enum Route : size_t { kRoute1, kRoute2, kRoutes };
// Of one that waits, unpacked: far above what a request may have.
constexpr size_t kLargest = 256u << 20;

// What the sender's thread finds out about the receiver, and the sink's thread asks for.
struct Receiver {
  RemoteWritePeer peer;      // the sender's thread alone
  bool second = false;       // as is: the request that is out is one of 2.0
  std::string plain, older;  // as is
  std::atomic<bool> only_1{false};

  SendOutcome Judge(const HttpReply& reply) {
    SendOutcome outcome = JudgeRemoteWrite(reply, second, peer);
    // A hint for what is made next; what waits already is looked at anyway.
    only_1.store(peer.only_1, std::memory_order_relaxed);
    return outcome;
  }

  Status Rework(size_t& route, std::shared_ptr<const std::string>& body) {
    second = route == kRoute2;
    if (!second || !peer.only_1) return Ok();
    if (!SnappyUnpack(*body, kLargest, plain) || !ToRemoteWrite1(plain, older))
      return {Code::kDataLoss, "a request of remote write 2.0 that cannot be told in 1.0"};
    auto packed = std::make_shared<std::string>();
    SnappyPack(older, *packed);
    body = std::move(packed);
    route = kRoute1;
    second = false;
    return Ok();
  }
};

class RemoteWriteSink final : public Sink {
 public:
  RemoteWriteSink(const Config& config, std::unique_ptr<Outbox> outbox, std::shared_ptr<Receiver> receiver,
                  const Env& env)
      : clock_(*env.clock),
        // One reading by hand is no stream that could end.
        stale_at_end_(config.Bool("stale_at_end") && env.stats != nullptr),
        receiver_(std::move(receiver)),
        writer_(SinkNames(config).speller(NameForm::kPrometheus, &SpellTargetHealth), OptionsOf(config)),
        outbox_(std::move(outbox)) {}

  Status Write(const Snapshot& snapshot) override {
    RETURN_IF_ERROR(outbox_->Ready());
    if (receiver_->only_1.load(std::memory_order_relaxed)) writer_.SetVersion(RemoteWriteVersion::k1);
    RETURN_IF_ERROR(writer_.Encode(snapshot, push_));
    writer_.Commit();
    return Ok();
  }

  // Without stale_at_end receivers show the last values until they are too old for them, so a restart of the
  // agent is no gap.
  Status EndStream() override {
    if (!stale_at_end_) return Ok();
    RETURN_IF_ERROR(outbox_->Ready());
    RETURN_IF_ERROR(writer_.EncodeEnd(clock_.Now(), push_));
    writer_.Commit();
    return Ok();
  }

  Status Flush(Instant deadline) override { return outbox_->Finish(deadline); }

  bool Delivery(DeliveryStats& out) const override { return outbox_->stats(out); }

 private:
  static RemoteWrite::Options OptionsOf(const Config& config) {
    RemoteWrite::Options options;
    options.version = config.Text("protocol") == kFirst ? RemoteWriteVersion::k1 : RemoteWriteVersion::k2;
    options.native_histograms = config.Bool("native_histograms");
    options.max_samples = static_cast<size_t>(config.Int("max_samples"));
    options.labels = &RemoteWriteLabelsOf;
    options.target_up = &kSelfScrapeUp;
    return options;
  }

  Status Push(std::string_view request, uint32_t samples) {
    SnappyPack(request, packed_);
    const bool first = writer_.version() == RemoteWriteVersion::k1;
    return outbox_->Push(first ? kRoute1 : kRoute2, packed_, samples);
  }

  const Clock& clock_;
  const bool stale_at_end_;
  const std::shared_ptr<Receiver> receiver_;
  RemoteWrite writer_;
  std::string packed_;
  const RemoteWrite::Take push_ = [this](std::string_view request, uint32_t samples) {
    return Push(request, samples);
  };
  std::unique_ptr<Outbox> outbox_;
};

void Check(const Config& config, ConfigFaults& faults) {
  if (config.Bool("native_histograms") && config.Text("protocol") != kSecond)
    faults.Refuse(config, "native_histograms", "native_histograms needs protocol: \"2.0\"");
  const auto url = ParseHttpUrl(config.Text("url"));
  if (url) CheckRemote(config, *url, faults);
  else faults.Refuse(config, "url", url.error());
}

Result<std::unique_ptr<Sink>> Create(const Config& config, Env& env) {
  RETURN_IF_ERROR(RefuseFaults(&Check, config));
  const std::string& protocol = config.Text("protocol");
  ASSIGN_OR_RETURN(HttpUrl url, ParseHttpUrl(config.Text("url")));
  auto receiver = std::make_shared<Receiver>();
  receiver->peer.may_fall_back = protocol == kAuto;
  receiver->peer.only_1 = protocol == kFirst;
  Outbox::Setup setup{.name = "remote_write",
                      .signals = {"metrics"},
                      .routes = std::vector<Outbox::Route>(kRoutes),
                      .judge = [receiver](const HttpReply& reply) { return receiver->Judge(reply); },
                      .keep = kRemoteWriteFields,
                      .rework =
                          [receiver](size_t& route, std::shared_ptr<const std::string>& body) {
                            return receiver->Rework(route, body);
                          }};
  const std::string both =
      "Content-Encoding: snappy\r\nUser-Agent: gpulens/" + std::string(Version()) + "\r\n";
  setup.routes[kRoute1] = {0, url,
                           both +
                               "Content-Type: application/x-protobuf\r\n"
                               "X-Prometheus-Remote-Write-Version: 0.1.0\r\n"};
  setup.routes[kRoute2] = {0, url,
                           both +
                               "Content-Type: application/x-protobuf;proto=io.prometheus.write.v2.Request\r\n"
                               "X-Prometheus-Remote-Write-Version: 2.0.0\r\n"};
  ASSIGN_OR_RETURN(auto outbox, Outbox::Make(config, std::move(setup), env));
  return std::unique_ptr<Sink>(
      std::make_unique<RemoteWriteSink>(config, std::move(outbox), std::move(receiver), env));
}

constexpr std::string_view kProtocols[] = {kAuto, kFirst, kSecond};

constexpr auto kOptions =
    JoinOptions(std::to_array<OptionSpec>({
                    {.key = "url",
                     .type = OptionType::kUrl,
                     .fallback = "http://127.0.0.1:8428/api/v1/write",
                     .help = "The receiver, taken as it is."},
                    {.key = "protocol",
                     .fallback = kAuto,
                     .help = "The version of remote write; auto: 2.0, and 1.0 from when the receiver turns "
                             "out not to know it.",
                     .allowed = kProtocols},
                    IntervalOption("15s"),
                    {.key = "native_histograms",
                     .type = OptionType::kBool,
                     .fallback = "false",
                     .help = "Histograms as one series with custom bounds; needs protocol: \"2.0\"."},
                    {.key = "max_samples",
                     .type = OptionType::kInt,
                     .fallback = "2000",
                     .help = "Samples of one request.",
                     .min = 1,
                     .max = 1'000'000},
                    {.key = "stale_at_end",
                     .type = OptionType::kBool,
                     .fallback = "false",
                     .help = "End every series by a stale marker when the agent ends."},
                }),
                JoinOptions(NameOptions("[native]"), kOutboxOptions));

}  // namespace

extern const SinkSpec remote_write_sink;
const SinkSpec remote_write_sink{
    .name = "remote_write",
    .help = "Metrics by Prometheus remote write, 1.0 or 2.0. It has no place for events.",
    .threaded = true,
    .options = kOptions,
    .create = &Create,
    .check = &Check,
    .sends_new_readings = true};

}  // namespace gpulens
