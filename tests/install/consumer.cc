// A program with instruments, its page on standard output.
#include <gpulens/gpulens.h>

#include <cstdio>

namespace {

const gpulens::Counter requests("http.server.requests", {.unit = "{request}", .description = "Requests."});
const gpulens::Histogram latency("http.server.request.duration", {.unit = "s"});

}  // namespace

int main() {
  gpulens::Exporter to_agent = gpulens::ExportToAgent({.socket = "/nonexistent/otlp.sock"});
  auto page = gpulens::Expose({.listen = "127.0.0.1:0"});
  if (!page) return std::fprintf(stderr, "%s\n", page.status().detail.c_str()), 1;
  const auto chat = requests.Bind({{"route", "/chat"}});
  for (int i = 0; i < 3; ++i) {
    const auto timer = latency.Time();
    chat.Add();
  }
  const gpulens::Distribution three = gpulens::Describe(std::vector<double>{1, 2, 3});
  if (three.n != 3 || !gpulens::FindGpuSpec("NVIDIA H100 80GB HBM3")) return 2;
  if (to_agent.Flush().code != gpulens::Code::kUnavailable) return 3;
  std::fputs(gpulens::ToPrometheus().c_str(), stdout);
  return 0;
}
