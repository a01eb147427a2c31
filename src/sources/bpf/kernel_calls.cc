#include "sources/bpf/kernel_calls.h"

#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/parse.h"
#include "base/result.h"
#include "sources/bpf/targets.h"

#if defined(__x86_64__)
asm(R"(
  .pushsection .text
  .globl gpulens_bpf_self_function
  .hidden gpulens_bpf_self_function
  .type gpulens_bpf_self_function, @function
gpulens_bpf_self_function:
  push %rbp
  pop %rbp
  ret
  .size gpulens_bpf_self_function, . - gpulens_bpf_self_function
  .popsection
)");
#else
asm(R"(
  .pushsection .text
  .globl gpulens_bpf_self_function
  .hidden gpulens_bpf_self_function
  .type gpulens_bpf_self_function, %function
gpulens_bpf_self_function:
  b 1f
1:
  ret
  .size gpulens_bpf_self_function, . - gpulens_bpf_self_function
  .popsection
)");
#endif
extern "C" void gpulens_bpf_self_function();  // NOLINT(readability-identifier-naming)

namespace gpulens::bpf {
namespace {

constexpr uint32_t kUprobeMulti = 48, kUprobeSession = 57;

// The first bytes of bpf_attr for BPF_LINK_CREATE with uprobe_multi, which headers of Linux 6.1 do not have.
struct UprobeMultiLink {
  uint32_t program, target, attach_type, flags;
  uint64_t path, offsets, reference_counters, cookies;
  uint32_t count, multi_flags, pid, padding;
};
static_assert(sizeof(UprobeMultiLink) == 64);

int BpfCall(int command, void* attributes, size_t size) noexcept {
  const long result = ::syscall(SYS_bpf, command, attributes, size);
  return result < 0 ? -errno : static_cast<int>(result);
}

Result<UniqueFd> LinkPerfEvent(int program, const std::string& path, uint64_t offset, uint64_t cookie) {
  ASSIGN_OR_RETURN(const std::string text,
                   ReadFile(std::string("/sys/bus/event_source/devices/uprobe/type"), 64));
  const auto type = ParseInt<uint32_t>(Trim(text));
  if (!type) return Status{Code::kUnavailable, "the kernel has no uprobes for perf"};
  perf_event_attr event{};
  event.size = sizeof event;
  event.type = *type;
  event.config1 = reinterpret_cast<uint64_t>(path.c_str());
  event.config2 = offset;
  UniqueFd opened(static_cast<int>(::syscall(SYS_perf_event_open, &event, -1, 0, -1, PERF_FLAG_FD_CLOEXEC)));
  if (!opened) return ErrnoStatus("perf_event_open of a uprobe", errno);
  bpf_attr link{};
  link.link_create.prog_fd = static_cast<uint32_t>(program);
  link.link_create.target_fd = static_cast<uint32_t>(opened.get());
  link.link_create.attach_type = BPF_PERF_EVENT;
  link.link_create.perf_event.bpf_cookie = cookie;
  const int fd = BpfCall(BPF_LINK_CREATE, &link, sizeof link);
  if (fd < 0) return ErrnoStatus("attach a program to a uprobe", -fd);
  return UniqueFd(fd);
}

}  // namespace

uint32_t AttachTypeOf(Mechanism mechanism) noexcept {
  if (mechanism == Mechanism::kSession) return kUprobeSession;
  return mechanism == Mechanism::kMulti ? kUprobeMulti : 0;
}

Result<UniqueFd> LinkProbes(int program, Mechanism mechanism, int file, std::span<const uint64_t> offsets,
                            std::span<const uint64_t> cookies) {
  // The link leads to the open file itself, whatever its path names now.
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  if (mechanism == Mechanism::kPerfEvent) return LinkPerfEvent(program, path, offsets[0], cookies[0]);
  UprobeMultiLink link{};
  link.program = static_cast<uint32_t>(program);
  link.attach_type = AttachTypeOf(mechanism);
  link.path = reinterpret_cast<uint64_t>(path.c_str());
  link.offsets = reinterpret_cast<uint64_t>(offsets.data());
  link.cookies = reinterpret_cast<uint64_t>(cookies.data());
  link.count = static_cast<uint32_t>(offsets.size());
  const int fd = BpfCall(BPF_LINK_CREATE, &link, sizeof link);
  if (fd < 0) return ErrnoStatus("attach a program to a library", -fd);
  return UniqueFd(fd);
}

Result<UniqueFd> LinkTracepoint(int program) {
  bpf_attr link{};
  link.raw_tracepoint.prog_fd = static_cast<uint32_t>(program);
  const int fd = BpfCall(BPF_RAW_TRACEPOINT_OPEN, &link, sizeof link);
  if (fd < 0) return ErrnoStatus("attach a program to a tracepoint", -fd);
  return UniqueFd(fd);
}

int LoadSmallestProgram(uint32_t type, uint32_t attach_type, uint32_t btf_id) noexcept {
  // r0 = 0, or 1 for a session: its end is not probed; exit
  const bpf_insn code[] = {
      {BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, attach_type == kUprobeSession ? 1 : 0},
      {BPF_JMP | BPF_EXIT, 0, 0, 0, 0}};
  bpf_attr load{};
  load.prog_type = type;
  load.expected_attach_type = attach_type;
  load.insn_cnt = std::size(code);
  load.insns = reinterpret_cast<uint64_t>(code);
  load.license = reinterpret_cast<uint64_t>("Dual BSD/GPL");
  load.attach_btf_id = btf_id;
  return BpfCall(BPF_PROG_LOAD, &load, sizeof load);
}

Result<SelfFunction> FindSelfFunction() {
  const auto address = reinterpret_cast<uint64_t>(&gpulens_bpf_self_function);
  ASSIGN_OR_RETURN(const std::string maps, ReadFile(std::string("/proc/self/maps"), 16u << 20));
  std::vector<MappedFile> files;
  RETURN_IF_ERROR(ParseMaps(maps, 65536, files));
  for (const MappedFile& file : files) {
    if (address < file.begin || address >= file.end) continue;
    SelfFunction out;
    ASSIGN_OR_RETURN(out.file, OpenMapped("/proc", ::getpid(), file));
    out.offset = file.offset + (address - file.begin);
    out.call = &gpulens_bpf_self_function;
    return out;
  }
  return Status{Code::kUnavailable, "the program does not find itself in /proc/self/maps"};
}

}  // namespace gpulens::bpf
