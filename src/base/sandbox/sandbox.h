// Confines this process to what it needs: capabilities, files (Landlock) and system calls (seccomp).
//
// SECURITY.md has the table of who may do what; tests/e2e/test_sandbox.py tries it from inside each process.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpulens {

enum class SandboxMode : uint8_t {
  kEnforce,
  kLog,  // what would be refused is allowed, and the kernel logs it: SECCOMP_RET_LOG; no Landlock
  kOff,
};
// "enforce", "log" or "off"; nullopt for another word.
std::optional<SandboxMode> ParseSandboxMode(std::string_view word) noexcept;

// The system calls of a process. What is refused fails with EPERM.
enum class CallFilter : uint8_t {
  kAgent,           // a list of what is allowed: network, files, threads; no programs
  kParser,          // a list of what is allowed: memory and descriptors that are open
  kReader,          // a list of what is refused, for a vendor's library: network, programs, other processes
  kProbes,          // as kReader, but it may load programs into the kernel that count calls (BPF)
  kLauncher,        // a list of what is refused, also to all that it starts: mounts, modules, tracing
  kProgram,         // besides that: network
  kNetworkProgram,  // as kLauncher
};

// Files that a process may open, and all below them; paths that do not exist are skipped. Nothing else can be
// opened from then on, nor made, renamed or removed.
struct FileRights {
  std::vector<std::string> read;     // also executed, where the filter allows that
  std::vector<std::string> write;    // the same, and made, written, renamed, removed
  std::vector<std::string> devices;  // read, written, ioctl
};
// Adds null, zero, full, random, urandom and tty.
void AllowHarmlessDevices(FileRights& files);
// Adds everything below / but /dev, and the harmless devices. A network file system that is mounted there and
// does not answer within a second is left out: returns its path.
std::vector<std::string> AllowReadingAll(FileRights& files);

// Names the mode, "enforce", "log" or "off", for reader processes that the launcher starts.
inline constexpr const char* kSandboxVariable = "GPULENS_READER_SANDBOX";
// The mode that it names; kEnforce without it, and for another word.
SandboxMode ReaderSandboxMode() noexcept;

struct SandboxPlan {
  SandboxMode mode = SandboxMode::kEnforce;
  CallFilter filter = CallFilter::kAgent;
  std::optional<FileRights> files;  // nullopt: not limited
  // Kept if the process has them (CAP_… of <linux/capability.h>), and in no bounding set otherwise.
  std::vector<int> capabilities;
};

// One part of the sandbox, for doctor.
struct SandboxLayer {
  std::string_view name;  // "capabilities", "files", "system calls", "core dumps"
  bool on = false;
  std::string detail = {};  // if it is on: what is left; else: why not, as a sentence
};

// Applies the plan to the calling thread, and to threads and processes that it starts afterwards; call it
// before there are others. Cannot be undone. A part that this system does not have is left out, with the
// reason in its layer, and the rest holds. Built with a sanitizer, the mode is always off.
std::vector<SandboxLayer> EnterSandbox(const SandboxPlan& plan);

}  // namespace gpulens
