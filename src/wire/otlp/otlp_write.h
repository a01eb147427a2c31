// Events as OTLP logs and a program's samples as OTLP metrics: export requests in protobuf. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <gpulens/registry.h>

#include "core/attribute_set.h"
#include "core/frame.h"

namespace gpulens {

struct SamplesAbout {
  AttributeSet resource;
  std::string_view scope_name, scope_version;
  int64_t unix_ns = 0;  // when they were read
  // Attributes that are integers; samples have the texts of all values.
  std::span<const std::string_view> integers = {};
};

// Appends a request with the samples of a program to `out`: cumulative; exponential histograms stay
// exponential. Samples of one instrument are adjacent, as Registry::Snapshot has them. Text that is not UTF-8
// is repaired. At most some hundred MiB come out of it: split larger ones.
void EncodeSamples(std::span<const Sample> samples, const SamplesAbout& about, std::string& out);

// Replaces `out` with a request of log records. A record has the event's name as its event_name and, for
// receivers of before 2025, as the attribute `event.name`. Its attributes are its own over those of its
// entity. `version` is the scope's.
void EncodeOtlpLogs(const Events& events, std::string_view version, std::string& out);

}  // namespace gpulens
