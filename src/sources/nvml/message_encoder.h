// Makes the messages of driver_protocol.h.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "sources/nvml/driver_protocol.h"

namespace gpulens::nvml {

// Makes one message at a time in a buffer that it keeps. Texts over kMaxText are cut, facts over
// kMaxFacts and elements that do not fit left out. Not thread-safe.
class MessageEncoder {
 public:
  using Bytes = std::span<const std::byte>;  // Valid until the next call.

  Bytes Encode(const Hello& message);
  Bytes Encode(const LibraryReport& message);
  Bytes Encode(uint32_t entity, int32_t code, std::span<const Fact> facts);
  Bytes Encode(std::span<const Reading> readings);
  Bytes Encode(uint32_t entity, int64_t boot_ns, std::span<const GpuProcess> processes);
  Bytes Encode(std::span<const DeviceEvent> events);
  Bytes Encode(const Heartbeat& message);
  Bytes Encode(const AttachRequest& message);
  Bytes Encode(uint32_t entity, PartKind kind, uint32_t max, std::span<const PartKey> keys);
  Bytes Encode(uint32_t entity, const PartKey& key, std::span<const Fact> facts);
  Bytes Encode(std::span<const PartReading> readings);
  Bytes Encode(uint32_t entity, int64_t boot_ns, std::span<const ProcessShare> shares);

 private:
  void Begin(MessageType type);
  void Raw(const void* data, size_t size);
  template <class T>
  void Number(T value) {
    Raw(&value, sizeof value);
  }
  void Text(std::string_view text);
  Bytes Finish();

  std::vector<std::byte> buffer_;
};

}  // namespace gpulens::nvml
