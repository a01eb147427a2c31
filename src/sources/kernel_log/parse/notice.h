// Recognizes kernel messages about GPUs, the fabric between them, and the host below them. Pure functions,
// safe from any thread.
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
  kLinkFailure,  // NVLink: link, type
  kRas,          // amdgpu, habanalabs: type, count
  kGpuReset,     // a driver resets its device by itself
  kGpuHot,       // a GPU is too hot: type
  kPcieError,    // advanced error report: layer, driver
  kOomScope,     // which cgroup the kill that follows is about: pid, cgroup
  kOomKill,      // pid, process
  kHardware,     // machine check, memory controller, NVMe, heat: type
  kDriverFault,  // a GPU's driver or library fails without a code: facts, perhaps pci, pid, process
};

// Severity in the message.
enum class ErrorGrade : uint8_t { kUnknown, kCorrected, kDeferred, kRecoverable, kNonFatal, kFatal };

// Views lie in the message.
struct KernelNotice {
  NoticeKind kind = NoticeKind::kXid;
  ErrorGrade grade = ErrorGrade::kUnknown;
  std::string_view type;    // kHardware: mce edac nvme thermal; kRas: block; kPcieError: layer; kLinkFailure:
                            // fatal training; kGpuHot: trip shutdown
  std::string_view driver;  // kPcieError: of the device; kRas, kGpuReset: amdgpu, habanalabs
  std::optional<PciAddress> pci;
  std::optional<uint32_t> code, link, count;
  std::optional<uint32_t> sub_code;  // kXid 144 to 150: which error of the unit
  std::string_view action;           // kXid 154: the action that the driver recommends, as in gpu.xid.action
  std::optional<int64_t> pid;
  std::string_view process, cgroup;
  // The row in src/catalog/codes/ras.tsv: "nvidia.fallen_off_bus"; empty: none, or by code.
  std::string_view facts;
};

// None for other messages.
std::optional<KernelNotice> ParseMessage(std::string_view message);

// Parses successive messages. Files and the journal split a message into lines: joins the driver's three
// lines about a GPU that has fallen off the bus. Not thread-safe.
class NoticeReader {
 public:
  std::optional<KernelNotice> Read(std::string_view message);

 private:
  std::optional<PciAddress> begun_;  // the GPU that the first line names
  int lines_left_ = 0;               // within which the last line must come
};

// A message as printable text: control bytes and invalid UTF-8 escaped, at most 1,000 bytes.
std::string CleanText(std::string_view message);

}  // namespace gpulens::kernel_log
