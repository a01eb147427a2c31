// What waits on disk for sinks that are not configured, as findings; and which sinks have queues.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "delivery/queue_folders.h"
#include "plugins/plugin.h"

namespace gpulens {

struct SinkQueues {
  std::vector<std::string> sinks;  // that are switched on and send over a network
  std::vector<QueuePlace> chosen;  // folders that they name themselves
};
SinkQueues SinkQueuesOf(const Config& config);

// The queue folder of a state folder; empty without one.
std::string QueueRootOf(const std::string& state_dir);

Finding LeftoverFinding(const std::string& sink, uint64_t bytes);
// Looks at the disk itself: for where no agent runs. Nothing where the state folder is not there.
std::vector<Finding> LeftoverFindings(const Config& config, const std::string& state_dir);

// 812 B, 3.4 KiB, 1.5 GiB
std::string SizeText(uint64_t bytes);

}  // namespace gpulens
