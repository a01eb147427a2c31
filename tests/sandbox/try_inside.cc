// Tries system calls from inside a process: attaches to one of its threads, has it execute each call, prints
// how it ended, and lets the thread go on where it was. For tests/e2e/test_sandbox.py; needs root.
//
//   try_inside PID[/THREAD] ATTEMPT…    one line for each: ATTEMPT, a tab, "ok", or the name of its errno
//   try_inside list                     the attempts
//   try_inside lacking LAYER… -- PROGRAM ARGUMENT…   runs a program as on a kernel without a layer: landlock
//                                       (not built in), seccomp (no filters), no_new_privs
//
// An attempt that the process should not have made fails for another reason where nothing refuses it, so that
// it never does harm: the path is not there, the flags are not known. `EPERM` or `EACCES` is a refusal.
#include <arpa/inet.h>
#include <elf.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/parse.h"

namespace gpulens {
namespace {

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "try_inside: %s: %s\n", what.c_str(), std::strerror(errno));
  std::exit(2);
}

using Arguments = std::array<uint64_t, 6>;

// The registers of a stopped thread, as far as a call needs them.
#if defined(__x86_64__)
using Registers = user_regs_struct;
constexpr std::string_view kCallInstruction("\x0f\x05", 2);
constexpr uint64_t kRedZone = 128;
uint64_t StackOf(const Registers& r) { return r.rsp; }
int64_t ResultOf(const Registers& r) { return static_cast<int64_t>(r.rax); }
void SetCall(Registers& r, uint64_t at, int64_t number, const Arguments& a) {
  r.rip = at;
  r.rax = static_cast<uint64_t>(number);
  r.orig_rax = ~uint64_t{0};  // no call is interrupted
  r.rdi = a[0], r.rsi = a[1], r.rdx = a[2], r.r10 = a[3], r.r8 = a[4], r.r9 = a[5];
}
#elif defined(__aarch64__)
using Registers = user_regs_struct;
constexpr std::string_view kCallInstruction("\x01\x00\x00\xd4", 4);
constexpr uint64_t kRedZone = 0;
uint64_t StackOf(const Registers& r) { return r.sp; }
int64_t ResultOf(const Registers& r) { return static_cast<int64_t>(r.regs[0]); }
void SetCall(Registers& r, uint64_t at, int64_t number, const Arguments& a) {
  r.pc = at;
  r.regs[8] = static_cast<uint64_t>(number);
  for (size_t i = 0; i < a.size(); ++i) r.regs[i] = a[i];
}
#else
#error "Registers of this architecture are missing."
#endif

constexpr int64_t kNumberOfErrors = 4095;

class Thread {
 public:
  Thread(pid_t process, pid_t thread) : process_(process), thread_(thread) {
    // TRACEFORK: a child that should not be there is stopped before its first instruction.
    constexpr long kOptions =
        PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE;
    if (::ptrace(PTRACE_SEIZE, thread_, nullptr, kOptions) != 0) Fail("attach to " + std::to_string(thread_));
    if (::ptrace(PTRACE_INTERRUPT, thread_, nullptr, nullptr) != 0) Fail("interrupt");
    WaitForTrap();
    Get(saved_);
    const std::string path = "/proc/" + std::to_string(process_) + "/mem";
    memory_ = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (memory_ < 0) Fail(path);
    FindCall();
    free_ = (StackOf(saved_) - kRedZone - kRoom) & ~uint64_t{15};
  }

  ~Thread() {
    // A stop from which the kernel repeats an interrupted call.
    ::ptrace(PTRACE_INTERRUPT, thread_, nullptr, nullptr);
    ::ptrace(PTRACE_CONT, thread_, nullptr, nullptr);
    WaitForTrap();
    Set(saved_);
    ::ptrace(PTRACE_DETACH, thread_, nullptr, nullptr);
    for (int signal : held_) ::syscall(SYS_tgkill, process_, thread_, signal);
  }
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;

  // Returns the result of a call: -errno when it fails.
  int64_t Call(int64_t number, const Arguments& arguments) {
    Registers now = saved_;
    SetCall(now, call_at_, number, arguments);
    Set(now);
    Resume();  // to its entry
    if (!InCall()) Fail("the call was not begun");
    do {
      Resume();
    } while (!InCall());
    Get(now);
    return ResultOf(now);
  }

  // Puts bytes into its stack, where nothing is in use; each Begin forgets the former ones.
  void Begin() { used_ = 0; }
  uint64_t Put(const void* bytes, size_t size) {
    if (used_ + size > kRoom) Fail("an argument is too long");
    const uint64_t at = free_ + used_;
    if (::pwrite(memory_, bytes, size, static_cast<off_t>(at)) != static_cast<ssize_t>(size)) Fail("write");
    used_ += (size + 15) & ~size_t{15};
    return at;
  }
  uint64_t Put(const std::string& text) { return Put(text.c_str(), text.size() + 1); }

  pid_t process() const { return process_; }

 private:
  static constexpr size_t kRoom = 8192;

  void Get(Registers& out) {
    iovec part{&out, sizeof out};
    if (::ptrace(PTRACE_GETREGSET, thread_, NT_PRSTATUS, &part) != 0) Fail("registers");
  }
  void Set(Registers& in) {
    iovec part{&in, sizeof in};
    if (::ptrace(PTRACE_SETREGSET, thread_, NT_PRSTATUS, &part) != 0) Fail("set registers");
  }

  int Wait() {
    int status = 0;
    if (::waitpid(thread_, &status, __WALL) != thread_ || !WIFSTOPPED(status)) Fail("the process ended");
    return status;
  }
  void WaitForTrap() {
    while (true) {
      const int status = Wait();
      if (status >> 16 == PTRACE_EVENT_STOP) return;
      if (WSTOPSIG(status) != (SIGTRAP | 0x80) && status >> 16 == 0) held_.push_back(WSTOPSIG(status));
      ::ptrace(PTRACE_CONT, thread_, nullptr, nullptr);
    }
  }
  // To the next stop at the entry or the end of a call. Signals wait; children end at once.
  void Resume() {
    while (true) {
      if (::ptrace(PTRACE_SYSCALL, thread_, nullptr, nullptr) != 0) Fail("resume");
      status_ = Wait();
      const int event = status_ >> 16;
      if (InCall()) return;
      if (event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK || event == PTRACE_EVENT_CLONE) {
        unsigned long child = 0;
        ::ptrace(PTRACE_GETEVENTMSG, thread_, nullptr, &child);
        ::kill(static_cast<pid_t>(child), SIGKILL);
        ::waitpid(static_cast<pid_t>(child), nullptr, __WALL);
      } else if (event == 0) {
        held_.push_back(WSTOPSIG(status_));
      }
    }
  }
  bool InCall() const { return WSTOPSIG(status_) == (SIGTRAP | 0x80); }

  // Finds an instruction that makes a system call.
  void FindCall() {
    const std::string path = "/proc/" + std::to_string(process_) + "/maps";
    std::FILE* maps = std::fopen(path.c_str(), "re");
    if (!maps) Fail(path);
    char line[512];
    std::string code;
    while (call_at_ == 0 && std::fgets(line, sizeof line, maps)) {
      // "from-to r-xp …"
      std::string_view rest = line;
      const uint64_t from = ParseInt<uint64_t>(TakeUntil(rest, '-'), 16).value_or(0);
      const uint64_t to = ParseInt<uint64_t>(TakeUntil(rest, ' '), 16).value_or(0);
      if (to <= from || rest.size() < 4 || rest[2] != 'x' || rest.find("[vsyscall]") != rest.npos) continue;
      code.resize(to - from);
      const ssize_t size = ::pread(memory_, code.data(), code.size(), static_cast<off_t>(from));
      if (size <= 0) continue;
      code.resize(static_cast<size_t>(size));
      if (const size_t at = code.find(kCallInstruction); at != std::string::npos) call_at_ = from + at;
    }
    std::fclose(maps);
    if (call_at_ == 0) Fail("no instruction that makes a call");
  }

  const pid_t process_, thread_;
  Registers saved_{};
  int memory_ = -1, status_ = 0;
  uint64_t call_at_ = 0, free_ = 0;
  size_t used_ = 0;
  std::vector<int> held_;  // signals that came meanwhile
};

// ---- Attempts.

constexpr uint64_t kHere = static_cast<uint64_t>(AT_FDCWD);
constexpr uint64_t kNoProcess = 0x3fffffff;  // no process has this number
const std::string kNowhere = "/nowhere/of/try_inside";

// Closes what an attempt has opened.
int64_t Opened(Thread& in, int64_t fd) {
  if (fd >= 0) in.Call(SYS_close, {static_cast<uint64_t>(fd)});
  return fd;
}

int64_t Open(Thread& in, const std::string& path, uint64_t flags) {
  return Opened(in, in.Call(SYS_openat, {kHere, in.Put(path), flags | O_NOCTTY | O_NONBLOCK, 0600}));
}

int64_t Socket(Thread& in, uint64_t family, uint64_t type, uint64_t protocol = 0) {
  return Opened(in, in.Call(SYS_socket, {family, type, protocol}));
}

// To a port at which nothing listens: ECONNREFUSED.
int64_t Connect(Thread& in) {
  const int64_t fd = in.Call(SYS_socket, {AF_INET, SOCK_STREAM, 0});
  if (fd < 0) return fd;
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(1);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int64_t result = in.Call(SYS_connect, {static_cast<uint64_t>(fd), in.Put(&to, sizeof to), sizeof to});
  Opened(in, fd);
  return result;
}

int64_t ExecutableMemory(Thread& in) {
  const int64_t at = in.Call(
      SYS_mmap, {0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, ~uint64_t{0}, 0});
  if (at < 0 && at >= -kNumberOfErrors) return at;
  in.Call(SYS_munmap, {static_cast<uint64_t>(at), 4096});
  return 0;
}

int64_t MakeExecutable(Thread& in) {
  const int64_t at =
      in.Call(SYS_mmap, {0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, ~uint64_t{0}, 0});
  if (at < 0 && at >= -kNumberOfErrors) return at;
  const int64_t result = in.Call(SYS_mprotect, {static_cast<uint64_t>(at), 4096, PROT_READ | PROT_EXEC});
  in.Call(SYS_munmap, {static_cast<uint64_t>(at), 4096});
  return result;
}

int64_t Execute(Thread& in) {
  const std::array<uint64_t, 1> list{0};
  const uint64_t empty = in.Put(list.data(), sizeof list);
  return in.Call(SYS_execve, {in.Put(kNowhere), empty, empty});
}

struct Attempt {
  std::string_view name;  // one that ends with ':' has a path behind it
  int64_t (*make)(Thread& in, const std::string& path);
  std::string_view otherwise;  // how it ends where nothing refuses it
};

#define CALL(...)                                      \
  [](Thread& in, const std::string& path) -> int64_t { \
    static_cast<void>(path);                           \
    return __VA_ARGS__;                                \
  }
constexpr Attempt kAttempts[] = {
    {"read:", CALL(Open(in, path, O_RDONLY)), "ok"},
    {"write:", CALL(Open(in, path, O_WRONLY)), "ok"},
    {"use:", CALL(Open(in, path, O_RDWR)), "ok"},
    {"make:", CALL(Open(in, path, O_WRONLY | O_CREAT)), "ok"},
    {"remove:", CALL(in.Call(SYS_unlinkat, {kHere, in.Put(path), 0})), "ok"},
    {"make_folder:", CALL(in.Call(SYS_mkdirat, {kHere, in.Put(path), 0700})), "ok"},
    {"make_device:", CALL(in.Call(SYS_mknodat, {kHere, in.Put(path), S_IFCHR | 0600, 0x103})), "ok"},
    {"socket_inet", CALL(Socket(in, AF_INET, SOCK_STREAM)), "ok"},
    {"socket_inet6", CALL(Socket(in, AF_INET6, SOCK_DGRAM)), "ok"},
    {"socket_unix", CALL(Socket(in, AF_UNIX, SOCK_STREAM)), "ok"},
    {"socket_netlink_route", CALL(Socket(in, AF_NETLINK, SOCK_RAW, 0)), "ok"},
    {"socket_netlink_audit", CALL(Socket(in, AF_NETLINK, SOCK_RAW, 9)), "ok"},
    {"socket_packet", CALL(Socket(in, AF_PACKET, SOCK_RAW, 0)), "ok"},
    {"socket_raw", CALL(Socket(in, AF_INET, SOCK_RAW, IPPROTO_ICMP)), "ok"},
    {"socket_alg", CALL(Socket(in, 38, SOCK_SEQPACKET)), "ok or EAFNOSUPPORT"},
    {"socket_vsock", CALL(Socket(in, 40, SOCK_STREAM)), "ok or EAFNOSUPPORT"},
    {"connect", CALL(Connect(in)), "ECONNREFUSED"},
    {"exec", CALL(Execute(in)), "ENOENT"},
    {"fork", CALL(in.Call(SYS_clone, {SIGCHLD, 0, 0, 0, 0})), "ok"},
    {"clone_user_namespace", CALL(in.Call(SYS_clone, {CLONE_NEWUSER | CLONE_FS, 0, 0, 0, 0})), "EINVAL"},
    {"unshare", CALL(in.Call(SYS_unshare, {1})), "EINVAL"},
    {"setns", CALL(in.Call(SYS_setns, {~uint64_t{0}, 0})), "EBADF"},
    {"kill", CALL(in.Call(SYS_kill, {kNoProcess, SIGKILL})), "ESRCH"},
    {"ptrace", CALL(in.Call(SYS_ptrace, {PTRACE_SEIZE, kNoProcess, 0, 0})), "ESRCH"},
    {"process_vm_readv", CALL(in.Call(SYS_process_vm_readv, {kNoProcess, 0, 0, 0, 0, 1})), "EINVAL"},
    {"process_vm_writev", CALL(in.Call(SYS_process_vm_writev, {kNoProcess, 0, 0, 0, 0, 1})), "EINVAL"},
    {"pidfd_getfd", CALL(in.Call(438, {~uint64_t{0}, 0, 0})), "EBADF"},
    {"mount", CALL(in.Call(SYS_mount, {in.Put("x"), in.Put(kNowhere), in.Put("tmpfs"), 0, 0})), "ENOENT"},
    {"umount", CALL(in.Call(SYS_umount2, {in.Put(kNowhere), 0})), "ENOENT"},
    {"open_tree", CALL(in.Call(428, {kHere, in.Put(kNowhere), 0})), "ENOENT"},
    {"chroot", CALL(in.Call(SYS_chroot, {in.Put(kNowhere)})), "ENOENT"},
    {"bpf", CALL(in.Call(SYS_bpf, {9999, 0, 0})), "EINVAL"},
    {"perf_event_open", CALL(in.Call(SYS_perf_event_open, {0, 0, ~uint64_t{0}, ~uint64_t{0}, 1 << 20})),
     "EINVAL"},
    {"io_uring", CALL(in.Call(425, {0, 0})), "EFAULT"},
    {"userfaultfd", CALL(in.Call(SYS_userfaultfd, {0x1001})), "EINVAL"},
    {"keyctl", CALL(in.Call(SYS_keyctl, {9999})), "EOPNOTSUPP"},
    {"add_key", CALL(in.Call(SYS_add_key, {0, 0, 0, 1 << 21, 0})), "EINVAL"},
    {"init_module", CALL(in.Call(SYS_finit_module, {~uint64_t{0}, 0, 0x1000})), "EINVAL or ENOSYS"},
    {"reboot", CALL(in.Call(SYS_reboot, {1, 2, 3, 0})), "EINVAL"},
    {"set_time", CALL(in.Call(SYS_clock_settime, {9999, 0})), "EINVAL"},
    {"tiocsti", CALL(in.Call(SYS_ioctl, {~uint64_t{0}, 0x5412, 0})), "EBADF"},
    {"executable_memory", CALL(ExecutableMemory(in)), "ok"},
    {"make_executable", CALL(MakeExecutable(in)), "ok"},
};
#undef CALL

// "ok", or the name of an errno.
std::string NameOf(int64_t result) {
  if (result >= 0 || result < -kNumberOfErrors) return "ok";
  const char* name = ::strerrorname_np(static_cast<int>(-result));
  return name ? name : std::to_string(-result);
}

const Attempt* Find(std::string_view word, std::string& path) {
  for (const Attempt& attempt : kAttempts) {
    if (attempt.name == word) return &attempt;
    if (attempt.name.ends_with(':') && word.starts_with(attempt.name)) {
      path = word.substr(attempt.name.size());
      return &attempt;
    }
  }
  return nullptr;
}

int Try(const std::string& where, const std::vector<std::string>& words) {
  std::string_view rest = where;
  const auto process = ParseInt<pid_t>(TakeUntil(rest, '/'));
  const auto thread = rest.empty() ? process : ParseInt<pid_t>(rest);
  if (!process || !thread) {
    std::fprintf(stderr, "try_inside: no such process: %s\n", where.c_str());
    return 2;
  }
  std::string path;
  for (const std::string& word : words) {
    if (!Find(word, path)) {
      std::fprintf(stderr, "try_inside: no such attempt: %s\n", word.c_str());
      return 2;
    }
  }
  std::string lines;
  {
    Thread inside(*process, *thread);
    for (const std::string& word : words) {
      inside.Begin();
      const Attempt* attempt = Find(word, path);
      lines += word + "\t" + NameOf(attempt->make(inside, path)) + "\n";
    }
  }
  std::fputs(lines.c_str(), stdout);
  return 0;
}

// ---- A kernel that lacks something.

void Forbid(std::vector<sock_filter>& filter, uint32_t call, int error, int first_argument = -1) {
  constexpr uint32_t kNumber = offsetof(seccomp_data, nr), kArgument = offsetof(seccomp_data, args);
  const bool any = first_argument < 0;
  filter.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kNumber));
  filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, static_cast<uint8_t>(any ? 1 : 3)));
  if (!any) {
    filter.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kArgument));
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(first_argument), 0, 1));
  }
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<uint32_t>(error)));
}

int RunLacking(const std::vector<std::string>& layers, char** program) {
  std::vector<sock_filter> filter;
  for (const std::string& layer : layers) {
    if (layer == "landlock") {
      Forbid(filter, 444, ENOSYS);
    } else if (layer == "seccomp") {
      Forbid(filter, SYS_seccomp, ENOSYS);
      Forbid(filter, SYS_prctl, EINVAL, PR_SET_SECCOMP);
    } else if (layer == "no_new_privs") {
      Forbid(filter, SYS_prctl, EINVAL, PR_SET_NO_NEW_PRIVS);
    } else {
      std::fprintf(stderr, "try_inside: no such layer: %s\n", layer.c_str());
      return 2;
    }
  }
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog whole{static_cast<unsigned short>(filter.size()), filter.data()};
  if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &whole) != 0) {
    // A caller that is not root gives up privileges first.
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &whole) != 0)
      Fail("a filter");
  }
  ::execvp(program[0], program);
  Fail(program[0]);
}

}  // namespace
}  // namespace gpulens

int main(int count, char** words) {
  using namespace gpulens;
  const std::string first = count > 1 ? words[1] : "";
  if (first == "list") {
    for (const Attempt& attempt : kAttempts)
      std::printf("%.*s\t%.*s\n", static_cast<int>(attempt.name.size()), attempt.name.data(),
                  static_cast<int>(attempt.otherwise.size()), attempt.otherwise.data());
    return 0;
  }
  std::vector<std::string> rest;
  int at = 2;
  for (; at < count && std::string_view(words[at]) != "--"; ++at) rest.emplace_back(words[at]);
  if (first == "lacking" && at + 1 < count) return RunLacking(rest, words + at + 1);
  if (rest.empty() || first.find_first_not_of("0123456789/") != std::string::npos) {
    std::fprintf(stderr,
                 "usage: try_inside PID[/THREAD] ATTEMPT… | list | lacking LAYER… -- PROGRAM ARGUMENT…\n");
    return 2;
  }
  return Try(first, rest);
}
