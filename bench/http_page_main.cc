// http_page PAGE NEXT_PAGE [PORT]: the product's /metrics on 127.0.0.1 over the series of a page,
// without collectors, for tools/bench.py. Prints its port, ends with SIGTERM.
//
//   /metrics  a tick each second, as the agent closes them: scrapes in between share its bytes, and
//             counters grow
//   /fresh    the same page, but every request meets a new tick: what a lone scraper sees
#include <csignal>
#include <cstdio>
#include <string>

#include "base/files.h"
#include "base/parse.h"
#include "base/result.h"
#include "base/threads.h"
#include "bench/page_snapshot.h"
#include "export/names_testing.h"
#include "net/http/http_server.h"
#include "plugins/config.h"
#include "plugins/latest_snapshot.h"
#include "plugins/page_registry.h"
#include "plugins/plugin.h"

namespace gpulens {

extern const SinkSpec prometheus_sink;

namespace {

class Pages final : public HttpHandler {
 public:
  Pages(const PageSnapshots& snapshots, LatestSnapshot& hub, PageRegistry& board)
      : snapshots_(snapshots), hub_(hub), board_(board) {}

  // On the loop's thread, as Handle is.
  void Tick() { hub_.Put(snapshots_.At(++tick_)); }
  void GrownTick() { hub_.Put(snapshots_.GrownAt(++tick_)); }

  void Handle(const HttpRequest& request, HttpResponder responder) override {
    if (request.path() == "/fresh") Tick();
    board_.Find("/metrics")->Handle(request, std::move(responder));
  }

 private:
  const PageSnapshots& snapshots_;
  LatestSnapshot& hub_;
  PageRegistry& board_;
  uint64_t tick_ = 0;
};

void TickEachSecond(IoLoop& loop, Pages& pages) {
  pages.GrownTick();
  loop.After(std::chrono::seconds(1), [&loop, &pages] { TickEachSecond(loop, pages); });
}

Status Serve(const char* page_path, const char* next_path, uint16_t port) {
  constexpr size_t kPageLimit = 64u << 20;
  PageSnapshots snapshots;
  {
    ASSIGN_OR_RETURN(std::string page, ReadFile(page_path, kPageLimit));
    ASSIGN_OR_RETURN(std::string next, ReadFile(next_path, kPageLimit));
    RETURN_IF_ERROR(snapshots.Load(page, next));
  }
  LatestSnapshot hub;
  PageRegistry board;
  IoLoop loop;
  Workers workers;
  Env env;
  env.io = &loop;
  env.workers = &workers;
  env.latest = &hub;
  env.pages = &board;
  Config config;
  testing::SetNames(config);
  ASSIGN_OR_RETURN(std::unique_ptr<Sink> sink, prometheus_sink.create(config, env));
  Pages pages(snapshots, hub, board);
  HttpServer server(loop, pages, {});
  ASSIGN_OR_RETURN(Endpoint at, ParseIp("127.0.0.1", port));
  ASSIGN_OR_RETURN(Endpoint bound, server.Listen(at));
  RETURN_IF_ERROR(loop.OnSignal(SIGTERM, [&loop] { loop.Stop(); }));
  loop.Post([&] { TickEachSecond(loop, pages); });
  std::printf("%u\n", static_cast<unsigned>(bound.port));
  std::fflush(stdout);
  loop.Run();
  workers.Stop();
  return Ok();
}

}  // namespace
}  // namespace gpulens

int main(int argc, char** argv) {
  auto port = gpulens::ParseInt<uint16_t>(argc > 3 ? argv[3] : "0");
  if (argc < 3 || !port) {
    std::fputs("usage: http_page PAGE NEXT_PAGE [PORT]\n", stderr);
    return 2;
  }
  gpulens::Status status = gpulens::Serve(argv[1], argv[2], *port);
  if (!status) std::fprintf(stderr, "http_page: %s\n", status.detail.c_str());
  return status ? 0 : 1;
}
