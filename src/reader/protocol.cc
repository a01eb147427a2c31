#include "reader/protocol.h"

#include <cstddef>
#include <cstring>
#include <string>

#include "base/result.h"

namespace gpulens::reader {
namespace {

struct Header {
  uint16_t type = 0;
  uint16_t reserved = 0;
  uint32_t payload = 0;  // Bytes after the header.
};
static_assert(sizeof(Header) == 8);

Status Bad(std::string_view what) { return BadMessage(what); }

Result<Message> DecodeHello(Cursor in) {
  Hello out;
  out.protocol = in.Number<uint32_t>();
  out.build_id = in.Text();
  if (!in.done()) return Bad("hello has a wrong length");
  return Message(out);
}

Result<Message> DecodeLibrary(Cursor in) {
  LibraryReport out;
  uint32_t fault = in.Number<uint32_t>();
  out.code = in.Number<int32_t>();
  out.devices = in.Number<uint32_t>();
  for (std::string_view* text :
       {&out.path, &out.library_version, &out.driver_version, &out.runtime_version, &out.detail}) {
    *text = in.Text();
  }
  if (!in.done()) return Bad("library report has a wrong length");
  if (fault >= static_cast<uint32_t>(Fault::kCount)) return Bad("fault out of range");
  if (out.devices > kMaxDevices) return Bad("device count out of range");
  out.fault = static_cast<Fault>(fault);
  return Message(out);
}

Result<Message> DecodeDevice(Cursor in) {
  DeviceReport out;
  out.device = in.Number<uint32_t>();
  uint32_t state = in.Number<uint32_t>();
  out.code = in.Number<int32_t>();
  if (!in.ok() || out.device >= kMaxDevices) return Bad("device out of range");
  if (state >= static_cast<uint32_t>(DeviceState::kCount)) return Bad("device state out of range");
  out.state = static_cast<DeviceState>(state);
  out.fact_count = in.Facts(out.facts);
  if (!in.done()) return Bad("device has a wrong length, or too many facts");
  return Message(out);
}

Result<Message> DecodeReadings(Cursor in, const Vendor& vendor) {
  ReadingsReport out{in.Rows<Reading>(kMaxMessage)};
  if (!in.done()) return Bad("readings have a wrong length");
  for (size_t i = 0; i < out.readings.size(); ++i) {
    Reading reading = out.readings[i];
    if (reading.device >= kMaxDevices) return Bad("device out of range");
    if (reading.link > vendor.links) return Bad("part out of range");
    if (reading.field >= (reading.link == 0 ? vendor.fields.size() : vendor.link_fields))
      return Bad("field out of range");
    if (reading.status >= ReadStatus::kCount) return Bad("status out of range");
  }
  return Message(out);
}

Result<Message> DecodeProcesses(Cursor in) {
  ProcessesReport out;
  out.device = in.Number<uint32_t>();
  in.Number<uint32_t>();
  out.boot_ns = in.Number<int64_t>();
  out.processes = in.Rows<ProcessUse>(kMaxProcesses);
  if (!in.done()) return Bad("process list has a wrong length");
  if (out.device >= kMaxDevices) return Bad("device out of range");
  for (size_t i = 0; i < out.processes.size(); ++i) {
    if (out.processes[i].name.back() != '\0') return Bad("process name has no end");
  }
  return Message(out);
}

Result<Message> DecodeVendor(Cursor in) {
  VendorReport out;
  out.device = in.Number<uint32_t>();
  out.kind = in.Number<uint32_t>();
  out.body = in.Rest();
  if (!in.done()) return Bad("vendor's message has a wrong length");
  if (out.device >= kMaxDevices) return Bad("device out of range");
  return Message(out);
}

Result<Message> DecodeHeartbeat(Cursor in) {
  Heartbeat out;
  out.boot_ns = in.Number<int64_t>();
  out.sequence = in.Number<uint64_t>();
  out.calls = in.Number<uint64_t>();
  out.dropped = in.Number<uint64_t>();
  out.watched = in.Number<uint64_t>();
  out.memory = in.Number<uint64_t>();
  out.files = in.Number<uint64_t>();
  out.threads = in.Number<uint64_t>();
  if (!in.done()) return Bad("heartbeat has a wrong length");
  return Message(out);
}

Result<Message> DecodeAttach(Cursor in) {
  AttachRequest out;
  out.device = in.Number<uint32_t>();
  if (!in.done()) return Bad("attach has a wrong length");
  if (out.device >= kMaxDevices) return Bad("device out of range");
  return Message(out);
}

}  // namespace

Result<Message> DecodeMessage(std::span<const std::byte> bytes, const Vendor& vendor) {
  if (bytes.size() < sizeof(Header)) return Bad("shorter than its header");
  if (bytes.size() > kMaxMessage) return Bad("over 64 KiB");
  Header header;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.payload != bytes.size() - sizeof header) return Bad("length does not fit the packet");
  if (header.reserved != 0) return Bad("reserved bits are set");
  Cursor in(bytes.subspan(sizeof header));
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

void MessageEncoder::Facts(std::span<const Fact> facts, size_t limit) {
  facts = facts.first(std::min(facts.size(), limit));
  Number(static_cast<uint32_t>(facts.size()));
  for (const Fact& fact : facts) {
    Text(fact.key);
    Text(fact.value);
  }
}

void MessageEncoder::BeginVendor(uint32_t kind, uint32_t device) {
  Begin(MessageType::kVendor);
  Number(device);
  Number(kind);
}

MessageEncoder::Bytes MessageEncoder::Finish() {
  auto payload = static_cast<uint32_t>(buffer_.size() - sizeof(Header));
  std::memcpy(buffer_.data() + offsetof(Header, payload), &payload, sizeof payload);
  return buffer_;
}

MessageEncoder::Bytes MessageEncoder::Encode(const Hello& message) {
  Begin(MessageType::kHello);
  Number(message.protocol);
  Text(message.build_id);
  return Finish();
}

MessageEncoder::Bytes MessageEncoder::Encode(const LibraryReport& message) {
  Begin(MessageType::kLibrary);
  Number(static_cast<uint32_t>(message.fault));
  Number(message.code);
  Number(message.devices);
  for (std::string_view text : {message.path, message.library_version, message.driver_version,
                                message.runtime_version, message.detail}) {
    Text(text);
  }
  return Finish();
}

MessageEncoder::Bytes MessageEncoder::Encode(const DeviceReport& head, std::span<const Fact> facts) {
  Begin(MessageType::kDevice);
  Number(head.device);
  Number(static_cast<uint32_t>(head.state));
  Number(head.code);
  Facts(facts, kMaxFacts);
  return Finish();
}

MessageEncoder::Bytes MessageEncoder::Encode(std::span<const Reading> readings) {
  Begin(MessageType::kReadings);
  Rows(readings, kMaxMessage);
  return Finish();
}

MessageEncoder::Bytes MessageEncoder::Encode(uint32_t device, int64_t boot_ns,
                                             std::span<const ProcessUse> processes) {
  Begin(MessageType::kProcesses);
  Number(device);
  Number(uint32_t{0});
  Number(boot_ns);
  Rows(processes, kMaxProcesses);
  return Finish();
}

MessageEncoder::Bytes MessageEncoder::Encode(const Heartbeat& message) {
  Begin(MessageType::kHeartbeat);
  Number(message.boot_ns);
  Number(message.sequence);
  Number(message.calls);
  Number(message.dropped);
  Number(message.watched);
  Number(message.memory);
  Number(message.files);
  Number(message.threads);
  return Finish();
}

MessageEncoder::Bytes MessageEncoder::Encode(const AttachRequest& message) {
  Begin(MessageType::kAttach);
  Number(message.device);
  return Finish();
}

}  // namespace gpulens::reader
