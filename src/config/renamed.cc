#include "config/renamed.h"

namespace gpulens {
namespace {

struct Renamed {
  std::string_view section, before, now;
};
// Keys of plugins and of their targets, by section.
constexpr Renamed kKeys[] = {
    {"sinks", "dialects", "names"},
    {"collectors", "engines", "targets (kind: engine)"},
    {"collectors", "scrape", "targets (kind: prometheus)"},
    {"collectors", "gpu_page", "targets (kind: gpu)"},
    {"collectors", "dcgm", "targets (kind: dcgm)"},
    {"discovery", "engine_processes", "local"},
    {"discovery", "collector", "kind"},
    {"targets", "engine", "kind"},
    {"targets", "exporter", "kind"},
    {"targets", "discovered", "optional"},
    {"", "timeout", "transport.timeout"},
    {"", "unix_socket", "transport.unix_socket"},
    {"", "username", "transport.username"},
    {"", "password", "transport.password"},
    {"", "password_file", "transport.password_file"},
    {"", "bearer_token", "transport.bearer_token"},
    {"", "bearer_token_file", "transport.bearer_token_file"},
    {"", "headers", "transport.headers"},
    {"", "tls", "transport.tls"},
};
// Values that only one option takes.
constexpr Renamed kValues[] = {
    {"sinks", "dcgm_4_6", "dcgm@4.6"}, {"sinks", "hw", "otel_hw"}, {"sinks", "genai", "otel_genai"}};

std::string Now(std::string_view name) {
  const bool moved = name.starts_with("transport.") || name.starts_with("targets ");
  return (moved ? "now in " : "now called ") + std::string(name);
}

// Whether what follows the name of a section in a path belongs to it: "sinks", "sinks.otlp", "targets[0]".
bool EndsWord(std::string_view rest) { return rest.empty() || rest[0] == '.' || rest[0] == '['; }

}  // namespace

std::string RenamedKeyHint(std::string_view path, std::string_view key) {
  for (const Renamed& one : kKeys) {
    const bool within =
        one.section.empty()
            ? path.starts_with("sinks.") || path.starts_with("targets[") || path.starts_with("collectors.")
            : path.starts_with(one.section) && EndsWord(path.substr(one.section.size()));
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
