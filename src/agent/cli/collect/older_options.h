// What older tools call the options of sinks, as `-o KEY=VALUE` of `collect` and of its other names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "agent/config/loader.h"

namespace gpulens {

// The sink's own name of an option: otel_endpoint of the sink otlp is its endpoint.
std::string_view SinkOptionOf(std::string_view sink, std::string_view given);

// An option of older tools that has no meaning here, and why.
struct IgnoredOption {
  const char* option;
  bool flag;
  const char* why;
};

// Levels of a log in their words, those of Python ("WARNING"), as ours ("warn").
std::string OlderLogLevels(std::string text);

// metric_resource_attributes.KEY and log_resource_attributes.KEY, which any sink may be given: attributes of
// the one resource that metrics and logs have here.
class OlderResource {
 public:
  // False: this is another option. kInvalidArgument: it has no key, or one value for metrics and another for
  // logs, or a comma, which divides attributes.
  Result<bool> Take(std::string_view given, std::string_view value);
  // What was taken, for the loader.
  void AddTo(std::vector<FlagValue>& flags) const;

 private:
  std::vector<std::pair<std::string, std::string>> taken_;
};

}  // namespace gpulens
