// dlopen and dlsym for libraries that jobs load. With GPULENS_JOB_LIBRARY defined they are the symbols that
// the oldest supported glibc has (there in libdl.so.2, which such a library must be linked with), else the
// usual ones.
#pragma once

#include <dlfcn.h>

#if defined(GPULENS_JOB_LIBRARY) && defined(__x86_64__)
__asm__(".symver dlopen,dlopen@GLIBC_2.2.5");
__asm__(".symver dlclose,dlclose@GLIBC_2.2.5");
__asm__(".symver dlsym,dlsym@GLIBC_2.2.5");
#elif defined(GPULENS_JOB_LIBRARY) && defined(__aarch64__)
__asm__(".symver dlopen,dlopen@GLIBC_2.17");
__asm__(".symver dlclose,dlclose@GLIBC_2.17");
__asm__(".symver dlsym,dlsym@GLIBC_2.17");
#endif

namespace gpulens::job_page {

// A function of a loaded library, or null.
template <class Signature>
Signature* FunctionOf(void* library, const char* name) noexcept {
  return library ? reinterpret_cast<Signature*>(::dlsym(library, name)) : nullptr;
}

// A library that the process has loaded already, or null. The caller closes it.
inline void* LoadedLibrary(const char* name) noexcept { return ::dlopen(name, RTLD_LAZY | RTLD_NOLOAD); }

}  // namespace gpulens::job_page
