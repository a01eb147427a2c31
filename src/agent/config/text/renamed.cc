#include "agent/config/text/renamed.h"

namespace gpulens {
namespace {

struct Renamed {
  std::string_view section, before, now;
};
// Keys of plugins, by section.
constexpr Renamed kKeys[] = {{"sinks", "dialects", "names"}};
// Values that only one option takes.
constexpr Renamed kValues[] = {
    {"sinks", "dcgm_4_6", "dcgm@4.6"}, {"sinks", "hw", "otel_hw"}, {"sinks", "genai", "otel_genai"}};

std::string Now(std::string_view name) { return "now called " + std::string(name); }

}  // namespace

std::string RenamedKeyHint(std::string_view path, std::string_view key) {
  for (const Renamed& one : kKeys) {
    const bool within = path.starts_with(one.section) && path.substr(one.section.size()).starts_with('.');
    if (within && key == one.before) return Now(one.now);
  }
  return {};
}

std::string RenamedValueHint(std::string_view value) {
  for (const Renamed& one : kValues) {
    if (value == one.before) return Now(one.now);
  }
  return {};
}

}  // namespace gpulens
