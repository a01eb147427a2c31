// From the configuration to what shall run.
#pragma once

#include <memory>
#include <string>

#include <gpulens/status.h>

#include "config/schema.h"
#include "net/auth/web_config.h"
#include "pipeline/pipeline.h"
#include "plugins/config.h"

namespace gpulens {

// The configuration's shape, of the root options and of every plugin.
std::unique_ptr<Schema> MakeSchema();

// Facts of the machine and the command line that are not in the configuration.
struct PlanContext {
  bool demo = false;
  std::string host_name;
};

// The name of this machine; empty when it has none.
std::string HostName();

// The attributes of everything that is sent.
AttributeSet MakeResource(const Config& config, const PlanContext& context);

// Of these, what the configuration states: they hold for what others send through this agent, too. No
// service.name: that is the sender's.
AttributeSet StatedAttributes(const Config& config);

// Instances, enrichers, analyzers and sinks that are switched on. `config` was loaded with MakeSchema's
// schema.
PipelinePlan MakePlan(const Config& config, const PlanContext& context);

// The enrichers that are switched on.
std::vector<EnricherSet::Setup> MakeEnrichers(const Config& config);

// The sink's own group, with the root's settings for all sinks filled in.
Config SinkConfig(const Config& config, std::string_view sink);

// One collector alone, with the same configuration as in the agent: for `gpulens collect`.
std::vector<Instance::Setup> MakeInstances(const CollectorSpec& spec, const Config& config);

// Whether every client needs TLS and a password.
bool IsLocked(const WebConfig& web);

// kInvalidArgument with the place in the file, when one of these rules is broken:
// - Nothing reads the agent's own pages, or sends to its own receivers.
// - Other machines are served only with TLS and passwords (`locked`), or when somebody has said that they
// need
//   neither: http, the WebSocket stream, which shares its locks, and receivers.
// - What receivers take in goes to a sink that passes it on; without one all of it would be refused.
Status RefuseBeforeStart(const Config& config, bool locked);

// The same without an agent: reads the file http.web_config.
Status RefuseBeforeStart(const Config& config);

}  // namespace gpulens
