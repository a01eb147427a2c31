#include "base/sandbox/sandbox.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <span>
#include <type_traits>
#include <utility>

#include "base/fd.h"
#include "base/files.h"
#include "base/parse.h"
#include "base/process.h"
#include "base/result.h"
#include "base/sanitizers.h"
#include "base/text.h"

namespace gpulens {
namespace {

std::string ErrorText(int error) { return std::strerror(error); }

// ---- Capabilities.

struct CapabilitySet {
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> words{};

  uint64_t permitted() const noexcept { return words[0].permitted | uint64_t{words[1].permitted} << 32; }

  bool Has(int capability) const noexcept {
    return words[static_cast<size_t>(capability) / 32].permitted >> (capability % 32) & 1;
  }
};

bool ReadCapabilities(CapabilitySet& out) noexcept {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  return ::syscall(SYS_capget, &header, out.words.data()) == 0;
}

// "CAP_SYSLOG"; of one that has no name here, its number.
std::string NameOfCapability(int capability) {
  switch (capability) {
    case CAP_BPF: return "CAP_BPF";
    case CAP_DAC_READ_SEARCH: return "CAP_DAC_READ_SEARCH";
    case CAP_NET_BIND_SERVICE: return "CAP_NET_BIND_SERVICE";
    case CAP_PERFMON: return "CAP_PERFMON";
    case CAP_SYS_ADMIN: return "CAP_SYS_ADMIN";
    case CAP_SYS_PTRACE: return "CAP_SYS_PTRACE";
    case CAP_SYSLOG: return "CAP_SYSLOG";
    default: return std::to_string(capability);
  }
}

SandboxLayer DropCapabilities(const std::vector<int>& kept) {
  SandboxLayer layer{.name = "capabilities"};
  CapabilitySet has;
  if (!ReadCapabilities(has)) {
    layer.detail = "they cannot be read: " + ErrorText(errno);
    return layer;
  }
  CapabilitySet left;
  for (int capability : kept) {
    if (!has.Has(capability)) continue;
    auto& word = left.words[static_cast<size_t>(capability) / 32];
    word.permitted |= uint32_t{1} << (capability % 32);
    word.effective = word.permitted;
    layer.detail += (layer.detail.empty() ? "left: " : ", ") + NameOfCapability(capability);
  }
  if (layer.detail.empty()) layer.detail = "none left";
  ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  // Without CAP_SETPCAP the bounding set stays: with no_new_privs no program gains from it.
  for (int capability = 0; capability <= CAP_LAST_CAP + 64; ++capability) {
    if (std::ranges::find(kept, capability) != kept.end()) continue;
    if (::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0) break;
  }
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  // The filter of the packaged unit refuses capset, and gives nothing that would have to be dropped.
  layer.on = has.permitted() == left.permitted() || ::syscall(SYS_capset, &header, left.words.data()) == 0;
  if (!layer.on) layer.detail = "capset: " + ErrorText(errno);
  return layer;
}

// ---- Files. Constants of the kernel's interface, which older headers lack.

constexpr uint64_t kExecute = 1 << 0, kWriteFile = 1 << 1, kReadFile = 1 << 2, kReadDir = 1 << 3,
                   kRemoveDir = 1 << 4, kRemoveFile = 1 << 5, kMakeChar = 1 << 6, kMakeDir = 1 << 7,
                   kMakeFile = 1 << 8, kMakeSocket = 1 << 9, kMakeFifo = 1 << 10, kMakeBlock = 1 << 11,
                   kMakeLink = 1 << 12, kRefer = 1 << 13, kTruncate = 1 << 14, kDeviceIoctl = 1 << 15;
constexpr uint64_t kRead = kReadFile | kReadDir;
constexpr uint64_t kWrite = kRead | kWriteFile | kRemoveDir | kRemoveFile | kMakeDir | kMakeFile |
                            kMakeSocket | kMakeFifo | kMakeLink | kRefer | kTruncate;
constexpr uint64_t kDevice = kRead | kWriteFile | kDeviceIoctl;
// Those that a rule about a file may have.
constexpr uint64_t kOfFiles = kExecute | kWriteFile | kReadFile | kTruncate | kDeviceIoctl;
constexpr unsigned kGetVersion = 1;
constexpr int kPathBeneath = 1;

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule 445
#define SYS_landlock_restrict_self 446
#endif

// The rights that a version of Landlock knows.
uint64_t RightsOfVersion(int64_t version) noexcept {
  uint64_t all = kExecute | kWriteFile | kReadFile | kReadDir | kRemoveDir | kRemoveFile | kMakeChar |
                 kMakeDir | kMakeFile | kMakeSocket | kMakeFifo | kMakeBlock | kMakeLink;
  if (version >= 2) all |= kRefer;
  if (version >= 3) all |= kTruncate;
  if (version >= 5) all |= kDeviceIoctl;
  return all;
}

// File systems that wait for no other machine.
constexpr std::string_view kLocalTypes[] = {"proc", "sysfs",   "tmpfs",    "ramfs", "devtmpfs", "ext2",
                                            "ext3", "ext4",    "xfs",      "btrfs", "zfs",      "f2fs",
                                            "vfat", "overlay", "squashfs", "erofs", "cgroup2"};
constexpr int kAnswerMs = 1000;

std::string ReadMounts() { return ReadFile("/proc/self/mountinfo", size_t{4} << 20).value_or(""); }

// Whether another file system than those is mounted at `path`.
bool MayHang(std::string_view mounts, std::string_view path) {
  // "36 35 0:41 / /data rw,relatime shared:1 - nfs4 server:/data rw"
  while (!mounts.empty()) {
    std::string_view line = TakeUntil(mounts, '\n');
    std::string_view place = line;
    for (int i = 0; i < 4; ++i) TakeUntil(place, ' ');
    if (TakeUntil(place, ' ') != path) continue;
    const size_t dash = place.find(" - ");
    if (dash == std::string_view::npos) return true;
    std::string_view type = place.substr(dash + 3);
    if (std::ranges::find(kLocalTypes, TakeUntil(type, ' ')) == std::end(kLocalTypes)) return true;
  }
  return false;
}

// Whether a path can be looked up; another process tries, since who waits for a dead server cannot be
// stopped.
bool Answers(const std::string& path) {
  const pid_t pid = ::fork();
  if (pid < 0) return false;
  if (pid == 0) {
    struct stat facts{};
    const int fd = ::open(path.c_str(), O_PATH | O_CLOEXEC);
    ::_exit(fd >= 0 && ::fstat(fd, &facts) == 0 ? 0 : 1);
  }
  int status = 0;
  for (int waited = 0; waited < kAnswerMs; ++waited) {
    if (::waitpid(pid, &status, WNOHANG) == pid) return status == 0;
    ::usleep(1000);
  }
  ::kill(pid, SIGKILL);
  ::waitpid(pid, &status, WNOHANG);
  return false;
}

class Ruleset {
 public:
  // False: there is no Landlock here; `layer` has the reason.
  bool Make(SandboxLayer& layer) {
    version_ = ::syscall(SYS_landlock_create_ruleset, nullptr, 0, kGetVersion);
    if (version_ < 1) {
      const bool disabled = errno == EOPNOTSUPP;
      layer.detail = disabled ? "Landlock is disabled in this kernel (boot option lsm=)"
                              : "this kernel or container has no Landlock: " + ErrorText(errno);
      return false;
    }
    handled_ = RightsOfVersion(version_);
    const uint64_t attributes = handled_;  // struct landlock_ruleset_attr of version 1
    ruleset_.reset(
        static_cast<int>(::syscall(SYS_landlock_create_ruleset, &attributes, sizeof attributes, 0)));
    if (!ruleset_) layer.detail = "landlock_create_ruleset: " + ErrorText(errno);
    return bool(ruleset_);
  }

  // Skips what does not exist, what may not be looked up, and mounts that do not answer.
  void Add(const std::vector<std::string>& paths, uint64_t rights) {
    for (const std::string& path : paths) {
      if (MayHang(mounts_, path) && !Answers(path)) continue;
      UniqueFd at(::open(path.c_str(), O_PATH | O_CLOEXEC));
      struct stat facts{};
      if (!at || ::fstat(at.get(), &facts) != 0) continue;
      uint64_t allowed = rights & handled_;
      if (!S_ISDIR(facts.st_mode)) allowed &= kOfFiles;
#pragma pack(push, 1)
      const struct {
        uint64_t allowed;
        int32_t parent;
      } rule{allowed, at.get()};
#pragma pack(pop)
      ::syscall(SYS_landlock_add_rule, ruleset_.get(), kPathBeneath, &rule, 0);
    }
  }

  void Enter(SandboxLayer& layer) {
    layer.on = ::syscall(SYS_landlock_restrict_self, ruleset_.get(), 0) == 0;
    layer.detail = layer.on ? "Landlock version " + std::to_string(version_)
                            : "landlock_restrict_self: " + ErrorText(errno);
    if (layer.on && version_ < 3)
      layer.detail += ", which does not limit emptying files, nor ioctl of devices";
    else if (layer.on && version_ < 5) layer.detail += ", which does not limit ioctl of devices";
  }

 private:
  int64_t version_ = 0;
  uint64_t handled_ = 0;
  UniqueFd ruleset_;
  const std::string mounts_ = ReadMounts();
};

SandboxLayer LimitFiles(const FileRights& files, bool programs) {
  SandboxLayer layer{.name = "files"};
  Ruleset rules;
  if (!rules.Make(layer)) return layer;
  rules.Add(files.read, kRead | (programs ? kExecute : 0));
  rules.Add(files.write, kWrite);
  rules.Add(files.devices, kDevice);
  rules.Enter(layer);
  return layer;
}

// ---- System calls.

// What a filter refuses or allows by arguments. Everything else is a name in one of the lists.
constexpr const char* kAgentCalls[] = {
    // Files.
    "read", "write", "readv", "writev", "pread64", "pwrite64", "preadv", "pwritev", "preadv2", "pwritev2",
    "close", "close_range", "open", "openat", "openat2", "stat", "lstat", "fstat", "newfstatat", "statx",
    "statfs", "fstatfs", "access", "faccessat", "faccessat2", "lseek", "getdents", "getdents64", "readlink",
    "readlinkat", "getcwd", "flock", "dup", "dup2", "dup3", "pipe", "pipe2", "ftruncate", "fallocate",
    "fsync", "fdatasync", "sync_file_range", "fadvise64", "readahead", "copy_file_range", "sendfile",
    "rename", "renameat", "renameat2", "unlink", "unlinkat", "mkdir", "mkdirat", "rmdir", "link", "linkat",
    "symlink", "symlinkat", "chown", "fchown", "fchownat", "lchown", "utimensat", "umask", "memfd_create",
    "inotify_init1", "inotify_add_watch", "inotify_rm_watch",
    // Memory.
    "munmap", "mremap", "madvise", "brk", "mlock", "mlock2", "munlock", "msync", "mincore", "membarrier",
    // Threads and this process.
    "futex", "futex_wait", "futex_wake", "futex_waitv", "set_robust_list", "get_robust_list",
    "set_tid_address", "rseq", "exit", "exit_group", "gettid", "getpid", "getppid", "getuid", "geteuid",
    "getgid", "getegid", "getresuid", "getresgid", "getgroups", "getpgrp", "getpgid", "getsid", "capget",
    "sched_yield", "sched_getaffinity", "sched_getparam", "sched_getscheduler", "sched_get_priority_min",
    "sched_get_priority_max", "getpriority", "setpriority", "getrusage", "getrlimit", "times", "wait4",
    "waitid", "uname", "sysinfo", "getcpu", "getrandom",
    // Time.
    "clock_gettime", "clock_getres", "clock_nanosleep", "nanosleep", "gettimeofday", "time", "timerfd_create",
    "timerfd_settime", "timerfd_gettime", "restart_syscall",
    // The state of the clock; without CAP_SYS_TIME it is only read. The C library takes the second.
    "adjtimex", "clock_adjtime",
    // Waiting and signals.
    "epoll_create", "epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait", "epoll_pwait2", "poll",
    "ppoll", "select", "pselect6", "eventfd", "eventfd2", "signalfd", "signalfd4", "rt_sigaction",
    "rt_sigprocmask", "rt_sigreturn", "rt_sigtimedwait", "rt_sigpending", "rt_sigsuspend", "sigaltstack",
    "pause",
    // Network; the families are limited below.
    "socketpair", "bind", "listen", "accept", "accept4", "connect", "getsockname", "getpeername",
    "setsockopt", "getsockopt", "sendto", "recvfrom", "sendmsg", "recvmsg", "sendmmsg", "recvmmsg",
    "shutdown"};

constexpr const char* kParserCalls[] = {"read",           "write",
                                        "readv",          "writev",
                                        "pread64",        "close",
                                        "fstat",          "lseek",
                                        "recvfrom",       "recvmsg",
                                        "sendto",         "sendmsg",
                                        "poll",           "ppoll",
                                        "munmap",         "mremap",
                                        "madvise",        "brk",
                                        "futex",          "exit",
                                        "exit_group",     "getpid",
                                        "gettid",         "getrandom",
                                        "sched_yield",    "clock_gettime",
                                        "gettimeofday",   "clock_nanosleep",
                                        "nanosleep",      "restart_syscall",
                                        "rt_sigaction",   "rt_sigprocmask",
                                        "rt_sigreturn",   "rseq",
                                        "set_robust_list"};

// Refused in every process that has a list of what is refused.
constexpr const char* kEscapeCalls[] = {
    // Other processes.
    "ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "process_mrelease", "pidfd_getfd",
    "kcmp", "migrate_pages", "move_pages",
    // Mounts, namespaces and roots.
    "mount", "umount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree", "open_tree_attr",
    "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr", "setns", "unshare", "open_by_handle_at",
    // The kernel and the machine.
    "init_module", "finit_module", "delete_module", "create_module", "kexec_load", "kexec_file_load",
    "reboot", "swapon", "swapoff", "acct", "quotactl", "quotactl_fd", "syslog", "settimeofday",
    "clock_settime", "clock_settime64", "clock_adjtime", "adjtimex", "stime", "sethostname", "setdomainname",
    "iopl", "ioperm", "modify_ldt", "nfsservctl", "lookup_dcookie", "vhangup", "uselib", "fanotify_init",
    // Parts of the kernel that have been broken into most.
    "io_uring_setup", "io_uring_enter", "io_uring_register", "userfaultfd", "keyctl", "add_key",
    "request_key", "vmsplice"};

// Refused in addition, but in the process that attaches probes.
constexpr const char* kTracingCalls[] = {"bpf", "perf_event_open"};

// Refused in a process that starts nothing.
constexpr const char* kProgramCalls[] = {"execve", "execveat", "fork", "vfork"};

// Declarations of libseccomp's interface (seccomp_init(3) and others), which is opened at run time:
// docs/adr/0073-libseccomp-at-run-time.md.
constexpr uint32_t kAllowCall = 0x7fff0000, kLogCall = 0x7ffc0000;
constexpr uint32_t FailCall(int error) noexcept { return 0x00050000U | static_cast<uint32_t>(error); }
enum FilterAttribute : int {
  kOtherArchitecture = 2,
  kSetNoNewPrivileges = 3,
  kAllowSpeculation = 7,
  kOptimize = 8
};
enum Comparison : int { kNotEqual = 1, kEqual = 4, kMaskedEqual = 7 };
constexpr int kUnknownCall = -1;

struct Condition {
  unsigned argument;
  Comparison comparison;
  uint64_t first, second;
};

struct SeccompLibrary {
  void* (*init)(uint32_t action);
  void (*release)(void* filter);
  int (*attr_set)(void* filter, FilterAttribute attribute, uint32_t value);
  int (*resolve_name)(const char* name);
  int (*rule_add)(void* filter, uint32_t action, int call, unsigned count, const Condition* conditions);
  int (*load)(const void* filter);
};

Result<SeccompLibrary> OpenSeccomp() {
  const std::string name = "libseccomp.so.2";
  ASSIGN_OR_RETURN(const SharedLibrary library, OpenSharedLibrary(std::span(&name, 1)));
  SeccompLibrary out{};
  auto find = [&](auto& function, const char* symbol) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library.handle, symbol));
    return function != nullptr;
  };
  const bool whole = find(out.init, "seccomp_init") && find(out.release, "seccomp_release") &&
                     find(out.attr_set, "seccomp_attr_set") &&
                     find(out.resolve_name, "seccomp_syscall_resolve_name") &&
                     find(out.rule_add, "seccomp_rule_add_array") && find(out.load, "seccomp_load");
  if (whole) return out;
  return Status{Code::kUnavailable, name + " lacks a function"};
}

class Filter {
 public:
  Filter(const SeccompLibrary& library, SandboxMode mode, uint32_t otherwise)
      : library_(library),
        refuse_(mode == SandboxMode::kLog ? kLogCall : FailCall(EPERM)),
        filter_(library.init(otherwise == kRefuse ? refuse_ : kAllowCall)) {
    if (!filter_) return;
    library.attr_set(filter_, kSetNoNewPrivileges, 0);  // set already
    library.attr_set(filter_, kOtherArchitecture, refuse_);
    library.attr_set(filter_, kOptimize, 2);
    // Old kernels slow a filtered process down as if it ran foreign code.
    library.attr_set(filter_, kAllowSpeculation, 1);
    // Its flags are in memory, where a filter cannot look: the C library then takes clone.
    Rule(FailCall(ENOSYS), "clone3");
  }
  ~Filter() {
    if (filter_) library_.release(filter_);
  }
  Filter(const Filter&) = delete;
  Filter& operator=(const Filter&) = delete;

  static constexpr uint32_t kAllow = 0, kRefuse = 1;

  template <typename... Conditions>
  void Allow(const char* call, Conditions... conditions) {
    Rule(kAllowCall, call, conditions...);
  }
  template <typename... Conditions>
  void Refuse(const char* call, Conditions... conditions) {
    Rule(refuse_, call, conditions...);
  }
  template <typename... Conditions>
  void Fail(int error, const char* call, Conditions... conditions) {
    Rule(FailCall(error), call, conditions...);
  }
  template <size_t kCount>
  void AllowAll(const char* const (&calls)[kCount]) {
    for (const char* call : calls) Allow(call);
  }
  template <size_t kCount>
  void RefuseAll(const char* const (&calls)[kCount]) {
    for (const char* call : calls) Refuse(call);
  }

  // 0, or an errno.
  int Load() noexcept {
    if (!filter_) return ENOMEM;
    return failed_ != 0 ? failed_ : -library_.load(filter_);
  }

 private:
  template <typename... Conditions>
  void Rule(uint32_t action, const char* call, Conditions... conditions) {
    if (!filter_) return;
    const int number = library_.resolve_name(call);
    if (number == kUnknownCall || number < 0) return;  // not on this architecture, or newer than libseccomp
    const std::array<Condition, sizeof...(conditions)> list{conditions...};
    const int result =
        library_.rule_add(filter_, action, number, static_cast<unsigned>(list.size()), list.data());
    // EACCES: it happens anyway, without a rule.
    if (result != 0 && result != -EACCES && failed_ == 0) failed_ = -result;
  }

  const SeccompLibrary& library_;
  const uint32_t refuse_;
  void* const filter_;
  int failed_ = 0;
};

Condition Equals(unsigned argument, uint64_t value) noexcept {
  return {.argument = argument, .comparison = kEqual, .first = value, .second = 0};
}
Condition Masked(unsigned argument, uint64_t mask, uint64_t value) noexcept {
  return {.argument = argument, .comparison = kMaskedEqual, .first = mask, .second = value};
}
Condition Differs(unsigned argument, uint64_t value) noexcept {
  return {.argument = argument, .comparison = kNotEqual, .first = value, .second = 0};
}

// Requests of ioctl: is this a terminal, how wide is it; what waits in a descriptor, do not wait, close on
// exec; the speed of a network interface.
constexpr uint64_t kIoctls[] = {0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451, 0x8946};
// Commands of fcntl: flags, locks, duplicates, pipes, seals; not those that make the kernel send signals.
constexpr uint64_t kFcntls[] = {0, 1, 2, 3, 4, 5, 6, 7, 36, 37, 38, 1030, 1031, 1032, 1033, 1034};
constexpr uint64_t kSignalFcntls[] = {8, 10, 15};           // F_SETOWN, F_SETSIG, F_SETOWN_EX
constexpr uint64_t kSetId = 06000;                          // bits of a file's mode
constexpr uint64_t kTypeMask = 0xf;                         // of a socket's type, without flags
constexpr uint64_t kWriteAndExecute = 6;                    // PROT_WRITE | PROT_EXEC
constexpr uint64_t kExecuteMemory = 4;                      // PROT_EXEC
constexpr uint64_t kNextTypes = 23;                         // BPF_BTF_GET_NEXT_ID
constexpr uint64_t kPushInput = 0x5412, kConsole = 0x541C;  // TIOCSTI, TIOCLINUX

// Memory that is written is not executed, and nothing becomes executable later.
void AllowMemory(Filter& filter) {
  filter.Allow("mmap", Masked(2, kWriteAndExecute, 0));
  filter.Allow("mmap", Masked(2, kWriteAndExecute, 2));
  filter.Allow("mmap", Masked(2, kWriteAndExecute, 4));
  filter.Allow("mprotect", Masked(2, kExecuteMemory, 0));
}

void AllowAgent(Filter& filter) {
  filter.AllowAll(kAgentCalls);
  AllowMemory(filter);
  filter.Allow("clone", Masked(0, CLONE_THREAD, CLONE_THREAD));
  const auto self = static_cast<uint64_t>(::getpid());
  for (const char* call : {"kill", "tgkill"}) filter.Allow(call, Equals(0, self));
  filter.Allow("prlimit64", Equals(0, 0));
  for (uint64_t command : kFcntls) filter.Allow("fcntl", Masked(1, 0xffffffff, command));
  for (const char* call : {"chmod", "fchmod"}) filter.Allow(call, Masked(1, kSetId, 0));
  filter.Allow("fchmodat", Masked(2, kSetId, 0));
  for (int option : {PR_SET_NAME, PR_GET_NAME, PR_SET_VMA, PR_GET_DUMPABLE, PR_CAPBSET_READ,
                     PR_GET_NO_NEW_PRIVS, PR_GET_SECCOMP})
    filter.Allow("prctl", Equals(0, static_cast<uint64_t>(option)));
  for (uint64_t request : kIoctls) filter.Allow("ioctl", Masked(1, 0xffffffff, request));
  filter.Allow("socket", Equals(0, AF_UNIX));
  for (uint64_t family : {uint64_t{AF_INET}, uint64_t{AF_INET6}}) {
    filter.Allow("socket", Equals(0, family), Masked(1, kTypeMask, SOCK_STREAM));
    filter.Allow("socket", Equals(0, family), Masked(1, kTypeMask, SOCK_DGRAM));
  }
  filter.Allow("socket", Equals(0, AF_NETLINK), Equals(2, 0));  // NETLINK_ROUTE: addresses, by getaddrinfo
}

void AllowParser(Filter& filter) {
  filter.AllowAll(kParserCalls);
  AllowMemory(filter);
  filter.Allow("tgkill", Equals(0, static_cast<uint64_t>(::getpid())));
}

void RefuseEscapes(Filter& filter, bool tracing) {
  filter.RefuseAll(kEscapeCalls);
  if (tracing) filter.RefuseAll(kTracingCalls);
  filter.Refuse("ioctl", Masked(1, 0xffffffff, kPushInput));
  filter.Refuse("ioctl", Masked(1, 0xffffffff, kConsole));
  // New namespaces.
  for (int flag :
       {CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET})
    filter.Refuse("clone", Masked(0, static_cast<uint64_t>(flag), static_cast<uint64_t>(flag)));
}

void RefuseNetwork(Filter& filter) { filter.Refuse("socket", Differs(0, AF_UNIX)); }

void RefuseReader(Filter& filter, bool tracing) {
  RefuseEscapes(filter, tracing);
  RefuseNetwork(filter);
  filter.RefuseAll(kProgramCalls);
  filter.Refuse("clone", Masked(0, CLONE_THREAD, 0));
  // Signal 0 finds out whether a process exists.
  for (const char* call : {"kill", "tkill"}) filter.Refuse(call, Differs(1, 0));
  filter.Refuse("tgkill", Differs(0, static_cast<uint64_t>(::getpid())));
  for (const char* call : {"rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_send_signal", "personality"})
    filter.Refuse(call);
  for (uint64_t command : kSignalFcntls) filter.Refuse("fcntl", Masked(1, 0xffffffff, command));
  filter.Refuse("prlimit64", Differs(0, 0));
  for (int option : {PR_SET_PDEATHSIG, PR_SET_DUMPABLE})
    filter.Refuse("prctl", Equals(0, static_cast<uint64_t>(option)));
}

SandboxLayer LimitCalls(const Result<SeccompLibrary>& library, SandboxMode mode, CallFilter what) {
  SandboxLayer layer{.name = "system calls"};
  const bool listed = what == CallFilter::kAgent || what == CallFilter::kParser;
  if (!library) {
    layer.detail =
        "libseccomp is not here (Debian: libseccomp2, Fedora: libseccomp): " + library.error().detail;
    return layer;
  }
  Filter filter(*library, mode, listed ? Filter::kRefuse : Filter::kAllow);
  switch (what) {
    case CallFilter::kAgent: AllowAgent(filter); break;
    case CallFilter::kParser: AllowParser(filter); break;
    case CallFilter::kReader: RefuseReader(filter, true); break;
    case CallFilter::kProbes:
      RefuseReader(filter, false);
      // Types of kernel modules may be listed with CAP_SYS_ADMIN alone, without which libbpf 1.1 gives up on
      // a program that could have needed them; so there are none.
      filter.Fail(ENOENT, "bpf", Equals(0, kNextTypes));
      break;
    case CallFilter::kProgram: RefuseNetwork(filter); [[fallthrough]];
    case CallFilter::kLauncher:
    case CallFilter::kNetworkProgram: RefuseEscapes(filter, true); break;
  }
  const int error = filter.Load();
  layer.on = error == 0 && mode == SandboxMode::kEnforce;
  if (error == ENOMEM && mode == SandboxMode::kLog) layer.detail = "this kernel or libseccomp cannot log";
  else if (error != 0) layer.detail = "seccomp: " + ErrorText(error);
  else if (mode == SandboxMode::kLog)
    layer.detail = "sandbox.mode is log: the kernel logs what would be refused";
  else layer.detail = listed ? "a list of what is allowed" : "a list of what is refused";
  return layer;
}

SandboxLayer LeaveNoDump() {
  SandboxLayer layer{.name = "core dumps"};
  layer.on = ::prctl(PR_SET_DUMPABLE, 0) == 0;
  layer.detail =
      layer.on ? "none, and its user's other processes cannot look into it" : "prctl: " + ErrorText(errno);
  return layer;
}

constexpr std::string_view kLayerNames[] = {"core dumps", "capabilities", "files", "system calls"};

std::vector<SandboxLayer> AllOff(const std::string& why) {
  std::vector<SandboxLayer> out;
  for (std::string_view name : kLayerNames) out.push_back({name, false, why});
  return out;
}

}  // namespace

std::optional<SandboxMode> ParseSandboxMode(std::string_view word) noexcept {
  if (word == "enforce") return SandboxMode::kEnforce;
  if (word == "log") return SandboxMode::kLog;
  if (word == "off") return SandboxMode::kOff;
  return std::nullopt;
}

SandboxMode ReaderSandboxMode() noexcept {
  const char* word = std::getenv(kSandboxVariable);
  return word ? ParseSandboxMode(word).value_or(SandboxMode::kEnforce) : SandboxMode::kEnforce;
}

void AllowHarmlessDevices(FileRights& files) {
  for (const char* device : {"null", "zero", "full", "random", "urandom", "tty"})
    files.devices.push_back("/dev/" + std::string(device));
}

std::vector<std::string> AllowReadingAll(FileRights& files) {
  const std::string mounts = ReadMounts();
  std::vector<std::string> left_out;
  static_cast<void>(ForEachName("/", [&](std::string_view name) {
    const std::string path = "/" + std::string(name);
    if (name == "dev") return true;
    if (MayHang(mounts, path) && !Answers(path)) left_out.push_back(path);
    else files.read.push_back(path);
    return true;
  }));
  AllowHarmlessDevices(files);
  return left_out;
}

std::vector<SandboxLayer> EnterSandbox(const SandboxPlan& plan) {
  if (kSanitized) return AllOff("this program was built with a sanitizer");
  if (plan.mode == SandboxMode::kOff) return AllOff("sandbox.mode is off");
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
    return AllOff("the kernel has no no_new_privs: " + ErrorText(errno));
  // While files can be opened.
  const Result<SeccompLibrary> library = OpenSeccomp();
  std::vector<SandboxLayer> layers;
  if (plan.mode == SandboxMode::kLog) {
    layers = AllOff("sandbox.mode is log");
    layers.back() = LimitCalls(library, plan.mode, plan.filter);
    return layers;
  }
  layers.push_back(LeaveNoDump());
  if (plan.files) {
    const bool programs = plan.filter == CallFilter::kProgram || plan.filter == CallFilter::kNetworkProgram;
    layers.push_back(LimitFiles(*plan.files, programs));
  }
  layers.push_back(DropCapabilities(plan.capabilities));
  layers.push_back(LimitCalls(library, plan.mode, plan.filter));
  return layers;
}

}  // namespace gpulens
