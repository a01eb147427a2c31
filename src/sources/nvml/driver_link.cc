#include "sources/nvml/driver_link.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "base/files.h"
#include "base/result.h"
#include "base/text.h"

namespace gpulens::nvml {
namespace {

constexpr size_t kMaxEvents = 512, kMaxChanges = 64;

std::string Hex(uint64_t mask) {
  char text[20];
  std::snprintf(text, sizeof text, "%llx", static_cast<unsigned long long>(mask));
  return text;
}

std::string Number(const char* key, int64_t value) { return std::string(key) + "=" + std::to_string(value); }

}  // namespace

Status DriverLink::Start(const SourceOptions& options, uint64_t left_out) {
  Close();
  ASSIGN_OR_RETURN(SocketPair ends, MakeSocketPair());
  // Room for a first round of many GPUs with many links; the kernel gives what it allows.
  int room = 1 << 20;
  ::setsockopt(ends.theirs.get(), SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
  UniqueFd page(::memfd_create("gpulens-calls", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!page || ::ftruncate(page.get(), kCallPageBytes) != 0) return ErrnoStatus("memfd_create", errno);
  // The driver must not be able to shrink what we read: that would be SIGBUS here.
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
  auto& arguments = child_options.arguments;
  arguments.push_back(Number("--socket-fd", ends.theirs.get()));
  arguments.push_back(Number("--page-fd", page.get()));
  arguments.push_back(Number("--interval-ns", options.interval.count()));
  arguments.push_back(Number("--medium-ns", options.medium.count()));
  arguments.push_back(Number("--slow-ns", options.slow.count()));
  arguments.push_back("--details=" + Hex(options.details));
  if (!options.library_path.empty()) arguments.push_back("--library=" + options.library_path);
  if (!options.build_id.empty()) arguments.push_back("--build-id=" + options.build_id);
  if (!options.gpu_folder.empty()) arguments.push_back("--gpu-folder=" + options.gpu_folder);
  if (options.event_types != kUsualEvents) arguments.push_back("--events=" + Hex(options.event_types));
  if (left_out) arguments.push_back("--leave-out=" + Hex(left_out));
  ASSIGN_OR_RETURN(child, ChildProcess::Start(child_options));
  socket = std::move(ends.ours);
  return Ok();
}

void DriverLink::Close() noexcept {
  socket.reset();
  if (page_) ::munmap(page_, kCallPageBytes);
  page_ = nullptr;
}

DriverNotes::DriverNotes() { events_.reserve(kMaxEvents); }

void DriverNotes::Add(DriverChange change) {
  if (changes_.size() < kMaxChanges) changes_.push_back(std::move(change));
}

size_t DriverNotes::Add(const EventsReport& report) {
  size_t taken = std::min(report.events.size(), kMaxEvents - events_.size());
  for (size_t i = 0; i < taken; ++i) events_.push_back(report.events[i]);
  return report.events.size() - taken;
}

void DriverNotes::TakeEvents(std::vector<DeviceEvent>& out) {
  out.assign(events_.begin(), events_.end());
  events_.clear();
}

void DriverNotes::TakeChanges(std::vector<DriverChange>& out) {
  out.clear();
  std::swap(out, changes_);
}

DriverFault FaultOf(const LibraryReport& report) noexcept {
  switch (report.code) {
    case 4: return DriverFault::kNoPermission;
    case 9: return DriverFault::kDriverNotLoaded;
    case 12: return DriverFault::kLibraryNotFound;
    case 18: return DriverFault::kVersionMismatch;
    default: return DriverFault::kLibraryError;
  }
}

std::string Sentence(const LibraryReport& report) {
  std::string detail;
  AppendPrintable(detail, report.detail);
  switch (FaultOf(report)) {
    case DriverFault::kLibraryNotFound: return detail;
    case DriverFault::kNoPermission:
      return "no permission to read the GPUs (" + detail +
             "): run as root, or allow /dev/nvidiactl and /dev/nvidia*";
    case DriverFault::kDriverNotLoaded:
      return "the NVIDIA kernel driver is not loaded: modprobe nvidia, or look for its reason in the kernel "
             "log";
    case DriverFault::kVersionMismatch:
      return "the NVIDIA kernel driver and libnvidia-ml have different versions: reload the driver or reboot";
    default: return "the NVIDIA library failed with code " + std::to_string(report.code) + ": " + detail;
  }
}

std::array<uint32_t, kReadStatusCount> NvmlSource::FieldsByStatus() const noexcept {
  std::array<uint32_t, kReadStatusCount> counts{};
  for (const Gpu& gpu : gpus()) {
    for (const FieldReading& field : gpu.fields) ++counts[static_cast<size_t>(field.status)];
  }
  return counts;
}

}  // namespace gpulens::nvml
