// A recording of a machine's NVML: the answers of each call (its code and its values) over time.
// Written by `gpulens capture nvml`, replayed by the simulated library. No library is called here.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gpulens/status.h>

namespace gpulens::nvml {

inline constexpr unsigned kMaxRecordedGpus = 16;
inline constexpr unsigned kMaxRecordedMig = 8;  // Places for MIG devices on one GPU.
inline constexpr size_t kMaxRecordingBytes = 16 << 20;
inline constexpr size_t kMaxAnswerValues = 4096;
inline constexpr size_t kMaxRecordedText = 256;

// The library's code of a call, and its values as text in the order of its parameters.
struct RecordedAnswer {
  int code = 0;
  std::vector<std::string> values;

  friend bool operator==(const RecordedAnswer&, const RecordedAnswer&) = default;
};

// The answers to one question over time.
struct AnswerTrack {
  RecordedAnswer first;                                  // From the beginning on.
  std::vector<std::pair<double, RecordedAnswer>> later;  // From so many seconds on; growing.

  const RecordedAnswer& At(double seconds) const noexcept;
  const RecordedAnswer& last() const noexcept { return later.empty() ? first : later.back().second; }
};

// By the text of the question: "nvmlDeviceGetClockInfo(1)", "field 138(3)". See call_text.h.
using AnswerTracks = std::map<std::string, AnswerTrack, std::less<>>;

struct RecordedGpu {
  AnswerTracks calls;
  std::map<unsigned, AnswerTracks> mig;  // By place in the library's list.
};

struct RecordedEvent {
  double at = 0;  // Seconds
  unsigned gpu = 0;
  uint64_t type = 0, data = 0;
  unsigned gpu_instance = ~0U, compute_instance = ~0U;

  friend bool operator==(const RecordedEvent&, const RecordedEvent&) = default;
};

struct NvmlRecording {
  static constexpr int kFormat = 1;

  std::string made_by, made_at, made_with, driver;  // For people.
  std::string trouble;                              // What went wrong while it was made; empty: nothing.
  bool identity_kept = false;
  double seconds = 0, every = 1;                          // How long it is; between two rounds of readings.
  std::vector<std::string> missing;                       // Functions that the library does not have.
  std::map<std::string, unsigned, std::less<>> counters;  // Of which calls the first n values only grow.
  AnswerTracks system;
  std::vector<RecordedGpu> gpus;
  std::vector<RecordedEvent> events;  // In order.

  // "gpu0", "gpu0.mig1", "system"; null when there is no such one.
  AnswerTracks* Find(std::string_view device);
};

// The call without what is in brackets: the key of `counters`.
std::string_view BaseOf(std::string_view question) noexcept;

// Printable ASCII, as every question is.
bool IsQuestion(std::string_view text) noexcept;

// "NOT_SUPPORTED"; empty for a number that has no name.
std::string_view CodeWord(int code) noexcept;
// Also "CODE_1234" for what has no name; -1 when it is no code.
int CodeOfWord(std::string_view word) noexcept;
std::string WordOfCode(int code);

// kInvalidArgument names the line. A recording that was read can be replayed: its GPUs, times and counters
// are in bounds; whether the values of a call fit is checked at the call.
Result<NvmlRecording> ReadRecording(const std::string& yaml);
// As text that ReadRecording reads; moments less than `merge` apart are merged.
std::string WriteRecording(const NvmlRecording& recording, double merge_seconds);

// Replaces UUIDs, serial numbers, names of virtual machines and pids by made-up ones, the same one everywhere
// in the recording.
void HideIdentity(NvmlRecording& recording);

}  // namespace gpulens::nvml
