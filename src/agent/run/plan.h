// Converts the configuration to a plan of the pipeline, and refuses unsafe ones.
#pragma once

#include <memory>
#include <string>

#include <gpulens/status.h>

#include "agent/fleet/fleet_table.h"
#include "base/host_name.h"
#include "config/schema.h"
#include "net/auth/web_config.h"
#include "pipeline/pipeline.h"
#include "plugins/config.h"
#include "sources/job_pages/job_pages.h"

namespace gpulens {

// Makes the schema of the configuration: root options and the options of every plugin.
std::unique_ptr<Schema> MakeSchema();

// Facts of the machine and the command line that are not in the configuration.
struct PlanContext {
  bool demo = false;
  std::string host_name;
};

// Attributes of all exported data.
AttributeSet MakeResource(const Config& config, const PlanContext& context);

// The configured attributes of these, which data of other programs gets, too. Without service.name, which is
// the sender's.
AttributeSet StatedAttributes(const Config& config);

// Plans the enabled instances, enrichers, analyzers and sinks. `config` was loaded with the schema of
// MakeSchema.
PipelinePlan MakePlan(const Config& config, const PlanContext& context);

// Plans the enabled enrichers.
std::vector<EnricherSet::Setup> MakeEnrichers(const Config& config);

// The group of a sink, with the root's settings for all sinks.
Config SinkConfig(const Config& config, std::string_view sink);

// Plans a single collector with the same configuration as in the agent, for `gpulens collect`.
std::vector<Instance::Setup> MakeInstances(const CollectorSpec& spec, const Config& config);

// Where job pages come from. Made from the options of `jobs` and of the collector `programs`.
JobPages::Options JobPagesOptions(const Config& config);

// Whether a plugin that reads job pages is configured.
bool ReadsJobPages(const Config& config);

// Options of the table of nodes; none are kept without a receiver.
FleetTable::Options FleetOptions(const Config& config);

// Whether every client needs TLS and a password.
bool IsLocked(const WebConfig& web);

// Checks these rules. kInvalidArgument has the place in the file:
// - Nothing reads the agent's own pages, or sends to its own receivers.
// - Other machines are served only with TLS and passwords (`locked`), or when configured to need
//   neither: http, the WebSocket stream, which shares its locks, and receivers.
// - Links of the fleet's page are http or https.
// - A sink exports received data if there are receivers; otherwise all of it would be refused.
Status RefuseBeforeStart(const Config& config, bool locked);

// The same without an agent: reads the file http.web_config.
Status RefuseBeforeStart(const Config& config);

}  // namespace gpulens
