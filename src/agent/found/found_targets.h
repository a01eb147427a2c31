// What discoveries found, as part of the configuration: as if it stood in the file.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "agent/config/schema.h"
#include "pipeline/plugin.h"

namespace gpulens {

// One that is not taken, and why.
struct RefusedTarget {
  std::string name, why;
};

// `config`, which was loaded with `schema`, with the found targets after those that it has. The first of
// several with one URL stands, so a configured one wins; names that are taken get a number. Refused: a
// collector that this program does not have, an option that the loader does not take, a page of our own.
// Pure but for a look at this machine's addresses.
Config WithFound(const Config& config, const Schema& schema, std::span<const FoundTarget> found,
                 std::vector<RefusedTarget>& refused);
// The same, with a line of log for each that is refused.
Config WithFound(const Config& config, const Schema& schema, std::span<const FoundTarget> found);

}  // namespace gpulens
