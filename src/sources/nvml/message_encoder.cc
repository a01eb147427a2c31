#include "sources/nvml/message_encoder.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace gpulens::nvml {

void MessageEncoder::Begin(MessageType type) {
  buffer_.clear();
  Number(MessageHeader{.type = static_cast<uint16_t>(type)});
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
  auto payload = static_cast<uint32_t>(buffer_.size() - sizeof(MessageHeader));
  std::memcpy(buffer_.data() + offsetof(MessageHeader, payload), &payload, sizeof payload);
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
  readings =
      readings.first(std::min(readings.size(), (kMaxMessage - sizeof(MessageHeader)) / sizeof(Reading)));
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
  events = events.first(std::min(events.size(), (kMaxMessage - sizeof(MessageHeader)) / sizeof(DeviceEvent)));
  Raw(events.data(), events.size_bytes());
  return Finish();
}

MessageEncoder::Bytes MessageEncoder::Encode(const Heartbeat& message) {
  Begin(MessageType::kHeartbeat);
  Number(message.boot_ns);
  Number(message.sequence);
  Number(message.calls);
  Number(message.dropped);
  Number(message.watched);
  return Finish();
}

MessageEncoder::Bytes MessageEncoder::Encode(const AttachRequest& message) {
  Begin(MessageType::kAttach);
  Number(message.entity);
  return Finish();
}

MessageEncoder::Bytes MessageEncoder::Encode(uint32_t entity, PartKind kind, uint32_t max,
                                             std::span<const PartKey> keys) {
  Begin(MessageType::kParts);
  keys = keys.first(std::min(keys.size(), kMaxParts));
  Number(entity);
  Number(static_cast<uint32_t>(kind));
  Number(max);
  Raw(keys.data(), keys.size_bytes());
  return Finish();
}

MessageEncoder::Bytes MessageEncoder::Encode(uint32_t entity, const PartKey& key,
                                             std::span<const Fact> facts) {
  facts = facts.first(std::min(facts.size(), kMaxPartFacts));
  Begin(MessageType::kPart);
  Number(entity);
  Number(key);
  Number(static_cast<uint32_t>(facts.size()));
  for (const Fact& fact : facts) {
    Text(fact.key);
    Text(fact.value);
  }
  return Finish();
}

MessageEncoder::Bytes MessageEncoder::Encode(std::span<const PartReading> readings) {
  Begin(MessageType::kPartReadings);
  readings =
      readings.first(std::min(readings.size(), (kMaxMessage - sizeof(MessageHeader)) / sizeof(PartReading)));
  Raw(readings.data(), readings.size_bytes());
  return Finish();
}

MessageEncoder::Bytes MessageEncoder::Encode(uint32_t entity, int64_t boot_ns,
                                             std::span<const ProcessShare> shares) {
  Begin(MessageType::kProcessShares);
  shares = shares.first(std::min(shares.size(), kMaxProcesses));
  Number(entity);
  Number(uint32_t{0});
  Number(boot_ns);
  Raw(shares.data(), shares.size_bytes());
  return Finish();
}

}  // namespace gpulens::nvml
