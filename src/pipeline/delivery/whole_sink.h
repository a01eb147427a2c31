// Sinks for commands, which have no pipeline.
#pragma once

#include <memory>

#include <gpulens/status.h>

#include "plugins/plugin.h"

namespace gpulens {

// A sink for a command that writes some snapshots and ends: of a network sink with all it needs to deliver,
// so that Flush waits for the delivery.
Result<std::unique_ptr<Sink>> MakeWholeSink(const SinkSpec& spec, const Config& config, Env& env);

}  // namespace gpulens
