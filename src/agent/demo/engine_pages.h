// The pages of the simulated engines, gateways and caches, with the families, labels and types of real ones.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "agent/demo/demo_node.h"

namespace gpulens::demo {

// The page /metrics of a workload that has one, in the Prometheus text format. Counters of two times with one
// boot never fall. Pure but for the node's changes.
std::string EnginePage(const DemoNode& node, size_t workload, int64_t boot_ns);

// Its answer at another path of its API, as JSON: version and model. Empty: it has none there.
std::string EngineApi(const Workload& workload, std::string_view path);

}  // namespace gpulens::demo
