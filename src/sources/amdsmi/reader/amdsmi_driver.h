// The reader process of AMD GPUs: `gpulens reader amdsmi`.
#pragma once

#include <span>
#include <string_view>

#include "sources/amdsmi/reader/amdsmi_library.h"

namespace gpulens::amdsmi {

// `arguments` come from driver::DriverSource. `simulated`: the library to be read in place of a file, or
// null. Returns the exit code; the caller must end the process with _exit (see driver::RunDriver).
int RunAmdsmiDriver(std::span<const std::string_view> arguments, SymbolLookup simulated);

}  // namespace gpulens::amdsmi
