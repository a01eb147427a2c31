#include "cli/bench/bench_text.h"

#include <cmath>
#include <cstdio>

#include "base/text.h"

namespace gpulens {
namespace {

std::string Printed(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string Grouped(uint64_t n) {
  std::string out = std::to_string(n);
  for (size_t at = out.size(); at > 3; at -= 3) out.insert(at - 3, ",");
  return out;
}

// Three digits: people compare these.
std::string Three(double value) {
  if (std::isnan(value)) return "–";
  const int digits = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return Printed(digits == 0 ? "%.0f" : digits == 1 ? "%.1f" : "%.2f", value);
}

std::string Milliseconds(double seconds) { return Three(seconds * 1e3); }

// Padded by what is seen: a dash has three bytes.
std::string Right(const std::string& text, size_t width) {
  size_t seen = 0;
  for (const char c : text) seen += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0;
  return (seen < width ? std::string(width - seen, ' ') : "") + text;
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

void AppendJson(std::string& out, const char* name, double value) {
  out += ",\"" + std::string(name) + "\":" + (std::isfinite(value) ? Printed("%.9g", value) : "null");
}

void AppendJson(std::string& out, const char* name, const Distribution& times) {
  out += ",\"" + std::string(name) + "\":";
  if (times.n == 0) {
    out += "null";
    return;
  }
  out += "{\"n\":" + std::to_string(times.n);
  AppendJson(out, "mean", times.mean);
  AppendJson(out, "std", times.std);
  AppendJson(out, "min", times.min);
  AppendJson(out, "p50", times.p50);
  AppendJson(out, "p90", times.p90);
  AppendJson(out, "p95", times.p95);
  AppendJson(out, "p99", times.p99);
  AppendJson(out, "max", times.max);
  out += '}';
}

void AppendJson(std::string& out, const char* name, uint64_t value) {
  out += ",\"" + std::string(name) + "\":" + std::to_string(value);
}

void AppendPlanJson(std::string& out, const LoadPlan& plan) {
  out += ",\"url\":";
  AppendJsonString(out, plan.url.Shown());
  out += ",\"model\":";
  AppendJsonString(out, plan.model);
  AppendJson(out, "concurrency", uint64_t{plan.concurrency});
  AppendJson(out, "rate_per_second", plan.rate > 0 ? plan.rate : kNotMeasured);
  AppendJson(out, "warmup_requests", plan.warmup);
  AppendJson(out, "prompt_words", uint64_t{plan.prompt_words});
  AppendJson(out, "shared_words", uint64_t{plan.shared_words});
  AppendJson(out, "max_tokens", uint64_t{plan.max_tokens});
  out += plan.stream ? ",\"stream\":true" : ",\"stream\":false";
  AppendJson(out, "seed", plan.seed);
}

void AppendErrorsJson(std::string& out, const LoadRecord& record) {
  out += ",\"errors_by_kind\":{";
  bool first = true;
  for (const auto& [name, error] : record.errors) {
    if (!std::exchange(first, false)) out += ',';
    AppendJsonString(out, name);
    out += ":" + std::to_string(error.count);
  }
  out += '}';
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
  const auto& [plan, record, summary, energy, stored] = result;
  std::string out = "{\"schema\":\"gpulens.bench_serve/1\"";
  AppendPlanJson(out, plan);
  out += record.stopped ? ",\"stopped\":true" : ",\"stopped\":false";
  AppendJson(out, "ok", summary.ok);
  AppendJson(out, "errors", summary.errors);
  AppendJson(out, "cancelled", summary.cancelled);
  AppendErrorsJson(out, record);
  AppendJson(out, "elapsed_seconds", summary.elapsed_seconds);
  AppendJson(out, "requests_per_second", summary.requests_per_second);
  AppendJson(out, "prompt_tokens",
             summary.prompt_tokens_known ? static_cast<double>(summary.prompt_tokens) : kNotMeasured);
  AppendJson(out, "cached_prompt_tokens",
             summary.cached_tokens_known ? static_cast<double>(summary.cached_tokens) : kNotMeasured);
  AppendJson(out, "completion_tokens", summary.completion_tokens);
  AppendJson(out, "requests_without_usage", summary.without_usage);
  AppendJson(out, "output_tokens_per_second", summary.output_tokens_per_second);
  AppendJson(out, "total_tokens_per_second", summary.total_tokens_per_second);
  AppendJson(out, "ttft_seconds", summary.ttft);
  AppendJson(out, "itl_seconds", summary.itl);
  AppendJson(out, "tpot_seconds", summary.tpot);
  AppendJson(out, "e2e_seconds", summary.e2e);
  AppendJson(out, "late_seconds", summary.late);
  AppendJson(out, "good_ratio", summary.good_ratio);
  AppendJson(out, "good_requests_per_second", summary.good_per_second);
  AppendJson(out, "steady_since_request",
             summary.steady_since ? static_cast<double>(*summary.steady_since + plan.warmup) : kNotMeasured);
  AppendEnergyJson(out, energy);
  if (stored) AppendStoredJson(out, *stored);
  return out += "}\n";
}

}  // namespace gpulens
