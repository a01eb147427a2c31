#include "agent/config/text/renamed.h"

namespace gpulens {
namespace {

struct Renamed {
  std::string_view section, before, now;
};
// Keys of plugins and of their targets, by section.
constexpr Renamed kKeys[] = {
    {"sinks", "dialects", "names"},
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
  return (name.starts_with("transport.") ? "now in " : "now called ") + std::string(name);
}

}  // namespace

std::string RenamedKeyHint(std::string_view path, std::string_view key) {
  for (const Renamed& one : kKeys) {
    const bool within = one.section.empty() ? path.starts_with("sinks.") || path.starts_with("collectors.")
                                            : path.starts_with(one.section) &&
                                                  path.substr(one.section.size()).starts_with('.');
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
