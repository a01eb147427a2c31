#include "net/grpc/grpc_server.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"

// A client that sends anything and leaves, to a real server on a Unix socket: the server holds nothing for it
// afterwards. The first byte selects whether the preface comes by itself.
namespace {

using namespace gpulens;

struct Echo final : GrpcHandler {
  void Handle(GrpcRequest request, GrpcResponder responder) override {
    CHECK(request.message.size() <= 10'000);
    responder.Send(GrpcAnswer::Ok(std::move(request.message)));
  }
};

struct World {
  World() {
    GrpcServer::Options options;
    options.limits.message_bytes = 2000;
    options.limits.unpacked_bytes = 10'000;
    options.limits.held_bytes = 20'000;
    options.limits.http2.streams = 4;
    options.limits.linger = std::chrono::milliseconds(1);
    loop.Start();
    server = std::make_unique<GrpcServer>(
        loop, std::vector<GrpcRoute>{{"/x", &echo}, {"/test.Echo/Say", &echo}}, options);
    Endpoint at;
    at.family = Endpoint::Family::kUnix;
    at.path = "/tmp/gpulens-grpc-fuzz." + std::to_string(::getpid());
    CHECK(server->Listen(at).ok());
    size = at.ToSockaddr(address);
  }
  Echo echo;
  IoLoop loop;
  std::unique_ptr<GrpcServer> server;
  sockaddr_storage address{};
  socklen_t size = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static World& world = *new World;  // its thread lives on: OpenSSL ends before statics do
  if (size == 0 || size > 60'000) return 0;
  std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 8 != 0)
    bytes.insert(0, std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 33));
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  CHECK(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&world.address), world.size) == 0);
  if (::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) >= 0) ::shutdown(socket.get(), SHUT_WR);
  // Until the server closes, which it does after it has accepted: only then its count means anything.
  // libFuzzer's alarm interrupts a call each few seconds.
  char buffer[4096];
  while (true) {
    const ssize_t count = ::recv(socket.get(), buffer, sizeof buffer, 0);
    if (count == 0 || (count < 0 && errno != EINTR)) break;
  }
  for (int i = 0; world.server->stats().connections != 0 && i < 1000; ++i) {
    world.loop.Call([] {});
    ::poll(nullptr, 0, i < 10 ? 0 : 1);
  }
  world.loop.Call([] {});
  CHECK(world.server->stats().connections == 0);
  CHECK(world.server->stats().held_bytes == 0);
  return 0;
}
