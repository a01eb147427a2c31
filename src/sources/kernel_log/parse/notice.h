// Finds in messages of the kernel what has happened to a GPU, to the fabric between GPUs, or to the host
// below them. Most messages are about nothing of the kind.
//
// The functions are pure and safe from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/pci_address.h"

namespace gpulens::kernel_log {

enum class NoticeKind : uint8_t {
  kXid,          // NVIDIA driver: code, pid, process; of NVLink: link, sub_code, grade; of 154: action
  kSxid,         // NVSwitch driver: code, switch, link
  kGpuLost,      // a GPU has fallen off the bus
  kLinkFailure,  // NVLink: link
  kRas,          // amdgpu, habanalabs: block, count
  kGpuReset,     // a driver resets its device by itself
  kGpuHot,       // a GPU is so hot that something is done about it: what
  kPcieError,    // advanced error report: layer, driver
  kOomScope,     // which cgroup the kill that follows is about: pid, cgroup
  kOomKill,      // pid, process
  kHardware,     // machine check, memory controller, NVMe, heat: type
  kDriverFault,  // a GPU's driver or library fails without a code: facts, perhaps pci, pid, process
};

// How bad, as the message says it; kUnsaid where it does not.
enum class Grade : uint8_t { kUnsaid, kCorrected, kDeferred, kRecoverable, kNonFatal, kFatal };

// Views lie in the message.
struct Notice {
  NoticeKind kind = NoticeKind::kXid;
  Grade grade = Grade::kUnsaid;
  std::string_view type;    // kHardware: mce edac nvme thermal; kRas: block; kPcieError: layer; kLinkFailure:
                            // what; kGpuHot: trip shutdown
  std::string_view driver;  // kPcieError: of the device; kRas, kGpuReset: amdgpu, habanalabs
  std::optional<PciAddress> pci;
  std::optional<uint32_t> code, link, count;
  std::optional<uint32_t> sub_code;  // kXid 144 to 150: which error of the unit
  std::string_view action;           // kXid 154: what the driver asks for, as in gpu.xid.action
  std::optional<int64_t> pid;
  std::string_view process, cgroup;
  std::string_view
      facts;  // the row in the table of messages: "nvidia.fallen_off_bus"; empty: none, or by code
};

// Nothing for messages that are not about any of this.
std::optional<Notice> ParseMessage(std::string_view message);

// Parses message after message. A file and the journal have each line of one message by itself: the driver's
// three lines about a GPU that has fallen off the bus are put together here. Not thread-safe.
class NoticeReader {
 public:
  std::optional<Notice> Read(std::string_view message);

 private:
  std::optional<PciAddress> begun_;  // the GPU that the first line names
  int lines_left_ = 0;               // within which the last line must come
};

// Control bytes and what is not UTF-8 written visibly, at most 1,000 bytes: a message as a text for people.
std::string CleanText(std::string_view message);

}  // namespace gpulens::kernel_log
