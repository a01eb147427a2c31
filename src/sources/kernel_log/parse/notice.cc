#include "sources/kernel_log/parse/notice.h"

#include <algorithm>
#include <utility>

#include "base/parse.h"
#include "base/text.h"
#include "sources/kernel_log/parse/notice_parts.h"

namespace gpulens::kernel_log {
namespace {

constexpr size_t kMaxText = 1000;

}  // namespace

std::optional<Notice> ParseMessage(std::string_view message) {
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
  if (message.find("PCIe Bus Error: severity=") != std::string_view::npos) return ParsePcieError(message);
  if (auto notice = ParseOom(message)) return notice;
  if (auto notice = ParseDriverFault(message)) return notice;
  return ParseHardware(message);
}

std::optional<Notice> NoticeReader::Read(std::string_view message) {
  constexpr std::string_view kFirst = "NVRM: The NVIDIA GPU ", kLast = "NVRM: fallen off the bus";
  // Lines of other drivers may stand between the three.
  constexpr int kMostLines = 8;
  if (std::optional<Notice> notice = ParseMessage(message)) return notice;
  if (message.starts_with(kFirst)) {
    std::string_view rest = message.substr(kFirst.size());
    begun_ = ParsePciAddress(Trim(TakeUntil(rest, ' ')));
    lines_left_ = kMostLines;
    return std::nullopt;
  }
  if (!begun_ || lines_left_-- == 0) {
    begun_.reset();
    return std::nullopt;
  }
  if (!message.starts_with(kLast)) return std::nullopt;
  Notice lost;
  lost.kind = NoticeKind::kGpuLost;
  lost.grade = Grade::kFatal;
  lost.facts = "nvidia.fallen_off_bus";
  lost.pci = std::exchange(begun_, std::nullopt);
  return lost;
}

std::string CleanText(std::string_view message) {
  std::string out;
  AppendPrintable(out, Trim(message.substr(0, kMaxText)));
  if (out.size() > kMaxText) out.resize(kMaxText);
  return out;
}

}  // namespace gpulens::kernel_log
