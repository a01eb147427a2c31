#include "sources/nvml/reader/nvml_library.h"

#include <dlfcn.h>
#include <unistd.h>

#include "base/process.h"
#include "base/result.h"

namespace gpulens::nvml {
namespace {

constexpr const char* kWslPath = "/usr/lib/wsl/lib/libnvidia-ml.so.1";

template <class Lookup>
void Fill(NvmlSymbols& symbols, Lookup lookup) {
#define GPULENS_NVML_ASSIGN(id, symbol, parameters) symbols.id.Assign(lookup(#symbol));
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
  std::vector<std::string> paths = path.empty() ? DefaultPaths() : std::vector<std::string>{path};
  // On WSL there may also be a library of Linux's own driver, which finds no GPU.
  if (path.empty() && ::access("/dev/dxg", F_OK) == 0) paths.insert(paths.begin(), kWslPath);
  ASSIGN_OR_RETURN(SharedLibrary opened, OpenSharedLibrary(paths));
  NvmlLibrary library;
  library.path_ = std::move(opened.path);
  Fill(library.symbols_, [&](const char* name) { return ::dlsym(opened.handle, name); });
  RETURN_IF_ERROR(library.Complete());
  return library;
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
