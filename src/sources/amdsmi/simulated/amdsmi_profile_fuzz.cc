// Any bytes as a profile of simulated AMD GPUs.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "sources/amdsmi/simulated/fake_profile.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gpulens::amdsmi;
  auto profile = ParseFakeProfile(std::string(reinterpret_cast<const char*>(data), size));
  if (!profile) {
    CHECK(!profile.error().detail.empty());
    return 0;
  }
  // What is accepted can be shown: there is a model. A machine without GPUs is one, too.
  CHECK(profile->model != nullptr && profile->partitions >= 1);
  return 0;
}
