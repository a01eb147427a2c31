// The functions of the recorder that open the library, give handles, and answer field values and processes.
#include <algorithm>

#include "sources/nvml/capture/spool.h"
#include "sources/nvml/driver_protocol.h"
#include "sources/nvml/reader/nvml_abi.h"

namespace gpulens::nvml {
namespace {

constexpr std::string_view kHandle = "nvmlDeviceGetHandleByIndex_v2";

int Init() { return Recorded().Init(); }
int InitV1() { return Recorded().InitV1(); }

int Count(int (*function)(unsigned*), unsigned* out) {
  int code = function(out);
  if (code == kSuccess && out) *out = SeemingCount(*out);
  Note("system", "nvmlDeviceGetCount_v2",
       {.code = code,
        .values = code == kSuccess ? std::vector{std::to_string(*out)} : std::vector<std::string>()});
  return code;
}
int DeviceCount(unsigned* out) { return Count(Recorded().DeviceCount.pointer, out); }
int DeviceCountV1(unsigned* out) { return Count(Recorded().DeviceCountV1.pointer, out); }

int Handle(int (*function)(unsigned, Device*), unsigned index, Device* out) {
  unsigned real = RealIndex(index);
  if (real == ~0U) return kInvalidArgument;
  int code = function(real, out);
  std::string name = "gpu" + std::to_string(index);
  if (code == kSuccess) NameDevice(*out, name);
  Note(name, std::string(kHandle), {.code = code, .values = {}});
  return code;
}
int HandleByIndex(unsigned index, Device* out) {
  return Handle(Recorded().HandleByIndex.pointer, index, out);
}
int HandleByIndexV1(unsigned index, Device* out) {
  return Handle(Recorded().HandleByIndexV1.pointer, index, out);
}

int MigDeviceHandle(Device device, unsigned place, Device* out) {
  int code = Recorded().MigDeviceHandle(device, place, out);
  std::string gpu = NameOfDevice(device);
  if (code == kSuccess && !gpu.empty()) NameDevice(*out, gpu + ".mig" + std::to_string(place));
  Question question("nvmlDeviceGetMigDeviceHandleByIndex");
  question.In(place);
  Note(gpu, std::move(question).Take(), {.code = code, .values = {}});
  return code;
}

int FieldValues(Device device, int count, FieldValue* values) {
  int code = Recorded().FieldValues(device, count, values);
  std::string name = NameOfDevice(device);
  Note(name, "nvmlDeviceGetFieldValues", {.code = code, .values = {}});
  if (code != kSuccess) return code;
  for (const FieldValue& value : std::span(values, static_cast<size_t>(std::max(count, 0)))) {
    Answer answer{.code = value.code, .values = {}};
    if (value.code == kSuccess) {
      unsigned type = std::min(value.value_type, unsigned{kUshort});
      answer.values = {TextOf(type, value.value), std::string(kValueTypes[type])};
    }
    Note(name, FieldQuestion(value), std::move(answer));
  }
  return code;
}

std::string OrNone(uint64_t number, uint64_t none) {
  return number == none ? "none" : std::to_string(number);
}

template <auto kMember>
int ListedProcesses(Device device, unsigned* count, void* out) {
  unsigned room = *count;
  const auto& function = Recorded().*kMember;
  int code = function(device, count, out);
  if (code == kInsufficientSize) return code;  // Called again with more room.
  std::string_view name = CallName(function.call);
  bool v1 = !name.ends_with("_v2") && !name.ends_with("_v3");
  Answer answer{.code = code, .values = {}};
  for (unsigned i = 0; code == kSuccess && i < std::min(*count, room); ++i) {
    if (v1) {
      const auto& info = static_cast<const ProcessInfoV1*>(out)[i];
      answer.values.insert(answer.values.end(), {std::to_string(info.pid), OrNone(info.used_memory, ~0ULL)});
      continue;
    }
    const auto& info = static_cast<const ProcessInfoV2*>(out)[i];
    answer.values.insert(answer.values.end(),
                         {std::to_string(info.pid), OrNone(info.used_memory, ~0ULL),
                          OrNone(info.gpu_instance, ~0U), OrNone(info.compute_instance, ~0U)});
  }
  Note(NameOfDevice(device), std::string(name), std::move(answer));
  return code;
}

// The words of a set as hexadecimal numbers, without those that are 0 at its end.
Answer WordsOf(int code, std::span<const unsigned long> words) {
  Answer answer{.code = code, .values = {}};
  if (code != kSuccess) return answer;
  while (!words.empty() && words.back() == 0) words = words.first(words.size() - 1);
  for (unsigned long word : words) {
    char text[20];
    auto [end, error] = std::to_chars(text, text + sizeof text, word, 16);
    answer.values.emplace_back(text, end);
  }
  return answer;
}

int CpuAffinity(Device device, unsigned size, unsigned long* out) {
  int code = Recorded().CpuAffinity(device, size, out);
  Note(NameOfDevice(device), "nvmlDeviceGetCpuAffinity", WordsOf(code, {out, size}));
  return code;
}
int MemoryAffinity(Device device, unsigned size, unsigned long* out, unsigned scope) {
  int code = Recorded().MemoryAffinity(device, size, out, scope);
  Question question("nvmlDeviceGetMemoryAffinity");
  question.In(scope);
  Note(NameOfDevice(device), std::move(question).Take(), WordsOf(code, {out, size}));
  return code;
}

int SetCreate(EventSet* out) {
  int code = Recorded().EventSetCreate(out);
  Note("system", "nvmlEventSetCreate", {.code = code, .values = {}});
  return code;
}
int Register(Device device, unsigned long long types, EventSet set) {
  int code = Recorded().RegisterEvents(device, types, set);
  Note(NameOfDevice(device), "nvmlDeviceRegisterEvents", {.code = code, .values = {}});
  return code;
}
int Wait(EventSet set, EventData* out, unsigned timeout_ms) {
  int code = Recorded().EventWait(set, out, timeout_ms);
  if (code == kSuccess) NoteEvent(*out);
  return code;
}
int WaitV1(EventSet set, EventDataV1* out, unsigned timeout_ms) {
  int code = Recorded().EventWaitV1(set, out, timeout_ms);
  if (code == kSuccess) NoteEvent({out->device, out->type, out->data, ~0U, ~0U});
  return code;
}

#define RECORD_PROCESSES(id) {CallName(Call::k##id), Pointer(&ListedProcesses<&Symbols::id>)}

}  // namespace

std::span<const RecorderSymbol> RecorderListSymbols() noexcept {
  static const RecorderSymbol kTable[] = {
      {"nvmlInit_v2", Pointer(&Init)},
      {"nvmlInit", Pointer(&InitV1)},
      {"nvmlDeviceGetCount_v2", Pointer(&DeviceCount)},
      {"nvmlDeviceGetCount", Pointer(&DeviceCountV1)},
      {"nvmlDeviceGetHandleByIndex_v2", Pointer(&HandleByIndex)},
      {"nvmlDeviceGetHandleByIndex", Pointer(&HandleByIndexV1)},
      {"nvmlDeviceGetMigDeviceHandleByIndex", Pointer(&MigDeviceHandle)},
      {"nvmlDeviceGetFieldValues", Pointer(&FieldValues)},
      {"nvmlDeviceGetCpuAffinity", Pointer(&CpuAffinity)},
      {"nvmlDeviceGetMemoryAffinity", Pointer(&MemoryAffinity)},
      {"nvmlEventSetCreate", Pointer(&SetCreate)},
      {"nvmlDeviceRegisterEvents", Pointer(&Register)},
      {"nvmlEventSetWait_v2", Pointer(&Wait)},
      {"nvmlEventSetWait", Pointer(&WaitV1)},
      RECORD_PROCESSES(ComputeProcessesV3),
      RECORD_PROCESSES(ComputeProcessesV2),
      RECORD_PROCESSES(ComputeProcesses),
      RECORD_PROCESSES(GraphicsProcessesV3),
      RECORD_PROCESSES(GraphicsProcessesV2),
      RECORD_PROCESSES(GraphicsProcesses),
      RECORD_PROCESSES(MpsProcessesV3),
      RECORD_PROCESSES(MpsProcessesV2),
      RECORD_PROCESSES(MpsProcesses),
  };
  return kTable;
}

}  // namespace gpulens::nvml
