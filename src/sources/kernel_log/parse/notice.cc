#include "sources/kernel_log/parse/notice.h"

#include <algorithm>

#include "base/parse.h"
#include "base/text.h"
#include "sources/kernel_log/parse/notice_parts.h"

namespace gpulens::kernel_log {
namespace {

constexpr size_t kMaxText = 1000;

}  // namespace

std::optional<Notice> ParseMessage(std::string_view message) {
  // The first bytes decide; most messages match none of them.
  if (message.starts_with("NVRM: ")) return ParseNvrm(message);
  if (message.starts_with("nvidia-nvswitch")) return ParseNvswitch(message);
  if (message.starts_with("amdgpu ")) {
    if (auto notice = ParseAmdgpu(message)) return notice;
  }
  if (message.starts_with("habanalabs ")) {
    if (auto notice = ParseHabana(message)) return notice;
  }
  if (message.find("PCIe Bus Error: severity=") != std::string_view::npos) return ParsePcieError(message);
  if (auto notice = ParseOom(message)) return notice;
  return ParseHardware(message);
}

std::string CleanText(std::string_view message) {
  std::string out;
  AppendPrintable(out, Trim(message.substr(0, kMaxText)));
  if (out.size() > kMaxText) out.resize(kMaxText);
  return out;
}

}  // namespace gpulens::kernel_log
