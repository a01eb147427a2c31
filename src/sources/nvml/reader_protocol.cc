#include "sources/nvml/reader_protocol.h"

#include <string>

#include "base/result.h"

namespace gpulens::nvml {
namespace {

using reader::MessageCursor;
using reader::VendorReport;

Status Bad(std::string_view what) { return reader::BadMessage(what); }

// The age of what was read then is a number.
Status CheckTime(int64_t boot_ns) { return boot_ns < 0 ? Bad("time before the boot") : Ok(); }

Result<NvmlReport> DecodeProcesses(MessageCursor in) {
  ProcessList out;
  out.boot_ns = in.Number<int64_t>();
  out.processes = in.Rows<GpuProcess>(kMaxProcesses);
  if (!in.done()) return Bad("process list has a wrong length");
  RETURN_IF_ERROR(CheckTime(out.boot_ns));
  for (size_t i = 0; i < out.processes.size(); ++i) {
    if (out.processes[i].type > ProcessType::kMps) return Bad("process type out of range");
  }
  return NvmlReport(out);
}

Result<NvmlReport> DecodeEvents(MessageCursor in, uint32_t gpu) {
  EventList out{in.Rows<DeviceEvent>(reader::kMaxMessage)};
  if (!in.done()) return Bad("events have a wrong length");
  for (size_t i = 0; i < out.events.size(); ++i) {
    if (out.events[i].entity != gpu) return Bad("event of another GPU");
    RETURN_IF_ERROR(CheckTime(out.events[i].boot_ns));
  }
  return NvmlReport(out);
}

Status CheckKey(const SliceKey& key) {
  if (static_cast<uint8_t>(key.kind) >= kSliceKinds) return Bad("part kind out of range");
  return Ok();
}

Result<NvmlReport> DecodeSlices(MessageCursor in) {
  SliceList out;
  uint32_t kind = 0;
  in.Numbers(kind, out.max);
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
  return NvmlReport(out);
}

Result<NvmlReport> DecodeSlice(MessageCursor in) {
  SliceFactsReport out;
  out.key = in.Number<SliceKey>();
  RETURN_IF_ERROR(CheckKey(out.key));
  out.fact_count = in.Facts(out.facts);
  if (!in.done()) return Bad("part has a wrong length, or too many facts");
  return NvmlReport(out);
}

Result<NvmlReport> DecodeSliceReadings(MessageCursor in, uint32_t gpu) {
  SliceReadings out{in.Rows<SliceReading>(reader::kMaxMessage)};
  if (!in.done()) return Bad("part readings have a wrong length");
  for (size_t i = 0; i < out.readings.size(); ++i) {
    SliceReading reading = out.readings[i];
    if (reading.entity != gpu) return Bad("reading of another GPU");
    RETURN_IF_ERROR(CheckKey(reading.key));
    if (reading.field >= kSliceFieldCount) return Bad("field out of range");
    if (reading.status >= ReadStatus::kCount) return Bad("status out of range");
    RETURN_IF_ERROR(CheckTime(reading.boot_ns));
  }
  return NvmlReport(out);
}

Result<NvmlReport> DecodeShares(MessageCursor in) {
  ShareList out;
  out.boot_ns = in.Number<int64_t>();
  out.shares = in.Rows<ProcessShare>(kMaxProcesses);
  if (!in.done()) return Bad("process shares have a wrong length");
  RETURN_IF_ERROR(CheckTime(out.boot_ns));
  return NvmlReport(out);
}

void Begin(MessageEncoder& out, ReportKind kind, uint32_t gpu) {
  out.BeginVendor(static_cast<uint32_t>(kind), gpu);
}

}  // namespace

Result<NvmlReport> DecodeReport(const VendorReport& report) {
  MessageCursor in(report.body);
  switch (static_cast<ReportKind>(report.kind)) {
    case ReportKind::kProcesses: return DecodeProcesses(in);
    case ReportKind::kEvents: return DecodeEvents(in, report.device);
    case ReportKind::kSlices: return DecodeSlices(in);
    case ReportKind::kSlice: return DecodeSlice(in);
    case ReportKind::kSliceReadings: return DecodeSliceReadings(in, report.device);
    case ReportKind::kProcessShares: return DecodeShares(in);
  }
  return Bad("unknown kind " + std::to_string(report.kind));
}

MessageEncoder::Bytes EncodeProcesses(MessageEncoder& out, uint32_t gpu, int64_t boot_ns,
                                      std::span<const GpuProcess> processes) {
  Begin(out, ReportKind::kProcesses, gpu);
  out.Number(boot_ns);
  out.Rows(processes, kMaxProcesses);
  return out.Finish();
}

MessageEncoder::Bytes EncodeEvents(MessageEncoder& out, uint32_t gpu, std::span<const DeviceEvent> events) {
  Begin(out, ReportKind::kEvents, gpu);
  out.Rows(events, events.size());
  return out.Finish();
}

MessageEncoder::Bytes EncodeSlices(MessageEncoder& out, uint32_t gpu, SliceKind kind, uint32_t max,
                                   std::span<const SliceKey> keys) {
  Begin(out, ReportKind::kSlices, gpu);
  out.Numbers(static_cast<uint32_t>(kind), max);
  out.Rows(keys, kMaxSlices);
  return out.Finish();
}

MessageEncoder::Bytes EncodeSlice(MessageEncoder& out, uint32_t gpu, const SliceKey& key,
                                  std::span<const FactView> facts) {
  Begin(out, ReportKind::kSlice, gpu);
  out.Number(key);
  out.Facts(facts, kMaxSliceFacts);
  return out.Finish();
}

MessageEncoder::Bytes EncodeSliceReadings(MessageEncoder& out, uint32_t gpu,
                                          std::span<const SliceReading> readings) {
  Begin(out, ReportKind::kSliceReadings, gpu);
  out.Rows(readings, readings.size());
  return out.Finish();
}

MessageEncoder::Bytes EncodeShares(MessageEncoder& out, uint32_t gpu, int64_t boot_ns,
                                   std::span<const ProcessShare> shares) {
  Begin(out, ReportKind::kProcessShares, gpu);
  out.Number(boot_ns);
  out.Rows(shares, kMaxProcesses);
  return out.Finish();
}

}  // namespace gpulens::nvml
