// From the configuration to what shall run.
#pragma once

#include <memory>
#include <string>

#include <gpulens/status.h>

#include "config/schema.h"
#include "pipeline/pipeline.h"

namespace gpulens {

// The configuration's shape, of the root options and of every plugin.
std::unique_ptr<Schema> MakeSchema();

// What the machine and the command line say, beside the configuration.
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

// What the sink is made of: its own part of the configuration, with what the root says of every sink.
Config SinkConfig(const Config& config, std::string_view sink);

// One collector alone, with the same configuration as in the agent: for `gpulens collect`.
std::vector<Instance::Setup> MakeInstances(const CollectorSpec& spec, const Config& config);

}  // namespace gpulens
