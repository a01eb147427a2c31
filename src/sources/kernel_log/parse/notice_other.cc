// AMD and Gaudi drivers, PCIe error reports, the OOM killer, and the hardware of the host.

#include <algorithm>

#include "base/parse.h"
#include "sources/kernel_log/parse/notice_parts.h"

namespace gpulens::kernel_log {
namespace {

using sv = std::string_view;

bool Has(sv text, sv part) noexcept { return text.find(part) != sv::npos; }

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

bool IsWord(sv text) noexcept {
  return !text.empty() && text.size() <= 32 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

// "socket: 0, die: 0 3 new correctable hardware errors detected in umc block". Lines that repeat a total ("in
// total") are no new error, and "no uncorrectable hardware errors" is none at all.
std::optional<Notice> ParseAmdErrors(sv text) noexcept {
  constexpr struct {
    sv words;
    Grade grade;
  } kWords[] = {{" uncorrectable hardware errors", Grade::kFatal},
                {" correctable hardware errors", Grade::kCorrected},
                {" deferred hardware errors", Grade::kDeferred}};
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
    Notice out;
    out.kind = NoticeKind::kRas;
    out.grade = grade;
    out.count = count;
    sv name = block->substr(0, block->find(" block"));
    if (IsWord(name)) out.type = name;
    return out;
  }
  return std::nullopt;
}

Grade GradeOfPcie(sv text) noexcept {
  if (text.starts_with("Correct")) return Grade::kCorrected;
  if (!text.starts_with("Uncorrect")) return Grade::kUnsaid;
  sv word = text.substr(0, text.find(','));
  if (Has(word, "(Non-Fatal)")) return Grade::kNonFatal;
  return Has(word, "(Fatal)") ? Grade::kFatal : Grade::kUnsaid;
}

Notice Hardware(sv type, Grade grade, sv facts = {}) noexcept {
  Notice out;
  out.kind = NoticeKind::kHardware;
  out.type = type;
  out.grade = grade;
  out.facts = facts;
  return out;
}

// "[Hardware Error]: event severity: fatal", "… Corrected error, no action required.", "mce: [Hardware
// Error]: CPU 1: Machine Check Exception: 5 Bank 3: …". The register lines around these belong to the same
// error.
std::optional<Notice> ParseMachineCheck(sv message) noexcept {
  auto rest = After(message, "[Hardware Error]: ");
  if (!rest) return std::nullopt;
  if (auto severity = After(*rest, "event severity: ")) {
    if (severity->starts_with("corrected")) return Hardware("mce", Grade::kCorrected, "mce.corrected");
    if (severity->starts_with("recoverable")) return Hardware("mce", Grade::kRecoverable, "mce.bank");
    if (severity->starts_with("fatal")) return Hardware("mce", Grade::kFatal, "mce.bank");
    return std::nullopt;
  }
  if (rest->starts_with("Corrected error")) return Hardware("mce", Grade::kCorrected, "mce.corrected");
  if (rest->starts_with("Deferred error")) return Hardware("mce", Grade::kRecoverable, "mce.bank");
  if (rest->starts_with("Uncorrected, software")) return Hardware("mce", Grade::kRecoverable, "mce.bank");
  if (Has(*rest, "Machine Check Exception:")) return Hardware("mce", Grade::kFatal, "mce.bank");
  if (rest->starts_with("Machine check events logged")) return Hardware("mce", Grade::kUnsaid, "mce.bank");
  return std::nullopt;
}

// "EDAC MC0: 1 CE memory read error on …".
std::optional<Notice> ParseEdac(sv message) noexcept {
  if (!TakePrefix(message, "EDAC MC")) return std::nullopt;
  if (!TakeNumber<uint32_t>(message) || !TakePrefix(message, ": ")) return std::nullopt;
  auto count = TakeNumber<uint32_t>(message);
  if (!count || *count == 0) return std::nullopt;
  bool corrected = message.starts_with(" CE ");
  if (!corrected && !message.starts_with(" UE ")) return std::nullopt;
  // The machine goes on, or it would not have told; more the message does not say.
  Notice out = Hardware("edac", corrected ? Grade::kCorrected : Grade::kRecoverable);
  out.count = count;
  return out;
}

std::optional<Notice> ParseNvme(sv message) noexcept {
  if (message.starts_with("nvme ")) {
    if (Has(message, "Disabling device after reset failure") || Has(message, "Removing after probe failure"))
      return Hardware("nvme", Grade::kFatal);
    if (Has(message, "controller is down; will reset") || Has(message, " timeout, "))
      return Hardware("nvme", Grade::kRecoverable);
    return std::nullopt;
  }
  bool medium = Has(message, "critical medium error, dev nvme");
  return medium ? std::optional(Hardware("nvme", Grade::kUnsaid)) : std::nullopt;
}

std::optional<Notice> ParseHeat(sv message) noexcept {
  if (Has(message, "critical temperature reached")) return Hardware("thermal", Grade::kFatal, "thermal.trip");
  if (Has(message, "temperature above threshold, cpu clock throttled"))
    return Hardware("thermal", Grade::kRecoverable, "thermal.cpu_throttle");
  return std::nullopt;
}

}  // namespace

std::optional<Notice> ParseAmdgpu(sv message) {
  sv text = message;
  auto pci = TakeDevice(text);
  if (!pci) {
    // Old drivers name no device: "amdgpu: 3 uncorrectable hardware errors detected in UMC block".
    std::optional<Notice> errors = TakePrefix(text, "amdgpu: ") ? ParseAmdErrors(text) : std::nullopt;
    if (errors) errors->driver = "amdgpu";
    return errors;
  }
  TakePrefix(text, "amdgpu: ");
  std::optional<Notice> out = ParseAmdErrors(text);
  if (!out) {
    Notice other;
    other.kind = NoticeKind::kRas;
    if (Has(text, "ERREVENT_ATHUB_INTERRUPT")) {
      other.grade = Grade::kFatal;
      other.type = "athub";
      other.facts = "amdgpu.ras.athub_fatal";
    } else if (Has(text, "Poison is created")) {
      other.grade = Grade::kDeferred;
      other.facts = "amdgpu.ras.poison_created";
    } else if (Has(text, "poison is consumed by client")) {
      other.grade = Grade::kFatal;
      other.facts = "amdgpu.ras.poison_consumed";
    } else if (text.starts_with("GPU reset begin")) {
      other.kind = NoticeKind::kGpuReset;
      other.facts = "amdgpu.reset_begin";
    } else if (Has(text, "GPU over temperature range")) {
      other.kind = NoticeKind::kGpuHot;
      other.type = "trip";
    } else if (Has(text, "GPU HW Critical Temperature Fault")) {
      other.kind = NoticeKind::kGpuHot;
      other.type = "shutdown";  // the driver powers the machine off
    } else {
      return std::nullopt;
    }
    out = other;
  }
  out->pci = pci;
  out->driver = "amdgpu";
  return out;
}

std::optional<Notice> ParseHabana(sv message) {
  sv text = message;
  Notice out;
  out.driver = "habanalabs";
  out.pci = TakeDevice(text);
  if (!out.pci) return std::nullopt;
  bool reset = (text.starts_with("Going to ") && Has(text, "reset")) || text.starts_with("Hard-reset");
  if (reset) out.kind = NoticeKind::kGpuReset;
  else if (Has(text, "ECC error detected")) out.kind = NoticeKind::kRas;  // of which grade it does not say
  else return std::nullopt;
  return out;
}

// "nvidia 0000:3b:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)".
std::optional<Notice> ParsePcieError(sv message) {
  auto severity = After(message, "PCIe Bus Error: severity=");
  Notice out;
  out.kind = NoticeKind::kPcieError;
  sv rest = message;
  out.driver = TakeUntil(rest, ' ');
  sv text = message;
  out.pci = TakeDevice(text);
  out.grade = severity ? GradeOfPcie(*severity) : Grade::kUnsaid;
  if (!out.pci || out.grade == Grade::kUnsaid || !IsWord(out.driver)) return std::nullopt;
  auto type = After(*severity, "type=");
  if (type && type->starts_with("Physical")) out.type = "physical";
  else if (type && type->starts_with("Data Link")) out.type = "data_link";
  else if (type && type->starts_with("Transaction")) out.type = "transaction";
  out.facts = out.grade == Grade::kCorrected  ? "aer.correctable"
              : out.grade == Grade::kNonFatal ? "aer.nonfatal"
                                              : "aer.fatal";
  return out;
}

std::optional<Notice> ParseOom(sv message) {
  Notice out;
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

std::optional<Notice> ParseHardware(sv message) {
  if (auto notice = ParseMachineCheck(message)) return notice;
  if (auto notice = ParseEdac(message)) return notice;
  if (auto notice = ParseNvme(message)) return notice;
  return ParseHeat(message);
}

}  // namespace gpulens::kernel_log
