// Any bytes as a process's control groups and as its environment.
#include "base/check.h"
#include "base/text.h"
#include "sources/slurm/local_jobs.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gpulens::slurm;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const auto& job : {JobOfCgroup(text), JobOfEnvironment(text)}) {
    if (!job) continue;
    CHECK(job->job != 0);
    CHECK(gpulens::IsUtf8(job->step) && gpulens::IsUtf8(job->facts.name) && gpulens::IsUtf8(job->facts.user));
  }
  return 0;
}
