#include "sources/nvml/driver_protocol.h"

#include <algorithm>
#include <string>

#include "base/result.h"

namespace gpulens::nvml {
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
    if (reading.part >= kMaxParts) return Bad("part out of range");
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
  out.entity = in.Number<uint32_t>();
  if (!in.done()) return Bad("attach has a wrong length");
  if (out.entity >= kMaxGpus) return Bad("GPU out of range");
  return Message(out);
}

}  // namespace

Result<Message> DecodeMessage(std::span<const std::byte> bytes) {
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
    case MessageType::kEntity: return DecodeEntity(in);
    case MessageType::kReadings: return DecodeReadings(in);
    case MessageType::kProcesses: return DecodeProcesses(in);
    case MessageType::kEvents: return DecodeEvents(in);
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
  Number(static_cast<uint32_t>(message.phase));
  Number(message.code);
  Number(message.gpu_count);
  for (std::string_view text : {message.path, message.library_version, message.driver_version,
                                message.cuda_version, message.detail}) {
    Text(text);
  }
  return Finish();
}

MessageEncoder::Bytes MessageEncoder::Encode(uint32_t entity, int32_t code, std::span<const Fact> facts) {
  facts = facts.first(std::min(facts.size(), kMaxFacts));
  Begin(MessageType::kEntity);
  Number(entity);
  Number(code);
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

MessageEncoder::Bytes MessageEncoder::Encode(uint32_t entity, int64_t boot_ns,
                                             std::span<const GpuProcess> processes) {
  Begin(MessageType::kProcesses);
  processes = processes.first(std::min(processes.size(), kMaxProcesses));
  Number(entity);
  Number(uint32_t{0});
  Number(boot_ns);
  Raw(processes.data(), processes.size_bytes());
  return Finish();
}

MessageEncoder::Bytes MessageEncoder::Encode(std::span<const DeviceEvent> events) {
  Begin(MessageType::kEvents);
  events = events.first(std::min(events.size(), (kMaxMessage - sizeof(Header)) / sizeof(DeviceEvent)));
  Raw(events.data(), events.size_bytes());
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
  Number(message.entity);
  return Finish();
}

}  // namespace gpulens::nvml
