// Enricher with Slurm jobs. The class is separate from its spec, so that tests can create it with their own
// programs and folders.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/threads.h"
#include "core/attribute_set.h"
#include "plugins/plugin.h"
#include "sources/slurm/local_jobs.h"
#include "sources/slurm/parse/scontrol.h"
#include "sources/slurm/programs.h"

namespace gpulens::slurm {

// A process of a job for which Describe was called.
struct JobProcess {
  int gpu = -1;  // index; -1: on none that has one
  ProcessJob job;
};

struct JobEvidence {
  std::map<int64_t, JobProcess> processes;          // by pid
  std::map<uint64_t, JobFacts> jobs;                // of this machine, from scontrol or an environment
  std::map<int, std::vector<std::string>> mapping;  // what a prolog wrote, by GPU index; may be empty
  // Slurm counts device files in the order of their numbers, the driver by address: the number of the file by
  // GPU index, where it is known. Elsewhere both are the same.
  std::map<int, int> files;
};

struct JobAnswers {
  std::map<int64_t, AttributeSet> processes;  // by pid
  std::map<int, AttributeSet> gpus;           // by index
  // By index, of GPUs in slices, which Slurm counts differently: a list of the jobs of their processes.
  std::map<int, AttributeSet> used;
  friend bool operator==(const JobAnswers&, const JobAnswers&) = default;
};

// Describes GPUs and processes from the evidence. A process has the job of its control group, else of its
// environment. A GPU has the jobs of the mapping, else those whose list of indices has it, unless a process
// with a known control group contradicts that list; then the jobs of its processes. A GPU of several jobs has
// `gpu.allocation` "shared", `slurm.job.ids` and the attributes that all of them have in common. Pure.
JobAnswers Answer(const JobEvidence& evidence);

// Scans on a thread of its own /proc, control groups and a folder of mappings, and runs one scontrol for each
// job that is new on this machine; where a text of the job's user makes that ambiguous, squeue, with
// delimiters that no text can hold. Describe only looks up; an unknown process is scanned the next time.
class JobEnricher final : public Enricher {
 public:
  struct Options {
    std::string root = "/";
    std::string node_name;  // Slurm's name of this machine; empty: from its jobs, else the short host name
    std::string host_name;
    std::string mapping;   // a folder; empty: none
    std::string programs;  // the folder of scontrol; empty: PATH
    bool scontrol = true;
    Duration call_timeout = std::chrono::seconds(5);
  };
  JobEnricher(Options options, const Clock& clock);

  void Fetch(Instant deadline, std::function<void(Status)> done) override;
  uint64_t generation() const noexcept override { return generation_.load(std::memory_order_relaxed); }
  AttributeSet Describe(const Entity& entity) const override;
  // Number of local jobs whose GPUs are unknown because of forged texts.
  uint64_t missing() const override { return unclear_.load(std::memory_order_relaxed); }

 private:
  struct Queried {
    bool answered = false;
    bool unclear = false;  // scontrol's answer about its GPUs may be a text of its user
    Instant at;
    JobFacts facts;
  };

  AttributeSet DescribeProcess(const Entity& process, const Entity* gpu) const;
  AttributeSet DescribeGpu(const Entity& gpu) const;
  void Scan(Instant deadline);
  JobEvidence Gather();
  Status QueryController(JobEvidence& evidence, Instant deadline);
  Result<Queried> QueryJob(uint64_t job, const std::string& node, Instant deadline);
  Result<std::optional<Job>> QueryScontrol(uint64_t job, const std::string& name, Instant deadline);
  Result<std::optional<Job>> QueryQueue(uint64_t job, Instant deadline);

  const Options options_;
  const Clock& clock_;
  std::atomic<uint64_t> generation_{0}, unclear_{0};
  // Of the scanning thread.
  std::optional<SlurmPrograms> programs_;
  std::map<uint64_t, Queried> queried_;
  Status status_;

  mutable std::mutex mutex_;                  // guards what follows
  mutable std::map<int64_t, int> described_;  // GPU index by pid
  mutable std::map<int, int> files_;          // numbers of device files by GPU index
  JobAnswers answers_;

  Background background_;  // last: its thread ends before what it uses
};

}  // namespace gpulens::slurm
