#include "driver/protocol.h"

#include <algorithm>
#include <string>

#include "base/result.h"

namespace gpulens::driver {
namespace {

struct Header {
  uint16_t type = 0;
  uint16_t reserved = 0;
  uint32_t payload = 0;  // Bytes after the header.
};
static_assert(sizeof(Header) == 8);

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
  out.fact_count = in.Number<uint32_t>();
  if (!in.ok() || out.device >= kMaxDevices) return Bad("device out of range");
  if (state >= static_cast<uint32_t>(DeviceState::kCount)) return Bad("device state out of range");
  if (out.fact_count > kMaxFacts) return Bad("too many facts");
  out.state = static_cast<DeviceState>(state);
  for (size_t i = 0; i < out.fact_count; ++i) {
    out.facts[i].key = in.Text();
    out.facts[i].value = in.Text();
  }
  if (!in.done()) return Bad("device has a wrong length");
  return Message(out);
}

Result<Message> DecodeReadings(Cursor in, size_t fields) {
  std::span<const std::byte> bytes = in.Rest();
  if (bytes.size() % sizeof(Reading) != 0) return Bad("readings have a wrong length");
  ReadingsReport out{WireArray<Reading>(bytes)};
  for (size_t i = 0; i < out.readings.size(); ++i) {
    Reading reading = out.readings[i];
    if (reading.device >= kMaxDevices) return Bad("device out of range");
    if (reading.field >= fields) return Bad("field out of range");
    if (reading.status >= ReadStatus::kCount) return Bad("status out of range");
  }
  return Message(out);
}

Result<Message> DecodeProcesses(Cursor in) {
  ProcessesReport out;
  out.device = in.Number<uint32_t>();
  in.Number<uint32_t>();
  out.boot_ns = in.Number<int64_t>();
  if (!in.ok()) return Bad("process list has a wrong length");
  if (out.device >= kMaxDevices) return Bad("device out of range");
  std::span<const std::byte> bytes = in.Rest();
  if (bytes.size() % sizeof(ProcessUse) != 0) return Bad("process list has a wrong length");
  out.processes = WireArray<ProcessUse>(bytes);
  if (out.processes.size() > kMaxProcesses) return Bad("too many processes");
  for (size_t i = 0; i < out.processes.size(); ++i) {
    if (out.processes[i].name.back() != '\0') return Bad("process name has no end");
  }
  return Message(out);
}

Result<Message> DecodeHeartbeat(Cursor in) {
  Heartbeat out;
  out.boot_ns = in.Number<int64_t>();
  out.sequence = in.Number<uint64_t>();
  out.calls = in.Number<uint64_t>();
  out.dropped = in.Number<uint64_t>();
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

Result<Message> DecodeMessage(std::span<const std::byte> bytes, size_t fields) {
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
    case MessageType::kReadings: return DecodeReadings(in, fields);
    case MessageType::kProcesses: return DecodeProcesses(in);
    case MessageType::kHeartbeat: return DecodeHeartbeat(in);
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
  facts = facts.first(std::min(facts.size(), kMaxFacts));
  Begin(MessageType::kDevice);
  Number(head.device);
  Number(static_cast<uint32_t>(head.state));
  Number(head.code);
  Number(static_cast<uint32_t>(facts.size()));
  for (const Fact& fact : facts) {
    Text(fact.key);
    Text(fact.value);
  }
  return Finish();
}

MessageEncoder::Bytes MessageEncoder::Encode(std::span<const Reading> readings) {
  Begin(MessageType::kReadings);
  readings = readings.first(std::min(readings.size(), (kMaxMessage - sizeof(Header)) / sizeof(Reading)));
  Raw(readings.data(), readings.size_bytes());
  return Finish();
}

MessageEncoder::Bytes MessageEncoder::Encode(uint32_t device, int64_t boot_ns,
                                             std::span<const ProcessUse> processes) {
  Begin(MessageType::kProcesses);
  processes = processes.first(std::min(processes.size(), kMaxProcesses));
  Number(device);
  Number(uint32_t{0});
  Number(boot_ns);
  Raw(processes.data(), processes.size_bytes());
  return Finish();
}

MessageEncoder::Bytes MessageEncoder::Encode(const Heartbeat& message) {
  Begin(MessageType::kHeartbeat);
  Number(message.boot_ns);
  Number(message.sequence);
  Number(message.calls);
  Number(message.dropped);
  return Finish();
}

MessageEncoder::Bytes MessageEncoder::Encode(const AttachRequest& message) {
  Begin(MessageType::kAttach);
  Number(message.device);
  return Finish();
}

}  // namespace gpulens::driver
