// An actor with telemetry, its page on standard output; and whether a kernel could stay on a GPU.
#include <gpulens/gpulens.h>

#include <cstdio>

using namespace std::chrono_literals;

int main() {
  gpulens::RingKernelRuntime runtime({.enable_telemetry = true});
  auto square = runtime.Launch<int, long>("square", [](int x) { return long{x} * x; });
  if (!square || !runtime.Activate("square").ok() || !square->Send(7, 20s).ok()) return 1;
  if (square->Receive(20s).value_or(-1) != 49) return 2;
  if (runtime.telemetry("square")->messages_processed != 1) return 3;
  std::fputs(gpulens::ToPrometheus().c_str(), stdout);
  const auto resident = gpulens::ResidentKernel::Launch();
  std::fprintf(stderr, "resident: %s\n", resident ? "launched" : resident.error().detail.c_str());
  return resident || resident.error().code == gpulens::Code::kUnavailable ? 0 : 4;
}
