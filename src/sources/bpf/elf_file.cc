#include "sources/bpf/elf_file.h"

#include <elf.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/files.h"
#include "base/result.h"
#include "base/text.h"

namespace gpulens::bpf {
namespace {

constexpr uint64_t kMostTable = 64u << 20;
constexpr size_t kMostSections = 8192, kMostSegments = 256, kMostNotes = 64 << 10;

Status Wrong(std::string_view what) { return {Code::kDataLoss, "ELF: " + std::string(what)}; }

template <class T>
Status ReadOne(const ReadAt& read, uint64_t offset, T& out) {
  return read(offset, std::span(reinterpret_cast<unsigned char*>(&out), sizeof out));
}

template <class T>
Status ReadTable(const ReadAt& read, uint64_t offset, uint64_t bytes, std::vector<T>& out) {
  if (bytes > kMostTable) return {Code::kExhausted, "ELF: a table of more than 64 MiB"};
  out.resize(bytes / sizeof(T));
  if (out.empty()) return Ok();
  return read(offset, std::span(reinterpret_cast<unsigned char*>(out.data()), out.size() * sizeof(T)));
}

// A name in a table of strings; empty: it does not end in it.
std::string_view NameAt(const std::vector<char>& strings, uint64_t at) {
  if (at >= strings.size()) return {};
  const auto* end = static_cast<const char*>(std::memchr(strings.data() + at, 0, strings.size() - at));
  return end ? std::string_view(strings.data() + at, static_cast<size_t>(end - strings.data()) - at)
             : std::string_view();
}

std::string BuildIdOf(std::span<const unsigned char> notes) {
  while (notes.size() >= sizeof(Elf64_Nhdr)) {
    Elf64_Nhdr note;
    std::memcpy(&note, notes.data(), sizeof note);
    notes = notes.subspan(sizeof note);
    const uint64_t name = (uint64_t{note.n_namesz} + 3) & ~uint64_t{3};
    const uint64_t content = (uint64_t{note.n_descsz} + 3) & ~uint64_t{3};
    if (name > notes.size() || note.n_descsz > notes.size() - name) return {};
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(notes.data(), "GNU", 4) == 0) {
      std::string out;
      if (note.n_descsz <= 64) {
        AppendHex(out, {reinterpret_cast<const char*>(notes.data()) + name, note.n_descsz});
      }
      return out;
    }
    if (content > notes.size() - name) return {};
    notes = notes.subspan(name + content);
  }
  return {};
}

struct Tables {
  std::vector<Elf64_Shdr> sections;
  std::vector<Elf64_Phdr> segments;
};

// The place of an address of code in the file; `room` becomes the bytes of its segment from there.
bool FileOffset(const Tables& tables, uint64_t address, uint64_t& offset, uint64_t& room) {
  for (const Elf64_Phdr& segment : tables.segments) {
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0 || address < segment.p_vaddr) continue;
    const uint64_t into = address - segment.p_vaddr;
    if (into >= segment.p_filesz || segment.p_offset > UINT64_MAX - into) continue;
    offset = segment.p_offset + into;
    room = segment.p_filesz - into;
    return true;
  }
  return false;
}

Status FindIn(const ReadAt& read, const Tables& tables, uint32_t type,
              std::span<const std::string_view> names, std::vector<ElfFunction>& found) {
  for (const Elf64_Shdr& section : tables.sections) {
    if (section.sh_type != type || section.sh_link >= tables.sections.size()) continue;
    const Elf64_Shdr& text = tables.sections[section.sh_link];
    if (text.sh_type != SHT_STRTAB) return Wrong("symbols without their names");
    std::vector<Elf64_Sym> symbols;
    std::vector<char> strings;
    RETURN_IF_ERROR(ReadTable(read, section.sh_offset, section.sh_size, symbols));
    RETURN_IF_ERROR(ReadTable(read, text.sh_offset, text.sh_size, strings));
    for (const Elf64_Sym& symbol : symbols) {
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_shndx == SHN_UNDEF) continue;
      const std::string_view name = NameAt(strings, symbol.st_name);
      if (name.empty() || std::ranges::find(names, name) == names.end()) continue;
      if (std::ranges::find(found, name, &ElfFunction::name) != found.end()) continue;
      ElfFunction function;
      uint64_t room = 0;
      if (!FileOffset(tables, symbol.st_value, function.offset, room)) continue;
      function.name = name;
      const auto size = static_cast<size_t>(std::min<uint64_t>(room, function.code.size()));
      RETURN_IF_ERROR(read(function.offset, std::span(function.code).first(size)));
      found.push_back(std::move(function));
    }
  }
  return Ok();
}

}  // namespace

Result<ElfFunctions> FindElfFunctions(const ReadAt& read, std::span<const std::string_view> names) {
  Elf64_Ehdr header{};
  RETURN_IF_ERROR(ReadOne(read, 0, header));
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return Wrong("not an ELF file");
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB)
    return Wrong("not of 64 bits and little-endian");
  if (header.e_shentsize != sizeof(Elf64_Shdr) || header.e_phentsize != sizeof(Elf64_Phdr))
    return Wrong("tables of another size");
  if (header.e_shnum > kMostSections || header.e_phnum > kMostSegments)
    return Status{Code::kExhausted, "ELF: too many sections"};
  ElfFunctions out;
  if (header.e_machine == EM_X86_64) out.architecture = "x86_64";
  if (header.e_machine == EM_AARCH64) out.architecture = "aarch64";
  Tables tables;
  RETURN_IF_ERROR(
      ReadTable(read, header.e_shoff, uint64_t{header.e_shnum} * sizeof(Elf64_Shdr), tables.sections));
  RETURN_IF_ERROR(
      ReadTable(read, header.e_phoff, uint64_t{header.e_phnum} * sizeof(Elf64_Phdr), tables.segments));
  for (const Elf64_Phdr& segment : tables.segments) {
    if (segment.p_type != PT_NOTE || segment.p_filesz > kMostNotes || !out.build_id.empty()) continue;
    std::vector<unsigned char> notes;
    RETURN_IF_ERROR(ReadTable(read, segment.p_offset, segment.p_filesz, notes));
    out.build_id = BuildIdOf(notes);
  }
  std::vector<ElfFunction> found;
  RETURN_IF_ERROR(FindIn(read, tables, SHT_DYNSYM, names, found));
  if (found.size() < names.size()) RETURN_IF_ERROR(FindIn(read, tables, SHT_SYMTAB, names, found));
  for (std::string_view name : names) {
    const auto one = std::ranges::find(found, name, &ElfFunction::name);
    if (one != found.end()) out.functions.push_back(*one);
  }
  return out;
}

Result<ElfFunctions> FindElfFunctions(int fd, std::span<const std::string_view> names) {
  return FindElfFunctions(
      [fd](uint64_t offset, std::span<unsigned char> into) -> Status {
        size_t done = 0;
        while (done < into.size()) {
          if (offset > static_cast<uint64_t>(INT64_MAX) - into.size())
            return Wrong("an offset beyond any file");
          const ssize_t got =
              ::pread(fd, into.data() + done, into.size() - done, static_cast<off_t>(offset + done));
          if (got < 0 && errno == EINTR) continue;
          if (got < 0) return ErrnoStatus("read of an ELF file", errno);
          if (got == 0) return Wrong("it ends early");
          done += static_cast<size_t>(got);
        }
        return Ok();
      },
      names);
}

}  // namespace gpulens::bpf
