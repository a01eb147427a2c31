// Rules over several options at once, and over the machine: which addresses may be served, which files
// can be read. Each option by itself has been checked before.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "config/diagnostic.h"
#include "config/loader.h"
#include "config/value_parse.h"
#include "plugins/config.h"

namespace gpulens {

// The places of the elements of a list, or of the one text of an option.
using ValueSpots = std::map<std::string, std::vector<Spot>, std::less<>>;

// What one text of a root option must be beyond its type: an address, log levels.
ValueCheck CheckRootText(std::string_view path, std::string_view text);
// Whether Validate needs the spots of the option.
bool WantsSpots(std::string_view path) noexcept;
void Validate(const Config& config, const ValueSpots& spots,
              const std::function<FileAnswer(const std::string&)>& look, Problems& problems);
// What is configured and is not there yet: files of those that are on, the state folder. The agent starts
// without them.
void WarnOfPlaces(const Config& config, const Sources& sources, std::vector<std::string>& warnings);

// What explains that a file may not be read.
std::string DescribeOwner(const std::string& path, unsigned owner, unsigned mode, unsigned reader);

}  // namespace gpulens
