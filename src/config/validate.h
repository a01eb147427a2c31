// Checks rules over several options, and over the machine: which addresses may be served, which files can be
// read. Each option by itself has been checked before.
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

// Places of the elements of a list, or of the one text of an option, by path.
using ValueSpots = std::map<std::string, std::vector<SourcePlace>, std::less<>>;

// Checks a text of a root option beyond its type: an address, log levels.
ValueCheck CheckRootText(std::string_view path, std::string_view text);
// Calls `visit` for each transport of an enabled receiver, and each enabled sink, that has addresses, with
// their path ("receivers.otlp.http.listen") and the group with `listen`.
void ForEachPluginListen(const Config& config,
                         const std::function<void(const std::string& path, const Config& group)>& visit);
// Whether Validate needs the places of the option.
bool WantsSpots(std::string_view path) noexcept;
void Validate(const Config& config, const ValueSpots& spots,
              const std::function<FileAnswer(const std::string&)>& look, ConfigProblems& problems);
// Warns of configured files of enabled plugins that cannot be read, and of an unusable state folder. The
// agent starts without them.
void WarnOfPlaces(const Config& config, const ConfigSources& sources, std::vector<std::string>& warnings);

// The name of a user of this machine, or the number of one without a name.
std::string UserName(unsigned uid);
// Explains why a file may not be read.
std::string DescribeOwner(const std::string& path, unsigned owner, unsigned mode, unsigned reader);

}  // namespace gpulens
