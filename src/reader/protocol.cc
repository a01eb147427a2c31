#include "reader/protocol.h"

#include "base/result.h"

namespace gpulens::reader {
namespace {

template <class Enum, size_t kSize>
std::string_view NameOf(const std::array<std::string_view, kSize>& names, Enum value) noexcept {
  size_t at = static_cast<size_t>(value);
  return at < names.size() ? names[at] : "unknown";
}

struct Header {
  uint16_t type = 0;
  uint16_t reserved = 0;
  uint32_t payload = 0;  // Bytes after the header.
};
static_assert(sizeof(Header) == 8);

Status Bad(std::string_view what) { return BadMessage(what); }

Result<ReaderMessage> DecodeHello(MessageCursor in) {
  HelloMessage out;
  out.protocol = in.Number<uint32_t>();
  out.build_id = in.Text();
  if (!in.done()) return Bad("hello has a wrong length");
  return ReaderMessage(out);
}

Result<ReaderMessage> DecodeLibrary(MessageCursor in) {
  LibraryReport out;
  uint32_t fault = 0;
  in.Numbers(fault, out.code, out.devices);
  for (std::string_view* text :
       {&out.path, &out.library_version, &out.driver_version, &out.runtime_version, &out.detail}) {
    *text = in.Text();
  }
  if (!in.done()) return Bad("library report has a wrong length");
  if (fault >= static_cast<uint32_t>(ReaderFault::kCount)) return Bad("fault out of range");
  if (out.devices > kMaxDevices) return Bad("device count out of range");
  out.fault = static_cast<ReaderFault>(fault);
  return ReaderMessage(out);
}

Result<ReaderMessage> DecodeDevice(MessageCursor in) {
  DeviceReport out;
  uint32_t state = 0;
  in.Numbers(out.device, state, out.code);
  if (!in.ok() || out.device >= kMaxDevices) return Bad("device out of range");
  if (state >= static_cast<uint32_t>(DeviceState::kCount)) return Bad("device state out of range");
  out.state = static_cast<DeviceState>(state);
  out.fact_count = in.Facts(out.facts);
  if (!in.done()) return Bad("device has a wrong length, or too many facts");
  return ReaderMessage(out);
}

Result<ReaderMessage> DecodeReadings(MessageCursor in, const VendorTables& vendor) {
  ReadingsReport out{in.Rows<DeviceReading>(kMaxMessage)};
  if (!in.done()) return Bad("readings have a wrong length");
  for (size_t i = 0; i < out.readings.size(); ++i) {
    DeviceReading reading = out.readings[i];
    if (reading.device >= kMaxDevices) return Bad("device out of range");
    if (reading.link > vendor.links) return Bad("part out of range");
    if (reading.field >= (reading.link == 0 ? vendor.fields.size() : vendor.link_fields))
      return Bad("field out of range");
    if (reading.status >= ReadStatus::kCount) return Bad("status out of range");
    if (reading.boot_ns < 0) return Bad("time before the boot");
  }
  return ReaderMessage(out);
}

Result<ReaderMessage> DecodeProcesses(MessageCursor in) {
  ProcessesReport out;
  uint32_t reserved = 0;
  in.Numbers(out.device, reserved, out.boot_ns);
  out.processes = in.Rows<ProcessUse>(kMaxProcesses);
  if (!in.done()) return Bad("process list has a wrong length");
  if (out.device >= kMaxDevices) return Bad("device out of range");
  if (out.boot_ns < 0) return Bad("time before the boot");
  for (size_t i = 0; i < out.processes.size(); ++i) {
    if (out.processes[i].name.back() != '\0') return Bad("process name has no end");
  }
  return ReaderMessage(out);
}

Result<ReaderMessage> DecodeVendor(MessageCursor in) {
  VendorReport out;
  in.Numbers(out.device, out.kind);
  out.body = in.Rest();
  if (!in.done()) return Bad("vendor's message has a wrong length");
  if (out.device >= kMaxDevices) return Bad("device out of range");
  return ReaderMessage(out);
}

Result<ReaderMessage> DecodeHeartbeat(MessageCursor in) {
  HeartbeatMessage out;
  in.Numbers(out.boot_ns, out.sequence, out.calls, out.dropped, out.watched, out.memory, out.files,
             out.threads);
  if (!in.done()) return Bad("heartbeat has a wrong length");
  if (out.boot_ns < 0) return Bad("time before the boot");
  return ReaderMessage(out);
}

Result<ReaderMessage> DecodeAttach(MessageCursor in) {
  AttachRequest out;
  out.device = in.Number<uint32_t>();
  if (!in.done()) return Bad("attach has a wrong length");
  if (out.device >= kMaxDevices) return Bad("device out of range");
  return ReaderMessage(out);
}

}  // namespace

std::string_view StatusName(ReadStatus status) noexcept {
  static constexpr std::array<std::string_view, kReadStatusCount> kNames = {
      "never", "ok", "not_supported", "no_permission", "not_found", "lost", "reset_required", "error"};
  return NameOf(kNames, status);
}

std::string_view StartReasonName(StartReason reason) noexcept {
  static constexpr std::array<std::string_view, static_cast<size_t>(StartReason::kCount)> kNames = {
      "first", "crash", "exited", "hang", "killed", "reload", "protocol"};
  return NameOf(kNames, reason);
}

Result<ReaderMessage> DecodeMessage(std::span<const std::byte> bytes, const VendorTables& vendor) {
  if (bytes.size() < sizeof(Header)) return Bad("shorter than its header");
  if (bytes.size() > kMaxMessage) return Bad("over 64 KiB");
  Header header;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.payload != bytes.size() - sizeof header) return Bad("length does not fit the packet");
  if (header.reserved != 0) return Bad("reserved bits are set");
  MessageCursor in(bytes.subspan(sizeof header));
  switch (static_cast<MessageType>(header.type)) {
    case MessageType::kHello: return DecodeHello(in);
    case MessageType::kLibrary: return DecodeLibrary(in);
    case MessageType::kDevice: return DecodeDevice(in);
    case MessageType::kReadings: return DecodeReadings(in, vendor);
    case MessageType::kProcesses: return DecodeProcesses(in);
    case MessageType::kHeartbeat: return DecodeHeartbeat(in);
    case MessageType::kVendor: return DecodeVendor(in);
    case MessageType::kAttach: return DecodeAttach(in);
  }
  return Bad("unknown type " + std::to_string(header.type));
}

void MessageEncoder::Begin(MessageType type) {
  buffer_.clear();
  Number(Header{.type = static_cast<uint16_t>(type)});
}

void MessageEncoder::Raw(const void* data, size_t size) {
  const auto* bytes = static_cast<const std::byte*>(data);
  buffer_.insert(buffer_.end(), bytes, bytes + size);
}

void MessageEncoder::Text(std::string_view text) {
  text = text.substr(0, kMaxText);
  Number(static_cast<uint16_t>(text.size()));
  Raw(text.data(), text.size());
}

void MessageEncoder::Facts(std::span<const FactView> facts, size_t limit) {
  facts = facts.first(std::min(facts.size(), limit));
  Number(static_cast<uint32_t>(facts.size()));
  for (const FactView& fact : facts) {
    Text(fact.key);
    Text(fact.value);
  }
}

void MessageEncoder::BeginVendor(uint32_t kind, uint32_t device) {
  Begin(MessageType::kVendor);
  Numbers(device, kind);
}

MessageEncoder::Bytes MessageEncoder::Finish() {
  auto payload = static_cast<uint32_t>(buffer_.size() - sizeof(Header));
  std::memcpy(buffer_.data() + offsetof(Header, payload), &payload, sizeof payload);
  return buffer_;
}

MessageEncoder::Bytes MessageEncoder::Encode(const HelloMessage& message) {
  Begin(MessageType::kHello);
  Number(message.protocol);
  Text(message.build_id);
  return Finish();
}

MessageEncoder::Bytes MessageEncoder::Encode(const LibraryReport& message) {
  Begin(MessageType::kLibrary);
  Numbers(static_cast<uint32_t>(message.fault), message.code, message.devices);
  for (std::string_view text : {message.path, message.library_version, message.driver_version,
                                message.runtime_version, message.detail}) {
    Text(text);
  }
  return Finish();
}

MessageEncoder::Bytes MessageEncoder::Encode(const DeviceReport& head, std::span<const FactView> facts) {
  Begin(MessageType::kDevice);
  Numbers(head.device, static_cast<uint32_t>(head.state), head.code);
  Facts(facts, kMaxFacts);
  return Finish();
}

MessageEncoder::Bytes MessageEncoder::Encode(std::span<const DeviceReading> readings) {
  Begin(MessageType::kReadings);
  Rows(readings, kMaxMessage);
  return Finish();
}

MessageEncoder::Bytes MessageEncoder::Encode(uint32_t device, int64_t boot_ns,
                                             std::span<const ProcessUse> processes) {
  Begin(MessageType::kProcesses);
  Numbers(device, uint32_t{0}, boot_ns);
  Rows(processes, kMaxProcesses);
  return Finish();
}

MessageEncoder::Bytes MessageEncoder::Encode(const HeartbeatMessage& message) {
  Begin(MessageType::kHeartbeat);
  Numbers(message.boot_ns, message.sequence, message.calls, message.dropped, message.watched, message.memory,
          message.files, message.threads);
  return Finish();
}

MessageEncoder::Bytes MessageEncoder::Encode(const AttachRequest& message) {
  Begin(MessageType::kAttach);
  Number(message.device);
  return Finish();
}

}  // namespace gpulens::reader
