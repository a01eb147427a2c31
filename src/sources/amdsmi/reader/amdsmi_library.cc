#include "sources/amdsmi/reader/amdsmi_library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/result.h"
#include "sources/amdsmi/amdsmi_fields.h"
#include "sources/amdsmi/reader/amdsmi_reader.h"

namespace gpulens::amdsmi {
namespace {

using driver::Fault;

constexpr uint32_t kMaxSockets = 64;

// Converts through the type of the member: dlsym gives an object pointer.
template <class Function>
void Assign(Function& member, void* symbol) {
  member = reinterpret_cast<Function>(symbol);
}

template <class Lookup>
void Fill(Symbols& symbols, Lookup lookup){
#define GPULENS_AMDSMI_ASSIGN(id, name, parameters) Assign(symbols.id, lookup(name));
    GPULENS_AMDSMI_CALLS(GPULENS_AMDSMI_ASSIGN)
#undef GPULENS_AMDSMI_ASSIGN
}

driver::VendorLibrary::Opened Failed(Fault fault, int code, std::string detail) {
  driver::VendorLibrary::Opened out;
  out.fault = fault;
  out.code = code;
  out.detail = std::move(detail);
  return out;
}

driver::VendorLibrary::Opened FailedCall(int code, std::string_view call) {
  std::string text = std::string(call) + ": " + std::string(ReturnText(code));
  switch (code) {
    case kNoPermission:
      return Failed(Fault::kNoPermission, code,
                    "no permission to read the GPUs (" + text +
                        "): add this user to the groups render and video, or run as root");
    case kDriverNotLoaded:
      return Failed(Fault::kDriverNotLoaded, code,
                    "the amdgpu kernel driver is not loaded: modprobe amdgpu, or look for its reason in the "
                    "kernel log");
    default:
      return Failed(Fault::kLibraryError, code,
                    "the AMD SMI library failed with code " + std::to_string(code) + ": " + text);
  }
}

}  // namespace

const std::vector<std::string>& AmdsmiLibrary::DefaultPaths() {
  // After the loader's own search: where ROCm, its containers and operators put the library.
  static const std::vector<std::string> paths = {
      "libamd_smi.so.26",
      "libamd_smi.so.25",
      "libamd_smi.so.24",
      "libamd_smi.so",
      "/opt/rocm/lib/libamd_smi.so",
      "/opt/rocm/lib64/libamd_smi.so",
      "/opt/amdgpu/lib/libamd_smi.so",
      "/run/opengl-driver/lib/libamd_smi.so",
  };
  return paths;
}

Status AmdsmiLibrary::Load() {
  if (lookup_) {
    path_ = "simulated library";
    Fill(symbols_, lookup_);
    return Complete();
  }
  std::string first_error;
  bool denied = false;
  for (const std::string& candidate : path_.empty() ? DefaultPaths() : std::vector<std::string>{path_}) {
    void* handle = ::dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle) {
      path_ = candidate;
      Fill(symbols_, [handle](const char* name) { return ::dlsym(handle, name); });
      return Complete();
    }
    const char* error = ::dlerror();
    if (first_error.empty()) first_error = error ? error : "cannot be opened";
    bool file = candidate.find('/') != std::string::npos;
    if (file && ::access(candidate.c_str(), R_OK) != 0 && errno == EACCES) denied = true;
  }
  if (denied) return Status{Code::kPermissionDenied, first_error};
  return Status{Code::kUnavailable, "library not found: " + first_error};
}

Status AmdsmiLibrary::Complete() const {
  if (symbols_.Init && symbols_.SocketHandles && symbols_.ProcessorHandles) return Ok();
  return {Code::kDataLoss,
          path_ +
              " is not an AMD SMI library: it lacks amdsmi_init, amdsmi_get_socket_handles or "
              "amdsmi_get_processor_handles"};
}

driver::VendorLibrary::Opened AmdsmiLibrary::Open(driver::CallSlot& slot) {
  driver::CallGate gate(slot, RealClock());
  gate.Begin(static_cast<driver::CallNumber>(Call::kLoadLibrary));
  Status loaded = Load();
  gate.End();
  if (!loaded) {
    bool denied = loaded.code == Code::kPermissionDenied;
    Opened out = Failed(denied ? Fault::kNoPermission : Fault::kLibraryNotFound, 0, loaded.detail);
    out.path = path_;
    return out;
  }
  Caller caller(*this, gate);
  Opened out;
  if (int code = caller.Do(Call::kInit, symbols_.Init, kInitGpus); code != kSuccess) {
    out = FailedCall(code, "amdsmi_init");
  } else if (code = Enumerate(gate); code != kSuccess) {
    out = FailedCall(code, "listing the GPUs");
  }
  out.path = path_;
  alignas(8) uint32_t words[16] = {};  // Room for the pointer behind the numbers, and for more to come.
  if (caller.Do(Call::kLibVersion, symbols_.LibVersion, static_cast<void*>(words)) == kSuccess) {
    version_ = VersionFrom({words[0], words[1], words[2], words[3]});
  }
  layout_ = LayoutOf(version_);
  out.library_version = version_.Text();
  if (out.fault != Fault::kNone) return out;
  out.devices = static_cast<uint32_t>(processors_.size());
  if (layout_ && !processors_.empty()) {
    std::array<char, kScratchBytes> info{};
    if (caller.Do(Call::kDriverInfo, symbols_.DriverInfo, processors_.front().handle,
                  static_cast<void*>(info.data())) == kSuccess) {
      const char* text = info.data() + layout_->driver_version.offset;
      out.driver_version.assign(text, ::strnlen(text, layout_->driver_version.size));
    }
  }
  return out;
}

int AmdsmiLibrary::Enumerate(driver::CallGate& gate) {
  Caller caller(*this, gate);
  uint32_t sockets = 0;
  int code = caller.Do(Call::kSocketHandles, symbols_.SocketHandles, &sockets, static_cast<Handle*>(nullptr));
  if (code != kSuccess) return code;
  std::vector<Handle> list(std::min(sockets, kMaxSockets), nullptr);
  sockets = static_cast<uint32_t>(list.size());
  if (sockets == 0) return kSuccess;
  code = caller.Do(Call::kSocketHandles, symbols_.SocketHandles, &sockets, list.data());
  if (code != kSuccess) return code;
  list.resize(std::min<size_t>(list.size(), sockets));
  for (Handle socket : list) {
    std::array<Handle, driver::kMaxDevices> processors{};
    auto count = static_cast<uint32_t>(processors.size());
    code = caller.Do(Call::kProcessorHandles, symbols_.ProcessorHandles, socket, &count, processors.data());
    if (code != kSuccess) return code;
    count = std::min(count, static_cast<uint32_t>(processors.size()));
    for (uint32_t i = 0; i < count && processors_.size() < driver::kMaxDevices; ++i) {
      uint32_t type = kTypeGpu;
      bool told = caller.Do(Call::kProcessorType, symbols_.ProcessorType, processors[i], &type) == kSuccess;
      if (!processors[i] || (told && type != kTypeGpu && type != kTypeApu)) continue;
      Processor& processor = processors_.emplace_back();
      processor.handle = processors[i];
      if (caller.Do(Call::kBdf, symbols_.Bdf, processors[i], &processor.bdf) != kSuccess) processor.bdf = 0;
    }
  }
  NumberBoards();
  return kSuccess;
}

// Partitions of a GPU differ in the function of their PCI address alone.
void AmdsmiLibrary::NumberBoards() {
  uint32_t boards = 0;
  for (size_t i = 0; i < processors_.size(); ++i) {
    Processor& processor = processors_[i];
    auto same = [&](const Processor& other) { return other.bdf >> 3 == processor.bdf >> 3; };
    auto here = processors_.begin() + static_cast<std::ptrdiff_t>(i);
    auto first = processor.bdf == 0 ? here : std::find_if(processors_.begin(), here, same);
    processor.gpu = first == here ? boards++ : first->gpu;
    processor.partition = first == here ? 0 : static_cast<uint32_t>(std::count_if(first, here, same));
  }
  for (Processor& processor : processors_) {
    auto same = [&](const Processor& other) { return other.gpu == processor.gpu; };
    processor.partitions = static_cast<uint32_t>(std::count_if(processors_.begin(), processors_.end(), same));
  }
}

std::unique_ptr<driver::DeviceReader> AmdsmiLibrary::MakeReader(uint32_t index, driver::CallSlot& slot,
                                                                const Clock& clock,
                                                                const driver::TierClock::Periods& periods) {
  return std::make_unique<AmdsmiReader>(*this, index, slot, clock, periods);
}

}  // namespace gpulens::amdsmi
