// Sink that POSTs readings and events as JSON to a URL.

#include "base/parse.h"
#include "base/result.h"
#include "base/text.h"
#include "base/version.h"
#include "export/sink_names.h"
#include "pipeline/delivery/send_setup.h"
#include "pipeline/rollup/rollup_rule.h"
#include "plugins/plugin.h"
#include "plugins/remote_access.h"
#include "plugins/sinks/webhook/record_arrays.h"
#include "wire/json/json_snapshot.h"

namespace gpulens {
namespace {

constexpr auto kOptions = JoinOptions(
    std::to_array<OptionSpec>({
        {.key = "url",
         .type = OptionType::kUrl,
         .help = "URL of the POST requests, used unchanged.",
         .required = true,
         .secret_path = true},
        IntervalOption("60s"),
        BoolOption("events", true, "Send events, too, in requests of their own."),
        IntOption("max_records", "10000", "Most elements in the array of one request.", 1, 1'000'000),
    }),
    NameOptions("[native]"), RollupsOption(), kSendOptions);
using Options = OptionsOf<kOptions>;

enum Signal : size_t { kMetrics, kLogs, kSignals };
constexpr std::string_view kSignalNames[kSignals] = {"metrics", "logs"};
constexpr size_t kArrayBytes = 4u << 20;

SendOutcome Validate(const HttpReply& reply) {
  if (reply.failure == HttpFailure::kNone) return {};
  std::string message;
  AppendPrintable(message, Trim(std::string_view(reply.body).substr(0, 200)));
  const bool again = reply.status == 408 || reply.status == 429 || reply.status >= 500;
  return {again ? SendOutcome::kAgain : SendOutcome::kRefused, 0,
          message.empty() ? reply.detail : reply.detail + ": " + message};
}

class WebhookSink final : public Sink {
 public:
  WebhookSink(const Config& config, std::unique_ptr<LogWriter> log)
      : events_(Options(config).Bool("events")),
        most_{static_cast<size_t>(Options(config).Int("max_records")), kArrayBytes},
        lines_(SinkNames(config).namer(NameForm::kOtel)),
        log_(std::move(log)) {}

  Status Write(const Snapshot& snapshot) override {
    text_.clear();
    lines_.Append(snapshot, text_);
    RETURN_IF_ERROR(Push(kMetrics));
    lines_.Commit();
    return Ok();
  }

  Status Write(const Events& events) override {
    if (!events_ || events.list.empty()) return Ok();
    text_.clear();
    AppendJsonEvents(text_, events);
    return Push(kLogs);
  }

 private:
  Status Push(Signal signal) {
    std::string_view left = text_;
    uint32_t number = 0;
    while (uint32_t records = TakeRecordArray(left, most_, array_))
      RETURN_IF_ERROR(log_->Append(static_cast<uint8_t>(signal), array_, records, number++));
    return Ok();
  }

  const bool events_;
  const RecordArrayLimits most_;
  JsonLines lines_;
  std::string text_, array_;
  const std::unique_ptr<LogWriter> log_;
};

void Check(const Config& config, ConfigFaults& faults) {
  CheckRollups(config, faults);
  const Options options(config);
  if (options.Text("url").empty()) return;  // the loader reports that it is missing
  const auto url = ParseHttpUrl(options.Text("url"));
  if (url) CheckRemote(options.Group(kTransportKey), *url, faults);
  else options.Refuse("url", faults, url.error());
}

Result<std::unique_ptr<Sink>> MakeEncoder(const Config& config, Env&, std::unique_ptr<LogWriter> log) {
  return std::unique_ptr<Sink>(std::make_unique<WebhookSink>(config, std::move(log)));
}

Result<SendPlan> MakePlan(const std::string& name, const Config& config) {
  SendPlan plan{.name = name,
                .signals = {std::begin(kSignalNames), std::end(kSignalNames)},
                .routes = {},
                .urls = {},
                .validate = [](const HttpReply& reply, size_t) { return Validate(reply); }};
  for (const std::string& endpoint : EndpointsOf(config, Options(config).Text("url"))) {
    if (endpoint.empty()) return Status{Code::kInvalidArgument, "the webhook sink needs a url"};
    ASSIGN_OR_RETURN(HttpUrl url, ParseHttpUrl(endpoint));
    plan.urls.push_back({url, url});
  }
  const std::string headers =
      "Content-Type: application/json\r\nUser-Agent: gpulens/" + std::string(Version()) + "\r\n";
  for (size_t signal = 0; signal < kSignals; ++signal) plan.routes.push_back({signal, headers});
  return plan;
}

constexpr std::string_view kDestination[] = {"url"};
constexpr NetworkSink kNetwork{.destination = kDestination, .encoder = &MakeEncoder, .plan = &MakePlan};

}  // namespace

extern const SinkSpec webhook_sink;
const SinkSpec webhook_sink{.name = "webhook",
                            .help = "Every reading and every event as JSON, POSTed to a URL.",
                            .threaded = true,
                            .options = kOptions,
                            .check = &Check,
                            .several = true,
                            .network = &kNetwork};

}  // namespace gpulens
