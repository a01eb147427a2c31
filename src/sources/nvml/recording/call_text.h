// The members of the library's structs that a call puts out, in order. Versions and what selects are passed
// in and belong to the question. `v` has Number(integer&), Text(char*, size) and Bytes(unsigned char*, size).
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/parse.h"
#include "sources/nvml/reader/nvml_abi.h"

namespace gpulens::nvml {

template <class V>
void Members(V& v, Utilization& s) {
  v.Number(s.gpu), v.Number(s.memory);
}
template <class V>
void Members(V& v, Memory& s) {
  v.Number(s.total), v.Number(s.free), v.Number(s.used);
}
template <class V>
void Members(V& v, MemoryV2& s) {
  v.Number(s.total), v.Number(s.reserved), v.Number(s.free), v.Number(s.used);
}
template <class V>
void Members(V& v, Bar1Memory& s) {
  v.Number(s.total), v.Number(s.free), v.Number(s.used);
}
template <class V>
void Members(V& v, TemperatureV1& s) {
  v.Number(s.temperature);
}
template <class V>
void Members(V& v, AddressingMode& s) {
  v.Number(s.value);
}
template <class V>
void Members(V& v, PciInfo& s) {
  v.Text(s.bus_id, sizeof s.bus_id), v.Text(s.bus_id_legacy, sizeof s.bus_id_legacy);
  v.Number(s.domain), v.Number(s.bus), v.Number(s.device), v.Number(s.device_id), v.Number(s.subsystem_id);
}
template <class V>
void Members(V& v, PciInfoV2& s) {
  v.Text(s.bus_id, sizeof s.bus_id);
  v.Number(s.domain), v.Number(s.bus), v.Number(s.device), v.Number(s.device_id), v.Number(s.subsystem_id);
}
template <class V>
void Members(V& v, MarginTemperature& s) {
  v.Number(s.margin);
}
template <class V>
void Members(V& v, FanSpeedInfo& s) {
  v.Number(s.speed);
}
template <class V>
void Members(V& v, FbcStats& s) {
  v.Number(s.sessions), v.Number(s.frame_rate), v.Number(s.latency);
}
template <class V>
void Members(V& v, SramEccErrorStatus& s) {
  for (unsigned long long* count :
       {&s.aggregate_parity, &s.aggregate_secded, &s.aggregate_corrected, &s.volatile_parity,
        &s.volatile_secded, &s.volatile_corrected, &s.bucket_l2, &s.bucket_sm, &s.bucket_pcie,
        &s.bucket_microcontroller, &s.bucket_other}) {
    v.Number(*count);
  }
  v.Number(s.threshold_exceeded);
}
inline constexpr unsigned kSramCounters = 11;
template <class V>
void Members(V& v, RowRemapperHistogram& s) {
  v.Number(s.max), v.Number(s.high), v.Number(s.partial), v.Number(s.low), v.Number(s.none);
}
template <class V>
void Members(V& v, FabricInfoV1& s) {
  v.Bytes(s.cluster_uuid, sizeof s.cluster_uuid), v.Number(s.status), v.Number(s.clique), v.Number(s.state);
}
template <class V>
void Members(V& v, FabricInfoV3& s) {
  v.Bytes(s.cluster_uuid, sizeof s.cluster_uuid), v.Number(s.status), v.Number(s.clique), v.Number(s.state);
  v.Number(s.health);
  if (s.version >> 24 >= 3) v.Number(s.summary);  // Version 2 ends before it.
}
template <class V>
void Members(V& v, ConfComputeState& s) {
  v.Number(s.environment), v.Number(s.feature), v.Number(s.dev_tools);
}
template <class V>
void Members(V& v, ConfComputeMemory& s) {
  v.Number(s.protected_kib), v.Number(s.unprotected_kib);
}
template <class V>
void Members(V& v, PlatformInfo& s) {
  v.Bytes(s.ib_guid, sizeof s.ib_guid), v.Bytes(s.chassis_serial, sizeof s.chassis_serial);
  v.Number(s.slot), v.Number(s.tray), v.Number(s.host), v.Number(s.peer_type), v.Number(s.module);
}
template <class V>
void Members(V& v, DeviceAttributes& s) {
  v.Number(s.multiprocessors), v.Number(s.copy_engines), v.Number(s.decoders), v.Number(s.encoders);
  v.Number(s.jpeg_engines), v.Number(s.ofa_engines), v.Number(s.gpu_slices), v.Number(s.compute_slices);
  v.Number(s.memory_mib);
}
template <class V>
void Members(V& v, GpmSupport& s) {
  v.Number(s.supported);
}
template <class V>
void Members(V& v, VgpuLicenseInfo& s) {
  v.Number(s.licensed), v.Number(s.state);
}

struct AnyVisitor {
  void Number(auto&) {}
  void Text(char*, size_t) {}
  void Bytes(unsigned char*, size_t) {}
};
template <class S>
concept HasMembers = requires(AnyVisitor v, S& s) { Members(v, s); };

// Calls of the library as text, both ways: the question is made of the call and what is passed in, the
// answer of what is put out. One description for the recorder and for the replay. Both may use it from any
// thread; an object belongs to one call.

// A function as tables of symbols and dlsym have it.
template <class Function>
void* Pointer(Function* function) {
  return reinterpret_cast<void*>(function);
}

// Whether a parameter needs no words of its own: a handle, a number, a text, a struct of struct_members.h.
template <class P>
constexpr bool kPlainParameter =
    std::is_same_v<P, Device> || std::is_same_v<P, unsigned> || std::is_same_v<P, unsigned long long> ||
    std::is_same_v<P, char*> || std::is_same_v<P, unsigned*> || std::is_same_v<P, int*> ||
    std::is_same_v<P, unsigned long long*> || HasMembers<std::remove_pointer_t<P>>;

// "nvmlDeviceGetClockInfo(1)": the call, then what was passed in besides the first handle, sizes of texts
// apart.
class Question {
 public:
  explicit Question(std::string_view call) : text_(call) {}

  void Add(std::string_view part) {
    text_ += open_ ? ", " : "(";
    open_ = true;
    text_ += part;
  }
  void In(unsigned number) {
    if (!std::exchange(size_follows_, false)) Add(std::to_string(number));
  }
  void In(unsigned long long number) { Add(std::to_string(number)); }
  void In(const char*) { size_follows_ = true; }
  void In(const unsigned*) { size_follows_ = false; }
  void In(const int*) {}
  void In(const unsigned long long*) {}
  template <HasMembers S>
  void In(const S* out) {
    if (!out) return;
    if constexpr (requires { out->version; }) {
      unsigned version = out->version >> 24;
      Add("v" + std::to_string(version ? version : out->version));
    }
    if constexpr (std::is_same_v<S, TemperatureV1>) Add(std::to_string(out->sensor));
    if constexpr (std::is_same_v<S, FanSpeedInfo>) Add(std::to_string(out->fan));
  }

  std::string Take() && { return open_ ? std::move(text_) + ")" : std::move(text_); }

 private:
  std::string text_;
  bool open_ = false, size_follows_ = false;
};

// From what a call has put out to values.
class ValuesOut {
 public:
  explicit ValuesOut(std::vector<std::string>& values) : values_(values) {}

  void Out(Device) {}
  void Out(unsigned) { size_follows_ = false; }
  void Out(unsigned long long) {}
  void Out(const char* text) {
    if (text) values_.emplace_back(text, ::strnlen(text, kMostText));
    size_follows_ = true;
  }
  void Out(const unsigned* out) {
    if (!std::exchange(size_follows_, false) && out) Number(*out);
  }
  template <std::integral T>
  void Out(const T* out) {
    if (out) Number(*out);
  }
  template <HasMembers S>
  void Out(S* out) {
    if (out) Members(*this, *out);
  }

  void Number(std::integral auto number) { values_.push_back(std::to_string(number)); }
  void Text(const char* text, size_t size) { values_.emplace_back(text, ::strnlen(text, size)); }
  void Bytes(const unsigned char* bytes, size_t size) {
    std::string& hex = values_.emplace_back();
    for (size_t i = 0; i < size; ++i) {
      constexpr char kDigits[] = "0123456789abcdef";
      (hex += kDigits[bytes[i] >> 4]) += kDigits[bytes[i] & 15];
    }
  }

 private:
  static constexpr size_t kMostText = 96;  // The room that our readers give.
  std::vector<std::string>& values_;
  bool size_follows_ = false;
};

// From values to what a call puts out. A value that does not fit makes code() an error.
class ValuesIn {
 public:
  explicit ValuesIn(const std::vector<std::string>& values) : values_(values) {}

  int code() {
    if (text_) CopyText(kGspVersionBytes);
    return code_;
  }

  void Out(Device) {}
  void Out(unsigned size) {
    if (text_) CopyText(size);
  }
  void Out(unsigned long long) {}
  void Out(char* text) { text_ = text; }
  void Out(unsigned* out) {
    if (text_) return CopyText(out ? *out : 0);
    if (out) Number(*out);
  }
  template <std::integral T>
  void Out(T* out) {
    if (out) Number(*out);
  }
  template <HasMembers S>
  void Out(S* out) {
    if (out) Members(*this, *out);
    else code_ = kInvalidArgument;
  }

  template <std::integral T>
  void Number(T& out) {
    std::optional<T> number;
    if (at_ < values_.size()) number = ParseInt<T>(values_[at_++]);
    if (number) out = *number;
    else code_ = kUnknownError;
  }
  void Text(char* out, size_t size) {
    text_ = out;
    CopyText(size);
  }
  void Bytes(unsigned char* out, size_t size) {
    std::string_view hex = at_ < values_.size() ? std::string_view(values_[at_++]) : std::string_view();
    if (hex.size() != 2 * size) code_ = kUnknownError;
    for (size_t i = 0; i < size && code_ == kSuccess; ++i) {
      auto byte = ParseInt<unsigned char>(hex.substr(2 * i, 2), 16);
      if (byte) out[i] = *byte;
      else code_ = kUnknownError;
    }
  }

 private:
  void CopyText(size_t size) {
    char* out = std::exchange(text_, nullptr);
    if (at_ == values_.size()) {
      code_ = kUnknownError;
      return;
    }
    const std::string& text = values_[at_++];
    if (text.size() >= size) {
      code_ = kInsufficientSize;
      return;
    }
    std::memcpy(out, text.c_str(), text.size() + 1);
  }

  const std::vector<std::string>& values_;
  size_t at_ = 0;
  int code_ = kSuccess;
  char* text_ = nullptr;
};

}  // namespace gpulens::nvml
