#include "sources/cuda/cuda_library.h"

#include <dlfcn.h>

namespace gpulens::cuda {
namespace {

// By the type of the member: dlsym gives an object pointer.
template <class Function>
bool Assign(Function& member, void* symbol) {
  member = reinterpret_cast<Function>(symbol);
  return symbol != nullptr;
}

template <class Lookup>
Result<CudaSymbols> Fill(const Lookup& lookup) {
  CudaSymbols symbols;
#define GPULENS_CUDA_ASSIGN(member, symbol, parameters) \
  if (!Assign(symbols.member, lookup(symbol)))          \
    return Status{Code::kUnavailable, "the CUDA driver's library has no " symbol ": it is too old"};
  GPULENS_CUDA_CALLS(GPULENS_CUDA_ASSIGN)
#undef GPULENS_CUDA_ASSIGN
  return symbols;
}

}  // namespace

Result<CudaSymbols> Open() {
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* why = ::dlerror();
    return Status{Code::kUnavailable,
                  std::string("no CUDA driver: ") + (why ? why : "libcuda.so.1 cannot be opened")};
  }
  return Fill([library](const char* name) { return ::dlsym(library, name); });
}

Result<CudaSymbols> FromLookup(SymbolLookup lookup) { return Fill(lookup); }

Status StatusOf(const CudaSymbols& cuda, int code, const char* call) {
  if (code == kSuccess) return {};
  const char* name = nullptr;
  if (cuda.ErrorName(code, &name) != kSuccess || !name) name = "CUDA error";
  return {Code::kIo, std::string(call) + ": " + name + " (" + std::to_string(code) + ")"};
}

}  // namespace gpulens::cuda
