#include "sources/nvml/driver_protocol.h"

#include <string>

#include "base/result.h"

namespace gpulens::nvml {
namespace {

Status Bad(std::string_view what) { return {Code::kDataLoss, "driver message: " + std::string(what)}; }

// Takes numbers and texts off the front. After the first failure everything reads as zero or empty.
class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> rest) noexcept : rest_(rest) {}

  bool ok() const noexcept { return ok_; }
  bool done() const noexcept { return ok_ && rest_.empty(); }

  template <class T>
  T Number() noexcept {
    T value{};
    std::span<const std::byte> bytes = Take(sizeof value);
    if (!bytes.empty()) std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  std::string_view Text() noexcept {
    size_t size = Number<uint16_t>();
    if (size > kMaxText) ok_ = false;
    std::span<const std::byte> bytes = Take(size);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  std::span<const std::byte> Rest() noexcept { return Take(rest_.size()); }

 private:
  std::span<const std::byte> Take(size_t size) noexcept {
    if (!ok_ || size > rest_.size()) {
      ok_ = false;
      return {};
    }
    std::span<const std::byte> taken = rest_.first(size);
    rest_ = rest_.subspan(size);
    return taken;
  }

  std::span<const std::byte> rest_;
  bool ok_ = true;
};

Result<Message> DecodeHello(Cursor in) {
  Hello out;
  out.protocol = in.Number<uint32_t>();
  out.build_id = in.Text();
  if (!in.done()) return Bad("hello has a wrong length");
  return Message(out);
}

Result<Message> DecodeLibrary(Cursor in) {
  LibraryReport out;
  uint32_t phase = in.Number<uint32_t>();
  out.code = in.Number<int32_t>();
  out.gpu_count = in.Number<uint32_t>();
  for (std::string_view* text :
       {&out.path, &out.library_version, &out.driver_version, &out.cuda_version, &out.detail}) {
    *text = in.Text();
  }
  if (!in.done()) return Bad("library report has a wrong length");
  if (phase > static_cast<uint32_t>(LibraryPhase::kReady)) return Bad("library phase out of range");
  if (out.gpu_count > kMaxGpus) return Bad("GPU count out of range");
  out.phase = static_cast<LibraryPhase>(phase);
  return Message(out);
}

Result<Message> DecodeEntity(Cursor in) {
  EntityReport out;
  out.entity = in.Number<uint32_t>();
  out.code = in.Number<int32_t>();
  out.fact_count = in.Number<uint32_t>();
  if (!in.ok() || out.entity >= kMaxGpus) return Bad("GPU out of range");
  if (out.fact_count > kMaxFacts) return Bad("too many facts");
  for (size_t i = 0; i < out.fact_count; ++i) {
    out.facts[i].key = in.Text();
    out.facts[i].value = in.Text();
  }
  if (!in.done()) return Bad("entity has a wrong length");
  return Message(out);
}

Result<Message> DecodeReadings(Cursor in) {
  std::span<const std::byte> bytes = in.Rest();
  if (bytes.size() % sizeof(Reading) != 0) return Bad("readings have a wrong length");
  ReadingsReport out{WireArray<Reading>(bytes)};
  for (size_t i = 0; i < out.readings.size(); ++i) {
    Reading reading = out.readings[i];
    if (reading.entity >= kMaxGpus) return Bad("GPU out of range");
    if (reading.part >= kMaxLinkParts) return Bad("part out of range");
    if (reading.field >= (reading.part == 0 ? kFieldCount : kLinkFieldCount))
      return Bad("field out of range");
    if (reading.status >= ReadStatus::kCount) return Bad("status out of range");
  }
  return Message(out);
}

Result<Message> DecodeProcesses(Cursor in) {
  ProcessesReport out;
  out.entity = in.Number<uint32_t>();
  in.Number<uint32_t>();
  out.boot_ns = in.Number<int64_t>();
  if (!in.ok()) return Bad("process list has a wrong length");
  if (out.entity >= kMaxGpus) return Bad("GPU out of range");
  std::span<const std::byte> bytes = in.Rest();
  if (bytes.size() % sizeof(GpuProcess) != 0) return Bad("process list has a wrong length");
  out.processes = WireArray<GpuProcess>(bytes);
  if (out.processes.size() > kMaxProcesses) return Bad("too many processes");
  for (size_t i = 0; i < out.processes.size(); ++i) {
    if (out.processes[i].type > ProcessType::kMps) return Bad("process type out of range");
  }
  return Message(out);
}

Result<Message> DecodeEvents(Cursor in) {
  std::span<const std::byte> bytes = in.Rest();
  if (bytes.size() % sizeof(DeviceEvent) != 0) return Bad("events have a wrong length");
  EventsReport out{WireArray<DeviceEvent>(bytes)};
  for (size_t i = 0; i < out.events.size(); ++i) {
    if (out.events[i].entity >= kMaxGpus) return Bad("GPU out of range");
  }
  return Message(out);
}

Status CheckKey(const PartKey& key) {
  if (static_cast<uint8_t>(key.kind) >= kPartKinds) return Bad("part kind out of range");
  return Ok();
}

Result<Message> DecodeParts(Cursor in) {
  PartsReport out;
  out.entity = in.Number<uint32_t>();
  uint32_t kind = in.Number<uint32_t>();
  out.max = in.Number<uint32_t>();
  std::span<const std::byte> bytes = in.Rest();
  if (!in.ok() || bytes.size() % sizeof(PartKey) != 0) return Bad("part list has a wrong length");
  if (out.entity >= kMaxGpus) return Bad("GPU out of range");
  if (kind == 0 || kind >= kPartKinds) return Bad("part kind out of range");
  out.kind = static_cast<PartKind>(kind);
  out.keys = WireArray<PartKey>(bytes);
  if (out.keys.size() > kMaxParts || out.max > kMaxParts) return Bad("too many parts");
  for (size_t i = 0; i < out.keys.size(); ++i) {
    if (out.keys[i].kind != out.kind) return Bad("part of another kind");
    for (size_t k = 0; k < i; ++k) {
      if (out.keys[k] == out.keys[i]) return Bad("part stands twice");
    }
  }
  return Message(out);
}

Result<Message> DecodePart(Cursor in) {
  PartReport out;
  out.entity = in.Number<uint32_t>();
  out.key = in.Number<PartKey>();
  out.fact_count = in.Number<uint32_t>();
  if (!in.ok() || out.entity >= kMaxGpus) return Bad("GPU out of range");
  RETURN_IF_ERROR(CheckKey(out.key));
  if (out.fact_count > kMaxPartFacts) return Bad("too many facts");
  for (size_t i = 0; i < out.fact_count; ++i) {
    out.facts[i].key = in.Text();
    out.facts[i].value = in.Text();
  }
  if (!in.done()) return Bad("part has a wrong length");
  return Message(out);
}

Result<Message> DecodePartReadings(Cursor in) {
  std::span<const std::byte> bytes = in.Rest();
  if (bytes.size() % sizeof(PartReading) != 0) return Bad("part readings have a wrong length");
  PartReadingsReport out{WireArray<PartReading>(bytes)};
  for (size_t i = 0; i < out.readings.size(); ++i) {
    PartReading reading = out.readings[i];
    if (reading.entity >= kMaxGpus) return Bad("GPU out of range");
    RETURN_IF_ERROR(CheckKey(reading.key));
    if (reading.field >= kPartFieldCount) return Bad("field out of range");
    if (reading.status >= ReadStatus::kCount) return Bad("status out of range");
  }
  return Message(out);
}

Result<Message> DecodeProcessShares(Cursor in) {
  ProcessSharesReport out;
  out.entity = in.Number<uint32_t>();
  in.Number<uint32_t>();
  out.boot_ns = in.Number<int64_t>();
  std::span<const std::byte> bytes = in.Rest();
  if (!in.ok() || bytes.size() % sizeof(ProcessShare) != 0) return Bad("process shares have a wrong length");
  if (out.entity >= kMaxGpus) return Bad("GPU out of range");
  out.shares = WireArray<ProcessShare>(bytes);
  if (out.shares.size() > kMaxProcesses) return Bad("too many processes");
  return Message(out);
}

Result<Message> DecodeHeartbeat(Cursor in) {
  Heartbeat out;
  out.boot_ns = in.Number<int64_t>();
  out.sequence = in.Number<uint64_t>();
  out.calls = in.Number<uint64_t>();
  out.dropped = in.Number<uint64_t>();
  out.watched = in.Number<uint64_t>();
  if (!in.done()) return Bad("heartbeat has a wrong length");
  return Message(out);
}

Result<Message> DecodeAttach(Cursor in) {
  AttachRequest out;
  out.entity = in.Number<uint32_t>();
  if (!in.done()) return Bad("attach has a wrong length");
  if (out.entity >= kMaxGpus) return Bad("GPU out of range");
  return Message(out);
}

}  // namespace

Result<Message> DecodeMessage(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(MessageHeader)) return Bad("shorter than its header");
  if (bytes.size() > kMaxMessage) return Bad("over 64 KiB");
  MessageHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.payload != bytes.size() - sizeof header) return Bad("length does not fit the packet");
  if (header.reserved != 0) return Bad("reserved bits are set");
  Cursor in(bytes.subspan(sizeof header));
  switch (static_cast<MessageType>(header.type)) {
    case MessageType::kHello: return DecodeHello(in);
    case MessageType::kLibrary: return DecodeLibrary(in);
    case MessageType::kEntity: return DecodeEntity(in);
    case MessageType::kReadings: return DecodeReadings(in);
    case MessageType::kProcesses: return DecodeProcesses(in);
    case MessageType::kEvents: return DecodeEvents(in);
    case MessageType::kHeartbeat: return DecodeHeartbeat(in);
    case MessageType::kAttach: return DecodeAttach(in);
    case MessageType::kParts: return DecodeParts(in);
    case MessageType::kPart: return DecodePart(in);
    case MessageType::kPartReadings: return DecodePartReadings(in);
    case MessageType::kProcessShares: return DecodeProcessShares(in);
  }
  return Bad("unknown type " + std::to_string(header.type));
}

}  // namespace gpulens::nvml
