// The part of libelf's interface that libbpf calls to read an object in memory. libelf itself is LGPL or GPL:
// linked statically it would oblige who distributes the program (docs/adr/0081-probes-from-outside.md). It
// reads the object that is compiled in, nothing else; what libbpf does with files finds none.
#include <elf.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

// NOLINTBEGIN(readability-identifier-naming): names of libelf and libbpf.
struct Elf;
struct Elf_Data {  // as libelf.h has it
  void* d_buf;
  uint32_t d_type, d_version;
  size_t d_size;
  int64_t d_off;
  size_t d_align;
};
struct Elf_Scn {
  Elf* elf;
  size_t index;
  Elf64_Shdr* header;
  Elf_Data data;
};
struct Elf {
  char* bytes;
  size_t size;
  Elf64_Ehdr* header;
  std::vector<Elf_Scn> sections;
};

extern "C" {

unsigned elf_version(unsigned) { return EV_CURRENT; }
const char* elf_errmsg(int) { return "not an object of this program"; }
Elf* elf_begin(int, int, Elf*) { return nullptr; }

Elf* elf_memory(char* image, size_t size) {
  auto* header = reinterpret_cast<Elf64_Ehdr*>(image);
  if (size < sizeof *header || header->e_shentsize != sizeof(Elf64_Shdr) || header->e_shoff > size ||
      (size - header->e_shoff) / sizeof(Elf64_Shdr) < header->e_shnum)
    return nullptr;
  auto elf = std::make_unique<Elf>(Elf{image, size, header, {}});
  auto* headers = reinterpret_cast<Elf64_Shdr*>(image + header->e_shoff);
  elf->sections.reserve(header->e_shnum);
  for (size_t i = 0; i < header->e_shnum; ++i) {
    Elf64_Shdr& section = headers[i];
    const bool empty = section.sh_type == SHT_NOBITS || section.sh_type == SHT_NULL;
    if (!empty && (section.sh_offset > size || section.sh_size > size - section.sh_offset)) return nullptr;
    elf->sections.push_back(
        {elf.get(),
         i,
         &section,
         {empty ? nullptr : image + section.sh_offset, 0, EV_CURRENT, static_cast<size_t>(section.sh_size), 0,
          static_cast<size_t>(section.sh_addralign)}});
  }
  return elf.release();
}

int elf_end(Elf* elf) {
  delete elf;
  return 0;
}

int elf_kind(Elf* elf) { return elf ? 3 : 0; }  // ELF_K_ELF
int gelf_getclass(Elf* elf) { return elf ? ELFCLASS64 : ELFCLASSNONE; }
Elf64_Ehdr* elf64_getehdr(Elf* elf) { return elf ? elf->header : nullptr; }
Elf64_Ehdr* gelf_getehdr(Elf* elf, Elf64_Ehdr* into) {
  return elf && into ? &(*into = *elf->header) : nullptr;
}

int elf_getshdrstrndx(Elf* elf, size_t* into) {
  *into = elf->header->e_shstrndx;
  return 0;
}
int elf_getshdrnum(Elf* elf, size_t* into) {
  *into = elf->sections.size();
  return 0;
}
int elf_getphdrnum(Elf*, size_t* into) {
  *into = 0;
  return 0;
}
void* gelf_getphdr(Elf*, int, void*) { return nullptr; }
size_t gelf_getnote(Elf_Data*, size_t, void*, size_t*, size_t*) { return 0; }

Elf_Scn* elf_getscn(Elf* elf, size_t index) {
  return elf && index < elf->sections.size() ? &elf->sections[index] : nullptr;
}
Elf_Scn* elf_nextscn(Elf* elf, Elf_Scn* section) { return elf_getscn(elf, section ? section->index + 1 : 1); }
size_t elf_ndxscn(Elf_Scn* section) { return section ? section->index : 0; }
Elf64_Shdr* elf64_getshdr(Elf_Scn* section) { return section ? section->header : nullptr; }
Elf64_Shdr* gelf_getshdr(Elf_Scn* section, Elf64_Shdr* into) {
  return section && into ? &(*into = *section->header) : nullptr;
}
Elf_Data* elf_getdata(Elf_Scn* section, Elf_Data* after) {
  return section && !after ? &section->data : nullptr;
}
Elf_Data* elf_rawdata(Elf_Scn* section, Elf_Data* after) { return elf_getdata(section, after); }
Elf64_Sym* gelf_getsym(Elf_Data* data, int index, Elf64_Sym* into) {
  const auto at = static_cast<size_t>(index);
  if (!data || !into || index < 0 || at >= data->d_size / sizeof *into) return nullptr;
  return &(*into = static_cast<const Elf64_Sym*>(data->d_buf)[at]);
}

char* elf_strptr(Elf* elf, size_t section, size_t offset) {
  const Elf_Scn* found = elf_getscn(elf, section);
  if (!found || found->header->sh_type != SHT_STRTAB || offset >= found->data.d_size) return nullptr;
  return static_cast<char*>(found->data.d_buf) + offset;
}

// Instead of libbpf's (linked with --wrap): it would walk the types of the kernel's modules for names that
// the kernel itself does not have, which needs CAP_SYS_ADMIN. No program here reads anything of a module.
// NOLINTNEXTLINE(bugprone-reserved-identifier)
int __wrap_bpf_btf_get_next_id(uint32_t, uint32_t*) {
  errno = ENOENT;
  return -ENOENT;
}

// NOLINTEND(readability-identifier-naming)
}  // extern "C"
