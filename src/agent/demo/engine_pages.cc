#include "agent/demo/engine_pages.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <span>
#include <vector>

#include "base/json.h"
#include "base/number_text.h"
#include "base/text.h"

namespace gpulens::demo {
namespace {

using Rate = std::function<double(int level)>;

constexpr double kMostWaiting = 512;  // then requests are turned away
constexpr double kSpread = 0.6;       // of times and lengths: sigma of their logarithm
constexpr double kDraftTokens = 3, kAcceptedShare = 0.62;
constexpr double kBytesPerToken = 131'072;  // of a KV cache
constexpr double kGib = 1024.0 * 1024 * 1024;

// What an engine does at a level of its load: rates of a second, means of a request. Little's law makes the
// number of running requests of the two.
class EngineModel {
 public:
  explicit EngineModel(const Workload& workload) : work_(workload) {}

  static double Share(int level) { return std::clamp(level, 0, 100) / 100.0; }
  double Requests(int level) const { return work_.requests * Share(level); }
  double TurnedAway(int level) const { return work_.requests * std::max(level - 100, 0) / 100; }
  double Prompt() const { return work_.prompt; }
  double Output() const { return work_.role == EngineRole::kPrefill ? 1 : work_.output; }
  double QueueTime(int level) const {
    const double busy = Share(level);
    return 0.004 + 0.08 * std::pow(busy, 8) + 0.09 * std::max(level - 100, 0);
  }
  double PrefillTime(int level) const {
    const double busy = Share(level);
    return work_.first_token * (1 + 0.9 * busy * busy);
  }
  double FirstToken(int level) const { return QueueTime(level) + PrefillTime(level); }
  double NextToken(int level) const {
    const double busy = Share(level);
    return work_.next_token * (1 + 0.8 * busy * busy);
  }
  double DecodeTime(int level) const { return (Output() - 1) * NextToken(level); }
  double Duration(int level) const { return FirstToken(level) + DecodeTime(level); }
  double Running(int level) const { return Requests(level) * (PrefillTime(level) + DecodeTime(level)); }
  double Preemptions(int level) const { return level > 92 ? 0.0004 * (level - 92) * work_.requests : 0; }
  double CacheUsage(int level) const {
    return std::min(0.99, Running(level) * (Prompt() + Output() / 2) / work_.kv_tokens + 0.01);
  }

 private:
  const Workload& work_;
};

double Waiting(const EngineModel& model, const EngineTime& time) {
  if (time.level <= 0) return 0;
  const double usual = model.Requests(time.level) * model.QueueTime(std::min(time.level, 100));
  return std::floor(std::min(kMostWaiting, usual + model.TurnedAway(time.level) * time.seconds_at_level));
}

// Share of values below `bound`, of a log-normal distribution with this mean.
double ShareBelow(double bound, double mean) {
  if (bound <= 0 || mean <= 0) return bound >= mean ? 1 : 0;
  const double median = mean * std::exp(-kSpread * kSpread / 2);
  return 0.5 * std::erfc(-(std::log(bound / median)) / (kSpread * std::sqrt(2.0)));
}

class PageText {
 public:
  void Family(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    out_.append("# HELP ").append(name).append(" ").append(help);
    out_.append("\n# TYPE ").append(name).append(" ").append(type) += '\n';
  }
  void Sample(std::string_view labels, double value) { Line({}, labels, {}, value); }
  void Gauge(std::string_view name, std::string_view help, std::string_view labels, double value) {
    Family(name, "gauge", help);
    Sample(labels, value);
  }
  // A counter of whole things.
  void Counter(std::string_view name, std::string_view help, std::string_view labels, double value) {
    Family(name, "counter", help);
    Sample(labels, std::floor(value));
  }
  // `rate`: observations in a second; `mean`: of them. By level.
  void Histogram(std::string_view name, std::string_view help, std::string_view labels,
                 std::span<const double> bounds, const EngineTime& time, const Rate& rate, const Rate& mean) {
    Family(name, "histogram", help);
    AddHistogram(labels, bounds, time, rate, mean);
  }
  void AddHistogram(std::string_view labels, std::span<const double> bounds, const EngineTime& time,
                    const Rate& rate, const Rate& mean) {
    for (double bound : bounds) {
      Line("_bucket", labels, BoundText(bound),
           std::floor(time.Sum([&](int level) { return rate(level) * ShareBelow(bound, mean(level)); })));
    }
    const double count = std::floor(time.Sum(rate));
    Line("_bucket", labels, "+Inf", count);
    Line("_sum", labels, {}, time.Sum([&](int level) { return rate(level) * mean(level); }));
    Line("_count", labels, {}, count);
  }
  std::string Take() { return std::move(out_); }

 private:
  static std::string BoundText(double bound) {
    char text[kNumberBytes];
    return {text, WriteNumber(text, bound)};
  }
  void Line(std::string_view suffix, std::string_view labels, std::string_view bound, double value) {
    out_.append(name_).append(suffix);
    if (!labels.empty() || !bound.empty()) {
      out_.append("{").append(labels);
      if (!bound.empty()) out_.append(labels.empty() ? "" : ",").append("le=\"").append(bound) += '"';
      out_ += '}';
    }
    char text[kNumberBytes];
    out_.append(" ").append(text, WriteNumber(text, value)) += '\n';
  }

  std::string out_, name_;
};

constexpr double kTimeBounds[] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,  0.25,  0.5,   0.75,
                                  1.0,   2.5,   5.0,  7.5,  10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0};
constexpr double kTokenTimeBounds[] = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,  0.3,  0.4, 0.5,
                                       0.75, 1.0,   2.5,  5.0,   7.5, 10.0, 20.0, 40.0, 80.0};
constexpr double kRequestBounds[] = {0.3,  0.5,  0.8,  1.0,  1.5,   2.0,   2.5,   5.0,   10.0,   15.0,  20.0,
                                     30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0};
constexpr double kTokenBounds[] = {1,   2,    5,    10,   20,    50,    100,   200,
                                   500, 1000, 2000, 5000, 10000, 20000, 50000, 100000};
constexpr double kIterationBounds[] = {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};
constexpr double kByteBounds[] = {1 << 20, 1 << 22, 1 << 24, 1 << 26, 1 << 28, 1 << 30};
constexpr double kShortBounds[] = {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10};

std::string Label(std::string_view key, std::string_view value) {
  return std::string(key) + "=\"" + std::string(value) + "\"";
}

void AppendVllmHistograms(PageText& page, const Workload& work, const EngineTime& time,
                          const std::string& labels) {
  const EngineModel model(work);
  const Rate requests = [&](int level) { return model.Requests(level); };
  const Rate decoded = [&](int level) { return model.Requests(level) * (model.Output() - 1); };
  const Rate prompt = [&](int) { return model.Prompt(); };
  const Rate output = [&](int) { return model.Output(); };
  const Rate next = [&](int level) { return model.NextToken(level); };
  auto of = [&](double (EngineModel::*mean)(int) const) -> Rate {
    return [&model, mean](int level) { return (model.*mean)(level); };
  };
  page.Histogram("vllm:request_prompt_tokens", "Number of prefill tokens processed.", labels, kTokenBounds,
                 time, requests, prompt);
  page.Histogram("vllm:request_generation_tokens", "Number of generation tokens processed.", labels,
                 kTokenBounds, time, requests, output);
  page.Histogram(
      "vllm:iteration_tokens_total", "Histogram of number of tokens per engine_step.", labels,
      kIterationBounds, time, [&](int level) { return level > 0 ? 1 / model.NextToken(level) : 0.0; },
      [&](int level) {
        return std::max(1.0,
                        model.Requests(level) * (model.Prompt() + model.Output()) * model.NextToken(level));
      });
  page.Histogram("vllm:time_to_first_token_seconds", "Histogram of time to first token in seconds.", labels,
                 kTimeBounds, time, requests, of(&EngineModel::FirstToken));
  if (work.role != EngineRole::kPrefill) {
    page.Histogram("vllm:inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", labels,
                   kTokenTimeBounds, time, decoded, next);
    page.Histogram("vllm:request_time_per_output_token_seconds",
                   "Histogram of time_per_output_token_seconds per request.", labels, kTokenTimeBounds, time,
                   requests, next);
  }
  page.Histogram("vllm:e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", labels,
                 kRequestBounds, time, requests, of(&EngineModel::Duration));
  page.Histogram("vllm:request_queue_time_seconds", "Histogram of time spent in WAITING phase for request.",
                 labels, kRequestBounds, time, requests, of(&EngineModel::QueueTime));
  page.Histogram("vllm:request_inference_time_seconds",
                 "Histogram of time spent in RUNNING phase for request.", labels, kRequestBounds, time,
                 requests, [&](int level) { return model.PrefillTime(level) + model.DecodeTime(level); });
  page.Histogram("vllm:request_prefill_time_seconds", "Histogram of time spent in PREFILL phase for request.",
                 labels, kRequestBounds, time, requests, of(&EngineModel::PrefillTime));
  page.Histogram("vllm:request_decode_time_seconds", "Histogram of time spent in DECODE phase for request.",
                 labels, kRequestBounds, time, requests, of(&EngineModel::DecodeTime));
}

void AppendVllmCaches(PageText& page, const Workload& work, const EngineTime& time,
                      const std::string& labels) {
  const EngineModel model(work);
  const double prompts =
      std::floor(time.Sum([&](int level) { return model.Requests(level) * model.Prompt(); }));
  const bool fetches = work.role == EngineRole::kDecode;  // the prompt's KV comes from the prefill engine
  const double local = fetches ? 0 : std::floor(prompts * work.cached);
  const double external = fetches ? prompts : 0;
  page.Counter("vllm:prefix_cache_queries_total",
               "Prefix cache queries, in terms of number of queried tokens.", labels, prompts);
  page.Counter("vllm:prefix_cache_hits_total", "Prefix cache hits, in terms of number of cached tokens.",
               labels, local);
  page.Counter(
      "vllm:external_prefix_cache_queries_total",
      "External prefix cache queries from KV connector cross-instance cache sharing, in terms of number of "
      "queried tokens.",
      labels, fetches ? prompts : 0);
  page.Counter(
      "vllm:external_prefix_cache_hits_total",
      "External prefix cache hits from KV connector cross-instance cache sharing, in terms of number of "
      "cached tokens.",
      labels, external);
  page.Counter("vllm:prompt_tokens_total", "Number of prefill tokens processed.", labels, prompts);
  page.Family("vllm:prompt_tokens_by_source_total", "counter", "Number of prompt tokens by source.");
  page.Sample(labels + "," + Label("source", "local_compute"), prompts - local - external);
  page.Sample(labels + "," + Label("source", "local_cache_hit"), local);
  page.Sample(labels + "," + Label("source", "external_kv_transfer"), external);
  page.Counter("vllm:prompt_tokens_cached_total", "Number of cached prompt tokens (local + external).",
               labels, local + external);
  page.Counter("vllm:prompt_tokens_recomputed_total", "Number of cached tokens recomputed for forward pass.",
               labels, time.Sum([&](int level) { return model.Preemptions(level) * model.Prompt(); }));
  if (!fetches) return;
  page.Histogram(
      "vllm:nixl_xfer_time_seconds", "Histogram of transfer duration for NIXL KV Cache transfers.", labels,
      kShortBounds, time, [&](int level) { return model.Requests(level); },
      [&](int level) { return 0.02 * (1 + EngineModel::Share(level)); });
  page.Histogram(
      "vllm:nixl_bytes_transferred", "Histogram of bytes transferred per NIXL KV Cache transfers.", labels,
      kByteBounds, time, [&](int level) { return model.Requests(level); },
      [&](int) { return model.Prompt() * kBytesPerToken; });
}

std::string VllmPage(const Workload& work, const EngineTime& time) {
  const EngineModel model(work);
  const std::string labels = Label("engine", "0") + "," + Label("model_name", work.model);
  PageText page;
  const double waiting = Waiting(model, time);
  page.Gauge("vllm:num_requests_running", "Number of requests in model execution batches.", labels,
             std::round(model.Running(time.level)));
  page.Gauge("vllm:num_requests_waiting", "Number of requests waiting to be processed.", labels, waiting);
  page.Family("vllm:num_requests_waiting_by_reason", "gauge", "Number of requests waiting, by reason.");
  page.Sample(labels + "," + Label("reason", "capacity"), waiting);
  page.Sample(labels + "," + Label("reason", "deferred"), 0);
  page.Family("vllm:engine_sleep_state", "gauge", "Engine sleep state.");
  for (std::string_view state : {"awake", "weights_offloaded", "discard_all"})
    page.Sample(labels + "," + Label("sleep_state", state), state == "awake" ? 1 : 0);
  page.Gauge("vllm:kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", labels,
             model.CacheUsage(time.level));
  page.Counter("vllm:num_preemptions_total", "Cumulative number of preemption from the engine.", labels,
               time.Sum([&](int level) { return model.Preemptions(level); }));
  const double generated = time.Sum([&](int level) { return model.Requests(level) * model.Output(); });
  page.Counter("vllm:generation_tokens_total", "Number of generation tokens processed.", labels, generated);
  const double finished = time.Sum([&](int level) { return model.Requests(level); });
  page.Family("vllm:request_success_total", "counter", "Count of successfully processed requests.");
  page.Sample(
      Label("engine", "0") + "," + Label("finished_reason", "stop") + "," + Label("model_name", work.model),
      std::floor(finished * 0.93));
  page.Sample(
      Label("engine", "0") + "," + Label("finished_reason", "length") + "," + Label("model_name", work.model),
      std::floor(finished * 0.06));
  page.Sample(
      Label("engine", "0") + "," + Label("finished_reason", "abort") + "," + Label("model_name", work.model),
      std::floor(finished * 0.01 + time.Sum([&](int level) { return model.TurnedAway(level); })));
  page.Sample(
      Label("engine", "0") + "," + Label("finished_reason", "error") + "," + Label("model_name", work.model),
      0);
  AppendVllmCaches(page, work, time, labels);
  if (work.speculative) {
    // Of the tokens of a step one is the model's own.
    const double drafts = generated / (1 + kDraftTokens * kAcceptedShare);
    page.Counter("vllm:spec_decode_num_drafts_total", "Number of spec decoding drafts.", labels, drafts);
    page.Counter("vllm:spec_decode_num_draft_tokens_total", "Number of draft tokens.", labels,
                 drafts * kDraftTokens);
    page.Counter("vllm:spec_decode_num_accepted_tokens_total", "Number of accepted tokens.", labels,
                 drafts * kDraftTokens * kAcceptedShare);
    page.Family("vllm:spec_decode_num_accepted_tokens_per_pos_total", "counter",
                "Accepted tokens per draft position.");
    constexpr double kShares[] = {0.44, 0.33, 0.23};
    for (size_t at = 0; at < std::size(kShares); ++at)
      page.Sample(labels + "," + Label("position", std::to_string(at)),
                  std::floor(drafts * kDraftTokens * kAcceptedShare * kShares[at]));
  }
  AppendVllmHistograms(page, work, time, labels);
  page.Gauge("vllm:cache_config_info", "Information of the LLMEngine CacheConfig",
             R"(block_size="16",cache_dtype="auto",enable_prefix_caching="True",engine="0",)"
             R"(gpu_memory_utilization="0.9",num_gpu_blocks=")" +
                 std::to_string(static_cast<int64_t>(work.kv_tokens / 16)) + "\"",
             1);
  return page.Take();
}

std::string SglangPage(const Workload& work, const EngineTime& time) {
  const EngineModel model(work);
  const std::string own = Label("model_name", work.model);
  const std::string labels =
      Label("engine_type", "unified") + "," + own + R"(,moe_ep_rank="0",pp_rank="0",tp_rank="0")";
  PageText page;
  const Rate requests = [&](int level) { return model.Requests(level); };
  auto gauge = [&](std::string_view name, std::string_view help, double value) {
    page.Gauge("sglang:" + std::string(name), help, labels, value);
  };
  const double usage = model.CacheUsage(time.level);
  gauge("num_running_reqs", "The number of running requests.", std::round(model.Running(time.level)));
  gauge("num_queue_reqs", "The number of requests in the waiting queue.", Waiting(model, time));
  gauge("num_grammar_queue_reqs", "The number of requests in the grammar waiting queue.", 0);
  gauge("num_paused_reqs", "The number of paused requests by async weight sync.", 0);
  gauge("num_retracted_reqs", "The number of retracted requests.", 0);
  gauge("num_used_tokens", "The number of used tokens.", std::round(usage * work.kv_tokens));
  gauge("token_usage", "The token usage.", usage);
  gauge("max_total_num_tokens", "Maximum total number of tokens in the KV cache pool.", work.kv_tokens);
  gauge("gen_throughput", "The generation throughput (token/s).",
        model.Requests(time.level) * model.Output());
  gauge("cache_hit_rate", "The prefix cache hit rate.", time.level > 0 ? work.cached : 0);
  gauge("utilization", "The utilization.", EngineModel::Share(time.level));
  gauge("new_token_ratio", "The new token ratio.", 0.7);
  gauge("is_cuda_graph", "Whether the batch is using CUDA graph.", time.level > 0 ? 1 : 0);
  gauge("engine_startup_time", "The time taken for the engine to start up.", 41.7);
  gauge("engine_load_weights_time", "The time taken for the engine to load weights.", 18.2);
  const double prompts =
      std::floor(time.Sum([&](int level) { return model.Requests(level) * model.Prompt(); }));
  const double outputs = time.Sum([&](int level) { return model.Requests(level) * model.Output(); });
  const double cached = std::floor(prompts * work.cached);
  page.Family("sglang:realtime_tokens_total", "counter",
              "Total number of tokens processed (updated on each log interval).");
  page.Sample(labels + "," + Label("mode", "prefill_compute"), prompts - cached);
  page.Sample(labels + "," + Label("mode", "prefill_cache"), cached);
  page.Sample(labels + "," + Label("mode", "decode"), std::floor(outputs));
  page.Counter("sglang:num_retracted_requests_total", "Total number of retracted requests.", labels,
               time.Sum([&](int level) { return model.Preemptions(level); }));
  page.Counter("sglang:num_retracted_input_tokens_total", "Total number of retracted input tokens.", labels,
               time.Sum([&](int level) { return model.Preemptions(level) * model.Prompt(); }));
  page.Histogram("sglang:queue_time_seconds", "Histogram of queueing time in seconds.", labels, kShortBounds,
                 time, requests, [&](int level) { return model.QueueTime(level); });
  page.Histogram("sglang:per_stage_req_latency_seconds", "The latency of each stage of requests.",
                 labels + "," + Label("stage", "prefill_waiting"), kShortBounds, time, requests,
                 [&](int level) { return model.QueueTime(level); });
  page.Histogram("sglang:time_to_first_token_seconds", "Histogram of time to first token in seconds.", own,
                 kTimeBounds, time, requests, [&](int level) { return model.FirstToken(level); });
  page.Histogram(
      "sglang:inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", own,
      kTokenTimeBounds, time, [&](int level) { return model.Requests(level) * (model.Output() - 1); },
      [&](int level) { return model.NextToken(level); });
  page.Histogram("sglang:e2e_request_latency_seconds", "Histogram of End-to-end request latency in seconds",
                 own, kRequestBounds, time, requests, [&](int level) { return model.Duration(level); });
  page.Counter("sglang:prompt_tokens_total", "Number of prefill tokens processed.", own, prompts);
  page.Counter("sglang:generation_tokens_total", "Number of generation tokens processed.", own, outputs);
  page.Counter("sglang:cached_tokens_total", "Number of cached prompt tokens.",
               own + "," + Label("cache_source", "device"), cached);
  page.Counter("sglang:num_requests_total", "Number of requests processed.", own, time.Sum(requests));
  page.Counter("sglang:num_aborted_requests_total", "Number of requests aborted.", own,
               time.Sum([&](int level) { return model.TurnedAway(level) + 0.01 * model.Requests(level); }));
  return page.Take();
}

std::string DynamoPage(const Workload& engine, const EngineTime& time) {
  const EngineModel model(engine);
  const std::string labels = Label("model", engine.model);
  PageText page;
  const Rate requests = [&](int level) { return model.Requests(level); };
  const double waiting = Waiting(model, time);
  page.Gauge("dynamo_frontend_disconnected_clients", "Number of disconnected clients", {}, 0);
  page.Gauge("dynamo_frontend_inflight_requests", "Number of inflight requests", labels,
             std::round(model.Running(time.level)) + waiting);
  page.Gauge("dynamo_frontend_queued_requests", "Number of requests in HTTP processing queue", labels,
             waiting);
  page.Gauge("dynamo_frontend_router_queue_pending_requests",
             "Number of requests pending in the router queue", labels, waiting);
  page.Gauge("dynamo_frontend_model_context_length",
             "Maximum context length in tokens for a worker serving the model", labels, 32768);
  page.Gauge("dynamo_frontend_model_kv_cache_block_size",
             "KV cache block size in tokens for a worker serving the model", labels, 16);
  page.Gauge("dynamo_frontend_model_total_kv_blocks",
             "Total KV cache blocks available for a worker serving the model", labels,
             std::floor(engine.kv_tokens / 16));
  page.Gauge("dynamo_frontend_model_max_num_seqs",
             "Maximum number of sequences for a worker serving the model", labels, 256);
  page.Gauge("dynamo_frontend_model_migration_limit",
             "Maximum number of request migrations allowed for the model", labels, 3);
  const std::string success =
      Label("endpoint", "chat_completions") + "," + labels + "," + Label("request_type", "stream");
  page.Family("dynamo_frontend_requests_total", "counter", "Total number of LLM requests processed");
  page.Sample(success + "," + Label("status", "success"), std::floor(time.Sum(requests)));
  page.Sample(success + "," + Label("status", "error") + "," + Label("error_type", "overload"),
              std::floor(time.Sum([&](int level) { return model.TurnedAway(level); })));
  page.Counter("dynamo_frontend_requests_started_total", "Total number of LLM requests started", labels,
               time.Sum([&](int level) { return model.Requests(level) + model.TurnedAway(level); }));
  page.Counter("dynamo_frontend_output_tokens_total",
               "Total number of output tokens generated (updates in real-time)", labels,
               time.Sum([&](int level) { return model.Requests(level) * model.Output(); }));
  page.Histogram("dynamo_frontend_input_sequence_tokens", "Input sequence length in tokens", labels,
                 kTokenBounds, time, requests, [&](int) { return model.Prompt(); });
  page.Histogram("dynamo_frontend_output_sequence_tokens", "Output sequence length in tokens", labels,
                 kTokenBounds, time, requests, [&](int) { return model.Output(); });
  page.Histogram("dynamo_frontend_cached_tokens", "Cached tokens of requests", labels, kTokenBounds, time,
                 requests, [&](int) { return model.Prompt() * engine.cached; });
  page.Histogram("dynamo_frontend_request_duration_seconds", "Duration of LLM requests", labels,
                 kRequestBounds, time, requests, [&](int level) { return model.Duration(level) + 0.004; });
  page.Histogram("dynamo_frontend_time_to_first_token_seconds", "Time to first token in seconds", labels,
                 kTimeBounds, time, requests, [&](int level) { return model.FirstToken(level) + 0.004; });
  page.Histogram(
      "dynamo_frontend_inter_token_latency_seconds", "Inter-token latency in seconds", labels,
      kTokenTimeBounds, time, [&](int level) { return model.Requests(level) * (model.Output() - 1); },
      [&](int level) { return model.NextToken(level); });
  return page.Take();
}

std::string LmcachePage(const Workload& engine, const EngineTime& time) {
  const EngineModel model(engine);
  const std::string labels = Label("model_name", engine.model) + "," + Label("role", "worker") + "," +
                             Label("served_model_name", engine.model) + "," + Label("worker_id", "0");
  PageText page;
  auto counter = [&](std::string_view name, std::string_view help, double value) {
    page.Counter("lmcache:" + std::string(name), help, labels, value);
  };
  auto gauge = [&](std::string_view name, std::string_view help, double value) {
    page.Gauge("lmcache:" + std::string(name), help, labels, value);
  };
  // What the engine's own cache does not have is looked up here.
  const double missed = 1 - engine.cached, hit = 0.45;
  const double requests = time.Sum([&](int level) { return model.Requests(level); });
  const double looked_up = std::floor(requests * model.Prompt() * missed), hits = std::floor(looked_up * hit);
  counter("num_lookup_requests_total", "Total number of lookup requests sent to lmcache", requests);
  counter("num_retrieve_requests_total", "Total number of retrieve requests sent to lmcache", requests * hit);
  counter("num_store_requests_total", "Total number of store requests sent to lmcache", requests);
  counter("num_lookup_tokens_total", "Total number of tokens requested in lookup from lmcache", looked_up);
  counter("num_lookup_hits_total", "Total number of tokens hit in lookup from lmcache", hits);
  counter("num_requested_tokens_total", "Total number of tokens requested from lmcache", hits);
  counter("num_hit_tokens_total", "Total number of tokens hit in lmcache", hits);
  counter("num_stored_tokens_total", "Total number of tokens stored in lmcache including evicted ones",
          looked_up - hits);
  counter("num_prompt_tokens_total", "Number of prompt tokens in lmcache", requests * model.Prompt());
  counter("num_vllm_hit_tokens_total", "Number of hit tokens in vllm",
          requests * model.Prompt() * engine.cached);
  counter("num_remote_read_requests_total", "Total number of requests read from remote backends in lmcache",
          requests * hit * 0.2);
  counter("num_remote_read_bytes_total", "Total number of bytes read from remote backends in lmcache",
          hits * 0.2 * kBytesPerToken);
  counter("num_remote_write_requests_total", "Total number of requests write to remote backends in lmcache",
          requests * 0.3);
  counter("num_remote_write_bytes_total", "Total number of bytes write to remote backends in lmcache",
          (looked_up - hits) * 0.3 * kBytesPerToken);
  counter("local_cpu_evict_count_total", "Total number of evict in local cpu backend",
          (looked_up - hits) / 4096);
  counter("local_cpu_evict_keys_count_total", "Total number of evict keys in local cpu backend",
          (looked_up - hits) / 256);
  counter("local_cpu_evict_failed_count_total", "Total number of failed eviction in local cpu backend", 0);
  counter("remote_ping_errors_total", "Number of ping errors to remote backends", 0);
  gauge("retrieve_hit_rate", "Hit rate of lmcache retrieve requests since last log", time.level > 0 ? 1 : 0);
  gauge("lookup_hit_rate", "Hit rate of lmcache lookup requests since last log", time.level > 0 ? hit : 0);
  const double kept = std::min(1.0, looked_up / 2e6);
  gauge("local_cache_usage", "Local cache usage (bytes) of lmcache", std::round(kept * 118) * kGib);
  gauge("remote_cache_usage", "Remote cache usage (bytes) of lmcache", std::round(kept * 460) * kGib);
  gauge("local_storage_usage", "Local storage usage (bytes) of lmcache", 0);
  page.Histogram(
      "lmcache:time_to_retrieve", "Time to retrieve from lmcache", labels, kShortBounds, time,
      [&](int level) { return model.Requests(level) * hit; },
      [&](int level) { return 0.03 * (1 + EngineModel::Share(level) / 2); });
  page.Histogram(
      "lmcache:time_to_store", "Time to store to lmcache", labels, kShortBounds, time,
      [&](int level) { return model.Requests(level); },
      [&](int level) { return 0.05 * (1 + EngineModel::Share(level) / 2); });
  return page.Take();
}

std::string AibrixPage(const Workload& engine, const EngineTime& time) {
  const EngineModel model(engine);
  const std::string labels = Label("model", engine.model);
  PageText page;
  const double requests = time.Sum([&](int level) { return model.Requests(level); });
  const double refused = time.Sum([&](int level) { return model.TurnedAway(level); });
  page.Counter("gateway_request_total", "Total number of requests received by the gateway", labels,
               std::floor(requests) + std::floor(refused));
  page.Counter("gateway_request_success", "Number of successful requests", labels, requests);
  page.Counter("gateway_request_fail", "Number of failed requests",
               labels + "," + Label("status_code", "429"), refused);
  page.Gauge("gateway_in_flight_requests", "Number of requests in flight", labels,
             std::round(model.Running(time.level)) + Waiting(model, time));
  page.Counter("gateway_input_tokens_total", "Input tokens of requests", labels, requests * model.Prompt());
  page.Counter("gateway_output_tokens_total", "Output tokens of requests", labels, requests * model.Output());
  page.Counter("gateway_requests_with_usage_total", "Requests whose answer had usage", labels, requests);
  page.Counter("gateway_first_token_delay_over_1s_total", "Requests whose first token took more than 1 s",
               labels, time.Sum([&](int level) {
                 return model.Requests(level) * (1 - ShareBelow(1, model.FirstToken(level)));
               }));
  return page.Take();
}

std::string MooncakePage(const Workload& engine, const EngineTime& time) {
  const EngineModel model(engine);
  PageText page;
  constexpr double kCapacity = 512 * kGib, kObjectTokens = 256;
  const double requests = time.Sum([&](int level) { return model.Requests(level); });
  const double tokens = requests * model.Prompt();
  const double stored = std::floor(tokens * (1 - engine.cached) / kObjectTokens);
  const double read = std::floor(tokens / kObjectTokens);
  const double object = kObjectTokens * kBytesPerToken;
  const double fits = std::floor(kCapacity * 0.92 / object), kept = std::min(stored, fits);
  const double evicted = stored - kept;
  page.Gauge("master_allocated_bytes", "Total bytes currently allocated across all segments", {},
             kept * object);
  page.Gauge("master_total_capacity_bytes", "Total capacity across all mounted segments", {}, kCapacity);
  page.Gauge("segment_allocated_bytes", "Bytes allocated in a segment", Label("segment", "node-a:17813"),
             kept * object);
  page.Gauge("segment_total_capacity_bytes", "Capacity of a segment", Label("segment", "node-a:17813"),
             kCapacity);
  page.Gauge("master_key_count", "Total number of keys managed by the master", {}, kept);
  page.Gauge("master_soft_pin_key_count", "Total number of soft-pinned keys", {}, 0);
  page.Gauge("master_active_clients", "Total number of active clients", {}, 2);
  auto counter = [&](std::string_view name, std::string_view help, double value) {
    if (value >= 1) page.Counter(name, help, {}, value);  // Mooncake leaves counters out that are 0
  };
  counter("master_put_start_requests_total", "Total number of PutStart requests received", stored);
  counter("master_put_end_requests_total", "Total number of PutEnd requests received", stored);
  counter("master_get_replica_list_requests_total", "Total number of GetReplicaList requests received", read);
  counter("master_exist_key_requests_total", "Total number of ExistKey requests received", read + stored);
  counter("master_ping_requests_total", "Total number of ping requests received",
          time.Sum([](int) { return 2.0; }));
  counter("master_successful_evictions_total", "Total number of successful eviction operations",
          evicted / 64);
  counter("master_attempted_evictions_total", "Total number of attempted eviction operations", evicted / 64);
  counter("master_evicted_key_count", "Total number of keys evicted", evicted);
  counter("master_evicted_size_bytes", "Total bytes of evicted objects", evicted * object);
  counter("mooncake_transfer_read_bytes", "Bytes read by transfers", read * object);
  counter("mooncake_transfer_write_bytes", "Bytes written by transfers", stored * object);
  counter("mooncake_transfer_read_operation_count", "Transfers that read", read);
  counter("mooncake_transfer_write_operation_count", "Transfers that wrote", stored);
  return page.Take();
}

// The endpoint picker of the Gateway API's inference extension, in front of one replica.
std::string EppPage(const Workload& engine, const EngineTime& time) {
  const EngineModel model(engine);
  const std::string labels = Label("model_name", engine.model) + "," + Label("priority", "0") + "," +
                             Label("target_model_name", engine.model);
  const std::string pool = Label("name", engine.name + "-pool");
  PageText page;
  auto requests = [&](int level) { return model.Requests(level); };
  const double served = time.Sum(requests);
  const double refused = time.Sum([&](int level) { return model.TurnedAway(level); });
  const bool ready = time.level >= 0;
  page.Counter("llm_d_epp_request_total", "Total number of requests", labels,
               std::floor(served) + std::floor(refused));
  page.Counter("llm_d_epp_request_error_total", "Number of requests that ended with an error",
               labels + "," + Label("error_code", "InferencePoolResourceExhausted"), refused);
  page.Gauge("llm_d_epp_request_running", "Number of requests in progress", labels,
             ready ? std::round(model.Running(time.level)) + Waiting(model, time) : 0);
  page.Histogram("llm_d_epp_request_duration_seconds", "Duration of requests in seconds", labels,
                 kRequestBounds, time, requests, [&](int level) { return model.Duration(level) + 0.002; });
  page.Histogram("llm_d_epp_request_ttft_seconds", "Time to first token in seconds",
                 labels + "," + Label("streaming", "true"), kTimeBounds, time, requests,
                 [&](int level) { return model.FirstToken(level) + 0.002; });
  page.Gauge("llm_d_epp_ready_endpoints", "Number of endpoints in the pool that are ready", pool,
             ready ? 1 : 0);
  if (ready) {
    page.Gauge("llm_d_epp_average_kv_cache_utilization", "Mean KV-cache utilization of the pool's endpoints",
               pool, model.CacheUsage(time.level));
    page.Gauge("llm_d_epp_average_queue_size", "Mean number of requests that wait in the pool's endpoints",
               pool, Waiting(model, time));
  }
  return page.Take();
}

}  // namespace

std::string EnginePage(const DemoNode& node, size_t workload, int64_t boot_ns) {
  const Workload& work = node.scenario().workloads[workload];
  if (IsEngine(work.kind)) {
    const EngineTime time = node.TimeOf(workload, boot_ns);
    return work.kind == WorkloadKind::kVllm ? VllmPage(work, time) : SglangPage(work, time);
  }
  const Workload* engine = node.scenario().Find(work.of);
  if (engine == nullptr) return {};  // a job or notebook has no page
  const EngineTime time =
      node.TimeOf(static_cast<size_t>(engine - node.scenario().workloads.data()), boot_ns);
  switch (work.kind) {
    case WorkloadKind::kDynamo: return DynamoPage(*engine, time);
    case WorkloadKind::kLmcache: return LmcachePage(*engine, time);
    case WorkloadKind::kAibrix: return AibrixPage(*engine, time);
    case WorkloadKind::kMooncake: return MooncakePage(*engine, time);
    case WorkloadKind::kEpp: return EppPage(*engine, time);
    default: return {};
  }
}

std::string EngineApi(const Workload& workload, std::string_view path) {
  std::string out;
  const bool vllm = workload.kind == WorkloadKind::kVllm, sglang = workload.kind == WorkloadKind::kSglang;
  if (path == "/v1/models" && IsEngine(workload.kind)) {
    out = R"({"object":"list","data":[{"id":)";
    AppendJsonString(out, workload.model);
    return out + R"(,"object":"model"}]})";
  }
  if (path == "/version" && vllm) return R"({"version":"0.11.0"})";
  if (path == "/get_server_info" && sglang) return R"({"version":"0.5.5"})";
  if (path == "/get_model_info" && sglang) {
    out = R"({"model_path":)";
    AppendJsonString(out, workload.model);
    return out + "}";
  }
  return {};
}

}  // namespace gpulens::demo
