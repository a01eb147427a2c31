#include "sources/nvml/recording/recording.h"

#include <algorithm>

#include "base/parse.h"

namespace gpulens::nvml {
namespace {

struct Word {
  int code;
  std::string_view word;
};
// The library's names without their common beginning.
constexpr Word kWords[] = {
    {1, "UNINITIALIZED"},
    {2, "INVALID_ARGUMENT"},
    {3, "NOT_SUPPORTED"},
    {4, "NO_PERMISSION"},
    {5, "ALREADY_INITIALIZED"},
    {6, "NOT_FOUND"},
    {7, "INSUFFICIENT_SIZE"},
    {8, "INSUFFICIENT_POWER"},
    {9, "DRIVER_NOT_LOADED"},
    {10, "TIMEOUT"},
    {11, "IRQ_ISSUE"},
    {12, "LIBRARY_NOT_FOUND"},
    {13, "FUNCTION_NOT_FOUND"},
    {14, "CORRUPTED_INFOROM"},
    {15, "GPU_IS_LOST"},
    {16, "RESET_REQUIRED"},
    {17, "OPERATING_SYSTEM"},
    {18, "LIB_RM_VERSION_MISMATCH"},
    {19, "IN_USE"},
    {20, "MEMORY"},
    {21, "NO_DATA"},
    {22, "VGPU_ECC_NOT_SUPPORTED"},
    {23, "INSUFFICIENT_RESOURCES"},
    {24, "FREQ_NOT_SUPPORTED"},
    {25, "ARGUMENT_VERSION_MISMATCH"},
    {26, "DEPRECATED"},
    {27, "NOT_READY"},
    {28, "GPU_NOT_FOUND"},
    {29, "INVALID_STATE"},
    {999, "UNKNOWN"},
};
constexpr std::string_view kOther = "CODE_";

}  // namespace

const Answer& Track::At(double seconds) const noexcept {
  auto after = std::upper_bound(later.begin(), later.end(), seconds,
                                [](double t, const auto& change) { return t < change.first; });
  return after == later.begin() ? first : std::prev(after)->second;
}

Tracks* Recording::Find(std::string_view device) {
  if (device == "system") return &system;
  if (!device.starts_with("gpu")) return nullptr;
  device.remove_prefix(3);
  std::string_view number = TakeUntil(device, '.');
  auto index = ParseInt<unsigned>(number);
  if (!index || *index >= gpus.size()) return nullptr;
  RecordedGpu& gpu = gpus[*index];
  if (device.empty()) return &gpu.calls;
  if (!device.starts_with("mig")) return nullptr;
  auto place = ParseInt<unsigned>(device.substr(3));
  auto found = place ? gpu.mig.find(*place) : gpu.mig.end();
  return found == gpu.mig.end() ? nullptr : &found->second;
}

std::string_view BaseOf(std::string_view question) noexcept { return question.substr(0, question.find('(')); }

bool IsQuestion(std::string_view text) noexcept {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

std::string_view CodeWord(int code) noexcept {
  for (const Word& word : kWords) {
    if (word.code == code) return word.word;
  }
  return {};
}

int CodeOfWord(std::string_view text) noexcept {
  for (const Word& word : kWords) {
    if (word.word == text) return word.code;
  }
  if (!text.starts_with(kOther)) return -1;
  auto code = ParseInt<int>(text.substr(kOther.size()));
  return code && *code > 0 ? *code : -1;
}

std::string WordOfCode(int code) {
  std::string_view word = CodeWord(code);
  return word.empty() ? std::string(kOther) + std::to_string(code) : std::string(word);
}

}  // namespace gpulens::nvml
