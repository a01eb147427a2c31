// What RemoteWriteIn writes into OTLP beside the data itself, so that RemoteWriteOut can restore the series
// of remote write exactly. Receivers of OTLP ignore all of it.
#pragma once

#include <cstdint>
#include <string_view>

namespace gpulens::remote_write_in {

// The scope of series that have no otel_scope_name.
inline constexpr std::string_view kOwnScope = "gpulens.remote_write";

// Keys of Metric.metadata, with text values. kTypeKey is OpenTelemetry's own.
inline constexpr std::string_view kTypeKey = "prometheus.type";
// The name of the metric's family in the metadata of 1.0; empty where the sender sent none, and for 2.0. Its
// presence means that the metric came by remote write: its name and its attributes are __name__ and labels.
inline constexpr std::string_view kFamilyKey = "gpulens.remote_write.family";
// The unit as remote write had it ("seconds"); Metric.unit is UCUM. Absent where it is empty.
inline constexpr std::string_view kUnitKey = "gpulens.remote_write.unit";

// A field of HistogramDataPoint and ExponentialHistogramDataPoint that OpenTelemetry does not define: the
// bytes of the Histogram message of remote write, for histograms that OTLP cannot represent (counts of
// floating point, gauge histograms, known counter resets).
inline constexpr uint32_t kNativeField = 26'480;

}  // namespace gpulens::remote_write_in
