#include "inject/cuda/cupti_calls.h"

#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job_page/dynamic_loader.h"

namespace gpulens::cupti {
namespace {

constexpr const char* kSonames[] = {"libcupti.so.13", "libcupti.so.12"};

// The loaded objects whose paths matter.
struct Loaded {
  char cupti[1024] = "";
  char runtime[1024] = "";  // libcudart, or another library of NVIDIA's wheels
};

int VisitForPaths(dl_phdr_info* object, size_t /*size*/, void* data) {
  auto& out = *static_cast<Loaded*>(data);
  const char* path = object->dlpi_name;
  if (!path || ::strlen(path) >= sizeof out.cupti) return 0;
  const char* slash = ::strrchr(path, '/');
  if (!slash) return 0;
  if (::strncmp(slash, "/libcupti.so", 12) == 0 && out.cupti[0] == '\0')
    ::memcpy(out.cupti, path, ::strlen(path) + 1);
  const bool runtime = ::strncmp(slash, "/libcudart.so", 13) == 0;
  const bool wheel = ::strncmp(slash, "/libcublas.so", 13) == 0 || ::strncmp(slash, "/libnvrtc.so", 12) == 0;
  if (runtime || (wheel && out.runtime[0] == '\0')) ::memcpy(out.runtime, path, ::strlen(path) + 1);
  return 0;
}

void* OpenNextTo(const char* library) {
  // In wheels since CUDA 13 all libraries are in one folder, before that each has one; a toolkit has its own.
  constexpr const char* kFolders[] = {"", "../../cuda_cupti/lib/", "../extras/CUPTI/lib64/"};
  const char* slash = ::strrchr(library, '/');
  if (!slash) return nullptr;
  for (const char* soname : kSonames) {
    for (const char* folder : kFolders) {
      char path[2048];
      const int length = ::snprintf(path, sizeof path, "%.*s/%s%s", static_cast<int>(slash - library),
                                    library, folder, soname);
      if (length <= 0 || static_cast<size_t>(length) >= sizeof path) continue;
      if (void* found = ::dlopen(path, RTLD_NOW | RTLD_LOCAL)) return found;
    }
  }
  return nullptr;
}

void* Open() {
  if (const char* path = ::secure_getenv("GPULENS_CUPTI"); path && *path)
    return ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  for (const char* soname : kSonames) {
    if (void* found = ::dlopen(soname, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)) return found;
  }
  static Loaded loaded;  // once a process: see InitializeInjection
  ::dl_iterate_phdr(VisitForPaths, &loaded);
  if (loaded.cupti[0] != '\0') return ::dlopen(loaded.cupti, RTLD_NOW | RTLD_LOCAL);
  if (loaded.runtime[0] != '\0') {
    if (void* found = OpenNextTo(loaded.runtime)) return found;
  }
  for (const char* soname : kSonames) {
    if (void* found = ::dlopen(soname, RTLD_NOW | RTLD_LOCAL)) return found;
  }
  return OpenNextTo("/usr/local/cuda/lib64/");
}

template <typename Function>
bool Find(void* library, const char* name, Function& out) {
  out = reinterpret_cast<Function>(::dlsym(library, name));
  return out != nullptr;
}

struct Tool {
  const char* file;  // how the name of a library begins
  const char* name;
};
constexpr Tool kTools[] = {
    {"libToolsInjection", "nsys"},          {"libcuda-injection", "ncu"},
    {"libInterceptorInjection", "ncu"},     {"libcudadebugger", "cuda-gdb"},
    {"libsanitizer-", "compute-sanitizer"},
};

int VisitForTools(dl_phdr_info* object, size_t /*size*/, void* data) {
  const char* slash = object->dlpi_name ? ::strrchr(object->dlpi_name, '/') : nullptr;
  if (!slash) return 0;
  for (const Tool& tool : kTools) {
    if (::strncmp(slash + 1, tool.file, ::strlen(tool.file)) == 0) {
      *static_cast<const char**>(data) = tool.name;
      return 1;
    }
  }
  return 0;
}

}  // namespace

const char* Load(Calls& out) noexcept {
  void* library = Open();
  if (!library) return "no libcupti in this process's search path; GPULENS_CUPTI names one";
  const bool all = Find(library, "cuptiGetVersion", out.GetVersion) &&
                   Find(library, "cuptiSubscribe", out.Subscribe) &&
                   Find(library, "cuptiUnsubscribe", out.Unsubscribe) &&
                   Find(library, "cuptiEnableCallback", out.EnableCallback) &&
                   Find(library, "cuptiGetTimestamp", out.GetTimestamp) &&
                   Find(library, "cuptiGetDeviceId", out.GetDeviceId) &&
                   Find(library, "cuptiActivityFlushAll", out.FlushAll) &&
                   Find(library, "cuptiActivityEnable", out.Enable) &&
                   Find(library, "cuptiActivityDisable", out.Disable) &&
                   Find(library, "cuptiActivityRegisterCallbacks", out.RegisterCallbacks) &&
                   Find(library, "cuptiActivityGetNextRecord", out.GetNextRecord) &&
                   Find(library, "cuptiActivityGetNumDroppedRecords", out.GetDropped);
  if (!all) return "this libcupti lacks functions that CUDA 12 has";
  Find(library, "cuptiSubscribe_v2", out.SubscribeV2);
  Find(library, "cuptiActivityFlushPeriod", out.FlushPeriod);
  Find(library, "cuptiActivityEnableHWTrace", out.EnableHardwareTrace);
  Find(library, "cuptiGetTimestamp_v2", out.GetTimestampV2);
  Find(library, "cuptiActivityEnable_v2", out.EnableV2);
  Find(library, "cuptiActivityDisable_v2", out.DisableV2);
  Find(library, "cuptiActivityRegisterCallbacks_v2", out.RegisterCallbacksV2);
  Find(library, "cuptiActivityGetNextRecord_v2", out.GetNextRecordV2);
  Find(library, "cuptiActivityGetNumDroppedRecords_v2", out.GetDroppedV2);
  return nullptr;
}

const char* OtherTool() noexcept {
  const char* name = nullptr;
  ::dl_iterate_phdr(VisitForTools, static_cast<void*>(&name));
  return name;
}

}  // namespace gpulens::cupti
