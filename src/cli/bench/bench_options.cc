#include "cli/bench/bench_options.h"

#include <algorithm>
#include <cstdlib>

#include "config/value_parse.h"
#include "net/client/http_client.h"

namespace gpulens {
namespace {

constexpr uint32_t kInFlight = 8, kInFlightAtARate = 1000;
constexpr uint64_t kRequests = 200;

Status Wrong(const std::string& option, const std::string& why) {
  return {Code::kInvalidArgument, option + ": " + why};
}

Result<Duration> TimeOf(const std::string& option, const std::string& text) {
  Duration time{};
  if (ParseTimeValue(text, time) || time.count() <= 0)
    return Wrong(option, "expected a time such as 500ms or 2m, got \"" + text + "\"");
  return time;
}

// "ttft=500ms"
Status AddTarget(LoadTargets& targets, const std::string& text) {
  const size_t equals = text.find('=');
  const std::string name = text.substr(0, equals);
  std::optional<double>* target = name == "ttft"  ? &targets.ttft
                                  : name == "itl" ? &targets.itl
                                  : name == "e2e" ? &targets.e2e
                                                  : nullptr;
  if (!target || equals == text.npos)
    return Wrong("--slo " + text, "expected ttft=TIME, itl=TIME or e2e=TIME, such as ttft=500ms");
  const auto time = TimeOf("--slo " + text, text.substr(equals + 1));
  if (!time) return time.error();
  *target = std::chrono::duration<double>(*time).count();
  return {};
}

Status AddHeaders(const BenchOptions& options, std::string& headers) {
  headers = "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n";
  for (const std::string& header : options.headers) {
    const size_t colon = header.find(':');
    if (colon == header.npos) return Wrong("--header " + header, "expected \"Name: value\"");
    const size_t value = std::min(header.find_first_not_of(' ', colon + 1), header.size());
    if (Status status = AddRequestField(headers, header.substr(0, colon), header.substr(value)); !status.ok())
      return Wrong("--header", status.detail);
  }
  if (options.api_key_variable.empty()) return {};
  const char* key = std::getenv(options.api_key_variable.c_str());
  if (!key || !*key) return Wrong("--api-key-env " + options.api_key_variable, "the variable is not set");
  if (Status status = AddRequestField(headers, "Authorization", "Bearer " + std::string(key)); !status.ok())
    return Wrong("--api-key-env " + options.api_key_variable, "its value is not allowed in a header field");
  return {};
}

// The address of the server, of its API, or of the endpoint itself: all three are what people have at hand.
Status SetUrls(const BenchOptions& options, BenchPlan& plan) {
  auto url = ParseHttpUrl(options.url);
  if (!url) return Wrong(options.url, url.error().detail);
  std::string path = url->has_path ? url->target : "/v1";
  const std::string_view endpoint = options.completions ? "/completions" : "/chat/completions";
  for (std::string_view known : {"/chat/completions", "/completions"}) {
    if (path.ends_with(known)) path.resize(path.size() - known.size());
  }
  while (path.ends_with('/')) path.pop_back();
  if (path.empty()) path = "/v1";
  if (!url->user.empty() || !url->password.empty()) AddBasicAuth(plan.load.headers, url->user, url->password);
  plan.load.url = plan.models = *url;
  plan.load.url.target = path + std::string(endpoint);
  plan.models.target = path + "/models";
  return {};
}

Status SetLength(const BenchOptions& options, LoadPlan& plan) {
  plan.concurrency = options.concurrency ? options.concurrency
                     : options.rate > 0  ? kInFlightAtARate
                                         : kInFlight;
  plan.rate = options.rate;
  plan.requests = options.requests;
  if (!options.duration.empty()) {
    const auto time = TimeOf("--duration", options.duration);
    if (!time) return time.error();
    plan.duration = *time;
  } else if (plan.requests == 0) {
    plan.requests = kRequests;
  }
  // What fills an empty server is no measure of a full one; but there must be something left to measure.
  const bool few = plan.requests > 0 && plan.requests < 4 * uint64_t{plan.concurrency};
  plan.warmup = options.warmup >= 0       ? static_cast<uint64_t>(options.warmup)
                : few || options.rate > 0 ? 0
                                          : plan.concurrency;
  if (plan.requests > 0 && plan.warmup >= plan.requests)
    return Wrong("--warmup", "must be less than --requests, or nothing is measured");
  return {};
}

Status SetTls(const BenchOptions& options, LoadPlan& plan) {
  if (!plan.url.tls) return {};
  TlsClientOptions tls;
  tls.ca.file = options.ca_file;
  tls.insecure_skip_verify = options.insecure;
  auto context = TlsContext::Client(tls);
  if (!context) return context.error();
  plan.tls = std::move(*context);
  return {};
}

}  // namespace

Result<BenchPlan> MakeBenchPlan(const BenchOptions& options) {
  BenchPlan plan;
  LoadPlan& load = plan.load;
  if (Status status = AddHeaders(options, load.headers); !status.ok()) return status;
  if (Status status = SetUrls(options, plan); !status.ok()) return status;
  if (Status status = SetLength(options, load); !status.ok()) return status;
  if (Status status = SetTls(options, load); !status.ok()) return status;
  for (const std::string& target : options.targets) {
    if (Status status = AddTarget(plan.targets, target); !status.ok()) return status;
  }
  const auto timeout = TimeOf("--timeout", options.timeout);
  if (!timeout) return timeout.error();
  load.timeout = *timeout;
  load.chat = !options.completions;
  load.stream = !options.whole;
  load.model = options.model;
  load.prompt_words = options.prompt_tokens;
  load.shared_words = options.shared_prefix;
  load.max_tokens = options.max_tokens;
  load.ignore_eos = options.ignore_eos;
  load.seed = options.seed;
  return plan;
}

}  // namespace gpulens
