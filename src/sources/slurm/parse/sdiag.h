// What sdiag says of the controller, as text or as JSON. Pure functions over bytes from outside.
#pragma once

#include <optional>
#include <string_view>

#include <gpulens/status.h>

namespace gpulens::slurm {

// Numbers as sdiag has them: spans in microseconds. What it does not say is nothing. Counters count since
// `since` (the start of slurmctld, midnight, or a reset).
struct Sdiag {
  std::optional<double> since_unix;
  std::optional<double> server_threads, agents, agent_threads, agent_queue, dbd_agent_queue;
  std::optional<double> cycle_last, cycle_max, cycle_mean, cycle_sum, cycles, cycle_per_minute, queue_length;
  std::optional<double> jobs_submitted, jobs_started, jobs_completed, jobs_canceled, jobs_failed,
      jobs_pending, jobs_running;
  std::optional<double> backfilled, backfill_cycles, backfill_cycle_last, backfill_cycle_max,
      backfill_cycle_mean, backfill_cycle_sum, backfill_queue;
};

// kDataLoss: none of the lines that every version prints.
Result<Sdiag> ParseSdiagText(std::string_view text);
// Numbers plain, or as {"set", "infinite", "number"}. kDataLoss: no JSON, or no statistics in it.
Result<Sdiag> ParseSdiagJson(std::string_view text);

}  // namespace gpulens::slurm
