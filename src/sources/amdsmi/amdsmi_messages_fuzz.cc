// A hostile AMD SMI reader process: whatever its messages are, in whatever order, the table of devices stays
// within its bounds and no reading is from the future. See reader/hostile_reader_testing.h.
// Fuzz inputs: 5'000
#include <cstddef>
#include <cstdint>
#include <span>

#include "reader/hostile_reader_testing.h"
#include "sources/amdsmi/amdsmi_fields.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gpulens;
  reader::InputBytes in({data, size});
  reader::PlainVendorState state;
  reader::HostileReader hostile(amdsmi::AmdsmiVendor(), state);
  for (int steps = 0; !in.empty() && steps < 64; ++steps) {
    hostile.Step(in);
    hostile.CheckTable();
  }
  return 0;
}
