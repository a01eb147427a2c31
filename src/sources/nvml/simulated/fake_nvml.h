// A simulated NVML: the library's functions over a profile (GPULENS_FAKE_NVML, else the demo). It is
// linked into the program for --demo, and into a libnvidia-ml.so.1 of our own for tests.
#pragma once

namespace gpulens::nvml {

// A SymbolLookup. Null for a symbol it does not have, or that the profile lists as missing.
void* FakeNvmlLookup(const char* name);

}  // namespace gpulens::nvml
