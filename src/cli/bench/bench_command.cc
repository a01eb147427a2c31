#include "cli/bench/bench_command.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <semaphore>

#include "base/text.h"
#include "cli/common/output.h"
#include "cli/help/help.h"
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

// Accepts the address of the server, of its API (…/v1) or of the endpoint.
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
  if (plan.concurrency == 0) plan.concurrency = plan.rate > 0 ? kInFlightAtARate : kInFlight;
  if (!options.duration.empty()) {
    const auto time = TimeOf("--duration", options.duration);
    if (!time) return time.error();
    plan.duration = *time;
  } else if (plan.requests == 0) {
    plan.requests = kRequests;
  }
  // Requests that fill an idle server are not representative, but enough must be left to measure.
  const bool few = plan.requests > 0 && plan.requests < 4 * uint64_t{plan.concurrency};
  plan.warmup = options.warmup >= 0    ? static_cast<uint64_t>(options.warmup)
                : few || plan.rate > 0 ? 0
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

std::string Grouped(uint64_t n) { return CountText(static_cast<int64_t>(n)); }

// Three digits, for figures that people compare.
std::string Three(double value) {
  if (std::isnan(value)) return kNoValue;
  const int digits = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return Printed(digits == 0 ? "%.0f" : digits == 1 ? "%.1f" : "%.2f", value);
}

std::string Milliseconds(double seconds) { return Three(seconds * 1e3); }

void AppendLatency(std::string& out, const char* name, const Distribution& times) {
  if (times.n == 0) return;
  out += name;
  for (const double value : {times.mean, times.p50, times.p90, times.p95, times.p99, times.max})
    out += RightAligned(Milliseconds(value), 10);
  out += "\n";
}

std::string LoadText(const LoadPlan& plan) {
  std::string out =
      plan.rate > 0 ? Three(plan.rate) + " requests/s" : std::to_string(plan.concurrency) + " at a time";
  if (plan.requests > 0) out += ", " + Grouped(plan.requests) + " requests";
  if (plan.duration.count() > 0)
    out += ", " + Three(std::chrono::duration<double>(plan.duration).count()) + " s";
  return out;
}

void AppendErrors(std::string& out, const LoadRecord& record) {
  for (const auto& [name, error] : record.errors) {
    out += "  failed       " + Grouped(error.count) + " × " + name;
    if (!error.detail.empty()) out += ": " + Printable(error.detail);
    out += "\n";
  }
}

// Notes on how to read the figures.
void AppendNotes(std::string& out, const LoadPlan& plan, const LoadRecord& record,
                 const LoadSummary& summary) {
  if (summary.without_usage > 0)
    out += "  note         the server reported no token counts for " + Grouped(summary.without_usage) +
           " requests; their events are counted instead\n";
  if (summary.tokens_of_chunks > summary.chunks && summary.chunks > 0)
    out += "  note         " +
           Three(static_cast<double>(summary.tokens_of_chunks) / static_cast<double>(summary.chunks)) +
           " tokens arrived per event on average: ITL is the time between events, TPOT the time per token\n";
  if (record.gaps_cut)
    out += "  note         ITL is of the first " + Grouped(LoadRecord::kMostGaps) + " events\n";
  if (plan.rate > 0 && summary.late.n > 0 && summary.late.p99 > 0.001)
    out += "  note         requests waited to be sent, p99 " + Milliseconds(summary.late.p99) +
           " ms, which their times include; allow more in flight with --concurrency\n";
}

void AddTimes(JsonObject& parent, std::string_view key, const Distribution& times) {
  if (times.n == 0) return parent.Raw(key, "null");
  JsonObject object(parent.Key(key));
  object.Count("n", times.n);
  AddFigure(object, "mean", times.mean);
  AddFigure(object, "std", times.std);
  AddFigure(object, "min", times.min);
  AddFigure(object, "p50", times.p50);
  AddFigure(object, "p90", times.p90);
  AddFigure(object, "p95", times.p95);
  AddFigure(object, "p99", times.p99);
  AddFigure(object, "max", times.max);
}

void AddPlan(JsonObject& object, const LoadPlan& plan) {
  object.Text("url", plan.url.Shown());
  object.Text("model", plan.model);
  object.Count("concurrency", plan.concurrency);
  AddFigure(object, "rate_per_second", plan.rate > 0 ? plan.rate : kNotMeasured);
  object.Count("warmup_requests", plan.warmup);
  object.Count("prompt_words", plan.prompt_words);
  object.Count("shared_words", plan.shared_words);
  object.Count("max_tokens", plan.max_tokens);
  object.Flag("stream", plan.stream);
  object.Count("seed", plan.seed);
}

constexpr const char* kBenchFooter = R"(
  gpulens bench serve http://127.0.0.1:8000      200 requests, 8 at a time
  gpulens bench serve http://gpu7:8000/v1 --concurrency 32 --requests 2000
  gpulens bench serve http://gpu7:8000/v1 --rate 12 --duration 2m --slo ttft=500ms
  gpulens bench serve https://llm.example/v1 --api-key-env LLM_KEY --json
  gpulens bench serve http://127.0.0.1:8000 --store ~/.gpulens/telemetry.db

TTFT and end-to-end time count from when a request was due, so a client that falls behind hides nothing. TPOT is the
time of a request after its first token, divided by the tokens after it. Tokens are counted by the server.
Exit: 0 every request was answered · 1 some were not, or not stored · 2 wrong use · 130 stopped by Ctrl-C, with a
result of what was done)";

constexpr auto kProgressEvery = std::chrono::milliseconds(100);

// Requests the list of models from the server and returns the first one.
Result<std::string> QueryForModel(IoLoop& loop, const BenchPlan& plan) {
  HttpClient client(loop);
  std::unique_ptr<HttpChannel> channel;
  HttpReply answer;
  std::binary_semaphore came(0);
  loop.Call([&] {
    channel = client.Open({plan.models, {}, {}});
    HttpGet get{plan.load.headers, plan.load.tls, std::chrono::seconds(10), {}};
    channel->Get(std::move(get), [&](HttpReply& reply) {
      answer = std::move(reply);
      came.release();
    });
  });
  static_cast<void>(came.try_acquire_for(std::chrono::seconds(15)));
  loop.Call([&] { channel.reset(); });
  const std::string from = plan.models.ToString();
  if (answer.failure != HttpFailure::kNone)
    return Status{Code::kUnavailable,
                  from + ": " + answer.detail + ". Is the server up? A model can be named with --model"};
  auto model = FirstModel(answer.body);
  if (!model) return Status{Code::kDataLoss, from + " names no model; name one with --model"};
  return std::move(*model);
}

void ShowProgress(const LoadPlan& plan, IoLoop& loop, const LoadRun& run, std::binary_semaphore& ended) {
  while (!ended.try_acquire_for(kProgressEvery)) {
    LoadProgress progress;
    loop.Call([&] { progress = run.progress(); });
    ::dprintf(STDERR_FILENO, "\r\033[K%s", ProgressText(plan, progress).c_str());
  }
  ::dprintf(STDERR_FILENO, "\r\033[K");
}

// Waits until `run` has ended.
void Await(const BenchOptions& options, const LoadPlan& plan, IoLoop& loop, const LoadRun& run,
           std::binary_semaphore& ended) {
  if (!options.quiet && ::isatty(STDERR_FILENO)) return ShowProgress(plan, loop, run, ended);
  ended.acquire();
}

int Run(const BenchOptions& options) {
  auto plan = MakeBenchPlan(options);
  if (!plan) return FailCommand("bench", plan.error().detail, 2);
  IoLoop loop;
  loop.Start();
  if (plan->load.model.empty()) {
    auto model = QueryForModel(loop, *plan);
    if (!model) return FailCommand("bench", model.error().detail, 1);
    plan->load.model = std::move(*model);
  }
  BenchMeter meter(plan->load, options.energy);
  std::unique_ptr<BenchStore> store;
  if (!options.store.empty()) {
    auto opened = BenchStore::Open(options.store, plan->load, options.engine, meter.monitor());
    if (!opened) {
      const Status& why = opened.error();
      return FailCommand("bench", "--store: " + why.detail, why.code == Code::kInvalidArgument ? 2 : 1);
    }
    store = std::move(*opened);
  }
  std::binary_semaphore ended(0);
  auto run = std::make_unique<LoadRun>(loop, plan->load, [&ended] { ended.release(); }, store.get());
  // The signal may come when the run is gone: the loop is stopped first.
  if (Status status = loop.OnSignal(SIGINT, [&run] { run->Stop(); }); !status.ok())
    return FailCommand("bench", status.detail, 1);
  loop.Call([&run] { run->Start(); });
  Await(options, plan->load, loop, *run, ended);
  LoadRecord record;
  loop.Call([&] { record = run->record(); });
  loop.Stop();

  const LoadSummary summary = Summarize(record, plan->load.warmup, plan->load.concurrency, plan->targets);
  const BenchEnergy energy = meter.Measure(record, summary);
  std::optional<BenchStored> stored;
  if (store) stored = store->Close();
  const BenchResult result{plan->load, record, summary, energy, stored};
  const std::string text = options.json ? ResultJson(result) : ResultText(result);
  std::fputs(text.c_str(), stdout);
  if (std::fflush(stdout) != 0) return FailCommand("bench", "the result could not be written", 1);
  if (record.stopped) return 130;
  return record.errors.empty() && (!stored || stored->lost == 0) ? 0 : 1;
}

void AddOptions(CLI::App& serve, BenchOptions& options) {
  const CLI::Range positive(1u, 10'000'000u);
  serve.add_option("URL", options.url, "The server, its API (…/v1) or its endpoint")->required();
  serve.add_option("--model", options.load.model, "The model (default: the first that the server lists)");
  serve
      .add_option("--concurrency", options.load.concurrency,
                  "Requests in flight (default 8; with --rate the limit, 1000)")
      ->check(CLI::Range(1, 10'000));
  serve
      .add_option("--rate", options.load.rate,
                  "Requests per second at random times, independent of the answers")
      ->check(CLI::Range(0.001, 100'000.0));
  serve
      .add_option("--requests", options.load.requests,
                  "Number of requests (default 200; with --duration no limit)")
      ->check(positive);
  AddOption(serve, "--duration", options.duration, "Start no request after this time", "D");
  serve
      .add_option("--warmup", options.warmup,
                  "Requests at the start that are not counted (default: those in flight)")
      ->check(CLI::Range(0, 1'000'000));
  serve.add_option("--prompt-tokens", options.load.prompt_words, "Tokens in a prompt, about (default 128)")
      ->check(CLI::Range(1, 1'000'000));
  serve.add_option("--shared-prefix", options.load.shared_words, "Of these, tokens that all prompts share");
  serve
      .add_option("--max-tokens", options.load.max_tokens,
                  "Maximum number of tokens in an answer (default 128)")
      ->check(CLI::Range(1, 1'000'000));
  serve.add_flag("--ignore-eos", options.load.ignore_eos, "Always generate --max-tokens (vLLM, SGLang)");
  serve.add_flag("--no-stream", options.whole, "Do not stream answers: no TTFT, no ITL");
  serve.add_flag("--completions", options.completions, "Use /completions instead of /chat/completions");
  serve.add_option("--slo", options.targets,
                   "Limit that a good request meets: ttft=500ms, itl=50ms, e2e=10s; repeatable");
  serve.add_option("--header", options.headers, "\"Name: value\", sent with every request; repeatable");
  AddOption(serve, "--api-key-env", options.api_key_variable, "Environment variable with the API key",
            "NAME");
  serve.add_option("--ca-file", options.ca_file, "PEM file of the CA that signed the server's certificate");
  serve.add_flag("--insecure", options.insecure, "Do not check the server's certificate");
  AddOption(serve, "--timeout", options.timeout, "Timeout of one request (default 2m)", "D");
  serve.add_option("--seed", options.load.seed, "Seed of prompts and random times (default 1)");
  AddOption(serve, "--store", options.store,
            "Store each measured request as a record, in a file or at postgresql://… or "
            "clickhouse://…: gpulens telemetry",
            "PATH_OR_URL");
  AddOption(serve, "--engine", options.engine, "Engine in these records: vllm, sglang, …", "NAME");
  serve.add_flag("--energy", options.energy,
                 "Count the joules of this machine's devices, even for a server elsewhere");
  serve.add_flag("--json", options.json, "JSON");
  serve.add_flag("-q,--quiet", options.quiet, "Print no progress");
}

}  // namespace

Result<BenchPlan> MakeBenchPlan(const BenchOptions& options) {
  BenchPlan plan{.load = options.load, .targets = {}, .models = {}};
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
  return plan;
}

std::string ProgressText(const LoadPlan& plan, const LoadProgress& progress) {
  std::string out = "  " + Grouped(progress.ended);
  if (plan.requests > 0) {
    const double part = static_cast<double>(progress.ended) / static_cast<double>(plan.requests);
    out += "/" + Grouped(plan.requests) + "  " + Printed("%.0f", 100 * part) + " %  ";
    // An earlier estimate would jump.
    const bool known = plan.duration.count() == 0 && part > 0.02 && part < 1;
    out += known ? Printed("%.0f", progress.elapsed_seconds * (1 - part) / part) + " s left" : "– s left";
  } else {
    out += " requests  " + Printed("%.0f", progress.elapsed_seconds) + " s of " +
           Printed("%.0f", std::chrono::duration<double>(plan.duration).count()) + " s";
  }
  out += "   " + std::to_string(progress.in_flight) + " in flight";
  if (progress.elapsed_seconds > 0)
    out += "   " + Three(static_cast<double>(progress.output_tokens) / progress.elapsed_seconds) + " tok/s";
  if (progress.first_token_seconds > 0)
    out += "   TTFT " + Milliseconds(progress.first_token_seconds) + " ms";
  return out + "   errors " + Grouped(progress.errors);
}

std::string ResultText(const BenchResult& result) {
  const auto& [plan, record, summary, energy, stored] = result;
  std::string out = plan.model + " at " + plan.url.Shown() + ": " + LoadText(plan) +
                    (record.stopped ? "; stopped early, the figures are partial" : "") + "\n";
  out += "  requests     " + Grouped(summary.ok) + " answered, " + Grouped(summary.errors) + " failed, " +
         Grouped(summary.cancelled) + " cancelled in " + Three(summary.elapsed_seconds) +
         " s: " + Three(summary.requests_per_second) + " requests/s";
  if (plan.warmup > 0) out += "; the first " + Grouped(plan.warmup) + " not counted";
  out += "\n";
  AppendErrors(out, record);
  out += "  tokens       " + (summary.prompt_tokens_known ? Grouped(summary.prompt_tokens) : "–") + " in";
  if (summary.cached_tokens_known && summary.prompt_tokens > 0)
    out +=
        " (" +
        Three(100 * static_cast<double>(summary.cached_tokens) / static_cast<double>(summary.prompt_tokens)) +
        " % from the cache)";
  out += ", " + Grouped(summary.completion_tokens) + " out: " + Three(summary.output_tokens_per_second) +
         " tokens/s out, " + Three(summary.total_tokens_per_second) + " in all\n";
  if (summary.ok > 0) {
    out += "  ms                 mean       p50       p90       p95       p99       max\n";
    AppendLatency(out, "  TTFT      ", summary.ttft);
    AppendLatency(out, "  ITL       ", summary.itl);
    AppendLatency(out, "  TPOT      ", summary.tpot);
    AppendLatency(out, "  end to end", summary.e2e);
  }
  if (!std::isnan(summary.good_ratio))
    out += "  goodput      " + Three(summary.good_per_second) + " requests/s, " +
           Three(100 * summary.good_ratio) + " % met every target\n";
  out += EnergyText(energy);
  if (summary.steady_since)
    out += "  steady       since request " + Grouped(*summary.steady_since + plan.warmup) + "\n";
  else if (summary.steady_validated)
    out += "  steady       never: the output rate still changed by 5 % or more; more requests may help\n";
  else if (summary.ok > 0) out += "  steady       unknown: too few requests\n";
  AppendNotes(out, plan, record, summary);
  if (stored) out += StoredText(*stored);
  return out;
}

std::string ResultJson(const BenchResult& result) {
  const LoadPlan& plan = result.plan;
  const LoadRecord& record = result.record;
  const LoadSummary& summary = result.summary;
  return JsonDocumentText("gpulens.bench_serve/1", [&](JsonObject& out) {
    AddPlan(out, plan);
    out.Flag("stopped", record.stopped);
    out.Count("ok", summary.ok);
    out.Count("errors", summary.errors);
    out.Count("cancelled", summary.cancelled);
    {
      JsonObject kinds(out.Key("errors_by_kind"));
      for (const auto& [name, error] : record.errors) kinds.Count(name, error.count);
    }
    AddFigure(out, "elapsed_seconds", summary.elapsed_seconds);
    AddFigure(out, "requests_per_second", summary.requests_per_second);
    AddFigure(out, "prompt_tokens",
              summary.prompt_tokens_known ? static_cast<double>(summary.prompt_tokens) : kNotMeasured);
    AddFigure(out, "cached_prompt_tokens",
              summary.cached_tokens_known ? static_cast<double>(summary.cached_tokens) : kNotMeasured);
    out.Count("completion_tokens", summary.completion_tokens);
    out.Count("requests_without_usage", summary.without_usage);
    AddFigure(out, "output_tokens_per_second", summary.output_tokens_per_second);
    AddFigure(out, "total_tokens_per_second", summary.total_tokens_per_second);
    AddTimes(out, "ttft_seconds", summary.ttft);
    AddTimes(out, "itl_seconds", summary.itl);
    AddTimes(out, "tpot_seconds", summary.tpot);
    AddTimes(out, "e2e_seconds", summary.e2e);
    AddTimes(out, "late_seconds", summary.late);
    AddFigure(out, "good_ratio", summary.good_ratio);
    AddFigure(out, "good_requests_per_second", summary.good_per_second);
    AddFigure(out, "steady_since_request",
              summary.steady_since ? static_cast<double>(*summary.steady_since + plan.warmup) : kNotMeasured);
    AddEnergy(out, result.energy);
    if (result.stored) AddStored(out, *result.stored);
  });
}

void AddBench(CLI::App& app, int& code) {
  CLI::App* bench =
      app.add_subcommand("bench", "Measure an LLM server: latency, throughput, energy per token.");
  bench->group("LLM engines");
  bench->require_subcommand(1);
  CLI::App* serve = bench->add_subcommand(
      "serve", "Load an OpenAI-compatible endpoint; report TTFT, ITL, goodput, tokens/s, J/token.");
  auto options = std::make_shared<BenchOptions>();
  AddOptions(*serve, *options);
  serve->footer(kBenchFooter);
  serve->callback([options, &code] { code = Run(*options); });
}

}  // namespace gpulens
