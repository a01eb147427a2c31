#include "store/postgres/libpq.h"

#include <dlfcn.h>

#include <string>

#include "base/ref.h"
#include "base/result.h"

namespace gpulens::postgres {
namespace {

// By the type of the member: dlsym gives an object pointer.
template <class Function>
bool Assign(Function& member, void* symbol) {
  member = reinterpret_cast<Function>(symbol);
  return symbol != nullptr;
}

struct Loaded {
  Libpq functions;
  Status status;

  Loaded() { status = Fill(); }

  Status Fill() {
    void* library = ::dlopen("libpq.so.5", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      const char* why = ::dlerror();
      return {Code::kUnavailable,
              std::string("PostgreSQL's client library is not installed (Debian: libpq5): ") +
                  (why ? why : "libpq.so.5 cannot be opened")};
    }
#define GPULENS_LIBPQ_ASSIGN(member, symbol, result, parameters) \
  if (!Assign(functions.member, ::dlsym(library, symbol)))       \
    return {Code::kUnavailable, "libpq.so.5 has no " symbol ": it is too old"};
    GPULENS_LIBPQ_CALLS(GPULENS_LIBPQ_ASSIGN)
#undef GPULENS_LIBPQ_ASSIGN
    return Ok();
  }
};

}  // namespace

Result<const Libpq*> Load() {
  static Immortal<Loaded> loaded;
  RETURN_IF_ERROR((*loaded).status);
  return &(*loaded).functions;
}

}  // namespace gpulens::postgres
