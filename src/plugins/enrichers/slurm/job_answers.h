// From what is known of jobs, processes and GPUs to what is said of each GPU and process. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/attribute_set.h"
#include "sources/slurm/local_jobs.h"

namespace gpulens::slurm {

// A process on a GPU that somebody asked for.
struct KnownProcess {
  int gpu = -1;  // index; -1: on none that has one
  ProcessJob job;
};

struct Evidence {
  std::map<int64_t, KnownProcess> processes;        // by pid; only those of a job
  std::map<uint64_t, JobFacts> jobs;                // of this machine, as told by scontrol or an environment
  std::map<int, std::vector<std::string>> mapping;  // what a prolog wrote, by GPU index; may be empty
  // Slurm counts device files in the order of their numbers, the driver by address: the number of the file by
  // GPU index, where it is known. Elsewhere both are the same.
  std::map<int, int> files;
};

struct Answers {
  std::map<int64_t, AttributeSet> processes;  // by pid
  std::map<int, AttributeSet> gpus;           // by index
  std::map<int, AttributeSet>
      used;  // of GPUs in slices, which Slurm counts otherwise: the jobs of their processes, as a list only
  friend bool operator==(const Answers&, const Answers&) = default;
};

// A process is its own control group's job, else that of its environment. A GPU is given to the jobs that the
// mapping names, else to those whose list of indices has it; where a process says otherwise whose control
// group is known, that list counts them otherwise than we do, and the processes are believed. A GPU of
// several jobs says `gpu.allocation` "shared" and `slurm.job.ids`, and what all of them have in common.
Answers Answer(const Evidence& evidence);

}  // namespace gpulens::slurm
