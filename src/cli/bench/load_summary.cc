#include "cli/bench/load_summary.h"

#include <algorithm>
#include <vector>

namespace gpulens {
namespace {

constexpr double kSeconds = 1e-9;
// A step of the rate is what this many requests took, and at least as many as are in flight.
constexpr size_t kLeastStep = 10;
// Three steps within 5 % of each other, twice in a row, after one that fills the batch.
constexpr SteadyStateOptions kSteady{.warmup = 1, .window = 3, .consecutive = 2, .cv_below = 0.05};

uint64_t TokensOf(const LoadRequest& request) noexcept {
  return request.completion_tokens.value_or(request.chunks);
}

double FirstToken(const LoadRequest& request) noexcept {
  return request.first_ns ? static_cast<double>(request.first_ns - request.due_ns) * kSeconds : kNotMeasured;
}
double EndToEnd(const LoadRequest& request) noexcept {
  return static_cast<double>(request.done_ns - request.due_ns) * kSeconds;
}
double PerToken(const LoadRequest& request) noexcept {
  const uint64_t tokens = TokensOf(request);
  if (!request.first_ns || tokens < 2) return kNotMeasured;
  return static_cast<double>(request.last_ns - request.first_ns) * kSeconds / static_cast<double>(tokens - 1);
}

// Not known is not kept.
bool Keeps(std::optional<double> target, double value) noexcept { return !target || value <= *target; }
bool IsGood(const LoadRequest& request, const LoadTargets& targets) noexcept {
  // One token has no time between tokens.
  const bool itl = TokensOf(request) < 2 || Keeps(targets.itl, PerToken(request));
  return request.outcome == LoadRequest::Outcome::kOk && Keeps(targets.ttft, FirstToken(request)) && itl &&
         Keeps(targets.e2e, EndToEnd(request));
}

struct Samples {
  std::vector<double> ttft, e2e, tpot, late;
};

void CountTokens(LoadSummary& out, const LoadRequest& request) {
  out.completion_tokens += TokensOf(request);
  out.prompt_tokens_known |= request.prompt_tokens.has_value();
  out.prompt_tokens += request.prompt_tokens.value_or(0);
  out.cached_tokens_known |= request.cached_tokens.has_value();
  out.cached_tokens += request.cached_tokens.value_or(0);
  if (!request.completion_tokens) {
    ++out.without_usage;
  } else if (request.first_ns) {
    out.chunks += request.chunks;
    out.tokens_of_chunks += *request.completion_tokens;
  }
}

void Count(LoadSummary& out, Samples& samples, const LoadRequest& request) {
  samples.late.push_back(static_cast<double>(request.sent_ns - request.due_ns) * kSeconds);
  switch (request.outcome) {
    case LoadRequest::Outcome::kError: ++out.errors; return;
    case LoadRequest::Outcome::kCancelled: ++out.cancelled; return;
    case LoadRequest::Outcome::kOk: break;
  }
  ++out.ok;
  CountTokens(out, request);
  samples.ttft.push_back(FirstToken(request));
  samples.e2e.push_back(EndToEnd(request));
  samples.tpot.push_back(PerToken(request));
}

// `ended` are the answered requests in the order of their ends.
std::optional<uint64_t> SteadySince(const std::vector<const LoadRequest*>& ended, size_t step) {
  SteadyStateDetector detector(kSteady);
  for (size_t at = step; at <= ended.size(); at += step) {
    const int64_t from = at == step ? ended.front()->due_ns : ended[at - step - 1]->done_ns;
    uint64_t tokens = 0;
    for (size_t i = at - step; i < at; ++i) tokens += TokensOf(*ended[i]);
    const double seconds = static_cast<double>(ended[at - 1]->done_ns - from) * kSeconds;
    if (detector.Record(static_cast<double>(tokens) / seconds)) return at;
  }
  return {};
}

}  // namespace

LoadSummary Summarize(const LoadRecord& record, uint64_t warmup, uint32_t concurrency,
                      const LoadTargets& targets) {
  LoadSummary out;
  Samples samples;
  std::vector<const LoadRequest*> answered;
  uint64_t good = 0;
  int64_t first = INT64_MAX, last = INT64_MIN;
  for (const LoadRequest& request : record.requests) {
    if (request.number < warmup) continue;
    Count(out, samples, request);
    good += IsGood(request, targets) ? 1 : 0;
    first = std::min(first, request.due_ns);
    last = std::max(last, request.done_ns);
    if (request.outcome == LoadRequest::Outcome::kOk) answered.push_back(&request);
  }
  out.ttft = Describe(samples.ttft);
  out.e2e = Describe(samples.e2e);
  out.tpot = Describe(samples.tpot);
  out.late = Describe(samples.late);
  out.itl = Describe(record.gap_seconds);
  const size_t step = std::max<size_t>(kLeastStep, concurrency);
  out.steady_since = SteadySince(answered, step);
  out.steady_validated = answered.size() / step >= kSteady.warmup + kSteady.window + kSteady.consecutive - 1;
  if (last <= first) return out;
  out.begin_ns = first;
  out.end_ns = last;
  out.elapsed_seconds = static_cast<double>(last - first) * kSeconds;
  const auto rate = [&](uint64_t n) { return static_cast<double>(n) / out.elapsed_seconds; };
  out.requests_per_second = rate(out.ok);
  out.output_tokens_per_second = rate(out.completion_tokens);
  if (out.prompt_tokens_known) out.total_tokens_per_second = rate(out.completion_tokens + out.prompt_tokens);
  if (targets.any()) {
    out.good_ratio = static_cast<double>(good) / static_cast<double>(out.ok + out.errors + out.cancelled);
    out.good_per_second = rate(good);
  }
  return out;
}

}  // namespace gpulens
