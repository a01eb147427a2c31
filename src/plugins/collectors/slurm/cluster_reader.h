// Asks a Slurm cluster for everything that the collector tells, by running its programs one after the other.
#pragma once

#include <optional>
#include <string>

#include <gpulens/status.h>

#include "base/clock.h"
#include "plugins/collectors/slurm/cluster_numbers.h"
#include "sources/slurm/parse/sdiag.h"
#include "sources/slurm/programs.h"

namespace gpulens {

// What one round brought. What failed is nothing, and `status` says why the first of it did.
struct ClusterReading {
  Status status;
  Instant at;
  Partitions partitions;
  std::optional<NodeNumbers> nodes;
  std::optional<QueueNumbers> queue;
  std::optional<slurm::Sdiag> diagnosis;
  std::optional<EndedNumbers> ended;
  size_t bad_lines = 0;
};

// Used by one thread.
class ClusterReader {
 public:
  // `window`: of the jobs that ended.
  ClusterReader(slurm::Programs::Options programs, Duration window, const Clock& clock)
      : programs_(std::move(programs), clock), window_(window), clock_(clock) {}

  ClusterReading Read(Instant deadline);

 private:
  Status ReadNodes(ClusterReading& out, Instant deadline);
  Status ReadQueue(ClusterReading& out, Instant deadline);
  Status ReadDiagnosis(ClusterReading& out, Instant deadline);
  Status ReadEnded(ClusterReading& out, Instant deadline);
  Result<std::string> Run(const char* program, std::vector<std::string> arguments, Instant deadline);

  const slurm::Programs programs_;
  const Duration window_;
  const Clock& clock_;
  bool no_json_ = false;        // this sdiag has no --json
  bool no_accounting_ = false;  // there is no accounting database
};

}  // namespace gpulens
