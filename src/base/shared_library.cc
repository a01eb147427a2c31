#include "base/shared_library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cerrno>

namespace gpulens {

Result<SharedLibrary> OpenSharedLibrary(std::span<const std::string> paths) {
  std::string first_error;
  bool denied = false;
  for (const std::string& path : paths) {
    if (void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return SharedLibrary{handle, path};
    const char* error = ::dlerror();
    if (first_error.empty()) first_error = error ? error : "cannot be opened";
    const bool is_file = path.find('/') != std::string::npos;
    if (is_file && ::access(path.c_str(), R_OK) != 0 && errno == EACCES) denied = true;
  }
  if (denied) return Status{Code::kPermissionDenied, first_error};
  return Status{Code::kUnavailable, "library not found: " + first_error};
}

}  // namespace gpulens
