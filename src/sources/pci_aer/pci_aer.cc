#include "sources/pci_aer/pci_aer.h"

#include "base/files.h"
#include "base/parse.h"
#include "base/text.h"

namespace gpulens::pci_aer {
namespace {

constexpr size_t kMostText = 16 << 10;
struct SeverityWords {
  std::string_view name, total;
};
constexpr SeverityWords kWords[kSeverities] = {
    {"correctable", "TOTAL_ERR_COR"}, {"nonfatal", "TOTAL_ERR_NONFATAL"}, {"fatal", "TOTAL_ERR_FATAL"}};

}  // namespace

std::string_view SeverityName(AerSeverity severity) noexcept {
  return kWords[static_cast<size_t>(severity)].name;
}

std::optional<uint64_t> ParseTotal(std::string_view text, AerSeverity severity) noexcept {
  while (!text.empty()) {
    std::string_view line = Trim(TakeUntil(text, '\n'));
    if (TakeUntil(line, ' ') == kWords[static_cast<size_t>(severity)].total)
      return ParseInt<uint64_t>(Trim(line));
  }
  return std::nullopt;
}

AerDevice::AerDevice(const std::string& root, const std::string& address) {
  for (size_t i = 0; i < kSeverities; ++i)
    paths_[i] = root + "/sys/bus/pci/devices/" + address + "/aer_dev_" + std::string(kWords[i].name);
}

std::array<std::optional<uint64_t>, kSeverities> AerDevice::Read() {
  std::array<std::optional<uint64_t>, kSeverities> counts;
  for (size_t i = 0; i < kSeverities; ++i) {
    if (paths_[i].empty()) continue;
    Status status = ReadFile(paths_[i].c_str(), text_, kMostText);
    if (status) counts[i] = ParseTotal(text_, static_cast<AerSeverity>(i));
    // What a device can report does not change.
    else if (status.code == Code::kUnavailable) paths_[i].clear();
  }
  return counts;
}

}  // namespace gpulens::pci_aer
