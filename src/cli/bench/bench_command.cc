#include <unistd.h>

#include <CLI/CLI.hpp>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>

#include "cli/bench/bench_options.h"
#include "cli/bench/bench_store.h"
#include "cli/bench/bench_text.h"
#include "cli/bench/load_run.h"
#include "cli/common/command.h"
#include "cli/help/help.h"

namespace gpulens {
namespace {

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

// Event that one thread raises and another waits for.
class Latch {
 public:
  void Raise() {
    std::lock_guard lock(mutex_);
    up_ = true;
    came_.notify_all();
  }
  // False: `patience` is over.
  bool Wait(Duration timeout) {
    std::unique_lock lock(mutex_);
    return came_.wait_for(lock, timeout, [this] { return up_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  bool up_ = false;
};

// The first model that the server names.
Result<std::string> QueryForModel(IoLoop& loop, const BenchPlan& plan) {
  HttpClient client(loop);
  std::unique_ptr<HttpChannel> channel;
  HttpReply answer;
  Latch came;
  loop.Call([&] {
    channel = client.Open({plan.models, {}, {}});
    HttpGet get{plan.load.headers, plan.load.tls, std::chrono::seconds(10), {}};
    channel->Get(std::move(get), [&](HttpReply& reply) {
      answer = std::move(reply);
      came.Raise();
    });
  });
  came.Wait(std::chrono::seconds(15));
  loop.Call([&] { channel.reset(); });
  const std::string from = plan.models.ToString();
  if (answer.failure != HttpFailure::kNone)
    return Status{Code::kUnavailable,
                  from + ": " + answer.detail + ". Is the server up? A model can be named with --model"};
  auto model = FirstModel(answer.body);
  if (!model) return Status{Code::kDataLoss, from + " names no model; name one with --model"};
  return std::move(*model);
}

void ShowProgress(const LoadPlan& plan, IoLoop& loop, const LoadRun& run, Latch& ended) {
  while (!ended.Wait(kProgressEvery)) {
    LoadProgress progress;
    loop.Call([&] { progress = run.progress(); });
    ::dprintf(STDERR_FILENO, "\r\033[K%s", ProgressText(plan, progress).c_str());
  }
  ::dprintf(STDERR_FILENO, "\r\033[K");
}

// Until `run` has ended.
void Await(const BenchOptions& options, const LoadPlan& plan, IoLoop& loop, const LoadRun& run,
           Latch& ended) {
  if (!options.quiet && ::isatty(STDERR_FILENO)) return ShowProgress(plan, loop, run, ended);
  while (!ended.Wait(std::chrono::hours(1))) {
  }
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
  Latch ended;
  auto run = std::make_unique<LoadRun>(loop, plan->load, [&ended] { ended.Raise(); }, store.get());
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
  serve.add_option("--model", options.model, "The model (default: the first that the server lists)");
  serve
      .add_option("--concurrency", options.concurrency,
                  "Requests in flight (default 8; with --rate the limit, 1000)")
      ->check(CLI::Range(1, 10'000));
  serve.add_option("--rate", options.rate, "Requests per second at random times, independent of the answers")
      ->check(CLI::Range(0.001, 100'000.0));
  serve
      .add_option("--requests", options.requests,
                  "Number of requests (default 200; with --duration no limit)")
      ->check(positive);
  AddOption(serve, "--duration", options.duration, "Start no request after this time", "D");
  serve
      .add_option("--warmup", options.warmup,
                  "Requests at the start that are not counted (default: those in flight)")
      ->check(CLI::Range(0, 1'000'000));
  serve.add_option("--prompt-tokens", options.prompt_tokens, "Tokens in a prompt, about (default 128)")
      ->check(CLI::Range(1, 1'000'000));
  serve.add_option("--shared-prefix", options.shared_prefix, "Of these, tokens that all prompts share");
  serve.add_option("--max-tokens", options.max_tokens, "Maximum number of tokens in an answer (default 128)")
      ->check(CLI::Range(1, 1'000'000));
  serve.add_flag("--ignore-eos", options.ignore_eos, "Always generate --max-tokens (vLLM, SGLang)");
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
  serve.add_option("--seed", options.seed, "Seed of prompts and random times (default 1)");
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
