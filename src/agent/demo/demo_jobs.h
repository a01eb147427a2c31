// What runs inside the jobs of the demo. Processes of this node have job pages, written as the libraries
// inside jobs write them and read by the agent's collectors; of ranks on other nodes come batches, as from
// their agents.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "agent/demo/demo_node.h"
#include "base/clock.h"
#include "collectives/batch_queue.h"
#include "sources/job_pages/job_pages.h"

namespace gpulens::demo {

// Not thread-safe.
class DemoJobs {
 public:
  // All outlive it. `batches` may be null: then ranks of other nodes are not known.
  DemoJobs(const DemoNode& node, JobPages& pages, collectives::BatchQueue* batches);
  ~DemoJobs();
  DemoJobs(const DemoJobs&) = delete;
  DemoJobs& operator=(const DemoJobs&) = delete;

  // Brings everything up to `now`. Ten times a second is enough: the beginning of a phase is written with its
  // own time, and so late at most. A pause of seconds is a pause of the jobs.
  void Advance(Instant now);

  class Part;

 private:
  std::vector<std::unique_ptr<Part>> parts_;
};

}  // namespace gpulens::demo
