// Numbers of protobuf, alone and in lists, over a ProtoField. Inside src/wire/remote_write only.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "wire/otlp/proto_cursor.h"

namespace gpulens::remote_write_in {

constexpr int64_t UnZigZag(uint64_t value) noexcept {
  return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
}

// Of eight bytes.
inline double AsDouble(std::string_view bytes) noexcept {
  double value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

// Of a repeated field, packed or one at a time. False when it is neither.
template <class Take>
bool ForEachVarint(const ProtoField& field, Take take) {
  if (field.wire == WireType::kVarint) return take(field.value), true;
  if (field.wire != WireType::kBytes) return false;
  ProtoCursor cursor(field.bytes);
  uint64_t value = 0;
  while (!cursor.at_end()) {
    if (!cursor.Varint(value)) return false;
    take(value);
  }
  return true;
}

template <class Take>
bool ForEachFixed(const ProtoField& field, Take take) {
  const bool list = field.wire == WireType::kBytes;
  if ((!list && field.wire != WireType::kFixed64) || field.bytes.size() % 8 != 0) return false;
  for (size_t at = 0; at < field.bytes.size(); at += 8) take(AsDouble(field.bytes.substr(at, 8)));
  return true;
}

}  // namespace gpulens::remote_write_in
