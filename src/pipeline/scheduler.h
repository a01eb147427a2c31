// Decides which task runs when, from the time that is passed in.
//
// A task is never started while it runs: periods that pass meanwhile are skipped and counted. Due times stay
// on the grid of the first one, so that runs do not drift. Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.h"

namespace gpulens {

class Scheduler {
 public:
  using TaskId = uint32_t;

  struct Decision {
    std::vector<TaskId> start;      // due and idle; they count as running
    std::vector<TaskId> timed_out;  // passed their deadline; once for each run
    int64_t wake_at_ns = 0;         // boot time of the next decision; INT64_MAX: none
  };

  // First due at `first`. A run that has not finished `deadline` after its start is timed out.
  TaskId Add(Duration period, Duration deadline, Instant first);
  // The task may still run; Finished() on it is then ignored.
  void Remove(TaskId id);
  // Makes the task due at `when`; its grid goes on from there.
  void DueAt(TaskId id, Instant when);
  // Makes `id` due when `other` is, if that is sooner.
  void DueWith(TaskId id, TaskId other);

  // `decision` is reused, without allocation once it has grown.
  void Run(Instant now, Decision& decision);
  void Finished(TaskId id);

  bool running(TaskId id) const noexcept { return tasks_[id].started_ns != 0; }
  uint64_t skipped(TaskId id) const noexcept { return tasks_[id].skipped; }
  Duration period(TaskId id) const noexcept { return tasks_[id].period; }
  // Boot time of its next start.
  int64_t due_ns(TaskId id) const noexcept { return tasks_[id].due_ns; }

 private:
  struct Task {
    Duration period{}, deadline{};
    int64_t due_ns = 0;
    int64_t started_ns = 0;  // 0: idle
    bool timed_out = false;
    bool used = false;
    uint64_t skipped = 0;
  };
  void Decide(TaskId id, int64_t now, Decision& decision);

  std::vector<Task> tasks_;
};

}  // namespace gpulens
