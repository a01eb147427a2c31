// What the functions of the recorder share: the real library, the names of its handles, and the spool.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "sources/nvml/capture/recorder.h"
#include "sources/nvml/recording/call_text.h"
#include "sources/nvml/recording/value_text.h"

namespace gpulens::nvml {

// All thread-safe. No lock is held during a library call.
const Symbols& Recorded();
// "gpu0", "gpu0.mig2"; empty for a handle that was never given out.
std::string NameOfDevice(Device device);
void NameDevice(Device device, std::string name);
// The library's index of the GPU that seems to have this one; ~0 when there is none.
unsigned RealIndex(unsigned index);
// How many GPUs the machine seems to have when it has so many.
unsigned SeemingCount(unsigned count);

// Writes the answer down when it is not the last one. `device`: a name, or "system"; empty: not at all.
void Note(const std::string& device, std::string question, Answer answer);
void NoteEvent(const EventData& event);

struct RecorderSymbol {
  std::string_view name;
  void* function;
};
// Those that are not as plain as the rest: lists, handles, samples, events.
std::span<const RecorderSymbol> RecorderListSymbols() noexcept;
std::span<const RecorderSymbol> RecorderUseSymbols() noexcept;

}  // namespace gpulens::nvml
