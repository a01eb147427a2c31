// Adds what discoveries found to the list `targets` of the configuration.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "config/schema.h"
#include "plugins/plugin.h"

namespace gpulens {

// One that is not taken, and why.
struct RefusedTarget {
  std::string name, why;
};

// `config`, which was loaded with `schema`, with the found targets after those that it has. The first of
// several with one URL stays, so a configured one wins; names that are taken get a number. Refused: an option
// that the loader refuses, a page of our own.
// Pure but for a look at this machine's addresses.
Config WithFound(const Config& config, const Schema& schema, std::span<const FoundTarget> found,
                 std::vector<RefusedTarget>& refused);
// The same, with a line of log for each that is refused.
Config WithFound(const Config& config, const Schema& schema, std::span<const FoundTarget> found);

}  // namespace gpulens
