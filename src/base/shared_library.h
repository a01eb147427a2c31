// Opens shared libraries by name or path.
#pragma once

#include <span>
#include <string>

#include <gpulens/status.h>

namespace gpulens {

struct SharedLibrary {
  void* handle = nullptr;  // for dlsym; never closed
  std::string path;        // the one that opened
};

// Opens the first of `paths` that opens, local to the caller. kPermissionDenied when a file may not be read,
// else kUnavailable; the text is the loader's about the first path.
Result<SharedLibrary> OpenSharedLibrary(std::span<const std::string> paths);

}  // namespace gpulens
