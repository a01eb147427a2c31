// Probes of CUDA launches and of waits for data, from outside the processes: programs of the kernel (BPF)
// that count in maps, which this class loads, attaches and reads.
//
//   ASSIGN_OR_RETURN(auto session, ProbeSession::Open({}));      // refused: a sentence with the reason
//   auto attached = session->Attach(pid, {.launches = true});    // this process, and what it will fork
//   session->Follow();                                           // every few seconds: new libraries, new
//   programs ProbeStats stats = session->Read();                          // totals
//   for (const Decision& one : governor.Step(now, session->Loads(*stats)))
//   RETURN_IF_ERROR(session->Apply(one)); session->Detach(pid);
//
// A probe lies on a library's file, so that each process that maps it runs the program; calls of those
// that were not attached are counted as one number. Everything is undone by the kernel when this
// process ends, however it ends. Needs CAP_BPF and CAP_PERFMON; CAP_SYS_PTRACE for files of other users'
// processes. Used by one thread. Pids are those of the first pid namespace: the caller must be in it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "job_page/job_page_reader.h"
#include "sources/bpf/capability.h"
#include "sources/bpf/governor.h"
#include "sources/bpf/targets.h"

namespace gpulens::bpf {

// What a call is counted as; a function and the one of the same name with _ptsz are one.
enum class CudaFunction : uint8_t {
  kLaunchKernel,
  kLaunchKernelEx,
  kLaunchCooperative,
  kGraphLaunch,
  kStreamSynchronize,
  kEventSynchronize,
  kContextSynchronize,
  kCount,
};
inline constexpr size_t kCudaFunctions = static_cast<size_t>(CudaFunction::kCount);
// "cuLaunchKernel". Static storage.
std::string_view CudaFunctionName(CudaFunction function) noexcept;
constexpr bool IsLaunch(CudaFunction function) noexcept { return function <= CudaFunction::kGraphLaunch; }

// Names the process for ever: `start_boot_ns` is CLOCK_BOOTTIME; / 10^7 it is field 22 of /proc/PID/stat.
struct ProcessKey {
  int32_t pid = 0;
  uint64_t start_boot_ns = 0;
  auto operator<=>(const ProcessKey&) const = default;
};

struct FunctionStats {
  uint64_t calls = 0;  // every call while attached
  // Of the calls that were timed (one in N): begin to end of the call on the calling thread.
  job_page::HistogramCopy duration;
  // Timed calls that began inside another timed call of the thread: cuLaunchKernelEx that calls
  // cuLaunchKernel counts in both. Not exact where fewer than all calls are timed.
  uint64_t nested = 0;
};

struct DataWaitStats {
  // Waits of the main thread that a data loader's thread ended, of 1 ms or more; pieces of one wait are one.
  job_page::HistogramCopy wait;
  uint64_t short_waits = 0, short_ns = 0;  // below 1 ms: nothing can be claimed of these
  uint64_t other_ns = 0;                   // not running for another reason
};

struct ProcessStats {
  ProcessKey key;
  uint64_t device = 0, inode = 0;  // of the probed library that it uses; 0: none is known
  int32_t root = 0;                // the pid that was attached; itself, or an ancestor
  uint32_t execs = 0;              // programs that it started in place of itself since it was attached
  bool ended = false;              // the last report of it
  bool timing_refused = false;     // calls are counted, not timed: seccomp or a shadow stack
  std::array<FunctionStats, kCudaFunctions> functions;
  std::optional<DataWaitStats> data;  // absent: not attached for it
};

// Why something is not in the numbers. Totals.
struct ProbeLosses {
  uint64_t series_full = 0;     // calls of a process or function that found no room
  uint64_t processes_full = 0;  // children that found no room
  uint64_t recursion = 0;       // runs that the kernel skipped (recursion_misses)
};

struct LibraryStats {
  uint64_t device = 0, inode = 0;
  std::string name;    // "libcuda.so.535.104": the last part of the path
  uint64_t calls = 0;  // of everybody, also of who was not attached: what the probes cost
  uint64_t timed = 0;
  uint32_t sampling = 1;       // one call in `sampling` is timed; 0: none
  std::vector<int32_t> roots;  // attached pids that use it
};

struct ProbeStats {
  std::vector<ProcessStats> processes;
  std::vector<LibraryStats> libraries;
  uint64_t switches = 0;  // of threads on this machine, while the programs of waits were attached
  ProbeLosses lost;
};

// Nanoseconds that one event costs the thread in which it happens, measured on this machine.
struct ProbeCosts {
  double count_ns = 0;  // a counted call
  double timed_ns = 0;  // a timed call
  // A switch of threads, on the whole machine, while waits are attached: an upper bound, and 1,000 where the
  // kernel does not let this process measure it.
  double switch_ns = 0;
};

struct AttachKinds {
  bool launches = false;
  bool synchronizes = false;
  bool data_waits = false;
};

// Outcome for one function of one library.
struct FunctionOutcome {
  std::string symbol;  // "cuLaunchKernel_ptsz"
  Refusal refusal = Refusal::kNone;
  std::string sentence;  // of the refusal, else empty
};
struct LibraryOutcome {
  std::string name;
  uint64_t device = 0, inode = 0;
  std::string build_id;                    // hexadecimal; empty: it has none
  std::vector<FunctionOutcome> functions;  // those that the library has
};
struct AttachOutcome {
  std::vector<LibraryOutcome> libraries;  // that have probes now; empty: none is loaded yet, Follow finds it
  bool data_waits = false;
  std::string trouble;  // what works only in part; empty: nothing
};

class ProbeSession {
 public:
  struct Options {
    Capabilities capabilities;    // of FindCapabilities; what is missing there is not used
    uint32_t sampling = 1;        // of new libraries
    uint32_t most_series = 2048;  // {process, function}; each takes 1.1 KiB of the kernel's memory
    uint32_t most_processes = 4096;
    std::vector<std::string> waker_prefixes = {
        "pt_data_"};             // threads that end waits for data; at most 16 of 15 bytes
    bool allow_seccomp = false;  // time calls of processes that have seccomp filters, too
    std::string proc = "/proc";
    Duration cost_time = std::chrono::milliseconds(20);  // of the measurement of costs; 0: none
  };
  // Loads the programs and measures what they cost. Attaches nothing. kPermissionDenied, kUnavailable: why
  // this machine cannot.
  static Result<std::unique_ptr<ProbeSession>> Open(const Options& options);
  ~ProbeSession();  // detaches all
  ProbeSession(const ProbeSession&) = delete;
  ProbeSession& operator=(const ProbeSession&) = delete;

  const ProbeCosts& costs() const noexcept;
  // How calls are seen: kSession counts and times, others count.
  Mechanism mechanism() const noexcept;

  // Follows a process, its descendants and what they fork from now on. A library's functions that may not be
  // probed are in the outcome with the reason; an error: nothing is attached. kPermissionDenied: refused, the
  // text begins with the word of the refusal. Attaching again adds kinds.
  Result<AttachOutcome> Attach(int32_t pid, const AttachKinds& kinds);
  // Looks for libraries that followed processes have loaded since; probes them. The number of new ones.
  size_t Follow();
  // Ends the probes of a process and of what it forked, and those of libraries that no other one uses.
  void Detach(int32_t pid);
  // Ends the probes on one file; its processes stay followed, and Follow does not probe it again before
  // AttachLibrary.
  void DetachLibrary(uint64_t device, uint64_t inode);
  // Undoes DetachLibrary.
  Status AttachLibrary(uint64_t device, uint64_t inode);
  // Ends the programs of waits, and begins them again.
  void DetachDataWaits();
  Status AttachDataWaits();
  void DetachAll();

  // One call in `one_in` is timed; 0: none. Takes effect at the next call. 1 … 65,536.
  void SetSampling(uint64_t device, uint64_t inode, uint32_t one_in);
  // At most 16 of at most 15 bytes, else kInvalidArgument.
  Status SetWakerPrefixes(const std::vector<std::string>& prefixes);

  // Totals since each process was attached. Processes that ended are reported once more, with `ended`.
  Result<ProbeStats> Read();
  // What Governor::Step needs. Targets: a library's "DEVICE:INODE", and "data_waits".
  std::vector<TargetLoad> Loads(const ProbeStats& stats) const;
  // Carries out a decision about one of these targets. An error: it is detached.
  Status Apply(const Decision& decision);
  // Links that are attached now.
  size_t links() const noexcept;

 private:
  struct State;
  explicit ProbeSession(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

}  // namespace gpulens::bpf
