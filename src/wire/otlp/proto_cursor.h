// The fields of one protobuf message, one after the other, without copying and without exceptions.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>


namespace gpulens {

enum class WireType : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

// Views into the message.
struct ProtoField {
  uint32_t number = 0;
  WireType wire = WireType::kVarint;
  std::string_view whole;  // with its tag
  std::string_view bytes;  // the content of kBytes; of the others the value as it stands
  uint64_t value = 0;      // of kVarint
};

// Plain bytes in, fields out. After the last field, or at the first that cannot be read, Next is false and
// broken() tells which. Groups, which OTLP never had, count as broken.
class ProtoCursor {
 public:
  explicit ProtoCursor(std::string_view message) noexcept
      : at_(message.data()), end_(message.data() + message.size()) {}

  bool broken() const noexcept { return broken_; }

  bool Next(ProtoField& out) noexcept {
    if (at_ == end_) return false;
    const char* const begin = at_;
    uint64_t tag = 0;
    if (!Varint(tag) || tag > UINT32_MAX || (tag >> 3) == 0) return Break();
    out.number = static_cast<uint32_t>(tag >> 3);
    const char* value = at_;
    switch (tag & 7) {
      case 0:
        out.wire = WireType::kVarint;
        if (!Varint(out.value)) return Break();
        break;
      case 1:
        out.wire = WireType::kFixed64;
        if (end_ - at_ < 8) return Break();
        at_ += 8;
        break;
      case 2: {
        out.wire = WireType::kBytes;
        uint64_t length = 0;
        if (!Varint(length) || length > static_cast<uint64_t>(end_ - at_)) return Break();
        value = at_;
        at_ += length;
        break;
      }
      case 5:
        out.wire = WireType::kFixed32;
        if (end_ - at_ < 4) return Break();
        at_ += 4;
        break;
      default: return Break();
    }
    out.bytes = {value, static_cast<size_t>(at_ - value)};
    out.whole = {begin, static_cast<size_t>(at_ - begin)};
    return true;
  }

  // The quick way for a field that is expected next: false, and nothing is taken, unless it has this number
  // (below 16), holds bytes, and is shorter than 128 of them.
  bool NextShort(uint32_t number, ProtoField& out) noexcept {
    const auto tag = static_cast<unsigned char>(number << 3 | static_cast<uint32_t>(WireType::kBytes));
    if (end_ - at_ < 2 || static_cast<unsigned char>(*at_) != tag) return false;
    const size_t length = static_cast<unsigned char>(at_[1]);
    if (length >= 0x80 || length + 2 > static_cast<size_t>(end_ - at_)) return false;
    out.number = number;
    out.wire = WireType::kBytes;
    out.whole = {at_, length + 2};
    out.bytes = {at_ + 2, length};
    at_ += length + 2;
    return true;
  }

  // A varint alone, as they stand in a packed field. False when it is longer than ten bytes, larger than 64
  // bits, or cut off.
  bool Varint(uint64_t& out) noexcept {
    if (at_ != end_ && static_cast<unsigned char>(*at_) < 0x80) {
      out = static_cast<unsigned char>(*at_++);
      return true;
    }
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 70 && at_ != end_; shift += 7) {
      const auto byte = static_cast<unsigned char>(*at_++);
      if (shift == 63 && byte > 1) return false;
      value |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return out = value, true;
    }
    return false;
  }
  bool at_end() const noexcept { return at_ == end_; }

 private:
  bool Break() noexcept {
    broken_ = true;
    at_ = end_;
    return false;
  }

  const char* at_;
  const char* end_;
  bool broken_ = false;
};

constexpr size_t VarintSize(uint64_t value) noexcept {
  size_t size = 1;
  for (; value >= 0x80; value >>= 7) ++size;
  return size;
}

inline void AppendVarint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

// Numbers of protobuf, alone and in lists.

constexpr int64_t UnZigZag(uint64_t value) noexcept {
  return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
}

// Reads a value of eight bytes.
template <class Value>
Value AsFixed(std::string_view bytes) noexcept {
  static_assert(sizeof(Value) == 8);
  Value value;
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

template <class Value, class Take>
bool ForEachFixed(const ProtoField& field, Take take) {
  const bool list = field.wire == WireType::kBytes;
  if ((!list && field.wire != WireType::kFixed64) || field.bytes.size() % 8 != 0) return false;
  for (size_t at = 0; at < field.bytes.size(); at += 8) take(AsFixed<Value>(field.bytes.substr(at, 8)));
  return true;
}

}  // namespace gpulens
