// What the functions of the recorder share: the real library, the names of its handles, and the spool.
#pragma once

#include <span>
#include <string>

#include "sources/nvml/capture/recorder.h"
#include "sources/nvml/recording/call_text.h"

namespace gpulens::nvml {

// All thread-safe. No lock is held during a library call.
const NvmlSymbols& Recorded();
// "gpu0", "gpu0.mig2"; empty for a handle that was never given out.
std::string NameOfDevice(Device device);
void NameDevice(Device device, std::string name);
// The library's index of the GPU that is shown under this index; ~0 when there is none.
unsigned RealIndex(unsigned index);
// How many GPUs are shown of so many.
unsigned SeemingCount(unsigned count);

// Records the answer when it differs from the last one. `device`: a name, or "system"; empty: not recorded.
void Note(const std::string& device, std::string question, RecordedAnswer answer);
void NoteEvent(const EventData& event);

// Those of GPULENS_NVML_SPECIAL_CALLS and GPULENS_NVML_PROCESS_CALLS.
std::span<const NamedFunction> RecorderSpecialFunctions() noexcept;

}  // namespace gpulens::nvml
