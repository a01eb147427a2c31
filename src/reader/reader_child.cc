#include "reader/reader_child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "base/files.h"
#include "base/result.h"

namespace gpulens::reader {
namespace {

// Ends of the process that nothing explains, until devices are begun one at a time; ends that the thread
// which waits for events brought, until it is not started.
constexpr int kUnexplainedEnds = 2, kEventEnds = 2;
// A device that was begun so many intervals before an end that nothing else explains is to blame for it.
constexpr int kBlameIntervals = 3;

std::string Hex(uint64_t mask) {
  char text[20];
  std::snprintf(text, sizeof text, "%llx", static_cast<unsigned long long>(mask));
  return text;
}

std::string Number(const char* key, int64_t value) { return std::string(key) + "=" + std::to_string(value); }

constexpr int64_t kTimeoutNs = 1'000'000'000;  // A process that was killed ends within milliseconds.

}  // namespace

std::vector<std::string> ReaderVariables() {
  return {
      "LD_LIBRARY_PATH",  // where the library and what it needs are found: Nix, Jetson, /opt/rocm/lib
      "NVIDIA_",
      "CUDA_",  // of containers: the driver's parts that are mounted, the devices that are shown
      "ROCM_",
      "ROCR_",
      "HSA_",
      "HIP_",  // the same of ROCm; ROCM_PATH is where it looks for its other libraries
      "AMDSMI_",
      "RSMI_",          // what AMD SMI and the library below it read: their log, and how they lock
      "GPULENS_FAKE_",  // files that simulated devices follow
  };
}

ProgramRule ReaderRule(const SourceOptions& options) {
  ProgramRule rule{.path = options.program, .arguments = options.arguments};
  rule.arguments.push_back("--simulated");
  if (!options.library_path.empty()) rule.arguments.push_back("--library=" + options.library_path);
  if (!options.device_folder.empty()) rule.arguments.push_back("--device-folder=" + options.device_folder);
  if (!options.build_id.empty()) rule.arguments.push_back("--build-id=" + options.build_id);
  // "--details=" and "--events=" are those of the source of NVML.
  rule.prefixes = {"--socket-fd=", "--page-fd=", "--interval-ns=", "--medium-ns=", "--slow-ns=",
                   "--leave-out=", "--watch=",   "--details=",     "--events="};
  rule.variables = ReaderVariables();
  rule.confines_itself = true;
  return rule;
}

Status ReaderLink::Start(const SourceOptions& options, const StartOptions& how) {
  Close();
  ASSIGN_OR_RETURN(SocketPair ends, MakeSocketPair());
  // Room for a first round of many devices with many links; the kernel gives what it allows.
  int room = 1 << 20;
  ::setsockopt(ends.theirs.get(), SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
  UniqueFd page(::memfd_create("gpulens-calls", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!page || ::ftruncate(page.get(), kCallPageBytes) != 0) return ErrnoStatus("memfd_create", errno);
  // The reader process must not be able to shrink what we read: that would be SIGBUS here.
  ::fcntl(page.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  void* memory = ::mmap(nullptr, kCallPageBytes, PROT_READ, MAP_SHARED, page.get(), 0);
  if (memory == MAP_FAILED) return ErrnoStatus("mmap", errno);
  page_ = static_cast<CallPage*>(memory);

  ChildProcess::Options child_options;
  child_options.program = options.program;
  child_options.arguments = options.arguments;
  child_options.environment = options.environment;
  // The same numbers in the child: none can be overwritten by another.
  child_options.pass_fds = {{ends.theirs.get(), ends.theirs.get()}, {page.get(), page.get()}};
  for (int fd : options.inherited) child_options.pass_fds.emplace_back(fd, fd);
  auto& arguments = child_options.arguments;
  arguments.push_back(Number("--socket-fd", ends.theirs.get()));
  arguments.push_back(Number("--page-fd", page.get()));
  arguments.push_back(Number("--interval-ns", options.interval.count()));
  arguments.push_back(Number("--medium-ns", options.medium.count()));
  arguments.push_back(Number("--slow-ns", options.slow.count()));
  if (!options.library_path.empty()) arguments.push_back("--library=" + options.library_path);
  if (!options.build_id.empty()) arguments.push_back("--build-id=" + options.build_id);
  if (!options.device_folder.empty()) arguments.push_back("--device-folder=" + options.device_folder);
  if (how.left_out) arguments.push_back("--leave-out=" + Hex(how.left_out));
  if (!how.watch) arguments.push_back("--watch=0");
  ASSIGN_OR_RETURN(child, ChildProcess::Start(child_options));
  socket = std::move(ends.ours);
  return Ok();
}

void ReaderLink::Close() noexcept {
  socket.reset();
  if (page_) ::munmap(page_, kCallPageBytes);
  page_ = nullptr;
}

void ProcessReaper::Take(ChildProcess child, int64_t boot_ns) {
  child.Signal(SIGKILL);
  if (child.running() && !child.TryWait()) dying_.push_back({std::move(child), boot_ns});
}

pid_t ProcessReaper::Reap(Instant now, std::vector<int>& stuck) {
  if (dying_.empty()) return -1;
  std::erase_if(dying_, [](Dying& dying) { return dying.child.TryWait().has_value(); });
  stuck.clear();
  pid_t first = -1;
  for (Dying& dying : dying_) {
    if (now.boot_ns - dying.since_ns <= kTimeoutNs) continue;
    stuck.push_back(dying.child.pid());
    if (first < 0 && !std::exchange(dying.reported, true)) first = dying.child.pid();
  }
  return first;
}

CrashCulprit CulpritOf(const CallPage& page, bool in_call) noexcept {
  const uint32_t ended_in = page.ended_in.load(std::memory_order_acquire);
  if (ended_in == kEndedInMain) return {CrashCulprit::kMain, 0, page.main.Read().call};
  if (ended_in == kEndedInWaiting) return {CrashCulprit::kWaiting, 0, page.waiting.Read().call};
  if (ended_in >= kEndedInDevice && ended_in < kEndedInWaiting) {
    const uint32_t device = ended_in - kEndedInDevice;
    return {CrashCulprit::kDevice, device, page.devices[device].Read().call};
  }
  if (!in_call) return {};
  if (CallNumber call = page.main.Read().call; call != kNoCall) return {CrashCulprit::kMain, 0, call};
  CrashCulprit only;
  for (uint32_t device = 0; device < kMaxDevices; ++device) {
    const CallNumber call = page.devices[device].Read().call;
    if (call == kNoCall) continue;
    if (only.who == CrashCulprit::kDevice) return {};
    only = {CrashCulprit::kDevice, device, call};
  }
  return only;
}

void CrashHistory::Start(Instant now) noexcept {
  one_by_one_ = unexplained_ >= kUnexplainedEnds;
  if (event_ends_ >= kEventEnds && now.boot_ns - event_end_ns_ >= limits_.rest.count())
    event_ends_ = kEventEnds - 1;  // One more chance.
  started_ns_ = now.boot_ns;
  begun_ = kMaxDevices;
  begun_ns_ = 0;
}

bool CrashHistory::waits_for_events() const noexcept { return event_ends_ < kEventEnds; }

void CrashHistory::Begun(uint32_t device, Instant now) noexcept {
  begun_ = device;
  begun_ns_ = now.boot_ns;
}

CrashCulprit CrashHistory::Blame(const CallPage& page, bool in_call, Instant now) noexcept {
  if (now.boot_ns - started_ns_ >= limits_.healthy.count()) unexplained_ = 0;
  CrashCulprit culprit = CulpritOf(page, in_call);
  const int64_t recent = kBlameIntervals * std::max(limits_.interval, limits_.deadline / 2).count();
  if (culprit.who == CrashCulprit::kUnknown && begun_ != kMaxDevices && now.boot_ns - begun_ns_ <= recent)
    culprit = {CrashCulprit::kDevice, begun_, kNoCall};
  // No device was begun yet: it was none of them.
  if (culprit.who == CrashCulprit::kUnknown && one_by_one_ && begun_ == kMaxDevices)
    culprit = {CrashCulprit::kWaiting, 0, kNoCall};
  if (culprit.who == CrashCulprit::kUnknown) ++unexplained_;
  if (culprit.who == CrashCulprit::kWaiting) {
    const bool recently = now.boot_ns - event_end_ns_ < limits_.rest.count();
    event_ends_ = recently ? event_ends_ + 1 : 1;
    event_end_ns_ = now.boot_ns;
  }
  return culprit;
}

}  // namespace gpulens::reader
