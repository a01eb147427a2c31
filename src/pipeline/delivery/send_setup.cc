#include "pipeline/delivery/send_setup.h"

#include <algorithm>

#include "base/hash.h"
#include "base/parse.h"
#include "base/result.h"

namespace gpulens {
namespace {

// Memory that waits is worth more than disk.
constexpr uint64_t kMemoryShare = 8;
// Options of every network sink that concern only its destination.
constexpr std::string_view kDestinationOptions[] = {"endpoints", "balance", "in_flight", "retry",
                                                    "sources",   "where",   "tenant",    kTransportKey};
constexpr Duration kDefaultTimeout = std::chrono::seconds(10);

bool Contains(const auto& keys, const auto& key) { return std::ranges::find(keys, key) != std::end(keys); }

// Statuses that the schema has let pass.
std::vector<int> RetriedStatuses(const Config& retry) {
  std::vector<int> statuses;
  for (const std::string& text : retry.Texts("statuses")) statuses.push_back(ParseInt<int>(text).value_or(0));
  return statuses;
}

// Removes the envelope and skips records of other sources.
std::function<Status(LogRecord&, SendParts&, bool&)> PrepareOf(decltype(SendPlan::prepare) prepare,
                                                               const Config& config, size_t kinds) {
  std::array<bool, kRecordSources> sends{};
  for (size_t i = 0; i < kRecordSources; ++i) sends[i] = SendsSource(config, static_cast<RecordSource>(i));
  // The agent's own data that a log still holds is sent even if `sources` no longer has it.
  sends[static_cast<size_t>(RecordSource::kOwn)] = true;
  return [kinds, sends, prepare = std::move(prepare)](LogRecord& record, SendParts& parts,
                                                      bool& alone) -> Status {
    std::string_view rest = record.bytes;
    const auto envelope = TakeEnvelope(rest);
    if (!envelope || envelope->source >= kRecordSources) return {Code::kDataLoss, "it has another version"};
    alone = envelope->alone;
    if (!sends[envelope->source]) {
      parts.left_out = record.items;
      return Ok();
    }
    record.bytes.erase(0, record.bytes.size() - rest.size());
    if (prepare) {
      RETURN_IF_ERROR(prepare(*envelope, std::move(record.bytes), record.items, parts));
    } else {
      SendPart& part = parts.list.emplace_back();
      part.route = envelope->kind;
      part.key = envelope->key;
      part.items = record.items;
      part.body = std::make_shared<const std::string>(std::move(record.bytes));
    }
    for (const SendPart& part : parts.list) {
      if (part.route >= kinds) return {Code::kDataLoss, "it has another version"};
    }
    return Ok();
  };
}

}  // namespace

Status LogWriter::Append(uint8_t kind, std::string_view body, uint32_t items, uint32_t key) {
  // All earlier records are done before the first request of a snapshot, so that no series overtakes itself,
  // however snapshots are divided into requests.
  WriteEnvelope({kind, static_cast<uint8_t>(RecordSource::kOwn), key == 0, key}, body, record_);
  const auto kept = log_->Append(record_, items);
  return kept || kept.error().code == Code::kInvalidArgument ? Ok() : kept.error();
}

std::vector<std::string> EndpointsOf(const Config& config, const std::string& one) {
  const std::vector<std::string>& several = config.Texts("endpoints");
  return several.empty() ? std::vector<std::string>{one} : several;
}

Result<std::shared_ptr<const SendSetup>> MakeSendSetup(SendPlan plan, const Config& config) {
  auto setup = std::make_shared<SendSetup>();
  setup->name = plan.name;
  setup->signals.assign(plan.signals.begin(), plan.signals.end());
  setup->routes = std::move(plan.routes);
  setup->by_hash = config.Text("balance") == "hash";
  setup->in_flight = static_cast<uint32_t>(config.Int("in_flight"));
  const Config& transport = config.Group(kTransportKey);
  setup->timeout = RequestTimeout(transport, kDefaultTimeout);
  setup->backoff = {.initial = config.Group("retry").Time("initial"),
                    .cap = config.Group("retry").Time("max")};
  setup->validate = [again = RetriedStatuses(config.Group("retry")), validate = std::move(plan.validate)](
                        const HttpReply& reply, size_t route) {
    SendOutcome outcome = validate(reply, route);
    if (outcome.kind == SendOutcome::kRefused && Contains(again, reply.status))
      outcome.kind = SendOutcome::kAgain;
    return outcome;
  };
  setup->classify_call = std::move(plan.classify_call);
  setup->rework = std::move(plan.rework);
  setup->format = std::move(plan.format);
  // By endpoint and signal; used by the sender's thread only.
  auto access = std::make_shared<std::vector<std::vector<RemoteAccess>>>();
  for (const std::vector<HttpUrl>& urls : plan.urls) {
    SendEndpoint& endpoint = setup->endpoints.emplace_back();
    endpoint.name = urls.front().Origin();
    endpoint.hash = EndpointHash(urls);
    access->emplace_back();
    for (const HttpUrl& url : urls) {
      ASSIGN_OR_RETURN(RemoteAccess made, RemoteAccess::Make(transport, url, {}));
      access->back().push_back(std::move(made));
      HttpTarget& target = endpoint.targets.emplace_back(HttpTarget{url, transport.Text("unix_socket"), {}});
      target.limits.body_bytes = plan.answer_bytes;
      target.limits.keep = plan.keep;
    }
  }
  setup->access = [access](size_t endpoint, size_t signal) -> Result<SendAccess> {
    RemoteAccess& one = (*access)[endpoint][signal];
    RETURN_IF_ERROR(one.Refresh());
    return SendAccess{one.headers(), one.tls()};
  };
  setup->prepare = PrepareOf(std::move(plan.prepare), config, setup->routes.size());
  return std::shared_ptr<const SendSetup>(std::move(setup));
}

Config EncoderConfig(const Config& config, const NetworkSink& network) {
  Config encoder;
  for (const Config::Entry& entry : config.entries()) {
    if (Contains(kDestinationOptions, entry.key) || Contains(network.destination, entry.key)) continue;
    if (entry.key != "queue") {
      encoder.Set(entry.key, entry.value, entry.origin);
      continue;
    }
    Config queue;
    for (const Config::Entry& option : std::get<Config>(entry.value).entries()) {
      if (option.key != "max_bytes" && option.key != "max_age")
        queue.Set(option.key, option.value, option.origin);
    }
    encoder.Set(entry.key, std::move(queue), entry.origin);
  }
  if (network.signals) encoder.Set("signals", network.signals(config), Origin());
  return encoder;
}

bool SendsSource(const Config& config, RecordSource source) {
  if (!config.Has("sources")) return source == RecordSource::kOwn;
  return Contains(config.Texts("sources"), RecordSourceName(source));
}

uint64_t EndpointHash(const std::vector<HttpUrl>& urls) {
  return StableHash(urls.front().Origin() + urls.front().target);
}

ReaderBounds BoundsOf(const Config& config) {
  const Config& queue = config.Group("queue");
  return {queue.Size("max_bytes"), queue.Time("max_age")};
}

uint64_t MemoryBytes(uint64_t disk_bytes) noexcept { return disk_bytes / kMemoryShare; }

RequestLogOptions LogOptionsOf(const Config& config, const std::string& folder) {
  const Config& queue = config.Group("queue");
  RequestLogOptions options;
  options.folder = queue.Text("dir").empty() ? folder : queue.Text("dir");
  if (queue.Text("storage") == "memory") options.folder.clear();
  options.max_bytes = queue.Size("max_bytes");
  options.sync = SyncPolicyOf(queue.Text("fsync"));
  if (options.folder.empty()) options.memory_bytes = MemoryBytes(options.max_bytes);
  return options;
}

}  // namespace gpulens
