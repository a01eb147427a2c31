// NVIDIA: XIDs, GPUs that are gone, NVLink, and SXids of NVSwitches.

#include <iterator>

#include "base/parse.h"
#include "sources/kernel_log/parse/notice_parts.h"

namespace gpulens::kernel_log {
namespace {

// Codes above this are no codes: the driver's own are below 1,000, a switch's below 100,000.
constexpr uint32_t kMaxXid = 4095;
constexpr uint32_t kMaxSxid = 999'999;
// TASK_COMM_LEN of the kernel, and room for what drivers add.
constexpr size_t kMaxProcess = 64;

// "pid=1234, name=python3, …" in front of the text; either may be missing, and both may say '<unknown>'.
void TakeProcess(std::string_view text, Notice& out) noexcept {
  if (TakePrefix(text, "pid=")) {
    out.pid = ParseInt<int64_t>(Trim(TakeUntil(text, ',')));
    if (out.pid && *out.pid <= 0) out.pid.reset();
    text = Trim(text);
  }
  if (TakePrefix(text, "name=")) {
    // A name may hold commas and blanks: it ends at the first ", " behind which the driver's words begin,
    // which have a capital in front or are "channel".
    size_t end = text.find(", ");
    for (size_t at = end; at != std::string_view::npos && at <= kMaxProcess; at = text.find(", ", at + 2)) {
      std::string_view rest = text.substr(at + 2);
      if (rest.empty() || (rest[0] >= 'A' && rest[0] <= 'Z') || rest.starts_with("channel ")) {
        end = at;
        break;
      }
    }
    std::string_view name = text.substr(0, end);
    if (name.size() <= kMaxProcess && name.find("<unknown>") == std::string_view::npos)
      out.process = Trim(name);
  }
}

// The link that a message about NVLink names: "… on link 3(0x…", "Link 46 sourcetrack …", "… Link -1 …" is
// none.
std::optional<uint32_t> LinkOf(std::string_view text) noexcept {
  for (std::string_view mark : {"on link ", "train link ", " Link "}) {
    auto rest = After(text, mark);
    if (!rest) continue;
    auto link = TakeNumber<uint32_t>(*rest);
    if (link && *link < 1024) return link;
  }
  return std::nullopt;
}

// XIDs that speak of a link: of all generations, and of the units of an NVLink 5 port.
constexpr uint32_t kLinkXid = 74, kFirstOfPort = 144, kLastOfPort = 150, kRecoveryXid = 154;

std::optional<uint32_t> TakeHex(std::string_view& text) noexcept {
  size_t end = 0;
  uint32_t number = 0;
  for (; end < text.size() && end < 8; ++end) {
    char c = text[end];
    uint32_t digit = c >= '0' && c <= '9'   ? static_cast<uint32_t>(c - '0')
                     : c >= 'a' && c <= 'f' ? static_cast<uint32_t>(c - 'a') + 10
                     : c >= 'A' && c <= 'F' ? static_cast<uint32_t>(c - 'A') + 10
                                            : 16;
    if (digit == 16) break;
    number = number << 4 | digit;
  }
  if (end == 0) return std::nullopt;
  text.remove_prefix(end);
  return number;
}

// "NETIR_LINK_EVT  Fatal   XC0 i0 Link 14 (0x025001c6 0x00000000 …)": the first word behind the link is the
// unit's interrupt status, whose bits 20 to 25 number the error.
void ReadPort(std::string_view text, Notice& out) noexcept {
  if (text.find("Nonfatal") != std::string_view::npos || text.find("Non-fatal") != std::string_view::npos)
    out.grade = Grade::kNonFatal;
  else if (text.find(" Fatal") != std::string_view::npos) out.grade = Grade::kFatal;
  auto status = After(text, "(0x");
  if (!status) return;
  if (auto bits = TakeHex(*status)) out.sub_code = *bits >> 20 & 0x3F;
}

// "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)". The words differ from driver
// to driver, the numbers do not. A number that we do not know is an order all the same.
void ReadRecovery(std::string_view text, Notice& out) noexcept {
  constexpr std::string_view kActions[] = {"none", "reset_gpu", "reboot", "drain", "drain"};
  auto change = After(text, "recovery action changed from ");
  auto to = change ? After(*change, " to 0x") : std::nullopt;
  auto number = to ? TakeHex(*to) : std::nullopt;
  if (!number) return;
  out.action = *number < std::size(kActions) ? kActions[*number] : "contact_vendor";
}

// "(PCI:0000:3b:00): 79, …", "(0000:03:00): 31, …", "(PCI:0000:3b:00 GPU-I:05 GPU-CI:00): 13, …".
std::optional<Notice> ParseXid(std::string_view rest) noexcept {
  size_t close = rest.find(')');
  if (close == std::string_view::npos || close > 64) return std::nullopt;
  std::string_view where = rest.substr(0, close);
  rest = rest.substr(close + 1);
  if (!TakePrefix(rest, ":")) return std::nullopt;
  rest = Trim(rest);
  Notice out;
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
std::optional<Notice> ParseFallenOff(std::string_view message) noexcept {
  Notice out;
  out.kind = NoticeKind::kGpuLost;
  out.grade = Grade::kFatal;
  out.facts = "nvidia.fallen_off_bus";
  for (std::string_view mark : {"GPU at ", "NVIDIA GPU ", "GPU "}) {
    auto rest = After(message, mark);
    if (!rest) continue;
    std::string_view word = rest->substr(0, rest->find_first_of(" \n\r\t"));
    while (word.ends_with(':')) word.remove_suffix(1);
    out.pci = ParsePciAddress(word);
    if (out.pci) break;
  }
  return out.pci ? std::optional(out) : std::nullopt;
}

}  // namespace

std::optional<Notice> ParseNvrm(std::string_view message) {
  std::string_view text = message.substr(std::string_view("NVRM: ").size());
  // As tools write it that put a test message into the kernel's log.
  TakePrefix(text, "NVRM: ");
  if (TakePrefix(text, "Xid (")) return ParseXid(text);
  if (message.find("fallen off the bus") != std::string_view::npos) return ParseFallenOff(message);
  auto link = After(message, "NVLink: ");
  bool fatal = link && link->starts_with("fatal error detected on link ");
  bool training = link && link->find("ailed to train link ") < 2;
  if (!fatal && !training) return std::nullopt;
  Notice out;
  out.kind = NoticeKind::kLinkFailure;
  out.type = fatal ? "fatal" : "training";
  out.facts = fatal ? "nvidia.nvlink_fatal" : "nvidia.nvlink_train_failed";
  out.link = LinkOf(*link);
  if (auto gpu = After(message, "GPU ")) {
    std::string_view word = gpu->substr(0, gpu->find(' '));
    while (word.ends_with(':')) word.remove_suffix(1);
    out.pci = ParsePciAddress(word);
  }
  return out;
}

// "nvidia-nvswitch3: SXid (PCI:0000:86:00.0): 20034, Fatal, Link 30 LTSSM Fault Up". The lines "… Severity 1
// Engine instance …" and "… Data {…}" that follow belong to the same error.
std::optional<Notice> ParseNvswitch(std::string_view message) {
  auto rest = After(message, ": SXid (");
  if (!rest || message.size() - rest->size() > 48) return std::nullopt;
  size_t close = rest->find(')');
  if (close == std::string_view::npos || close > 32) return std::nullopt;
  Notice out;
  out.kind = NoticeKind::kSxid;
  out.pci = ParsePciAddress(rest->substr(0, close));
  std::string_view text = rest->substr(close + 1);
  if (!out.pci || !TakePrefix(text, ": ")) return std::nullopt;
  out.code = TakeNumber<uint32_t>(text);
  if (!out.code || *out.code == 0 || *out.code > kMaxSxid || !TakePrefix(text, ", ")) return std::nullopt;
  if (TakePrefix(text, "Fatal")) out.grade = Grade::kFatal;
  else if (TakePrefix(text, "Non-fatal")) out.grade = Grade::kNonFatal;
  else return std::nullopt;
  out.link = LinkOf(text);
  return out;
}

}  // namespace gpulens::kernel_log
