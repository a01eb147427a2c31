// Spans as OTLP traces: written one at a time, and put together as export requests. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/attribute_set.h"
#include "wire/otlp/otlp_fields.h"

namespace gpulens {

using TraceId = std::array<uint8_t, 16>;
using SpanId = std::array<uint8_t, 8>;

struct OtlpSpanHead {
  enum Kind : uint32_t { kInternal = 1, kServer = 2, kClient = 3 };

  TraceId trace_id{};
  SpanId span_id{};
  SpanId parent_id{};           // zeros: a root
  bool remote_parent = false;   // the parent is another program's
  uint8_t trace_flags = 0;      // of W3C Trace Context
  std::string_view tracestate;  // as it came
  std::string_view name;
  Kind kind = kInternal;
  int64_t start_unix_ns = 0, end_unix_ns = 0;
};

// Appends one span to `out`, as a field of ScopeSpans. Text that is not UTF-8 is repaired. Allocates nothing
// but room of `out`.
class OtlpSpanWriter {
 public:
  OtlpSpanWriter(std::string& out, const OtlpSpanHead& head);
  OtlpSpanWriter(const OtlpSpanWriter&) = delete;
  OtlpSpanWriter& operator=(const OtlpSpanWriter&) = delete;

  // An attribute of the span, or of the event that is open.
  void Attribute(std::string_view key, const AttributeSet::Value& value);
  void Attribute(std::string_view key, std::span<const std::string> texts);
  void OpenEvent(std::string_view name, int64_t unix_ns);
  void CloseEvent();
  // Ends the span. `error`: its status is Error with this message; otherwise it has none.
  void Close(bool error, std::string_view message = {});

 private:
  std::string& out_;
  otlp::Nesting nesting_;
  size_t span_at_, event_at_ = 0;
};

struct SpansAbout {
  AttributeSet resource;
  std::string_view scope_name, scope_version, schema_url;
};

// Replaces `out` by an ExportTraceServiceRequest with these spans, as OtlpSpanWriter has written them.
void EncodeSpans(std::string_view spans, const SpansAbout& about, std::string& out);

}  // namespace gpulens
