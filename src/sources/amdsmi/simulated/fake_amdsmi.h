// A simulated AMD SMI: the library's functions over a profile (GPULENS_FAKE_AMDSMI, else eight MI300X). It is
// linked into the program for `library: simulated`, and into a libamd_smi.so of our own for tests.
#pragma once

namespace gpulens::amdsmi {

// A SymbolLookup. Null for a symbol it does not have, or that the profile lists as missing.
void* FakeAmdsmiLookup(const char* name);

}  // namespace gpulens::amdsmi
