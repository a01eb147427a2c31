// Names of OpenTelemetry in Prometheus' alphabet, as Prometheus' own OTLP endpoint makes them with its
// default translation strategy (UnderscoreEscapingWithSuffixes). Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace gpulens::remote_write_out {

// What decides about the last word of a name.
enum class NameKind : uint8_t {
  kCounter,  // "_total"
  kGauge,    // "_ratio" where the unit is "1"
  kOther,
};

// Appends the name: words of [a-zA-Z0-9:] joined by one underscore, then the unit unless the name has that
// word already, then the word of the kind. A leading digit gets "_" before it. Appends nothing for a name
// without such a word.
void AppendMetricName(std::string& out, std::string_view name, std::string_view unit, NameKind kind);

// Appends the unit in words for metadata: "By/s" is "bytes_per_second", "1" is "ratio". What stands in braces
// is left out.
void AppendUnitName(std::string& out, std::string_view unit);

// Appends an attribute's key as the name of a label: each character but [a-zA-Z0-9_] is "_"; a leading digit
// gets "key_" before it.
void AppendLabelName(std::string& out, std::string_view key);

}  // namespace gpulens::remote_write_out
