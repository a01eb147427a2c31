#include "sources/nvml/driver_protocol.h"

#include <string>

#include "base/result.h"

namespace gpulens::nvml {
namespace {

using reader::Cursor;
using reader::VendorReport;

Status Bad(std::string_view what) { return reader::BadMessage(what); }

Result<Report> DecodeProcesses(Cursor in) {
  ProcessList out;
  out.boot_ns = in.Number<int64_t>();
  out.processes = in.Rows<GpuProcess>(kMaxProcesses);
  if (!in.done()) return Bad("process list has a wrong length");
  for (size_t i = 0; i < out.processes.size(); ++i) {
    if (out.processes[i].type > ProcessType::kMps) return Bad("process type out of range");
  }
  return Report(out);
}

Result<Report> DecodeEvents(Cursor in, uint32_t gpu) {
  EventList out{in.Rows<DeviceEvent>(reader::kMaxMessage)};
  if (!in.done()) return Bad("events have a wrong length");
  for (size_t i = 0; i < out.events.size(); ++i) {
    if (out.events[i].entity != gpu) return Bad("event of another GPU");
  }
  return Report(out);
}

Status CheckKey(const SliceKey& key) {
  if (static_cast<uint8_t>(key.kind) >= kSliceKinds) return Bad("part kind out of range");
  return Ok();
}

Result<Report> DecodeSlices(Cursor in) {
  SliceList out;
  uint32_t kind = in.Number<uint32_t>();
  out.max = in.Number<uint32_t>();
  out.keys = in.Rows<SliceKey>(kMaxSlices);
  if (!in.done()) return Bad("part list has a wrong length");
  if (kind == 0 || kind >= kSliceKinds) return Bad("part kind out of range");
  if (out.max > kMaxSlices) return Bad("too many parts");
  out.kind = static_cast<SliceKind>(kind);
  for (size_t i = 0; i < out.keys.size(); ++i) {
    if (out.keys[i].kind != out.kind) return Bad("part of another kind");
    for (size_t k = 0; k < i; ++k) {
      if (out.keys[k] == out.keys[i]) return Bad("duplicate part");
    }
  }
  return Report(out);
}

Result<Report> DecodeSlice(Cursor in) {
  SliceFactsReport out;
  out.key = in.Number<SliceKey>();
  RETURN_IF_ERROR(CheckKey(out.key));
  out.fact_count = in.Facts(out.facts);
  if (!in.done()) return Bad("part has a wrong length, or too many facts");
  return Report(out);
}

Result<Report> DecodeSliceReadings(Cursor in, uint32_t gpu) {
  SliceReadings out{in.Rows<SliceReading>(reader::kMaxMessage)};
  if (!in.done()) return Bad("part readings have a wrong length");
  for (size_t i = 0; i < out.readings.size(); ++i) {
    SliceReading reading = out.readings[i];
    if (reading.entity != gpu) return Bad("reading of another GPU");
    RETURN_IF_ERROR(CheckKey(reading.key));
    if (reading.field >= kSliceFieldCount) return Bad("field out of range");
    if (reading.status >= ReadStatus::kCount) return Bad("status out of range");
  }
  return Report(out);
}

Result<Report> DecodeShares(Cursor in) {
  ShareList out;
  out.boot_ns = in.Number<int64_t>();
  out.shares = in.Rows<ProcessShare>(kMaxProcesses);
  if (!in.done()) return Bad("process shares have a wrong length");
  return Report(out);
}

void Begin(MessageEncoder& out, Kind kind, uint32_t gpu) {
  out.BeginVendor(static_cast<uint32_t>(kind), gpu);
}

}  // namespace

Result<Report> DecodeReport(const VendorReport& report) {
  Cursor in(report.body);
  switch (static_cast<Kind>(report.kind)) {
    case Kind::kProcesses: return DecodeProcesses(in);
    case Kind::kEvents: return DecodeEvents(in, report.device);
    case Kind::kSlices: return DecodeSlices(in);
    case Kind::kSlice: return DecodeSlice(in);
    case Kind::kSliceReadings: return DecodeSliceReadings(in, report.device);
    case Kind::kProcessShares: return DecodeShares(in);
  }
  return Bad("unknown kind " + std::to_string(report.kind));
}

MessageEncoder::Bytes EncodeProcesses(MessageEncoder& out, uint32_t gpu, int64_t boot_ns,
                                      std::span<const GpuProcess> processes) {
  Begin(out, Kind::kProcesses, gpu);
  out.Number(boot_ns);
  out.Rows(processes, kMaxProcesses);
  return out.Finish();
}

MessageEncoder::Bytes EncodeEvents(MessageEncoder& out, uint32_t gpu, std::span<const DeviceEvent> events) {
  Begin(out, Kind::kEvents, gpu);
  out.Rows(events, events.size());
  return out.Finish();
}

MessageEncoder::Bytes EncodeSlices(MessageEncoder& out, uint32_t gpu, SliceKind kind, uint32_t max,
                                   std::span<const SliceKey> keys) {
  Begin(out, Kind::kSlices, gpu);
  out.Number(static_cast<uint32_t>(kind));
  out.Number(max);
  out.Rows(keys, kMaxSlices);
  return out.Finish();
}

MessageEncoder::Bytes EncodeSlice(MessageEncoder& out, uint32_t gpu, const SliceKey& key,
                                  std::span<const Fact> facts) {
  Begin(out, Kind::kSlice, gpu);
  out.Number(key);
  out.Facts(facts, kMaxSliceFacts);
  return out.Finish();
}

MessageEncoder::Bytes EncodeSliceReadings(MessageEncoder& out, uint32_t gpu,
                                          std::span<const SliceReading> readings) {
  Begin(out, Kind::kSliceReadings, gpu);
  out.Rows(readings, readings.size());
  return out.Finish();
}

MessageEncoder::Bytes EncodeShares(MessageEncoder& out, uint32_t gpu, int64_t boot_ns,
                                   std::span<const ProcessShare> shares) {
  Begin(out, Kind::kProcessShares, gpu);
  out.Number(boot_ns);
  out.Rows(shares, kMaxProcesses);
  return out.Finish();
}

}  // namespace gpulens::nvml
