// Which processes have loaded CUDA, and which of a library's functions may be probed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "base/fd.h"
#include "sources/bpf/capability.h"
#include "sources/bpf/instruction.h"

namespace gpulens::bpf {

// Why a function, a library or a process is not probed.
enum class Refusal : uint8_t {
  kNone,
  kNoSymbol,       // the file has no such symbol
  kNoLibrary,      // no library of CUDA is loaded
  kSingleStep,     // the kernel would single-step the first instruction
  kSyscall,        // the kernel would replace the first instruction by a system call
  kNoInstruction,  // it cannot be read, or is not understood
  kGpu,            // a GPU on which probes crash programs
  kSeccomp,        // a filter of system calls would end the process at the end of a timed call
  kShadowStack,    // the end of a timed call needs the return address
  kTool,           // a debugger or profiler is attached
  kKernel,         // older than 5.15
  kNotReadable,    // the file cannot be opened: rights, or it has gone
  kReplaced,       // the file is another one than the process has mapped
  kKernelRefused,  // the kernel's own error
  kCount,
};
// "single_step". Static storage.
std::string_view RefusalName(Refusal refusal) noexcept;

// One row of /proc/PID/maps that is mapped for execution and has a file.
struct MappedFile {
  uint64_t begin = 0, end = 0, offset = 0;
  uint64_t device = 0;  // as dev_t
  uint64_t inode = 0;
  std::string path;  // as the process sees it, without " (deleted)"
  bool deleted = false;
};
// Rows of other kinds are left out. At most `most` are returned. kDataLoss: a row that no kernel writes.
Status ParseMaps(std::string_view text, size_t most, std::vector<MappedFile>& out);

enum class LibraryKind : uint8_t { kNone, kCuda, kCudaRuntime, kNccl, kTorchCuda, kRccl };
// By the last part of a path: "libcuda.so.1", "libcuda.so.550.54.15", "libnccl.so.2".
LibraryKind LibraryKindOf(std::string_view path) noexcept;

// A library that a process has mapped.
struct LoadedLibrary {
  LibraryKind kind = LibraryKind::kNone;
  MappedFile file;
};

struct ProcessFacts {
  int32_t pid = 0;
  uint64_t start_ticks = 0;
  std::vector<LoadedLibrary> libraries;  // one for each file
  bool seccomp = false;                  // has a filter (Seccomp: 2)
  bool shadow_stack = false;
  int32_t tracer = 0;         // of TracerPid; 0: none
  std::string tool;           // of a profiler that it has loaded ("nsys"); empty: none
  int32_t container_pid = 0;  // in its own pid namespace
  uint32_t user = 0;
};
// Reads maps and status. kUnavailable: it has gone; kPermissionDenied.
Result<ProcessFacts> ReadProcess(const std::string& proc, int32_t pid);
// Processes that have loaded a library of CUDA or NCCL and that this one may read, without those that run
// this program; at most `most`. Walks all of /proc.
std::vector<ProcessFacts> FindProcesses(const std::string& proc, size_t most);

// Opens the file that a process has mapped, in whatever mount namespace, also when it was deleted.
// kUnavailable with the word of Refusal::kNotReadable or kReplaced at its begin.
Result<UniqueFd> OpenMapped(const std::string& proc, int32_t pid, const MappedFile& file);

// Facts that rows of the deny list are compared with.
struct DenyFacts {
  std::string_view architecture;  // "x86_64", "aarch64"
  KernelVersion kernel;
  std::string_view gpu;  // names of the GPUs; empty: unknown
  FirstInstruction instruction = FirstInstruction::kPush;
  bool emulated = true;  // of ProbePlace
  bool timed = false;    // the end of calls is probed, too
  bool seccomp = false, shadow_stack = false;
  bool traced = false, tool = false;
};
struct DenyRow {
  Refusal refusal;
  std::string_view sentence;  // why, and what can be done
  std::string_view source;    // where it is known from
};
// The first row that forbids it; null: none.
const DenyRow* FindDenyRow(const DenyFacts& facts) noexcept;
// All rows, for people.
std::span<const DenyRow> DenyRows() noexcept;

}  // namespace gpulens::bpf
