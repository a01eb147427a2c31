// Options of the collector `probes`, which the probe host reads from the same file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <gpulens/status.h>

#include "plugins/collectors/probes/probe_host.h"
#include "plugins/config.h"

namespace gpulens::probes {

// The path of the probe host's socket by the group `collectors.probes`.
std::string ProbeSocketOf(const Config& probes);
// What the probe host may do by it.
ProbeHostOptions ProbeHostOptionsOf(const Config& probes);

// "0.2%", "0.2 %" or "0.002" of a CPU, as parts per million.
Result<uint64_t> ParseShare(std::string_view text);

}  // namespace gpulens::probes
