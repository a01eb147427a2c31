
#include "sources/kernel_log/parse/notice.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/parse.h"
#include "base/text.h"

namespace gpulens::kernel_log {
namespace {

using sv = std::string_view;

constexpr size_t kMaxText = 1000;
// TASK_COMM_LEN of the kernel, and room for what drivers add.
constexpr size_t kMaxProcess = 64;

bool Has(sv text, sv part) noexcept { return text.find(part) != sv::npos; }

// The text behind `mark`; none when `text` lacks it.
std::optional<sv> After(sv text, sv mark) noexcept {
  size_t at = text.find(mark);
  if (at == sv::npos) return std::nullopt;
  return text.substr(at + mark.size());
}
// Takes a decimal number off the front; none, and `text` stays, when it is missing or too large.
template <class T>
std::optional<T> TakeNumber(sv& text) noexcept {
  size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
  auto number = ParseInt<T>(text.substr(0, end));
  if (number) text.remove_prefix(end);
  return number;
}
bool TakePrefix(sv& text, sv prefix) noexcept {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// "amdgpu 0000:c1:00.0: amdgpu: text": takes driver and address off the front.
std::optional<PciAddress> TakeDevice(sv& text) noexcept {
  sv rest = text;
  TakeUntil(rest, ' ');
  sv word = rest.substr(0, rest.find(' '));
  if (!word.ends_with(':')) return std::nullopt;
  auto pci = ParsePciAddress(word.substr(0, word.size() - 1));
  if (pci) text = Trim(rest.substr(word.size()));
  return pci;
}

// "nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping further processing".
bool IsPeermem(sv message) noexcept {
  bool module = message.starts_with("nvidia-peermem") || message.starts_with("nvidia_peermem");
  return module && Has(message, "ERROR detected invalid context");
}

// "pt_main_thread[2536443]: segfault at 7f797fe00000 ip … error 4 in libnccl.so.2[7f7c7ac00000+d3d3000]".
bool TakeSegfault(sv message, KernelNotice& out) noexcept {
  size_t mark = message.find("]: segfault at ");
  if (mark == sv::npos || !Has(message.substr(mark), " in libnccl.so")) return false;
  sv front = message.substr(0, mark);
  size_t open = front.rfind('[');
  if (open == sv::npos || open > kMaxProcess) return false;
  out.pid = ParseInt<int64_t>(front.substr(open + 1));
  if (!out.pid || *out.pid <= 0) return false;
  out.process = front.substr(0, open);
  return true;
}

// "… for process python3 pid 1234 thread …" and "… Process python3 pid 1234 thread …".
void TakeFaultingProcess(sv text, KernelNotice& out) noexcept {
  auto rest = After(text, "rocess ");
  auto behind = rest ? After(*rest, " pid ") : std::nullopt;
  if (!behind) return;
  sv name = rest->substr(0, rest->find(" pid "));
  out.pid = TakeNumber<int64_t>(*behind);
  if (out.pid && *out.pid <= 0) out.pid.reset();
  if (name.size() <= kMaxProcess) out.process = Trim(name);
}

// "amdgpu 0000:c1:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=1, emitted seq=3", of older kernels
// "[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring gfx timeout, …"; "amdgpu 0000:c1:00.0: amdgpu: [gfxhub0]
// no-retry page fault (src_id:0 ring:24 vmid:3 pasid:32770, for process python3 pid 1234 thread …)".
bool TakeAmdgpu(sv message, KernelNotice& out) noexcept {
  bool device = message.starts_with("amdgpu "), drm = message.starts_with("[drm:amdgpu_job_timedout");
  if (!device && !drm) return false;
  auto ring = After(message, " ring ");
  bool timeout = ring && Has(ring->substr(0, 64), " timeout");
  bool page_fault = device && Has(message, "hub") && Has(message, " page fault (");
  if (!timeout && !page_fault) return false;
  out.driver = "amdgpu";
  out.facts = timeout ? "amdgpu.ring_timeout" : "amdgpu.page_fault";
  if (page_fault) TakeFaultingProcess(message, out);
  if (!device) return true;
  sv text = message;
  out.pci = TakeDevice(text);
  return out.pci.has_value();
}

// The address in "GPU 0000:3b:00.0: …"; none where the message names no GPU.
std::optional<PciAddress> GpuAfter(sv text, sv mark) noexcept {
  auto rest = After(text, mark);
  if (!rest) return std::nullopt;
  sv word = rest->substr(0, rest->find_first_of(" \n\r\t"));
  while (word.ends_with(':')) word.remove_suffix(1);
  return ParsePciAddress(word);
}

// "NVRM: GPU 0000:3b:00.0: RmInitAdapter failed! (0x62:0x40:2393)", of older drivers without the GPU.
bool TakeInitFailed(sv message, KernelNotice& out) noexcept {
  if (!message.starts_with("NVRM: ") || !Has(message, "RmInitAdapter failed")) return false;
  out.pci = GpuAfter(message, "GPU ");
  return true;
}

std::optional<KernelNotice> ParseDriverFault(sv message) {
  KernelNotice out;
  out.kind = NoticeKind::kDriverFault;
  if (TakeInitFailed(message, out)) {
    out.driver = "nvidia";
    out.facts = "nvidia.init_failed";
  } else if (IsPeermem(message)) {
    out.driver = "nvidia";
    out.facts = "nvidia.peermem_context";
  } else if (TakeSegfault(message, out)) {
    out.facts = "nccl.segfault";
  } else if (!TakeAmdgpu(message, out)) {
    return std::nullopt;
  }
  return out;
}

// Limits of plausible codes: the driver's own are below 1,000, a switch's below 100,000.
constexpr uint32_t kMaxXid = 4095;
constexpr uint32_t kMaxSxid = 999'999;

// "pid=1234, name=python3, …" in front of the text; either may be missing, and both may be '<unknown>'.
void TakeProcess(sv text, KernelNotice& out) noexcept {
  if (TakePrefix(text, "pid=")) {
    out.pid = ParseInt<int64_t>(Trim(TakeUntil(text, ',')));
    if (out.pid && *out.pid <= 0) out.pid.reset();
    text = Trim(text);
  }
  if (TakePrefix(text, "name=")) {
    // A name may hold commas and blanks: it ends at the first ", " behind which the driver's words begin,
    // which have a capital in front or are "channel".
    size_t end = text.find(", ");
    for (size_t at = end; at != sv::npos && at <= kMaxProcess; at = text.find(", ", at + 2)) {
      sv rest = text.substr(at + 2);
      if (rest.empty() || (rest[0] >= 'A' && rest[0] <= 'Z') || rest.starts_with("channel ")) {
        end = at;
        break;
      }
    }
    sv name = text.substr(0, end);
    if (name.size() <= kMaxProcess && name.find("<unknown>") == sv::npos) out.process = Trim(name);
  }
}

// The link in a message about NVLink: "… on link 3(0x…", "Link 46 sourcetrack …"; "… Link -1 …" has none.
std::optional<uint32_t> LinkOf(sv text) noexcept {
  for (sv mark : {"on link ", "train link ", " Link "}) {
    auto rest = After(text, mark);
    if (!rest) continue;
    auto link = TakeNumber<uint32_t>(*rest);
    if (link && *link < 1024) return link;
  }
  return std::nullopt;
}

// XIDs about a link: of all generations, and of the units of an NVLink 5 port.
constexpr uint32_t kLinkXid = 74, kFirstOfPort = 144, kLastOfPort = 150, kRecoveryXid = 154;

// The hexadecimal number at the front, of at most 8 digits.
std::optional<uint32_t> HexAt(sv text) noexcept {
  text = text.substr(0, 8);
  return ParseInt<uint32_t>(text.substr(0, text.find_first_not_of("0123456789abcdefABCDEF")), 16);
}

// "NETIR_LINK_EVT  Fatal   XC0 i0 Link 14 (0x025001c6 0x00000000 …)": the first word behind the link is the
// unit's interrupt status, whose bits 20 to 25 number the error.
void ReadPort(sv text, KernelNotice& out) noexcept {
  if (Has(text, "Nonfatal") || Has(text, "Non-fatal")) out.grade = ErrorGrade::kNonFatal;
  else if (Has(text, " Fatal")) out.grade = ErrorGrade::kFatal;
  auto status = After(text, "(0x");
  if (!status) return;
  if (auto bits = HexAt(*status)) out.sub_code = *bits >> 20 & 0x3F;
}

// "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)". The words differ between
// drivers, the numbers do not. An unknown number is an action, too.
void ReadRecovery(sv text, KernelNotice& out) noexcept {
  constexpr sv kActions[] = {"none", "reset_gpu", "reboot", "drain", "drain"};
  auto change = After(text, "recovery action changed from ");
  auto to = change ? After(*change, " to 0x") : std::nullopt;
  auto number = to ? HexAt(*to) : std::nullopt;
  if (!number) return;
  out.action = *number < std::size(kActions) ? kActions[*number] : "contact_vendor";
}

// "(PCI:0000:3b:00): 79, …", "(0000:03:00): 31, …", "(PCI:0000:3b:00 GPU-I:05 GPU-CI:00): 13, …".
std::optional<KernelNotice> ParseXid(sv rest) noexcept {
  size_t close = rest.find(')');
  if (close == sv::npos || close > 64) return std::nullopt;
  sv where = rest.substr(0, close);
  rest = rest.substr(close + 1);
  if (!TakePrefix(rest, ":")) return std::nullopt;
  rest = Trim(rest);
  KernelNotice out;
  out.kind = NoticeKind::kXid;
  out.pci = ParsePciAddress(TakeUntil(where, ' '));
  out.code = TakeNumber<uint32_t>(rest);
  if (!out.pci || !out.code || *out.code == 0 || *out.code > kMaxXid) return std::nullopt;
  if (!rest.empty() && rest.front() != ',' && rest.front() != ' ') return std::nullopt;
  TakePrefix(rest, ",");
  TakeProcess(Trim(rest), out);
  bool of_port = *out.code >= kFirstOfPort && *out.code <= kLastOfPort;
  if (of_port || *out.code == kLinkXid) out.link = LinkOf(rest);
  if (of_port) ReadPort(rest, out);
  if (*out.code == kRecoveryXid) ReadRecovery(rest, out);
  return out;
}

// "GPU 0000:3b:00.0: GPU has fallen off the bus.", "GPU at PCI:0000:3b:00: … fallen off the bus", and the
// longer "The NVIDIA GPU 0000:3b:00.0 (PCI ID: …) installed in this system has fallen off the bus and is not
// responding".
std::optional<KernelNotice> ParseFallenOff(sv message) noexcept {
  KernelNotice out;
  out.kind = NoticeKind::kGpuLost;
  out.grade = ErrorGrade::kFatal;
  out.facts = "nvidia.fallen_off_bus";
  for (sv mark : {"GPU at ", "NVIDIA GPU ", "GPU "}) {
    if (!out.pci) out.pci = GpuAfter(message, mark);
  }
  return out.pci ? std::optional(out) : std::nullopt;
}

std::optional<KernelNotice> ParseNvrm(sv message) {
  sv text = message.substr(sv("NVRM: ").size());
  // Twice in test messages of tools.
  TakePrefix(text, "NVRM: ");
  if (TakePrefix(text, "Xid (")) return ParseXid(text);
  if (message.find("fallen off the bus") != sv::npos) return ParseFallenOff(message);
  auto link = After(message, "NVLink: ");
  bool fatal = link && link->starts_with("fatal error detected on link ");
  bool training = link && link->find("ailed to train link ") < 2;
  if (!fatal && !training) return std::nullopt;
  KernelNotice out;
  out.kind = NoticeKind::kLinkFailure;
  out.type = fatal ? "fatal" : "training";
  out.facts = fatal ? "nvidia.nvlink_fatal" : "nvidia.nvlink_train_failed";
  out.link = LinkOf(*link);
  out.pci = GpuAfter(message, "GPU ");
  return out;
}

// "nvidia-nvswitch3: SXid (PCI:0000:86:00.0): 20034, Fatal, Link 30 LTSSM Fault Up". The lines "… Severity 1
// Engine instance …" and "… Data {…}" that follow belong to the same error.
std::optional<KernelNotice> ParseNvswitch(sv message) {
  auto rest = After(message, ": SXid (");
  if (!rest || message.size() - rest->size() > 48) return std::nullopt;
  size_t close = rest->find(')');
  if (close == sv::npos || close > 32) return std::nullopt;
  KernelNotice out;
  out.kind = NoticeKind::kSxid;
  out.pci = ParsePciAddress(rest->substr(0, close));
  sv text = rest->substr(close + 1);
  if (!out.pci || !TakePrefix(text, ": ")) return std::nullopt;
  out.code = TakeNumber<uint32_t>(text);
  if (!out.code || *out.code == 0 || *out.code > kMaxSxid || !TakePrefix(text, ", ")) return std::nullopt;
  if (TakePrefix(text, "Fatal")) out.grade = ErrorGrade::kFatal;
  else if (TakePrefix(text, "Non-fatal")) out.grade = ErrorGrade::kNonFatal;
  else return std::nullopt;
  out.link = LinkOf(text);
  return out;
}

bool IsWord(sv text) noexcept {
  return !text.empty() && text.size() <= 32 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

// "socket: 0, die: 0 3 new correctable hardware errors detected in umc block". Lines that repeat a total ("in
// total") are no new error, and "no uncorrectable hardware errors" is none at all.
std::optional<KernelNotice> ParseAmdErrors(sv text) noexcept {
  constexpr struct {
    sv words;
    ErrorGrade grade;
  } kWords[] = {{" uncorrectable hardware errors", ErrorGrade::kFatal},
                {" correctable hardware errors", ErrorGrade::kCorrected},
                {" deferred hardware errors", ErrorGrade::kDeferred}};
  for (auto [words, grade] : kWords) {
    size_t at = text.find(words);
    if (at == sv::npos) continue;
    if (Has(text, "in total")) return std::nullopt;
    sv before = text.substr(0, at);
    if (before.ends_with(" new")) before.remove_suffix(4);
    size_t blank = before.find_last_of(" }");
    auto count = ParseInt<uint32_t>(blank == sv::npos ? before : before.substr(blank + 1));
    auto block = After(text.substr(at), " in ");
    // A device that sleeps answers with a blank that the driver takes for a count.
    constexpr uint32_t kBlank = 0xFFFF0;
    if (!count || *count == 0 || *count == kBlank || !block) return std::nullopt;
    KernelNotice out;
    out.kind = NoticeKind::kRas;
    out.grade = grade;
    out.count = count;
    sv name = block->substr(0, block->find(" block"));
    if (IsWord(name)) out.type = name;
    return out;
  }
  return std::nullopt;
}

std::optional<KernelNotice> ParseAmdEvent(sv text) noexcept {
  constexpr struct {
    sv words;
    NoticeKind kind;
    ErrorGrade grade;
    sv type, facts;
  } kEvents[] = {
      {"ERREVENT_ATHUB_INTERRUPT", NoticeKind::kRas, ErrorGrade::kFatal, "athub", "amdgpu.ras.athub_fatal"},
      {"Poison is created", NoticeKind::kRas, ErrorGrade::kDeferred, "", "amdgpu.ras.poison_created"},
      {"poison is consumed by client", NoticeKind::kRas, ErrorGrade::kFatal, "",
       "amdgpu.ras.poison_consumed"},
      {"GPU reset begin", NoticeKind::kGpuReset, ErrorGrade::kUnknown, "", "amdgpu.reset_begin"},
      {"GPU over temperature range", NoticeKind::kGpuHot, ErrorGrade::kUnknown, "trip", ""},
      // The driver powers the machine off.
      {"GPU HW Critical Temperature Fault", NoticeKind::kGpuHot, ErrorGrade::kUnknown, "shutdown", ""}};
  for (const auto& row : kEvents) {
    size_t at = text.find(row.words);
    if (at == sv::npos || (row.kind == NoticeKind::kGpuReset && at != 0)) continue;
    KernelNotice out;
    out.kind = row.kind;
    out.grade = row.grade;
    out.type = row.type;
    out.facts = row.facts;
    return out;
  }
  return std::nullopt;
}

ErrorGrade GradeOfPcie(sv text) noexcept {
  if (text.starts_with("Correct")) return ErrorGrade::kCorrected;
  if (!text.starts_with("Uncorrect")) return ErrorGrade::kUnknown;
  sv word = text.substr(0, text.find(','));
  if (Has(word, "(Non-Fatal)")) return ErrorGrade::kNonFatal;
  return Has(word, "(Fatal)") ? ErrorGrade::kFatal : ErrorGrade::kUnknown;
}

KernelNotice Hardware(sv type, ErrorGrade grade, sv facts = {}) noexcept {
  KernelNotice out;
  out.kind = NoticeKind::kHardware;
  out.type = type;
  out.grade = grade;
  out.facts = facts;
  return out;
}

// "[Hardware Error]: event severity: fatal", "… Corrected error, no action required.", "mce: [Hardware
// Error]: CPU 1: Machine Check Exception: 5 Bank 3: …". The register lines around these belong to the same
// error.
std::optional<KernelNotice> ParseMachineCheck(sv message) noexcept {
  constexpr struct {
    sv start;
    ErrorGrade grade;
    sv facts = "mce.bank";
  } kRows[] = {{"event severity: corrected", ErrorGrade::kCorrected, "mce.corrected"},
               {"event severity: recoverable", ErrorGrade::kRecoverable},
               {"event severity: fatal", ErrorGrade::kFatal},
               {"Corrected error", ErrorGrade::kCorrected, "mce.corrected"},
               {"Deferred error", ErrorGrade::kRecoverable},
               {"Uncorrected, software", ErrorGrade::kRecoverable},
               {"Machine check events logged", ErrorGrade::kUnknown}};
  auto rest = After(message, "[Hardware Error]: ");
  if (!rest) return std::nullopt;
  if (size_t at = rest->find("event severity: "); at != sv::npos) rest->remove_prefix(at);
  else if (Has(*rest, "Machine Check Exception:")) return Hardware("mce", ErrorGrade::kFatal, "mce.bank");
  for (const auto& row : kRows) {
    if (rest->starts_with(row.start)) return Hardware("mce", row.grade, row.facts);
  }
  return std::nullopt;
}

// "EDAC MC0: 1 CE memory read error on …".
std::optional<KernelNotice> ParseEdac(sv message) noexcept {
  if (!TakePrefix(message, "EDAC MC")) return std::nullopt;
  if (!TakeNumber<uint32_t>(message) || !TakePrefix(message, ": ")) return std::nullopt;
  auto count = TakeNumber<uint32_t>(message);
  if (!count || *count == 0) return std::nullopt;
  bool corrected = message.starts_with(" CE ");
  if (!corrected && !message.starts_with(" UE ")) return std::nullopt;
  // The machine still runs: recoverable.
  KernelNotice out = Hardware("edac", corrected ? ErrorGrade::kCorrected : ErrorGrade::kRecoverable);
  out.count = count;
  return out;
}

std::optional<KernelNotice> ParseNvme(sv message) noexcept {
  if (message.starts_with("nvme ")) {
    if (Has(message, "Disabling device after reset failure") || Has(message, "Removing after probe failure"))
      return Hardware("nvme", ErrorGrade::kFatal);
    if (Has(message, "controller is down; will reset") || Has(message, " timeout, "))
      return Hardware("nvme", ErrorGrade::kRecoverable);
    return std::nullopt;
  }
  bool medium = Has(message, "critical medium error, dev nvme");
  return medium ? std::optional(Hardware("nvme", ErrorGrade::kUnknown)) : std::nullopt;
}

std::optional<KernelNotice> ParseHeat(sv message) noexcept {
  if (Has(message, "critical temperature reached"))
    return Hardware("thermal", ErrorGrade::kFatal, "thermal.trip");
  if (Has(message, "temperature above threshold, cpu clock throttled"))
    return Hardware("thermal", ErrorGrade::kRecoverable, "thermal.cpu_throttle");
  return std::nullopt;
}

std::optional<KernelNotice> ParseAmdgpu(sv message) {
  sv text = message;
  auto pci = TakeDevice(text);
  if (!pci) {
    // Old drivers name no device: "amdgpu: 3 uncorrectable hardware errors detected in UMC block".
    std::optional<KernelNotice> errors = TakePrefix(text, "amdgpu: ") ? ParseAmdErrors(text) : std::nullopt;
    if (errors) errors->driver = "amdgpu";
    return errors;
  }
  TakePrefix(text, "amdgpu: ");
  std::optional<KernelNotice> out = ParseAmdErrors(text);
  if (!out) out = ParseAmdEvent(text);
  if (!out) return out;
  out->pci = pci;
  out->driver = "amdgpu";
  return out;
}

std::optional<KernelNotice> ParseHabana(sv message) {
  sv text = message;
  KernelNotice out;
  out.driver = "habanalabs";
  out.pci = TakeDevice(text);
  if (!out.pci) return std::nullopt;
  bool reset = (text.starts_with("Going to ") && Has(text, "reset")) || text.starts_with("Hard-reset");
  if (reset) out.kind = NoticeKind::kGpuReset;
  else if (Has(text, "ECC error detected")) out.kind = NoticeKind::kRas;  // of unknown grade
  else return std::nullopt;
  return out;
}

// "nvidia 0000:3b:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)".
std::optional<KernelNotice> ParsePcieError(sv message) {
  auto severity = After(message, "PCIe Bus Error: severity=");
  KernelNotice out;
  out.kind = NoticeKind::kPcieError;
  sv rest = message;
  out.driver = TakeUntil(rest, ' ');
  sv text = message;
  out.pci = TakeDevice(text);
  out.grade = severity ? GradeOfPcie(*severity) : ErrorGrade::kUnknown;
  if (!out.pci || out.grade == ErrorGrade::kUnknown || !IsWord(out.driver)) return std::nullopt;
  auto type = After(*severity, "type=");
  if (type && type->starts_with("Physical")) out.type = "physical";
  else if (type && type->starts_with("Data Link")) out.type = "data_link";
  else if (type && type->starts_with("Transaction")) out.type = "transaction";
  out.facts = out.grade == ErrorGrade::kCorrected  ? "aer.correctable"
              : out.grade == ErrorGrade::kNonFatal ? "aer.nonfatal"
                                                   : "aer.fatal";
  return out;
}

std::optional<KernelNotice> ParseOom(sv message) {
  KernelNotice out;
  if (message.starts_with("oom-kill:constraint=")) {
    auto cgroup = After(message, "task_memcg=");
    auto pid = After(message, ",pid=");
    if (!cgroup || !pid) return std::nullopt;
    out.kind = NoticeKind::kOomScope;
    out.cgroup = cgroup->substr(0, std::min(cgroup->find(",task="), size_t{512}));
    out.pid = TakeNumber<int64_t>(*pid);
    return out.pid ? std::optional(out) : std::nullopt;
  }
  constexpr sv kCgroup = "Memory cgroup out of memory: ", kNode = "Out of memory: ";
  bool cgroup = message.starts_with(kCgroup);
  if (cgroup) message.remove_prefix(kCgroup.size());
  else TakePrefix(message, kNode);
  // "Kill process" announces, "Killed process" reports.
  if (!TakePrefix(message, "Killed process ")) return std::nullopt;
  out.kind = NoticeKind::kOomKill;
  out.facts = cgroup ? "oom.cgroup_killed" : "oom.killed";
  out.pid = TakeNumber<int64_t>(message);
  if (!out.pid || !TakePrefix(message, " (")) return std::nullopt;
  // The name may hold parentheses; the numbers behind it do not.
  sv name = message.substr(0, message.find("total-vm"));
  size_t close = name.rfind(')');
  if (close != sv::npos && close <= 64) out.process = name.substr(0, close);
  return out;
}

std::optional<KernelNotice> ParseHardware(sv message) {
  if (auto notice = ParseMachineCheck(message)) return notice;
  if (auto notice = ParseEdac(message)) return notice;
  if (auto notice = ParseNvme(message)) return notice;
  return ParseHeat(message);
}

}  // namespace

std::optional<KernelNotice> ParseMessage(sv message) {
  // The first bytes decide; most messages match none of them.
  if (message.starts_with("NVRM: ")) {
    if (auto notice = ParseNvrm(message)) return notice;
    return ParseDriverFault(message);
  }
  if (message.starts_with("nvidia-nvswitch")) return ParseNvswitch(message);
  if (message.starts_with("amdgpu")) {
    if (auto notice = ParseAmdgpu(message)) return notice;
  }
  if (message.starts_with("habanalabs ")) {
    if (auto notice = ParseHabana(message)) return notice;
  }
  if (message.find("PCIe Bus Error: severity=") != sv::npos) return ParsePcieError(message);
  if (auto notice = ParseOom(message)) return notice;
  if (auto notice = ParseDriverFault(message)) return notice;
  return ParseHardware(message);
}

std::optional<KernelNotice> NoticeReader::Read(sv message) {
  constexpr sv kFirst = "NVRM: The NVIDIA GPU ", kLast = "NVRM: fallen off the bus";
  // Lines of other drivers may come between the three.
  constexpr int kMostLines = 8;
  if (std::optional<KernelNotice> notice = ParseMessage(message)) return notice;
  if (message.starts_with(kFirst)) {
    sv rest = message.substr(kFirst.size());
    begun_ = ParsePciAddress(Trim(TakeUntil(rest, ' ')));
    lines_left_ = kMostLines;
    return std::nullopt;
  }
  if (!begun_ || lines_left_-- == 0) {
    begun_.reset();
    return std::nullopt;
  }
  if (!message.starts_with(kLast)) return std::nullopt;
  KernelNotice lost;
  lost.kind = NoticeKind::kGpuLost;
  lost.grade = ErrorGrade::kFatal;
  lost.facts = "nvidia.fallen_off_bus";
  lost.pci = std::exchange(begun_, std::nullopt);
  return lost;
}

std::string CleanText(sv message) {
  std::string out;
  AppendPrintable(out, Trim(message.substr(0, kMaxText)));
  if (out.size() > kMaxText) out.resize(kMaxText);
  return out;
}

}  // namespace gpulens::kernel_log
