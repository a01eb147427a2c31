// The reader process of AMD GPUs: see reader_main.h.
#include "sources/amdsmi/reader/amdsmi_library.h"
#include "sources/amdsmi/simulated/fake_world.h"
#include "tests/reader_main.h"

int main(int argc, char** argv) {
  gpulens::RunTestReader(argc, argv, [](const std::vector<std::string_view>& arguments, bool simulated) {
    return gpulens::amdsmi::RunAmdsmiReader(arguments,
                                            simulated ? gpulens::amdsmi::FakeAmdsmiLookup : nullptr);
  });
}
