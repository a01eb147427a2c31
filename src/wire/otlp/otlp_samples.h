// A program's samples as OTLP: ExportMetricsServiceRequest as protobuf. Cumulative; exponential histograms
// stay exponential.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <gpulens/registry.h>

#include "core/attribute_set.h"

namespace gpulens {

struct SamplesAbout {
  AttributeSet resource;
  std::string_view scope_name, scope_version;
  int64_t unix_ns = 0;  // when they were read
};

// Appends to `out`. Samples of one instrument are adjacent, as Registry::Snapshot has them. Text
// that is not UTF-8 is repaired. At most some hundred MiB come out of it: split larger ones.
void EncodeSamples(std::span<const Sample> samples, const SamplesAbout& about, std::string& out);

}  // namespace gpulens
