#include "sources/slurm/parse/sdiag.h"

#include <cmath>
#include <string>

#include "base/json.h"
#include "base/parse.h"
#include "base/result.h"

namespace gpulens::slurm {
namespace {

using Member = std::optional<double> Sdiag::*;

enum class Part : uint8_t { kHead, kMain, kBackfill, kOther };

struct TextLine {
  Part part;
  std::string_view label;
  Member member;
};
constexpr TextLine kTextLines[] = {
    {Part::kHead, "Server thread count", &Sdiag::server_threads},
    {Part::kHead, "Agent queue size", &Sdiag::agent_queue},
    {Part::kHead, "Agent count", &Sdiag::agents},
    {Part::kHead, "Agent thread count", &Sdiag::agent_threads},
    {Part::kHead, "DBD Agent queue size", &Sdiag::dbd_agent_queue},
    {Part::kHead, "Jobs submitted", &Sdiag::jobs_submitted},
    {Part::kHead, "Jobs started", &Sdiag::jobs_started},
    {Part::kHead, "Jobs completed", &Sdiag::jobs_completed},
    {Part::kHead, "Jobs canceled", &Sdiag::jobs_canceled},
    {Part::kHead, "Jobs failed", &Sdiag::jobs_failed},
    {Part::kHead, "Jobs pending", &Sdiag::jobs_pending},
    {Part::kHead, "Jobs running", &Sdiag::jobs_running},
    {Part::kMain, "Last cycle", &Sdiag::cycle_last},
    {Part::kMain, "Max cycle", &Sdiag::cycle_max},
    {Part::kMain, "Total cycles", &Sdiag::cycles},
    {Part::kMain, "Mean cycle", &Sdiag::cycle_mean},
    {Part::kMain, "Cycles per minute", &Sdiag::cycle_per_minute},
    {Part::kMain, "Last queue length", &Sdiag::queue_length},
    {Part::kBackfill, "Total backfilled jobs (since last slurm start)", &Sdiag::backfilled},
    {Part::kBackfill, "Total cycles", &Sdiag::backfill_cycles},
    {Part::kBackfill, "Last cycle", &Sdiag::backfill_cycle_last},
    {Part::kBackfill, "Max cycle", &Sdiag::backfill_cycle_max},
    {Part::kBackfill, "Mean cycle", &Sdiag::backfill_cycle_mean},
    {Part::kBackfill, "Last queue length", &Sdiag::backfill_queue},
};

struct JsonMember {
  const char* key;
  Member member;
};
constexpr JsonMember kJsonMembers[] = {
    {"req_time_start", &Sdiag::since_unix},
    {"server_thread_count", &Sdiag::server_threads},
    {"agent_queue_size", &Sdiag::agent_queue},
    {"agent_count", &Sdiag::agents},
    {"agent_thread_count", &Sdiag::agent_threads},
    {"dbd_agent_queue_size", &Sdiag::dbd_agent_queue},
    {"jobs_submitted", &Sdiag::jobs_submitted},
    {"jobs_started", &Sdiag::jobs_started},
    {"jobs_completed", &Sdiag::jobs_completed},
    {"jobs_canceled", &Sdiag::jobs_canceled},
    {"jobs_failed", &Sdiag::jobs_failed},
    {"jobs_pending", &Sdiag::jobs_pending},
    {"jobs_running", &Sdiag::jobs_running},
    {"schedule_cycle_last", &Sdiag::cycle_last},
    {"schedule_cycle_max", &Sdiag::cycle_max},
    {"schedule_cycle_mean", &Sdiag::cycle_mean},
    {"schedule_cycle_sum", &Sdiag::cycle_sum},
    {"schedule_cycle_total", &Sdiag::cycles},
    {"schedule_cycle_per_minute", &Sdiag::cycle_per_minute},
    {"schedule_queue_length", &Sdiag::queue_length},
    {"bf_backfilled_jobs", &Sdiag::backfilled},
    {"bf_cycle_counter", &Sdiag::backfill_cycles},
    {"bf_cycle_last", &Sdiag::backfill_cycle_last},
    {"bf_cycle_max", &Sdiag::backfill_cycle_max},
    {"bf_cycle_mean", &Sdiag::backfill_cycle_mean},
    {"bf_cycle_sum", &Sdiag::backfill_cycle_sum},
    {"bf_queue_len", &Sdiag::backfill_queue},
};

std::optional<double> Plain(std::string_view text) noexcept {
  std::optional<uint64_t> value = ParseInt<uint64_t>(Trim(text));
  return value ? std::optional(static_cast<double>(*value)) : std::nullopt;
}

Part PartOf(std::string_view line, Part now) noexcept {
  if (line.starts_with("Main schedule statistics")) return Part::kMain;
  if (line.starts_with("Backfilling stats")) return Part::kBackfill;
  // Newer versions list why a cycle ended, then the calls; none of it is ours.
  for (std::string_view other : {"Latency for", "Remote Procedure Call", "Pending RPC", "Main scheduler exit",
                                 "Backfill exit", "Bad RPC"}) {
    if (line.starts_with(other)) return Part::kOther;
  }
  return now;
}

}  // namespace

Result<Sdiag> ParseSdiagText(std::string_view text) {
  Sdiag out;
  Part part = Part::kHead;
  size_t known = 0;
  while (!text.empty()) {
    std::string_view line = Trim(TakeUntil(text, '\n'));
    part = PartOf(line, part);
    if (line.starts_with("Data since")) {
      const size_t open = line.rfind('(');
      if (open != std::string_view::npos && line.ends_with(')'))
        out.since_unix = Plain(line.substr(open + 1, line.size() - open - 2));
      continue;
    }
    // A label may hold a colon's worth of words; the number stands behind the last one.
    const size_t colon = line.rfind(':');
    if (colon == std::string_view::npos) continue;
    for (const TextLine& row : kTextLines) {
      if (row.part != part || row.label != Trim(line.substr(0, colon)) || out.*row.member) continue;
      out.*row.member = Plain(line.substr(colon + 1));
      known += (out.*row.member).has_value();
    }
  }
  if (known == 0) return Status{Code::kDataLoss, "sdiag printed no statistics"};
  return out;
}

Result<Sdiag> ParseSdiagJson(std::string_view text) {
  ASSIGN_OR_RETURN(JsonDocument json, JsonDocument::Parse(text));
  Sdiag out;
  size_t known = 0;
  for (const JsonMember& row : kJsonMembers) {
    const std::string pointer = std::string("/statistics/") + row.key;
    std::optional<double> value = json.Number(pointer);
    // In the long form, 0 is also what stands there when nothing is set.
    if (!value)
      value =
          json.Number(pointer + "/number").value_or(0) == 0 ? std::nullopt : json.Number(pointer + "/number");
    if (value && (!std::isfinite(*value) || *value < 0)) value.reset();
    out.*row.member = value;
    known += value.has_value();
  }
  if (known == 0) return Status{Code::kDataLoss, "sdiag's JSON has no statistics"};
  return out;
}

}  // namespace gpulens::slurm
