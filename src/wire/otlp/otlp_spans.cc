#include "wire/otlp/otlp_spans.h"

#include <algorithm>
#include <variant>

#include "wire/otlp/proto_cursor.h"

namespace gpulens {
namespace {

using namespace otlp;

enum SpanField : uint32_t {
  kSpanTraceId = 1,
  kSpanOwnId = 2,
  kSpanTraceState = 3,
  kSpanParentId = 4,
  kSpanName = 5,
  kSpanKind = 6,
  kSpanStart = 7,
  kSpanEnd = 8,
  kSpanAttributes = 9,
  kSpanEvents = 11,
  kSpanStatus = 15,
  kSpanFlags = 16,
};
enum SpanEventField : uint32_t { kEventTime = 1, kEventOwnName = 2, kEventAttributes = 3 };
enum StatusField : uint32_t { kStatusMessage = 2, kStatusCode = 3 };
constexpr uint64_t kStatusError = 2;
// Of SpanFlags: whether it is known that the parent is remote, and that it is.
constexpr uint32_t kHasIsRemote = 0x100, kIsRemote = 0x200;
constexpr uint32_t kFixed32Wire = 5;

std::string_view Bytes(const auto& id) noexcept {
  return {reinterpret_cast<const char*>(id.data()), id.size()};
}

void AppendFixed32(std::string& out, uint32_t field, uint32_t value) {
  AppendVarint(out, field << 3 | kFixed32Wire);
  for (int shift = 0; shift < 32; shift += 8) out += static_cast<char>(value >> shift);
}

}  // namespace

OtlpSpanWriter::OtlpSpanWriter(std::string& out, const OtlpSpanHead& head)
    : out_(out), nesting_(out), span_at_(nesting_.Open(kItems)) {
  AppendBytes(out_, kSpanTraceId, Bytes(head.trace_id));
  AppendBytes(out_, kSpanOwnId, Bytes(head.span_id));
  if (!head.tracestate.empty()) AppendText(out_, kSpanTraceState, head.tracestate);
  const bool has_parent = std::ranges::any_of(head.parent_id, [](uint8_t byte) { return byte != 0; });
  if (has_parent) AppendBytes(out_, kSpanParentId, Bytes(head.parent_id));
  AppendText(out_, kSpanName, head.name);
  AppendNumber(out_, kSpanKind, head.kind);
  AppendFixed(out_, kSpanStart, static_cast<uint64_t>(head.start_unix_ns));
  AppendFixed(out_, kSpanEnd, static_cast<uint64_t>(head.end_unix_ns));
  uint32_t flags = head.trace_flags;
  if (has_parent) flags |= kHasIsRemote | (head.remote_parent ? kIsRemote : 0);
  AppendFixed32(out_, kSpanFlags, flags);
}

void OtlpSpanWriter::Attribute(std::string_view key, const AttributeSet::Value& value) {
  const size_t pair = nesting_.Open(event_at_ ? uint32_t{kEventAttributes} : uint32_t{kSpanAttributes});
  AppendText(out_, kKey, key);
  const size_t any = nesting_.Open(kValue);
  if (const auto* text = std::get_if<std::string_view>(&value)) AppendText(out_, kString, *text);
  else if (const auto* yes = std::get_if<bool>(&value)) AppendNumber(out_, kBool, *yes ? 1 : 0);
  else if (const auto* whole = std::get_if<int64_t>(&value))
    AppendNumber(out_, kInt, static_cast<uint64_t>(*whole));
  else AppendFixed(out_, kDouble, std::get<double>(value));
  nesting_.Close(any);
  nesting_.Close(pair);
}

void OtlpSpanWriter::Attribute(std::string_view key, std::span<const std::string> texts) {
  const size_t pair = nesting_.Open(event_at_ ? uint32_t{kEventAttributes} : uint32_t{kSpanAttributes});
  AppendText(out_, kKey, key);
  const size_t any = nesting_.Open(kValue);
  const size_t array = nesting_.Open(kArray);
  for (const std::string& text : texts) {
    const size_t element = nesting_.Open(kListElement);
    AppendText(out_, kString, text);
    nesting_.Close(element);
  }
  nesting_.Close(array);
  nesting_.Close(any);
  nesting_.Close(pair);
}

void OtlpSpanWriter::OpenEvent(std::string_view name, int64_t unix_ns) {
  event_at_ = nesting_.Open(kSpanEvents);
  AppendFixed(out_, kEventTime, static_cast<uint64_t>(unix_ns));
  AppendText(out_, kEventOwnName, name);
}

void OtlpSpanWriter::CloseEvent() {
  nesting_.Close(event_at_);
  event_at_ = 0;
}

void OtlpSpanWriter::Close(bool error, std::string_view message) {
  if (error) {
    const size_t status = nesting_.Open(kSpanStatus);
    if (!message.empty()) AppendText(out_, kStatusMessage, message);
    AppendNumber(out_, kStatusCode, kStatusError);
    nesting_.Close(status);
  }
  nesting_.Close(span_at_);
}

void EncodeSpans(std::string_view spans, const SpansAbout& about, std::string& out) {
  out.clear();
  Nesting nesting(out);
  const size_t list = nesting.Open(kResourceList);
  const size_t resource = nesting.Open(kResource);
  AppendAttributes(out, kResourceAttributes, about.resource);
  nesting.Close(resource);
  const size_t scopes = nesting.Open(kScopeList);
  const size_t scope = nesting.Open(kScope);
  AppendText(out, kScopeName, about.scope_name);
  if (!about.scope_version.empty()) AppendText(out, kScopeVersion, about.scope_version);
  nesting.Close(scope);
  out += spans;
  if (!about.schema_url.empty()) AppendText(out, kSchemaUrlField, about.schema_url);
  nesting.Close(scopes);
  nesting.Close(list);
}

}  // namespace gpulens
