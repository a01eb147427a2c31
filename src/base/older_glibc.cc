// Replacements of functions of glibc 2.35 and 2.36 that the compiler's static libraries call (libgcc_eh,
// libstdc++), so that what links these starts with glibc 2.34. It is a source of each program and shared
// object that is shipped, not of a library: its symbols are hidden, so no other object's calls reach them.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#if __GLIBC_PREREQ(2, 35)  // An older one's compiler calls none of these.
namespace {

struct Search {
  uintptr_t pc;
  dl_find_object* result;
};

// Of dl_iterate_phdr: fills the result and returns 1 when the object contains the address.
int Visit(dl_phdr_info* object, size_t /*size*/, void* data) {
  const auto& search = *static_cast<const Search*>(data);
  const ElfW(Phdr)* frames = nullptr;
  uintptr_t begin = UINTPTR_MAX, end = 0;
  bool contains = false;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object->dlpi_phdr[i];
    if (segment.p_type == PT_GNU_EH_FRAME) frames = &segment;
    if (segment.p_type != PT_LOAD) continue;
    const uintptr_t from = object->dlpi_addr + segment.p_vaddr;
    if (search.pc - from < segment.p_memsz) contains = true;
    if (from < begin) begin = from;
    if (from + segment.p_memsz > end) end = from + segment.p_memsz;
  }
  if (!contains) return 0;
  if (!frames) return -1;
  *search.result = {};
  search.result->dlfo_map_start = reinterpret_cast<void*>(begin);
  search.result->dlfo_map_end = reinterpret_cast<void*>(end);
  search.result->dlfo_eh_frame = reinterpret_cast<void*>(object->dlpi_addr + frames->p_vaddr);
  return 1;
}

// The tables of the object that this code is part of, which contains nearly every frame that exceptions pass.
// Found once, so that these frames take no lock: not those of other threads, nor in the child of a fork one
// that a thread of the parent held.
dl_find_object own_object{};

// Before any constructor without a priority. Exceptions that are thrown earlier search.
[[gnu::constructor(101)]] void FindOwnObject() {
  Search search{reinterpret_cast<uintptr_t>(&FindOwnObject), &own_object};
  ::dl_iterate_phdr(Visit, &search);
}

}  // namespace

extern "C" {

// The unwinder's question: which object contains an address of code, and where are its tables. For other
// objects than this one it takes the loader's lock, which may be held by this thread already, as every
// unwinder did before glibc 2.35. dlfo_link_map, which the unwinder does not read, is null.
[[gnu::visibility("hidden")]] int _dl_find_object(void* pc, dl_find_object* result) noexcept {
  if (pc >= own_object.dlfo_map_start && pc < own_object.dlfo_map_end) {
    *result = own_object;
    return 0;
  }
  Search search{reinterpret_cast<uintptr_t>(pc), result};
  return ::dl_iterate_phdr(Visit, &search) == 1 ? 0 : -1;
}

// std::random_device's source. As glibc's: a kernel before 3.17 has no getrandom, and without random numbers
// nothing may go on.
[[gnu::visibility("hidden")]] uint32_t arc4random() noexcept {
  uint32_t value = 0;
  while (::getrandom(&value, sizeof value, 0) != sizeof value) {
    if (errno == EINTR) continue;
    const int file = ::open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    if (file < 0 || ::read(file, &value, sizeof value) != sizeof value) ::abort();
    ::close(file);
    break;
  }
  return value;
}

}  // extern "C"
#endif
