#include "cli/bench/bench_text.h"

#include <cmath>
#include <cstdio>

#include "base/text.h"
#include "cli/common/text_table.h"

namespace gpulens {
namespace {

std::string Printed(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string Grouped(uint64_t n) { return CountText(static_cast<int64_t>(n)); }

// Three digits: people compare these.
std::string Three(double value) {
  if (std::isnan(value)) return "–";
  const int digits = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return Printed(digits == 0 ? "%.0f" : digits == 1 ? "%.1f" : "%.2f", value);
}

std::string Milliseconds(double seconds) { return Three(seconds * 1e3); }

std::string Right(const std::string& text, size_t width) {
  return std::string(width - std::min(width, WidthOf(text)), ' ') + text;
}

void AppendLatency(std::string& out, const char* name, const Distribution& times) {
  if (times.n == 0) return;
  out += name;
  for (const double value : {times.mean, times.p50, times.p90, times.p95, times.p99, times.max})
    out += Right(Milliseconds(value), 10);
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
    if (!error.detail.empty()) {
      out += ": ";
      AppendPrintable(out, error.detail);
    }
    out += "\n";
  }
}

// What has to be known to read the figures right.
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

}  // namespace

std::string ProgressText(const LoadPlan& plan, const LoadProgress& progress) {
  std::string out = "  " + Grouped(progress.ended);
  if (plan.requests > 0) {
    const double part = static_cast<double>(progress.ended) / static_cast<double>(plan.requests);
    out += "/" + Grouped(plan.requests) + "  " + Printed("%.0f", 100 * part) + " %  ";
    // Too early, a guess would jump.
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

}  // namespace gpulens
