#include "sources/nvml/reader/nvml_library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cerrno>

#include "base/result.h"

namespace gpulens::nvml {
namespace {

constexpr const char* kWslPath = "/usr/lib/wsl/lib/libnvidia-ml.so.1";

// Converts through the type of the member: dlsym gives an object pointer.
template <class Function>
void Assign(Function& member, void* symbol) {
  member = reinterpret_cast<Function>(symbol);
}

template <class Lookup>
void Fill(Symbols& symbols, Lookup lookup) {
#define GPULENS_NVML_ASSIGN(id, name, parameters) Assign(symbols.id, lookup(name));
  GPULENS_NVML_CALLS(GPULENS_NVML_ASSIGN)
#undef GPULENS_NVML_ASSIGN
}

}  // namespace

const std::vector<std::string>& NvmlLibrary::DefaultPaths() {
  // After the loader's own search: where container toolkits, operators, WSL and Jetson put the driver.
  static const std::vector<std::string> paths = {
      "libnvidia-ml.so.1",
      "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
      "/usr/lib/aarch64-linux-gnu/libnvidia-ml.so.1",
      "/usr/lib64/libnvidia-ml.so.1",
      "/usr/local/nvidia/lib64/libnvidia-ml.so.1",
      "/run/nvidia/driver/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
      "/run/nvidia/driver/usr/lib64/libnvidia-ml.so.1",
      "/home/kubernetes/bin/nvidia/lib64/libnvidia-ml.so.1",
      kWslPath,
      "/run/opengl-driver/lib/libnvidia-ml.so.1",
      "/usr/lib/aarch64-linux-gnu/nvidia/libnvidia-ml.so.1",
      "/usr/lib/aarch64-linux-gnu/tegra/libnvidia-ml.so.1",
  };
  return paths;
}

Result<NvmlLibrary> NvmlLibrary::Open(const std::string& path) {
  std::string first_error;
  bool denied = false;
  std::vector<std::string> candidates = path.empty() ? DefaultPaths() : std::vector<std::string>{path};
  // On WSL a library of Linux's own driver may lie about, which finds no GPU.
  if (path.empty() && ::access("/dev/dxg", F_OK) == 0) candidates.insert(candidates.begin(), kWslPath);
  for (const std::string& candidate : candidates) {
    void* handle = ::dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle) {
      NvmlLibrary library;
      library.path_ = candidate;
      Fill(library.symbols_, [handle](const char* name) { return ::dlsym(handle, name); });
      RETURN_IF_ERROR(library.Complete());
      return library;
    }
    const char* error = ::dlerror();
    if (first_error.empty()) first_error = error ? error : "cannot be opened";
    if (candidate.find('/') != std::string::npos && ::access(candidate.c_str(), R_OK) != 0 &&
        errno == EACCES) {
      denied = true;
    }
  }
  if (denied) return Status{gpulens::Code::kPermissionDenied, first_error};
  return Status{gpulens::Code::kUnavailable, "library not found: " + first_error};
}

Result<NvmlLibrary> NvmlLibrary::FromLookup(SymbolLookup lookup, std::string name) {
  NvmlLibrary library;
  library.path_ = std::move(name);
  Fill(library.symbols_, lookup);
  RETURN_IF_ERROR(library.Complete());
  return library;
}

Status NvmlLibrary::Complete() const {
  bool init = symbols_.Init || symbols_.InitV1;
  bool count = symbols_.DeviceCount || symbols_.DeviceCountV1;
  bool handle = symbols_.HandleByIndex || symbols_.HandleByIndexV1;
  if (init && count && handle) return Ok();
  return {gpulens::Code::kDataLoss, path_ +
                                        " is not an NVML library: it lacks nvmlInit, nvmlDeviceGetCount or "
                                        "nvmlDeviceGetHandleByIndex"};
}

}  // namespace gpulens::nvml
