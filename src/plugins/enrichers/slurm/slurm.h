// The enricher of Slurm jobs, without its spec, so that tests can make it with programs and folders of their
// own.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "base/workers.h"
#include "plugins/enrichers/slurm/job_answers.h"
#include "plugins/plugin.h"
#include "sources/slurm/parse/scontrol.h"
#include "sources/slurm/programs.h"

namespace gpulens::slurm {

// Looks on a thread of its own: /proc and control groups, a folder of mappings, and one scontrol for each job
// that is new on this machine. Where a text of the job's user makes that ambiguous, squeue tells of the job
// between delimiters that no text can hold. Describe only looks up; a process it does not know yet is looked
// at next time.
class JobEnricher final : public Enricher {
 public:
  struct Options {
    std::string root = "/";
    std::string node_name;  // Slurm's name of this machine; empty: as its jobs say, else the short host name
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
  // Jobs here whose texts make it impossible to tell which GPUs they have.
  uint64_t missing() const override { return unclear_.load(std::memory_order_relaxed); }

 private:
  struct Queried {
    bool told = false;
    bool unclear = false;  // what scontrol says of its GPUs may be its user's words
    Instant at;
    JobFacts facts;
  };

  AttributeSet DescribeProcess(const Entity& process, const Entity* gpu) const;
  AttributeSet DescribeGpu(const Entity& gpu) const;
  void Look(Instant deadline);
  Evidence Gather();
  Status QueryController(Evidence& evidence, Instant deadline);
  Result<Queried> QueryOne(uint64_t job, const std::string& node, Instant deadline);
  Result<std::optional<Job>> QueryScontrol(uint64_t job, const std::string& name, Instant deadline);
  Result<std::optional<Job>> QueryQueue(uint64_t job, Instant deadline);

  const Options options_;
  const Clock& clock_;
  std::atomic<uint64_t> generation_{0}, unclear_{0};
  // Of the thread that looks.
  std::optional<Programs> programs_;
  std::map<uint64_t, Queried> queried_;
  Status status_;

  mutable std::mutex mutex_;               // guards what follows
  mutable std::map<int64_t, int> wanted_;  // processes by pid, with their GPU
  mutable std::map<int, int> files_;       // numbers of device files by GPU index
  Answers answers_;

  Background background_;  // the last: its thread ends before what it uses
};

}  // namespace gpulens::slurm
