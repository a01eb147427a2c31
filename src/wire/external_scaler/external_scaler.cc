#include "wire/external_scaler/external_scaler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <utility>

#include "base/result.h"
#include "base/text.h"
#include "wire/otlp/proto_cursor.h"

namespace gpulens {
namespace {

Status Malformed(const char* what) {
  return {Code::kDataLoss, std::string("not a request of KEDA: ") + what};
}

Status ReadText(const ProtoField& field, std::string& out) {
  if (field.wire != WireType::kBytes) return Malformed("a text has another type");
  if (field.bytes.size() > kScalerTextBytes)
    return {Code::kExhausted, "a text of more than " + std::to_string(kScalerTextBytes) + " bytes"};
  if (!IsUtf8(field.bytes)) return Malformed("a text is not valid UTF-8");
  out = field.bytes;
  return Ok();
}

Status ReadEntry(const ProtoField& entry, ScaledObjectRef& out) {
  if (entry.wire != WireType::kBytes) return Malformed("an entry of the metadata has another type");
  std::string key, value;
  ProtoCursor cursor(entry.bytes);
  for (ProtoField field; cursor.Next(field);) {
    if (field.number == 1) RETURN_IF_ERROR(ReadText(field, key));
    else if (field.number == 2) RETURN_IF_ERROR(ReadText(field, value));
  }
  if (cursor.broken()) return Malformed("an entry of the metadata is cut");
  out.metadata[std::move(key)] = std::move(value);
  if (out.metadata.size() > kScalerMetadataEntries)
    return {Code::kExhausted,
            "more than " + std::to_string(kScalerMetadataEntries) + " entries in the metadata"};
  return Ok();
}

Status ReadObject(std::string_view message, ScaledObjectRef& out) {
  ProtoCursor cursor(message);
  for (ProtoField field; cursor.Next(field);) {
    switch (field.number) {
      case 1: RETURN_IF_ERROR(ReadText(field, out.name)); break;
      case 2: RETURN_IF_ERROR(ReadText(field, out.name_space)); break;
      case 3: RETURN_IF_ERROR(ReadEntry(field, out)); break;
      default: break;
    }
  }
  return cursor.broken() ? Malformed("it is cut, or another message") : Ok();
}

Status CheckSize(std::string_view message) {
  if (message.size() <= kScalerRequestBytes) return Ok();
  return {Code::kExhausted, "a request of more than " + std::to_string(kScalerRequestBytes) + " bytes"};
}

void AppendVarint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

void AppendBytes(std::string& out, uint32_t number, std::string_view bytes) {
  AppendVarint(out, number << 3 | 2);
  AppendVarint(out, bytes.size());
  out += bytes;
}

// MetricSpec and MetricValue: a name, an integer, and the same number as a double.
std::string WriteMetric(std::string_view metric, double number) {
  constexpr double kMost = 9e15;  // exact in both types
  std::string inner;
  AppendBytes(inner, 1, metric);
  AppendVarint(inner, 2 << 3 | 0);
  AppendVarint(inner, static_cast<uint64_t>(std::ceil(std::min(std::max(number, 0.0), kMost))));
  AppendVarint(inner, 3 << 3 | 1);
  const auto bits = std::bit_cast<uint64_t>(number);
  for (int i = 0; i < 8; ++i) inner += static_cast<char>(bits >> (8 * i) & 0xff);
  std::string out;
  AppendBytes(out, 1, inner);
  return out;
}

}  // namespace

Result<ScaledObjectRef> ReadScaledObjectRef(std::string_view message) {
  RETURN_IF_ERROR(CheckSize(message));
  ScaledObjectRef out;
  RETURN_IF_ERROR(ReadObject(message, out));
  return out;
}

Result<ScalerMetricsRequest> ReadScalerMetricsRequest(std::string_view message) {
  RETURN_IF_ERROR(CheckSize(message));
  ScalerMetricsRequest out;
  ProtoCursor cursor(message);
  for (ProtoField field; cursor.Next(field);) {
    if (field.number == 1) {
      if (field.wire != WireType::kBytes) return Malformed("scaledObjectRef has another type");
      RETURN_IF_ERROR(ReadObject(field.bytes, out.object));
    } else if (field.number == 2) {
      RETURN_IF_ERROR(ReadText(field, out.metric));
    }
  }
  if (cursor.broken()) return Malformed("it is cut, or another message");
  return out;
}

std::string WriteIsActive(bool active) { return active ? std::string("\x08\x01", 2) : std::string(); }
std::string WriteMetricSpec(std::string_view metric, double target) { return WriteMetric(metric, target); }
std::string WriteMetricValue(std::string_view metric, double value) { return WriteMetric(metric, value); }

}  // namespace gpulens
