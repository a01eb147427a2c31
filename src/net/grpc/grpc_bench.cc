// Unary round trips on the loopback: our client and our server, each with its own loop. Argument: bytes of
// the message, which comes back, and how many calls are under way at once.
#include <benchmark/benchmark.h>

#include <condition_variable>
#include <mutex>

#include "net/grpc/grpc_client.h"
#include "net/grpc/grpc_server.h"

namespace gpulens {
namespace {

struct Echo final : GrpcHandler {
  void Handle(GrpcRequest request, GrpcResponder responder) override {
    responder.Send(GrpcAnswer::Ok(std::move(request.message)));
  }
};

void RoundTrips(benchmark::State& state) {
  Echo echo;
  IoLoop server_loop, client_loop;
  server_loop.Start();
  client_loop.Start();
  GrpcServer server(server_loop, {{"/test.Echo/Say", &echo}}, {});
  const Endpoint at = *server.Listen(*ParseListenAddress("127.0.0.1:0"));
  GrpcTarget target;
  target.url = *ParseHttpUrl("http://127.0.0.1");
  target.url.port = at.port;
  GrpcClient client(client_loop);
  auto channel = client.Open(target);
  const auto message = std::make_shared<const std::string>(static_cast<size_t>(state.range(0)), 'x');
  const auto at_once = static_cast<size_t>(state.range(1));
  std::mutex mutex;
  std::condition_variable changed;
  size_t done = 0, failed = 0;
  for (auto _ : state) {
    done = 0;
    client_loop.Call([&] {
      for (size_t i = 0; i < at_once; ++i) {
        channel->Call({"/test.Echo/Say", {}, message, false, nullptr, std::chrono::seconds(20)},
                      [&](GrpcReply& reply) {
                        std::lock_guard lock(mutex);
                        failed += reply.code != GrpcCode::kOk;
                        if (++done == at_once) changed.notify_one();
                      });
      }
    });
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return done == at_once; });
  }
  if (failed > 0) state.SkipWithError("calls failed");
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * at_once));
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * at_once * message->size()));
  channel = nullptr;
  client_loop.Call([] {});
}
BENCHMARK(RoundTrips)
    ->Args({100, 1})
    ->Args({100, 32})
    ->Args({100'000, 1})
    ->Args({2'000'000, 1})
    ->UseRealTime();

}  // namespace
}  // namespace gpulens
