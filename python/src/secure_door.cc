#include "src/secure_door.h"

#include <dlfcn.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "net/blocking/blocking_post.h"
#include "sdk/export/otlp_plan.h"

namespace gpulens::python {
namespace {

using sdk::SecureMaker;

constexpr const char* kNotBuilt =
    "this package was built without TLS and gRPC because their headers were missing (Debian: libssl-dev "
    "libnghttp2-dev libdeflate-dev): install them and rebuild the package, or export to the agent, which "
    "forwards the data";

// Path of the library: in a subfolder, so that it is not taken for a Python module.
std::string LibraryPath() {
  Dl_info here{};
  if (::dladdr(reinterpret_cast<const void*>(&OpenSecureDoor), &here) == 0 || !here.dli_fname) return {};
  const std::string core = here.dli_fname;
  return core.substr(0, core.rfind('/') + 1) + "lib/libgpulens_secure.so";
}

Status LoadFailed() {
  const char* why = ::dlerror();
  return {Code::kUnavailable, std::string("cannot load TLS and gRPC: ") + (why ? why : "")};
}

Result<void*> Load() {
  const std::string path = LibraryPath();
  if (::access(path.c_str(), F_OK) != 0) return Status{Code::kUnavailable, kNotBuilt};
  // Never closed: transports made by it live as long as the process does.
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return LoadFailed();
  return library;
}

// Calls the library's function of this name.
template <class Given>
Result<Given> Find(const char* name) {
  static const Result<void*> library = Load();
  if (!library) return library.status();
  const auto give = reinterpret_cast<Given (*)()>(::dlsym(*library, name));
  if (!give) return LoadFailed();
  return give();
}

Result<std::unique_ptr<sdk::Transport>> Make(const sdk::OtlpPlan& plan) {
  static const Result<SecureMaker> maker = Find<SecureMaker>("gpulens_secure_maker");
  if (!maker) return maker.status();
  return (*maker)(plan);
}

Result<BlockingReply> Post(const BlockingPost::Request& request, Duration timeout) {
  static const Result<SecurePost> post = Find<SecurePost>("gpulens_secure_post");
  if (!post) return post.status();
  return (*post)(request, timeout);
}

}  // namespace

void OpenSecureDoor() noexcept {
  sdk::SetSecureTransport(&Make);
  SetSecurePost(&Post);
}

}  // namespace gpulens::python
