#include "src/secure_door.h"

#include <dlfcn.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "sdk/export/otlp_plan.h"

namespace gpulens::python {
namespace {

using sdk::SecureMaker;

constexpr const char* kNotBuilt =
    "this package was built where the headers for TLS and gRPC were not (Debian: libssl-dev libnghttp2-dev "
    "libdeflate-dev): install them and build it again, or send to the agent, which passes it on";

// The library's path: in a folder beside this one, so that nobody takes it for a module of Python.
std::string PathBeside() {
  Dl_info here{};
  if (::dladdr(reinterpret_cast<const void*>(&OpenSecureDoor), &here) == 0 || !here.dli_fname) return {};
  const std::string core = here.dli_fname;
  return core.substr(0, core.rfind('/') + 1) + "lib/libgpulens_secure.so";
}

Result<SecureMaker> Load() {
  const std::string path = PathBeside();
  if (::access(path.c_str(), F_OK) != 0) return Status{Code::kUnavailable, kNotBuilt};
  const auto failed = [] {
    const char* why = ::dlerror();
    return Status{Code::kUnavailable, std::string("TLS and gRPC cannot be loaded: ") + (why ? why : "")};
  };
  // Never closed: transports made by it live as long as the process does.
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return failed();
  const auto maker = reinterpret_cast<SecureMaker (*)()>(::dlsym(library, "gpulens_secure_maker"));
  if (!maker) return failed();
  return maker();
}

Result<std::unique_ptr<sdk::Transport>> Make(const sdk::OtlpPlan& plan) {
  static const Result<SecureMaker> maker = Load();
  if (!maker) return maker.status();
  return (*maker)(plan);
}

}  // namespace

void OpenSecureDoor() noexcept { sdk::SetSecureTransport(&Make); }

}  // namespace gpulens::python
