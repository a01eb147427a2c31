#include "cli/proxy/proxy_options.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <utility>

#include "agent/run/config_file.h"
#include "agent/run/plan.h"
#include "base/files.h"
#include "base/text.h"
#include "cli/proxy/proxy_otlp.h"
#include "config/diagnostic.h"
#include "net/relay/address_range.h"
#include "net/tls.h"
#include "pricing/money.h"

namespace gpulens {
namespace {

using proxy::ProviderConfig;

constexpr std::string_view kApis[] = {"openai", "anthropic", "gemini", "ollama", "tgi", "cohere"};
constexpr std::string_view kProfiles[] = {"managed", "byok", "subscription", "byoc"};
constexpr std::string_view kStreamUsages[] = {"at_end", "continuous", "never"};
constexpr std::string_view kUnknownPrices[] = {"refuse", "zero", "default"};
constexpr std::string_view kModes[] = {"soft", "hard"};
constexpr std::string_view kSyncs[] = {"interval", "always", "none"};
constexpr std::string_view kOnFailures[] = {"refuse", "open"};
constexpr std::string_view kOnCrashes[] = {"partial", "reserve", "zero"};
constexpr std::string_view kOnCancels[] = {"charge", "zero"};
constexpr std::string_view kWhenDown[] = {"closed", "open"};
constexpr std::string_view kFormats[] = {"auto", "text", "journal", "json"};

constexpr OptionSpec kProvider[] = {
    {.key = "name", .help = "Its name in labels, records and routes", .required = true},
    TextOption("api", "openai", "What it speaks; vLLM, SGLang, Azure and most others: openai", kApis),
    {.key = "url",
     .type = OptionType::kUrl,
     .help = "Where it is; a path is put before that of requests: https://api.groq.com/openai",
     .required = true},
    TextOption("api_key", {},
               "Its key, as ${NAME}, ${file:PATH} or ${credential:NAME}; none: the client's own passes"),
    TextOption("profile", "managed", "Who pays it: managed is charged at list prices, the others are not",
               kProfiles),
    TextOption("prices", {}, "Its name in the price files; default: its name"),
    TextOption("region", {}, "Its region, a label"),
    {.key = "models",
     .type = OptionType::kTextMap,
     .help = "Names of models there, by the names that clients use"},
    TextOption("stream_usage", "at_end",
               "How it is made to count streams: at_end (include_usage), continuous (vLLM), or never, where "
               "it refuses that",
               kStreamUsages),
    BoolOption("reasoning_besides", false,
               "It counts reasoning besides the output under OpenAI's names (xAI)"),
    NumberOption("fee", OptionType::kDouble, "0", "Of byok: charged as this part of the list price", 0, 1),
    TextOption("cluster", {}, "Of byoc: the cluster, a label"),
    TextOption("otel_name", {}, "gen_ai.provider.name; default: by the host of its URL and by its API"),
    TimeOption("target_ttft", {}, "The time to first token that the cluster is to keep, a gauge", 0, 3600),
    IntOption("max_connections", "1024", "Connections to it, of each thread", 1, 65536),
    TimeOption("connect_timeout", "5s", "Of look-up and connect", 0.01, 3600),
    TimeOption("head_timeout", "600s", "From the request to the begin of the answer", 0.01, 86400),
    TimeOption("idle_timeout", "300s", "Between two pieces of the answer", 0.01, 86400),
    TextOption("ca_file", {}, "PEM file of the CA that signed its certificate; default: the machine's"),
    BoolOption("insecure_skip_verify", false, "Accept any certificate"),
};

constexpr OptionSpec kRoute[] = {
    {.key = "models",
     .type = OptionType::kTexts,
     .help = "Patterns with *; the first route that fits counts",
     .required = true},
    {.key = "providers",
     .type = OptionType::kTexts,
     .help = "Names; a request goes to the first with its API, the others follow when that fails (attempts)",
     .required = true},
};

constexpr OptionSpec kBudget[] = {
    {.key = "name", .help = "Unique; keys.tsv names it, too", .required = true},
    TextsOption("tenants", {}, "Patterns; which requests count. None of these lists: all"),
    TextsOption("projects", {}, "Patterns"),
    TextsOption("keys", {}, "Patterns of ids"),
    TextsOption("providers", {}, "Patterns"),
    TextsOption("models", {}, "Patterns"),
    BoolOption("listed_only", false, "Only keys that list it in keys.tsv"),
    {.key = "usd", .help = "The limit, exactly: 500 or 12.50", .required = true},
    TextOption("window", "month", "hour, day, week, month (also day+02:00), forever, or a length such as 5h"),
    TextOption("mode", "soft", "hard reserves the upper bound of each request; soft what is expected",
               kModes),
    TextOption("max_overshoot_usd", {}, "Of soft: at most this above the limit"),
    BoolOption("shared", false, "Of all replicas, by budget_engine"),
};

constexpr OptionSpec kEngine[] = {
    TextOption("url", {},
               "redis://, rediss:// or postgresql://: replicas take slices of shared budgets there"),
    TextOption("down", "closed", "When it is away and no slice is left: refuse, or let in and count",
               kWhenDown),
    TextOption("replica", {}, "The name of this one, the same after a restart; default: the host's"),
};

constexpr OptionSpec kStore[] = {
    {.key = "name", .help = "Unique; of letters, digits, - and _", .required = true},
    {.key = "url",
     .help = "A path, postgresql://… or clickhouse://…",
     .required = true,
     .secret_path = false},
};

constexpr OptionSpec kTelemetry[] = {
    {.key = "url",
     .help = "A path, postgresql://… or clickhouse://…; none: no records",
     .secret_path = false},
    TimeOption("retention", "0", "Older rows there are deleted, those of other programs, too; 0: none are", 0,
               1e9),
};

constexpr OptionSpec kJournal[] = {
    TextOption("sync", "interval", "interval: at most a second is lost when the power goes; always: nothing",
               kSyncs),
    SizeOption("max_bytes", "1GiB", "Of what stores have not taken yet", 1 << 20),
    TextOption("on_failure", "refuse",
               "When charges cannot be written: refuse requests, or serve and count them", kOnFailures),
    TextOption(
        "on_crash", "partial",
        "What requests are charged that a crash has cut: what was counted, what was reserved, or nothing",
        kOnCrashes),
};

constexpr OptionSpec kDrain[] = {
    SizeOption("bytes", "0",
               "Read on so far when a client has left, for the provider's count; 0: end the request", 0),
    TimeOption("time", "30s", "And so long", 0, 3600),
};

constexpr OptionSpec kLimits[] = {
    IntOption("connections", "20000", "Of clients, of each thread", 1, 1e6),
    IntOption("streams", "10000", "Requests that are at providers, of each thread", 1, 1e6),
    SizeOption("body", "32MiB", "Longest request body", 1024, 1 << 30),
    SizeOption("arriving", "1GiB", "Of all bodies that are held", 1 << 20),
    TimeOption("client_body", "60s", "For each 64 KiB of a body", 0.1, 3600),
};

constexpr std::string_view kSandboxModes[] = {"enforce", "log", "off"};
constexpr OptionSpec kSandbox[] = {TextOption(
    "mode", "enforce",
    "The process may do what its configuration needs, and nothing else: SECURITY.md. With log it may do "
    "everything, and the kernel logs what was not needed; off: everything. In force after a restart",
    kSandboxModes)};

constexpr OptionSpec kLog[] = {
    TextOption("level", "info", "error, warn, info, debug, trace or off"),
    TextOption("format", "auto", "auto is journal under systemd, else text", kFormats),
};

constexpr OptionSpec kRoot[] = {
    TextsOption("listen", R"(["127.0.0.1:8080"])",
                "Where requests are served: HOST:PORT, :PORT for all interfaces"),
    TextOption("web_config", {}, "File with TLS, in the format of Prometheus's exporter-toolkit"),
    BoolOption("insecure", false, "Allow other machines without TLS; for closed networks"),
    IntOption("threads", "1", "Threads that serve, of which each can use a core", 1, 64),
    TextOption("metrics_token", {}, "/metrics needs this bearer token; also METRICS_TOKEN"),
    BoolOption("metrics", true, "Serve /metrics"),
    TextsOption("trusted_peers", {},
                "Addresses (10.0.0.0/8) whose X-Forwarded-For is believed and continued"),
    TextOption("state_dir", {}, "Folder for journal and charges; default: proxy in the agent's state folder"),
    TextOption("keys", {},
               "File of virtual keys: gpulens proxy keys new; default: keys.tsv in the state folder"),
    TextsOption("prices", R"(["builtin"])",
                "Price files, later ones first; builtin is the list that the program has"),
    TextOption("unknown_price", "refuse",
               "A model without a price: refuse it to keys with a budget, charge nothing, or take the row of "
               "the model *",
               kUnknownPrices),
    GroupsOption("providers", "Who answers", kProvider),
    GroupsOption("routes", "Which models go where; without one every model goes to every provider", kRoute),
    GroupsOption("budgets", "What may be spent", kBudget),
    GroupOption("budget_engine", "How replicas share budgets", kEngine),
    GroupsOption("stores", "Where charges are kept; default: a file in the state folder", kStore),
    GroupOption("telemetry", "A record of each request for gpulens telemetry", kTelemetry),
    GroupOption("otlp", "gen_ai metrics and spans of OpenTelemetry", kProxyOtlpOptions),
    GroupOption("journal", "What is on disk before an answer ends", kJournal),
    TextOption("on_cancel", "charge", "What a client that left has used is charged, or nothing", kOnCancels),
    GroupOption("drain", "After a client has left", kDrain),
    IntOption("attempts", "1",
              "Providers that a request may go to, one after another, before a byte was sent", 1, 8),
    GroupOption("limits", "Limits", kLimits),
    GroupOption("sandbox", "What confines the process", kSandbox),
    GroupOption("log", "Logging", kLog),
};

// Reads the parts of a configuration, and notes what is wrong.
class Maker {
 public:
  Maker(const Config& config, std::vector<std::string>& errors) : config_(config), errors_(errors) {}

  proxy::ProxyOptions Make() {
    Listeners();
    options_.loops = static_cast<size_t>(config_.Int("threads"));
    Limits();
    Journal();
    for (const Config& group : config_.Groups("providers")) Provider(group);
    if (options_.config.providers.empty()) Add(config_, "providers", "", "there is none; a proxy needs one");
    Routes();
    for (const Config& group : config_.Groups("budgets")) Budget(group);
    Engine();
    Rules();
    Otlp();
    return std::move(options_);
  }

 private:
  void Add(const Config& group, std::string_view key, std::string_view path, std::string_view problem) {
    std::string text = group.Where(key) + ": ";
    text.append(path).append(path.empty() ? "" : ".").append(key).append(": ").append(problem);
    errors_.push_back(std::move(text));
  }
  template <class T>
  T Take(Result<T> result, const Config& group, std::string_view key, std::string_view path) {
    if (result) return *std::move(result);
    Add(group, key, path, result.error().detail);
    return T();
  }
  int64_t Usd(const Config& group, std::string_view key, std::string_view path) {
    const std::optional<pricing::PicoSum> sum = pricing::ParseUsd(group.Text(key));
    if (sum && sum->pico() >= 0 && sum->pico() <= proxy::kMostLimitPico)
      return static_cast<int64_t>(sum->pico());
    Add(group, key, path, QuotedText(group.Text(key)) + " is no amount; like 500 or 12.50");
    return 0;
  }

  void Listeners() {
    for (const std::string& text : config_.Texts("listen")) {
      const Result<Endpoint> at = ParseListenAddress(text);
      if (!at) {
        Add(config_, "listen", "", at.error().detail);
        continue;
      }
      if (!at->IsLoopback() && config_.Text("web_config").empty() && !config_.Bool("insecure"))
        Add(config_, "listen", "",
            "other machines could reach " + QuotedText(text) +
                " without TLS, and read keys; set web_config, or insecure: true on a closed network");
      options_.listen.push_back(*at);
    }
    options_.web_config = config_.Text("web_config");
    for (const std::string& text : config_.Texts("trusted_peers")) {
      const auto range = ParseAddressRange(text);
      if (range) options_.trusted_peers.push_back(*range);
      else Add(config_, "trusted_peers", "", QuotedText(text) + " is no range of addresses; like 10.0.0.0/8");
    }
  }

  void Limits() {
    const Config& limits = config_.Group("limits");
    options_.limits.connections = static_cast<size_t>(limits.Int("connections"));
    options_.limits.streams = static_cast<size_t>(limits.Int("streams"));
    options_.limits.body_bytes = limits.Size("body");
    options_.limits.arriving_bytes = limits.Size("arriving");
    options_.limits.client_body = limits.Time("client_body");
  }

  void Journal() {
    const std::string state = ProxyStateDir(config_);
    if (state.empty()) Add(config_, "state_dir", "", "there is no state folder here; name one");
    const Config& journal = config_.Group("journal");
    options_.journal.folder = state + "/journal";
    const std::string& sync = journal.Text("sync");
    options_.journal.sync = sync == "always" ? SyncPolicy::kAlways
                            : sync == "none" ? SyncPolicy::kNone
                                             : SyncPolicy::kInterval;
    options_.journal.max_bytes = journal.Size("max_bytes");
    if (journal.Text("on_failure") == "open") options_.journal.on_failure = JournalOptions::OnFailure::kOpen;
    if (journal.Text("on_crash") == "reserve") options_.journal.on_crash = JournalOptions::OnCrash::kReserve;
    if (journal.Text("on_crash") == "zero") options_.journal.on_crash = JournalOptions::OnCrash::kZero;
    for (const Config& store : config_.Groups("stores"))
      options_.stores.push_back({store.Text("name"), store.Text("url")});
    if (options_.stores.empty()) options_.stores.push_back({"file", state + "/charges.db"});
    const Config& telemetry = config_.Group("telemetry");
    options_.telemetry = telemetry.Text("url");
    options_.telemetry_retention = telemetry.Time("retention");
    options_.keys_file = config_.Text("keys").empty() ? state + "/keys.tsv" : config_.Text("keys");
    options_.price_files = config_.Texts("prices");
  }

  void Provider(const Config& group) {
    const std::string path = "providers[" + std::to_string(options_.config.providers.size()) + "]";
    ProviderConfig out;
    out.name = group.Text("name");
    const auto same = std::ranges::find(options_.config.providers, out.name, &ProviderConfig::name);
    if (same != options_.config.providers.end()) Add(group, "name", path, "two providers have this name");
    out.api = static_cast<LlmApi>(std::ranges::find(kApis, group.Text("api")) - std::begin(kApis));
    static_assert(static_cast<int>(LlmApi::kGemini) == 2 && static_cast<int>(LlmApi::kCohere) == 5);
    if (Result<HttpUrl> url = ParseHttpUrl(group.Text("url"))) {
      out.upstream.url = *std::move(url);
      if (!out.upstream.url.user.empty() || !out.upstream.url.password.empty())
        Add(group, "url", path, "a user and a password are not sent; use api_key");
    } else {
      Add(group, "url", path, url.error().detail);
    }
    if (out.upstream.url.tls) {
      TlsClientOptions tls;
      tls.ca.file = group.Text("ca_file");
      tls.insecure_skip_verify = group.Bool("insecure_skip_verify");
      out.upstream.tls = Take(TlsContext::Client(tls), group, "ca_file", path);
    }
    out.credential = group.Text("api_key");
    if (std::ranges::any_of(out.credential,
                            [](char c) { return static_cast<unsigned char>(c) < 0x21 || c == 0x7f; }))
      Add(group, "api_key", path, "it has a blank or a control character");
    out.terms.profile = static_cast<pricing::Profile>(std::ranges::find(kProfiles, group.Text("profile")) -
                                                      std::begin(kProfiles));
    out.terms.fee_share = {std::llround(group.Double("fee") * 1e6), 1'000'000};
    out.prices = group.Text("prices").empty() ? out.name : group.Text("prices");
    out.region = group.Text("region");
    for (const auto& [model, sent] : group.TextMap("models")) out.models.emplace(model, sent);
    const std::string& usage = group.Text("stream_usage");
    out.stream_usage = usage == "continuous" ? proxy::StreamUsage::kContinuous
                       : usage == "never"    ? proxy::StreamUsage::kNever
                                             : proxy::StreamUsage::kAtEnd;
    out.reasoning_besides = group.Bool("reasoning_besides");
    out.genai_name = group.Text("otel_name");
    out.cluster = group.Text("cluster").empty() ? out.name : group.Text("cluster");
    if (group.Has("target_ttft"))
      out.target_ttft_ms = std::chrono::duration<double, std::milli>(group.Time("target_ttft")).count();
    out.upstream.max_connections = static_cast<size_t>(group.Int("max_connections"));
    out.upstream.connect = group.Time("connect_timeout");
    out.upstream.head = group.Time("head_timeout");
    out.upstream.between = group.Time("idle_timeout");
    options_.config.providers.push_back(std::move(out));
  }

  void Routes() {
    size_t number = 0;
    for (const Config& group : config_.Groups("routes")) {
      const std::string path = "routes[" + std::to_string(number++) + "]";
      proxy::RouteConfig route;
      route.models = group.Texts("models");
      for (const std::string& name : group.Texts("providers")) {
        const auto at = std::ranges::find(options_.config.providers, name, &ProviderConfig::name);
        if (at == options_.config.providers.end())
          Add(group, "providers", path, "there is no provider " + QuotedText(name));
        else route.providers.push_back(static_cast<size_t>(at - options_.config.providers.begin()));
      }
      options_.config.routes.push_back(std::move(route));
    }
    if (number > 0) return;
    proxy::RouteConfig all;
    all.models = {"*"};
    for (size_t i = 0; i < options_.config.providers.size(); ++i) all.providers.push_back(i);
    options_.config.routes.push_back(std::move(all));
  }

  void Budget(const Config& group) {
    const std::string path = "budgets[" + std::to_string(options_.budgets.size()) + "]";
    proxy::BudgetSpec spec;
    spec.name = group.Text("name");
    spec.tenants = group.Texts("tenants");
    spec.projects = group.Texts("projects");
    spec.keys = group.Texts("keys");
    spec.providers = group.Texts("providers");
    spec.models = group.Texts("models");
    spec.listed_only = group.Bool("listed_only");
    spec.limit_pico = Usd(group, "usd", path);
    spec.window = Take(proxy::ParseBudgetWindow(group.Text("window")), group, "window", path);
    spec.mode = group.Text("mode") == "hard" ? proxy::BudgetMode::kHard : proxy::BudgetMode::kSoft;
    if (!group.Text("max_overshoot_usd").empty())
      spec.max_overshoot_pico = Usd(group, "max_overshoot_usd", path);
    spec.shared = group.Bool("shared");
    if (spec.shared && config_.Group("budget_engine").Text("url").empty())
      Add(group, "shared", path, "needs budget_engine.url");
    if (const Status status = proxy::CheckBudgetSpec(spec); !status) Add(group, "name", path, status.detail);
    options_.budgets.push_back(std::move(spec));
  }

  void Engine() {
    const Config& engine = config_.Group("budget_engine");
    options_.budget_engine = engine.Text("url");
    options_.open_when_down = engine.Text("down") == "open";
    options_.replica = engine.Text("replica").empty() ? HostName() : engine.Text("replica");
  }

  void Otlp() {
    const std::string instance =
        options_.replica +
        (options_.listen.empty() ? "" : ":" + std::to_string(options_.listen.front().port));
    options_.genai = MakeGenaiOptions(config_.Group("otlp"), instance, errors_);
  }

  void Rules() {
    proxy::ProxyConfig& rules = options_.config;
    const std::string& unknown = config_.Text("unknown_price");
    rules.unknown_price = unknown == "zero"      ? proxy::UnknownPrice::kZero
                          : unknown == "default" ? proxy::UnknownPrice::kDefault
                                                 : proxy::UnknownPrice::kRefuse;
    rules.charge_cancelled = config_.Text("on_cancel") == "charge";
    rules.drain_bytes = config_.Group("drain").Size("bytes");
    rules.drain_time = config_.Group("drain").Time("time");
    rules.attempts = static_cast<int>(config_.Int("attempts"));
    rules.serve_metrics = config_.Bool("metrics");
    rules.metrics_token = config_.Text("metrics_token");
    if (const char* token = std::getenv("METRICS_TOKEN"); rules.metrics_token.empty() && token)
      rules.metrics_token = token;
  }

  const Config& config_;
  std::vector<std::string>& errors_;
  proxy::ProxyOptions options_;
};

}  // namespace

const Schema& ProxySchema() {
  static const Schema schema(kRoot, "GPULENS_PROXY_", "gpulens proxy --print-config");
  return schema;
}

std::string ProxyStateDir(const Config& config) {
  if (!config.Text("state_dir").empty()) return config.Text("state_dir");
  const std::string agents = StateDir({});
  return agents.empty() ? agents : agents + "/proxy";
}

proxy::ProxyOptions MakeProxyOptions(const Config& config, std::vector<std::string>& errors) {
  return Maker(config, errors).Make();
}

}  // namespace gpulens
