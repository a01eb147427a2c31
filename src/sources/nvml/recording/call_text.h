// Calls of the library as text, both ways, for the recorder and the replay. The question is made of the call
// and what is passed in, the answer of what is put out.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/parse.h"
#include "sources/nvml/reader/nvml_abi.h"
#include "sources/nvml/recording/recording.h"

// Calls whose answers ValuesOut and ValuesIn cannot describe: X(Id).
// clang-format off
#define GPULENS_NVML_PROCESS_CALLS(X) \
  X(ComputeProcessesV3) X(ComputeProcessesV2) X(ComputeProcesses) \
  X(GraphicsProcessesV3) X(GraphicsProcessesV2) X(GraphicsProcesses) \
  X(MpsProcessesV3) X(MpsProcessesV2) X(MpsProcesses)
#define GPULENS_NVML_SPECIAL_CALLS(X) \
  X(Init) X(InitV1) X(DeviceCount) X(DeviceCountV1) X(HandleByIndex) X(HandleByIndexV1) X(MigDeviceHandle) \
  X(FieldValues) X(CpuAffinity) X(MemoryAffinity) X(EventSetCreate) X(RegisterEvents) X(EventWait) \
  X(EventWaitV1) X(Samples) X(GpmAlloc) X(GpmFree) X(GpmTake) X(GpmTakeMig) X(GpmMetrics) \
  X(ProcessesUtilizationInfo) X(ProcessUtilization) X(ActiveVgpus) X(VgpusUtilizationInfo) X(VgpuUtilization)
// clang-format on

namespace gpulens::nvml {

// The members of a struct that a call puts out, in order: integers, texts (char[]) and bytes (unsigned
// char[]). Versions and selectors are passed in, and belong to the question.
inline auto Members(Utilization& s) { return std::tie(s.gpu, s.memory); }
inline auto Members(Memory& s) { return std::tie(s.total, s.free, s.used); }
inline auto Members(MemoryV2& s) { return std::tie(s.total, s.reserved, s.free, s.used); }
inline auto Members(Bar1Memory& s) { return std::tie(s.total, s.free, s.used); }
inline auto Members(TemperatureV1& s) { return std::tie(s.temperature); }
inline auto Members(AddressingMode& s) { return std::tie(s.value); }
inline auto Members(PciInfo& s) {
  return std::tie(s.bus_id, s.bus_id_legacy, s.domain, s.bus, s.device, s.device_id, s.subsystem_id);
}
inline auto Members(PciInfoV2& s) {
  return std::tie(s.bus_id, s.domain, s.bus, s.device, s.device_id, s.subsystem_id);
}
inline auto Members(MarginTemperature& s) { return std::tie(s.margin); }
inline auto Members(FanSpeedInfo& s) { return std::tie(s.speed); }
inline auto Members(FbcStats& s) { return std::tie(s.sessions, s.frame_rate, s.latency); }
inline auto Members(SramEccErrorStatus& s) {
  return std::tie(s.aggregate_parity, s.aggregate_secded, s.aggregate_corrected, s.volatile_parity,
                  s.volatile_secded, s.volatile_corrected, s.bucket_l2, s.bucket_sm, s.bucket_pcie,
                  s.bucket_microcontroller, s.bucket_other, s.threshold_exceeded);
}
inline constexpr unsigned kSramCounters = 11;  // all members but the last
inline auto Members(RowRemapperHistogram& s) { return std::tie(s.max, s.high, s.partial, s.low, s.none); }
inline auto Members(FabricInfoV1& s) { return std::tie(s.cluster_uuid, s.status, s.clique, s.state); }
// Version 2 ends before `summary`, which is then left out.
inline auto Members(FabricInfoV3& s) {
  return std::tie(s.cluster_uuid, s.status, s.clique, s.state, s.health, s.summary);
}
inline auto Members(ConfComputeState& s) { return std::tie(s.environment, s.feature, s.dev_tools); }
inline auto Members(ConfComputeMemory& s) { return std::tie(s.protected_kib, s.unprotected_kib); }
inline auto Members(PlatformInfo& s) {
  return std::tie(s.ib_guid, s.chassis_serial, s.slot, s.tray, s.host, s.peer_type, s.module);
}
inline auto Members(DeviceAttributes& s) {
  return std::tie(s.multiprocessors, s.copy_engines, s.decoders, s.encoders, s.jpeg_engines, s.ofa_engines,
                  s.gpu_slices, s.compute_slices, s.memory_mib);
}
inline auto Members(GpmSupport& s) { return std::tie(s.supported); }
inline auto Members(VgpuLicenseInfo& s) { return std::tie(s.licensed, s.state); }

template <class S>
concept HasMembers = requires(S& s) { Members(s); };

// Calls `visit` with each member that this version of the struct has.
template <HasMembers S, class Visit>
void ForMembers(S& s, Visit visit) {
  size_t count = std::tuple_size_v<decltype(Members(s))>;
  if constexpr (std::is_same_v<S, FabricInfoV3>) count -= s.version >> 24 < 3;
  std::apply([&](auto&... members) { ((count > 0 ? (--count, visit(members)) : void()), ...); }, Members(s));
}

// A function as dlsym returns it.
template <class Function>
void* Pointer(Function* function) {
  return reinterpret_cast<void*>(function);
}
struct NamedFunction {
  std::string_view name;
  void* function;
};
// Null when no function has the name.
inline void* FindFunction(std::span<const NamedFunction> functions, std::string_view name) {
  auto named = std::ranges::find(functions, name, &NamedFunction::name);
  return named == functions.end() ? nullptr : named->function;
}

// Whether CallQuestion, ValuesOut and ValuesIn know a parameter: a handle, a number, a text, a struct with
// Members.
template <class P>
constexpr bool kPlainParameter =
    std::is_same_v<P, Device> || std::is_same_v<P, unsigned> || std::is_same_v<P, unsigned long long> ||
    std::is_same_v<P, char*> || std::is_same_v<P, unsigned*> || std::is_same_v<P, int*> ||
    std::is_same_v<P, unsigned long long*> || HasMembers<std::remove_pointer_t<P>>;

// "nvmlDeviceGetClockInfo(1)": the call, then what was passed in besides the first handle and the sizes of
// texts.
class CallQuestion {
 public:
  explicit CallQuestion(std::string_view call) : text_(call) {}

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

// "nvmlDeviceGetMemoryAffinity(0)"
inline std::string QuestionOf(std::string_view call, unsigned selector) {
  return std::string(call) + "(" + std::to_string(selector) + ")";
}
// "field 138(3)": scope 0 is omitted, all ones is "all".
std::string FieldQuestion(const FieldValue& value);
// The selector of nvmlGpmMetricsGet: the greatest id in a request.
unsigned GreatestMetric(std::span<const GpmMetric> metrics) noexcept;

// An answer without values.
inline RecordedAnswer AnswerOf(int code) { return {.code = code, .values = {}}; }

// Appends what a call has put out to the values of an answer. Used for one call.
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
    if (!std::exchange(size_follows_, false) && out) Add(*out);
  }
  template <std::integral T>
  void Out(const T* out) {
    if (out) Add(*out);
  }
  template <HasMembers S>
  void Out(S* out) {
    if (out) ForMembers(*out, [this](const auto& member) { this->Add(member); });
  }

 private:
  static constexpr size_t kMostText = 96;  // The room that our readers give.

  void Add(std::integral auto number) { values_.push_back(std::to_string(number)); }
  template <size_t kSize>
  void Add(const char (&text)[kSize]) {
    values_.emplace_back(text, ::strnlen(text, kSize));
  }
  template <size_t kSize>
  void Add(const unsigned char (&bytes)[kSize]) {
    AddBytes(bytes);
  }
  void AddBytes(std::span<const unsigned char> bytes);

  std::vector<std::string>& values_;
  bool size_follows_ = false;
};

// Puts the values of an answer out, as the call did. A value that does not fit makes code() an error. Used
// for one call.
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
    if (out) Read(*out);
  }
  template <std::integral T>
  void Out(T* out) {
    if (out) Read(*out);
  }
  template <HasMembers S>
  void Out(S* out) {
    if (out) ForMembers(*out, [this](auto& member) { this->Read(member); });
    else code_ = kInvalidArgument;
  }

 private:
  template <std::integral T>
  void Read(T& out) {
    std::optional<T> number;
    if (at_ < values_.size()) number = ParseInt<T>(values_[at_++]);
    if (number) out = *number;
    else code_ = kUnknownError;
  }
  template <size_t kSize>
  void Read(char (&out)[kSize]) {
    text_ = out;
    CopyText(kSize);
  }
  template <size_t kSize>
  void Read(unsigned char (&out)[kSize]) {
    ReadBytes(out);
  }
  void ReadBytes(std::span<unsigned char> out);
  void CopyText(size_t size);

  const std::vector<std::string>& values_;
  size_t at_ = 0;
  int code_ = kSuccess;
  char* text_ = nullptr;
};

// The types of the library's union of values. A value is "12" next to its type.
inline constexpr std::string_view kValueTypes[] = {"double", "uint", "ulong", "ull", "sll", "int", "ushort"};
// kDouble … kUshort; 7 for an unknown name.
unsigned TypeOf(std::string_view name) noexcept;
// False when the text is no value of the type.
bool ValueOf(unsigned type, std::string_view text, Value& out) noexcept;
std::string TextOf(double value);
std::string TextOf(unsigned type, const Value& value);

}  // namespace gpulens::nvml
