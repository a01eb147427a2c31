#include "pipeline/scheduler.h"

#include <algorithm>

#include "base/check.h"

namespace gpulens {

Scheduler::TaskId Scheduler::Add(Duration period, Duration deadline, Instant first) {
  CHECK(period.count() > 0);
  Task task;
  task.period = period;
  task.deadline = deadline;
  task.due_ns = first.boot_ns;
  task.used = true;
  tasks_.push_back(task);
  return static_cast<TaskId>(tasks_.size() - 1);
}

void Scheduler::Remove(TaskId id) { tasks_[id].used = false; }

void Scheduler::DueAt(TaskId id, Instant when) { tasks_[id].due_ns = when.boot_ns; }

void Scheduler::DueWith(TaskId id, TaskId other) {
  tasks_[id].due_ns = std::min(tasks_[id].due_ns, tasks_[other].due_ns);
}

void Scheduler::Finished(TaskId id) {
  tasks_[id].started_ns = 0;
  tasks_[id].timed_out = false;
}

void Scheduler::Run(Instant now, Decision& decision) {
  decision.start.clear();
  decision.timed_out.clear();
  decision.wake_at_ns = INT64_MAX;
  for (TaskId id = 0; id < tasks_.size(); ++id) {
    if (tasks_[id].used) Decide(id, now.boot_ns, decision);
  }
}

void Scheduler::Decide(TaskId id, int64_t now, Decision& decision) {
  Task& task = tasks_[id];
  if (now >= task.due_ns) {
    int64_t missed = (now - task.due_ns) / task.period.count();
    task.due_ns += (missed + 1) * task.period.count();
    if (task.started_ns == 0) {
      task.started_ns = now;
      task.skipped += static_cast<uint64_t>(missed);
      decision.start.push_back(id);
    } else {
      task.skipped += static_cast<uint64_t>(missed) + 1;
    }
  }
  decision.wake_at_ns = std::min(decision.wake_at_ns, task.due_ns);
  if (task.started_ns == 0 || task.timed_out) return;
  int64_t late_at = task.started_ns + task.deadline.count();
  if (now < late_at) {
    decision.wake_at_ns = std::min(decision.wake_at_ns, late_at);
  } else {
    task.timed_out = true;
    decision.timed_out.push_back(id);
  }
}

}  // namespace gpulens
