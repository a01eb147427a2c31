#include "plugins/sinks/file/otlp_lines.h"

#include "base/result.h"
#include "base/version.h"
#include "wire/otlp/otlp_json.h"
#include "wire/otlp/otlp_logs.h"

namespace gpulens {
namespace {

// Of protobuf, whose JSON is some four times as long: that receiver cuts lines at 1 MiB.
constexpr size_t kLineBytes = 192u << 10;

}  // namespace

OtlpLines::OtlpLines(SeriesNamer namer)
    : metrics_(std::move(namer), {.max_bytes = kLineBytes, .scope_version = Version()}) {}

Status OtlpLines::Append(const Snapshot& snapshot, std::string& out) {
  return metrics_.Encode(snapshot, [&](std::string_view request, uint32_t) -> Status {
    RETURN_IF_ERROR(OtlpToJson(OtlpMessage::kMetrics, request, json_));
    out += json_;
    out += '\n';
    return Ok();
  });
}

Status OtlpLines::Append(const Events& events, std::string& out) {
  if (events.list.empty()) return Ok();
  EncodeOtlpLogs(events, Version(), request_);
  RETURN_IF_ERROR(OtlpToJson(OtlpMessage::kLogs, request_, json_));
  out += json_;
  out += '\n';
  return Ok();
}

}  // namespace gpulens
