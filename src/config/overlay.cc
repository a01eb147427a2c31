#include "config/overlay.h"

#include <algorithm>
#include <utility>

#include "base/parse.h"
#include "base/text.h"
#include "config/value_parse.h"

namespace gpulens {
namespace {

// Names that other programs and older tools of this field set. Earlier rows win over later ones, and
// the variable of the option itself over all.
struct Alias {
  std::string_view variable, path;
  enum Kind : uint8_t { kAsIs, kPort, kMilliseconds, kLevels, kPairs, kSecretPairs, kWord } kind;
  bool quiet = false;
};
constexpr Alias kAliases[] = {
    {"GPULENS_LOG", "log.level", Alias::kAsIs},
    {"ZERNEL_METRICS_PORT", "http.listen", Alias::kPort},
    {"ZERNEL_WS_PORT", "websocket.listen", Alias::kPort},
    {"ZERNEL_PUSH_INTERVAL_MS", "websocket.push_interval", Alias::kMilliseconds},
    {"ZERNEL_LOG", "log.level", Alias::kLevels},
    {"L9GPU_CLUSTER_NAME", "resource.cluster", Alias::kAsIs},
    // OpenTelemetry's, each with its forms for one signal. An endpoint turns the sink on, the others do not.
    {"OTEL_SERVICE_NAME", "resource.service_name", Alias::kAsIs},
    {"OTEL_RESOURCE_ATTRIBUTES", "resource.attributes", Alias::kPairs},
    {"OTEL_EXPORTER_OTLP_ENDPOINT", "sinks.otlp.endpoint", Alias::kAsIs},
    {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "sinks.otlp.metrics_endpoint", Alias::kAsIs},
    {"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "sinks.otlp.logs_endpoint", Alias::kAsIs},
    {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "sinks.otlp.traces_endpoint", Alias::kAsIs},
    {"OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "sinks.otlp.protocol", Alias::kAsIs, true},
    {"OTEL_EXPORTER_OTLP_PROTOCOL", "sinks.otlp.protocol", Alias::kAsIs, true},
    {"OTEL_EXPORTER_OTLP_METRICS_HEADERS", "sinks.otlp.transport.headers", Alias::kSecretPairs, true},
    {"OTEL_EXPORTER_OTLP_HEADERS", "sinks.otlp.transport.headers", Alias::kSecretPairs, true},
    {"OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "sinks.otlp.transport.timeout", Alias::kMilliseconds, true},
    {"OTEL_EXPORTER_OTLP_TIMEOUT", "sinks.otlp.transport.timeout", Alias::kMilliseconds, true},
    {"OTEL_EXPORTER_OTLP_METRICS_COMPRESSION", "sinks.otlp.compression", Alias::kAsIs, true},
    {"OTEL_EXPORTER_OTLP_COMPRESSION", "sinks.otlp.compression", Alias::kAsIs, true},
    {"OTEL_EXPORTER_OTLP_METRICS_CERTIFICATE", "sinks.otlp.transport.tls.ca_file", Alias::kAsIs, true},
    {"OTEL_EXPORTER_OTLP_CERTIFICATE", "sinks.otlp.transport.tls.ca_file", Alias::kAsIs, true},
    {"OTEL_EXPORTER_OTLP_METRICS_CLIENT_CERTIFICATE", "sinks.otlp.transport.tls.cert_file", Alias::kAsIs,
     true},
    {"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "sinks.otlp.transport.tls.cert_file", Alias::kAsIs, true},
    {"OTEL_EXPORTER_OTLP_METRICS_CLIENT_KEY", "sinks.otlp.transport.tls.key_file", Alias::kAsIs, true},
    {"OTEL_EXPORTER_OTLP_CLIENT_KEY", "sinks.otlp.transport.tls.key_file", Alias::kAsIs, true},
    {"OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "sinks.otlp.temporality", Alias::kWord, true},
    {"OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION", "sinks.otlp.histograms", Alias::kWord, true},
    {"OTEL_METRIC_EXPORT_INTERVAL", "sinks.otlp.interval", Alias::kMilliseconds, true},
};

// Kubernetes sets these in every pod next to a service called gpulens.
bool IsServiceLink(std::string_view name) {
  return name.starts_with("GPULENS_SERVICE_") || name == "GPULENS_PORT" || name.starts_with("GPULENS_PORT_");
}

bool IsReserved(std::string_view name) {
  return name == "GPULENS_CONFIG" || name == "GPULENS_PAGE_FOLDER" || name.starts_with("GPULENS_FAKE_") ||
         name.starts_with("GPULENS_DEMO_") || name == "GPULENS_LOG" || IsServiceLink(name);
}

// What the SDK and the libraries inside jobs read: an agent may be started from the same shell.
bool IsOfJobs(std::string_view name) {
  constexpr std::string_view kOfJobs[] = {
      "GPULENS_CUDA",   "GPULENS_CUPTI",      "GPULENS_ENERGY",         "GPULENS_ENERGY_SOCKET",
      "GPULENS_EXPORT", "GPULENS_JOB_FOLDER", "GPULENS_JOB_LIBRARY",    "GPULENS_JOB_SOCKET",
      "GPULENS_PROBES", "GPULENS_NCCL_CHAIN", "GPULENS_NCCL_LEVEL",     "GPULENS_RUN_ID",
      "GPULENS_SOCKET", "GPULENS_RUN_NAME",   "GPULENS_EXPERIMENTS_DB", "GPULENS_WORKERS_DIR"};
  return std::ranges::find(kOfJobs, name) != std::end(kOfJobs);
}

// "zernel_ebpf=info,warn" names parts of another program: its levels hold for the whole of this one.
std::string LevelsOf(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    std::string_view item = Trim(TakeUntil(text, ','));
    size_t equals = item.find('=');
    if (item.starts_with("zernel") && equals != std::string_view::npos) item.remove_prefix(equals + 1);
    if (!out.empty()) out += ',';
    out += item;
  }
  return out;
}

// Words of OpenTelemetry in any case, two of them longer than ours.
std::string WordOf(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  if (out == "explicit_bucket_histogram") return "explicit";
  return out == "base2_exponential_bucket_histogram" ? "exponential" : out;
}

OverlaySetting MakeSetting(std::string_view file, std::string_view lead, std::string_view text, bool secret) {
  OverlaySetting out;
  out.text = text;
  out.exact = !secret;
  out.spot.file = file;
  std::string shown = secret ? MaskSecret(text) : std::string();
  if (!secret) {
    // Cut after what a terminal line holds; a place beyond that is not pointed at.
    constexpr size_t kShown = 200;
    AppendPrintable(shown, text.substr(0, kShown));
    out.exact = shown == text;
  }
  out.spot.excerpt = std::string(lead) + shown;
  out.spot.caret = static_cast<int>(CountCharacters(lead));
  out.spot.length = std::max(1, static_cast<int>(CountCharacters(shown)));
  return out;
}

std::string_view Lookup(const ConfigSources& sources, std::string_view name) {
  for (const EnvironmentVariable& variable : sources.environment) {
    if (variable.name == name) return variable.value;
  }
  return {};
}

}  // namespace

ConfigOverlay::ConfigOverlay(const Schema& schema, const ConfigSources& sources, ConfigProblems& problems,
                             std::vector<std::string>& warnings)
    : problems_(&problems) {
  for (const EnvironmentVariable& variable : sources.environment) AddVariable(schema, variable, warnings);
  AddAliases(schema, sources);
  for (const FlagValue& flag : sources.flags) AddFlag(schema, flag);
}

const OverlaySetting* ConfigOverlay::Find(const std::string& path) const {
  auto found = settings_.find(path);
  return found == settings_.end() ? nullptr : &found->second;
}

bool ConfigOverlay::Touches(const std::string& path) const {
  auto found = settings_.lower_bound(path + ".");
  for (; found != settings_.end() && found->first.starts_with(path + "."); ++found) {
    if (!found->second.quiet) return true;
  }
  return false;
}

SourcePlace ConfigOverlay::SpotOf(const OverlaySetting& setting, size_t at, size_t length) {
  SourcePlace spot = setting.spot;
  if (!setting.exact || length == 0) return spot;
  std::string_view text = setting.text;
  at = std::min(at, text.size());
  spot.caret += static_cast<int>(CountCharacters(text.substr(0, at)));
  spot.length = std::max(1, static_cast<int>(CountCharacters(text.substr(at, length))));
  return spot;
}

void ConfigOverlay::Set(const Schema::Leaf& leaf, OverlaySetting setting) {
  if (leaf.spec->type == OptionType::kGroups) {
    problems_->Add(setting.spot, leaf.path + ": a list of maps can be set in the file only", "");
    return;
  }
  if (!IsUtf8(setting.text)) {
    problems_->Add(setting.spot, leaf.path + ": bytes that are not UTF-8", "");
    return;
  }
  settings_.insert_or_assign(leaf.path, std::move(setting));
}

void ConfigOverlay::AddVariable(const Schema& schema, const EnvironmentVariable& variable,
                                std::vector<std::string>& warnings) {
  std::string_view name = variable.name;
  if (!name.starts_with(schema.variables()) || IsReserved(name)) return;
  std::vector<std::string_view> known;
  for (const Schema::Leaf& leaf : schema.leaves()) {
    known.push_back(leaf.variable);
    if (leaf.variable != name) continue;
    if (variable.value.empty()) return;
    bool secret = IsSecretKey(leaf.spec->key) || IsSecretMap(leaf.spec->key);
    if (leaf.spec->type == OptionType::kUrl) secret = leaf.spec->secret_path || MayHoldSecret(variable.value);
    OverlaySetting setting = MakeSetting("environment", variable.name + "=", variable.value, secret);
    setting.origin = {Origin::kEnvironment, variable.name, 0, 0};
    return Set(leaf, std::move(setting));
  }
  constexpr size_t kMostWarnings = 20;
  if (IsOfJobs(name) || warnings.size() >= kMostWarnings) return;
  std::string warning = "environment: ";
  AppendPrintable(warning, name.substr(0, 100));
  warning += " is not an option";
  if (std::string_view near = NearestWord(name, known); !near.empty()) {
    warning.append("; did you mean ").append(near).append("?");
  }
  warnings.push_back(std::move(warning));
}

void ConfigOverlay::AddAliases(const Schema& schema, const ConfigSources& sources) {
  for (const Alias& alias : kAliases) {
    std::string_view value = Lookup(sources, alias.variable);
    const Schema::Leaf* leaf = schema.FindLeaf(alias.path);
    if (value.empty() || leaf == nullptr || settings_.contains(alias.path)) continue;
    std::string name(alias.variable);
    OverlaySetting setting = MakeSetting("environment", name + "=", value, alias.kind == Alias::kSecretPairs);
    setting.origin = {Origin::kEnvironment, name, 0, 0};
    setting.quiet = alias.quiet;
    setting.percent = alias.kind == Alias::kPairs || alias.kind == Alias::kSecretPairs;
    bool number = ParseInt<uint32_t>(value).has_value();
    bool port = ParseInt<uint16_t>(value).value_or(0) != 0;
    if ((alias.kind == Alias::kPort && !port) || (alias.kind == Alias::kMilliseconds && !number)) {
      bool is_port = alias.kind == Alias::kPort;
      problems_->Add(setting.spot,
                     std::string(alias.path) + ": expected " +
                         (is_port ? "a port" : "a number of milliseconds") + ", got the text " +
                         QuotedText(value),
                     is_port ? "1 to 65535" : "like 1000");
      continue;
    }
    setting.exact = (alias.kind == Alias::kAsIs || alias.kind == Alias::kPairs) && setting.exact;
    std::string text(value);
    if (alias.kind == Alias::kPort) setting.text = "127.0.0.1:" + text + ",[::1]:" + text;
    if (alias.kind == Alias::kMilliseconds) setting.text = text + "ms";
    if (alias.kind == Alias::kLevels) setting.text = LevelsOf(value);
    if (alias.kind == Alias::kWord) setting.text = WordOf(value);
    Set(*leaf, std::move(setting));
  }
}

void ConfigOverlay::AddFlag(const Schema& schema, const FlagValue& flag) {
  const Schema::Leaf* leaf = schema.FindLeaf(flag.path);
  bool secret = leaf != nullptr && (IsSecretKey(leaf->spec->key) || IsSecretMap(leaf->spec->key));
  if (leaf != nullptr && leaf->spec->type == OptionType::kUrl)
    secret = leaf->spec->secret_path || MayHoldSecret(flag.text);
  OverlaySetting setting = MakeSetting("command line", flag.flag + " ", flag.text, secret);
  setting.origin = {Origin::kFlag, flag.flag, 0, 0};
  if (leaf != nullptr) return Set(*leaf, std::move(setting));
  std::vector<std::string_view> known;
  for (const Schema::Leaf& one : schema.leaves()) known.push_back(one.path);
  std::string_view near = NearestWord(flag.path, known);
  std::string hint = near.empty() ? "every key with its default: " + std::string(schema.help())
                                  : "did you mean " + std::string(near) + "?";
  problems_->Add({"command line", 0, 0, 1, {}, 0}, "no option " + QuotedText(flag.path), std::move(hint));
}

}  // namespace gpulens
