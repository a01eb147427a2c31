#include "sources/bpf/targets.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>

#include "base/files.h"
#include "base/parse.h"
#include "base/result.h"
#include "base/text.h"

namespace gpulens::bpf {
namespace {

constexpr size_t kMostMapsBytes = 16u << 20, kMostStatusBytes = 64u << 10, kMostMappings = 65536;

Status WrongRow() { return {Code::kDataLoss, "maps: a row that no kernel writes"}; }

std::optional<uint64_t> Hex(std::string_view text) { return ParseInt<uint64_t>(text, 16); }

// "7f0000000000-7f0000001000 r-xp 00000000 fd:01 1234    /usr/lib/libcuda.so.1"
Status ParseRow(std::string_view row, bool& wanted, MappedFile& out) {
  std::string_view rest = row;
  std::string_view range = TakeUntil(rest, ' ');
  const auto begin = Hex(TakeUntil(range, '-')), end = Hex(range);
  const std::string_view rights = TakeUntil(rest, ' ');
  const auto offset = Hex(TakeUntil(rest, ' '));
  std::string_view device = TakeUntil(rest, ' ');
  const auto major = Hex(TakeUntil(device, ':')), minor = Hex(device);
  const auto inode = ParseInt<uint64_t>(TakeUntil(rest, ' '));
  if (!begin || !end || *end <= *begin || rights.size() != 4 || !offset || !major || !minor || !inode ||
      *major > UINT32_MAX || *minor > UINT32_MAX)
    return WrongRow();
  const size_t path = rest.find_first_not_of(' ');
  wanted = rights[2] == 'x' && *inode != 0 && path != std::string_view::npos && rest[path] == '/';
  if (!wanted) return Ok();
  constexpr std::string_view kDeleted = " (deleted)";
  std::string_view name = rest.substr(path);
  out.deleted = name.ends_with(kDeleted);
  if (out.deleted) name.remove_suffix(kDeleted.size());
  out.begin = *begin, out.end = *end, out.offset = *offset, out.inode = *inode;
  out.device = makedev(static_cast<unsigned>(*major), static_cast<unsigned>(*minor));
  out.path = name;
  return Ok();
}

std::string_view LastPart(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

// "libcuda.so", "libcuda.so.1": the name of a shared library `library`.
bool IsLibrary(std::string_view name, std::string_view library) {
  if (!name.starts_with(library)) return false;
  name.remove_prefix(library.size());
  return name == ".so" || name.starts_with(".so.");
}

struct ToolName {
  std::string_view library, tool;
};
constexpr ToolName kTools[] = {
    {"libToolsInjection", "nsys"},   {"libcuinj", "nvprof"},
    {"libnvperf_target", "ncu"},     {"libsanitizer-collection", "compute-sanitizer"},
    {"libcudadebugger", "cuda-gdb"},
};

std::string_view StatusValue(std::string_view status, std::string_view key) {
  while (!status.empty()) {
    std::string_view line = TakeUntil(status, '\n');
    if (line.starts_with(key)) return Trim(line.substr(key.size()));
  }
  return {};
}

void ReadStatusFacts(std::string_view status, ProcessFacts& out) {
  out.seccomp = StatusValue(status, "Seccomp:") == "2";
  out.shadow_stack = StatusValue(status, "x86_Thread_features:").find("shstk") != std::string_view::npos;
  out.tracer = ParseInt<int32_t>(StatusValue(status, "TracerPid:")).value_or(0);
  std::string_view user = StatusValue(status, "Uid:");
  out.user = ParseInt<uint32_t>(TakeUntil(user, '\t')).value_or(0);
  const std::string_view pids = StatusValue(status, "NSpid:");
  out.container_pid = ParseInt<int32_t>(pids.substr(pids.rfind('\t') + 1)).value_or(0);
}

// Field 22, after the name in brackets, which may contain anything.
std::optional<uint64_t> StartTicks(std::string_view stat) {
  const size_t end = stat.rfind(')');
  if (end == std::string_view::npos || end + 2 > stat.size()) return std::nullopt;
  std::string_view rest = stat.substr(end + 2);
  for (int field = 3; field < 22; ++field) TakeUntil(rest, ' ');
  return ParseInt<uint64_t>(TakeUntil(rest, ' '));
}

// Of a link to a program's file, which may have been replaced since; empty: it cannot be read.
std::string ProgramName(const std::string& link) {
  std::array<char, 4096> target{};
  const ssize_t length = ::readlink(link.c_str(), target.data(), target.size());
  if (length <= 0) return {};
  const std::string_view name = LastPart(std::string_view(target.data(), static_cast<size_t>(length)));
  return std::string(name.substr(0, name.find(" (deleted)")));
}

Status Refused(Refusal refusal, std::string_view sentence, Code code = Code::kUnavailable) {
  return {code, std::string(RefusalName(refusal)) + ": " + std::string(sentence)};
}

}  // namespace

std::string_view RefusalName(Refusal refusal) noexcept {
  switch (refusal) {
    case Refusal::kNone: return "none";
    case Refusal::kNoSymbol: return "symbol_not_found";
    case Refusal::kNoLibrary: return "no_library";
    case Refusal::kSingleStep: return "single_step";
    case Refusal::kSyscall: return "system_call";
    case Refusal::kNoInstruction: return "no_instruction";
    case Refusal::kGpu: return "gpu";
    case Refusal::kSeccomp: return "seccomp";
    case Refusal::kShadowStack: return "shadow_stack";
    case Refusal::kTool: return "tool_attached";
    case Refusal::kKernel: return "kernel";
    case Refusal::kNotReadable: return "not_readable";
    case Refusal::kReplaced: return "replaced";
    case Refusal::kKernelRefused: return "kernel_refused";
    case Refusal::kCount: break;
  }
  return "unknown";
}

Status ParseMaps(std::string_view text, size_t most, std::vector<MappedFile>& out) {
  out.clear();
  while (!text.empty()) {
    const std::string_view row = TakeUntil(text, '\n');
    if (row.empty()) continue;
    MappedFile file;
    bool wanted = false;
    RETURN_IF_ERROR(ParseRow(row, wanted, file));
    if (!wanted) continue;
    if (out.size() == most) return Ok();
    out.push_back(std::move(file));
  }
  return Ok();
}

LibraryKind LibraryKindOf(std::string_view path) noexcept {
  const std::string_view name = LastPart(path);
  if (IsLibrary(name, "libcuda")) return LibraryKind::kCuda;
  if (IsLibrary(name, "libcudart")) return LibraryKind::kCudaRuntime;
  if (IsLibrary(name, "libnccl")) return LibraryKind::kNccl;
  if (IsLibrary(name, "libtorch_cuda")) return LibraryKind::kTorchCuda;
  if (IsLibrary(name, "librccl")) return LibraryKind::kRccl;
  return LibraryKind::kNone;
}

Result<ProcessFacts> ReadProcess(const std::string& proc, int32_t pid) {
  const std::string folder = proc + "/" + std::to_string(pid);
  ProcessFacts out;
  out.pid = pid;
  ASSIGN_OR_RETURN(const std::string stat, ReadFile(folder + "/stat", kMostStatusBytes));
  const auto start = StartTicks(stat);
  if (!start) return Status{Code::kDataLoss, "stat of process " + std::to_string(pid) + ": no start"};
  out.start_ticks = *start;
  ASSIGN_OR_RETURN(const std::string status, ReadFile(folder + "/status", kMostStatusBytes));
  ReadStatusFacts(status, out);
  ASSIGN_OR_RETURN(const std::string maps, ReadFile(folder + "/maps", kMostMapsBytes));
  std::vector<MappedFile> files;
  RETURN_IF_ERROR(ParseMaps(maps, kMostMappings, files));
  for (MappedFile& file : files) {
    const std::string_view name = LastPart(file.path);
    for (const ToolName& tool : kTools) {
      if (out.tool.empty() && name.starts_with(tool.library)) out.tool = tool.tool;
    }
    const LibraryKind kind = LibraryKindOf(file.path);
    if (kind == LibraryKind::kNone) continue;
    const bool known = std::ranges::any_of(out.libraries, [&](const LoadedLibrary& one) {
      return one.file.inode == file.inode && one.file.device == file.device;
    });
    if (!known) out.libraries.push_back({kind, std::move(file)});
  }
  return out;
}

std::vector<ProcessFacts> FindProcesses(const std::string& proc, size_t most) {
  std::vector<ProcessFacts> out;
  // By its name: the same file in another container is another file.
  const std::string own = ProgramName(proc + "/self/exe");
  const Status walked = ForEachName(proc, [&](std::string_view name) {
    const auto pid = ParseInt<int32_t>(name);
    if (!pid || *pid <= 0) return true;
    auto facts = ReadProcess(proc, *pid);
    if (!facts || facts->libraries.empty()) return true;
    if (own.empty() || ProgramName(proc + "/" + std::string(name) + "/exe") != own)
      out.push_back(*std::move(facts));
    return out.size() < most;
  });
  if (!walked) return {};
  std::ranges::sort(out, {}, &ProcessFacts::pid);
  return out;
}

Result<UniqueFd> OpenMapped(const std::string& proc, int32_t pid, const MappedFile& file) {
  const std::string folder = proc + "/" + std::to_string(pid);
  std::array<char, 64> range{};
  (void)std::snprintf(range.data(), range.size(), "/map_files/%llx-%llx",
                      static_cast<unsigned long long>(file.begin), static_cast<unsigned long long>(file.end));
  UniqueFd fd(::open((folder + range.data()).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info{};
  if (fd && ::fstat(fd.get(), &info) == 0 && S_ISREG(info.st_mode)) return fd;
  if (file.deleted)
    return Refused(Refusal::kNotReadable, "the file was deleted, and its mapping cannot be opened");
  // The same file has another device in an overlay of file systems.
  fd.reset(::open((folder + "/root" + file.path).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) {
    return Refused(Refusal::kNotReadable, ErrnoStatus("open the library", errno).detail,
                   errno == EACCES || errno == EPERM ? Code::kPermissionDenied : Code::kUnavailable);
  }
  if (::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode))
    return Refused(Refusal::kNotReadable, "the library is not a file");
  if (info.st_ino != file.inode) return Refused(Refusal::kReplaced, "the library's file was replaced");
  return fd;
}

namespace {

struct DenyRule {
  DenyRow row;
  bool (*forbids)(const DenyFacts&) noexcept;
};

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

constexpr DenyRule kDenyRules[] = {
    {{Refusal::kKernel, "Linux is older than 5.15", "probes need its cookies and links"},
     [](const DenyFacts& f) noexcept { return f.kernel < KernelVersion{5, 15}; }},
    {{Refusal::kGpu, "on arm64 with a GB200 or GB300 probes have crashed programs",
      "DataDog/datadog-agent#54291"},
     [](const DenyFacts& f) noexcept {
       return f.architecture == "aarch64" && (Contains(f.gpu, "GB200") || Contains(f.gpu, "GB300"));
     }},
    {{Refusal::kTool, "a debugger or profiler is attached to the process", "both would move its breakpoints"},
     [](const DenyFacts& f) noexcept { return f.traced || f.tool; }},
    {{Refusal::kSyscall,
      "the kernel would replace the first instruction by a system call, which filters of seccomp end",
      "Linux 6.18, optimized probes of long nops; older ones single-step it"},
     [](const DenyFacts& f) noexcept { return f.instruction == FirstInstruction::kLongNop; }},
    {{Refusal::kSingleStep,
      "the kernel would single-step the first instruction: slow, and on arm64 it has resumed programs "
      "at a wrong place",
      "DataDog/datadog-agent#54291"},
     [](const DenyFacts& f) noexcept { return !f.emulated; }},
    {{Refusal::kSeccomp,
      "the process filters system calls (Seccomp: 2): a timed call may end it; its calls are counted only",
      "systemd/systemd#34615"},
     [](const DenyFacts& f) noexcept { return f.timed && f.seccomp; }},
    {{Refusal::kShadowStack, "the process has a shadow stack: its calls are counted only",
      "x86 user shadow stacks"},
     [](const DenyFacts& f) noexcept { return f.timed && f.shadow_stack; }},
};

constexpr auto kDenyRows = [] {
  std::array<DenyRow, std::size(kDenyRules)> out{};
  for (size_t i = 0; i < out.size(); ++i) out[i] = kDenyRules[i].row;
  return out;
}();

}  // namespace

const DenyRow* FindDenyRow(const DenyFacts& facts) noexcept {
  for (size_t i = 0; i < std::size(kDenyRules); ++i) {
    if (kDenyRules[i].forbids(facts)) return &kDenyRows[i];
  }
  return nullptr;
}

std::span<const DenyRow> DenyRows() noexcept { return kDenyRows; }

}  // namespace gpulens::bpf
