// Words of Prometheus for names, units and keys of OpenTelemetry. Pure functions; thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace gpulens {

// Appends an attribute key as a label name: what a label cannot hold becomes "_", one for each
// character, and a leading digit gets "key_" before it. An empty key gives nothing.
void AppendPrometheusLabel(std::string& out, std::string_view key);

// The word for the UCUM symbol of a unit, "bytes" for "By", and of one behind a slash, "second" for "s".
// Other symbols are returned as they are.
std::string_view PrometheusUnit(std::string_view symbol) noexcept;
std::string_view PrometheusPerUnit(std::string_view symbol) noexcept;

// Takes the next word of [a-zA-Z0-9:] off the front of `rest`; empty when none is left.
std::string_view TakePrometheusWord(std::string_view& rest) noexcept;
bool HasPrometheusWord(std::string_view name, std::string_view word) noexcept;

}  // namespace gpulens
