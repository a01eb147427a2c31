// The reader process of NVIDIA GPUs: see reader_main.h.
#include "sources/nvml/reader/nvml_process.h"
#include "sources/nvml/simulated/fake_world.h"
#include "tests/reader_main.h"

int main(int argc, char** argv) {
  gpulens::RunTestReader(argc, argv, [](const std::vector<std::string_view>& arguments, bool simulated) {
    auto options = gpulens::nvml::ParseReaderArguments(arguments);
    if (!options) return int{gpulens::nvml::kReaderBadStart};
    if (simulated) options->lookup = gpulens::nvml::FakeNvmlLookup;
    return gpulens::nvml::RunNvmlReader(*options);
  });
}
