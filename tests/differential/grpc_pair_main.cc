// Our gRPC client and server for tests with others' (tests/e2e/test_grpc.py).
//
//   grpc_pair call URL PATH [unix=PATH] [gzip=1] [ms=N] [ca=FILE] [times=N] [answer=FILE]
//   grpc_pair serve ADDRESS [web=FILE]         with a web configuration; ends with its standard input
//
// `call` sends what comes by standard input, and prints a line for each reply: code, failure, size of the
// answer, milliseconds of RetryInfo or -1, message. `answer` gets the bytes of the last.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <future>
#include <map>
#include <thread>

#include "base/fd.h"
#include "base/parse.h"
#include "net/grpc/grpc_client.h"
#include "net/grpc/grpc_server.h"
#include "wire/packing.h"

namespace gpulens {
namespace {

std::map<std::string, std::string, std::less<>> Options(int count, char** words, int from) {
  std::map<std::string, std::string, std::less<>> options;
  for (int i = from; i < count; ++i) {
    std::string_view value = words[i];
    const std::string_view key = TakeUntil(value, '=');
    options[std::string(key)] = value;
  }
  return options;
}

std::string ReadAll(int fd) {
  std::string all;
  char buffer[4096];
  for (ssize_t n; (n = ::read(fd, buffer, sizeof buffer)) > 0;) all.append(buffer, static_cast<size_t>(n));
  return all;
}

int Call(const char* address, const char* path, std::map<std::string, std::string, std::less<>> options) {
  auto url = ParseHttpUrl(address);
  if (!url) return std::fprintf(stderr, "%s\n", url.error().detail.c_str()), 2;
  std::shared_ptr<const TlsContext> tls;
  if (url->tls) {
    TlsClientOptions rules;
    rules.ca.file = options["ca"];
    auto made = TlsContext::Client(rules);
    if (!made) return std::fprintf(stderr, "%s\n", made.error().detail.c_str()), 2;
    tls = *made;
  }
  std::string message = ReadAll(0);
  const bool gzip = options["gzip"] == "1";
  if (gzip) {
    std::string packed;
    GzipCompressor().Compress(message, packed);
    message = packed;
  }
  const auto body = std::make_shared<const std::string>(std::move(message));
  IoLoop loop;
  loop.Start();
  GrpcClient client(loop);
  GrpcTarget target;
  target.url = *url;
  target.unix_socket = options["unix"];
  auto channel = client.Open(target);
  const int times = ParseInt<int>(options["times"]).value_or(1);
  const auto timeout = std::chrono::milliseconds(ParseInt<int>(options["ms"]).value_or(20'000));
  for (int i = 0; i < times; ++i) {
    std::promise<GrpcReply> came;
    loop.Call([&] {
      channel->Call({path, "X-Test: one\r\n", body, gzip, tls, timeout},
                    [&](GrpcReply& reply) { came.set_value(std::move(reply)); });
    });
    const GrpcReply reply = came.get_future().get();
    const auto retry = ReadGrpcRetryInfo(reply.details);
    std::printf("%.*s %.*s %zu %lld %s\n", static_cast<int>(GrpcCodeName(reply.code).size()),
                GrpcCodeName(reply.code).data(), static_cast<int>(HttpFailureName(reply.failure).size()),
                HttpFailureName(reply.failure).data(), reply.answer.size(),
                retry ? static_cast<long long>(retry->count() / 1'000'000) : -1LL, reply.message.c_str());
    std::fflush(stdout);
    const std::string& path_of_answer = options["answer"];
    if (path_of_answer.empty()) continue;
    UniqueFd file(::open(path_of_answer.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (::write(file.get(), reply.answer.data(), reply.answer.size()) < 0) return 2;
  }
  channel = nullptr;
  loop.Call([] {});
  return 0;
}

// Echo of /test.Echo/Echo; Busy requests a retry in 1500 ms; Late answers from another thread; Meta returns
// x-test.
class Echo final : public GrpcHandler {
 public:
  void Handle(GrpcRequest request, GrpcResponder responder) override {
    if (request.path.ends_with("/Busy"))
      return responder.Send(GrpcAnswer::Failure(GrpcCode::kResourceExhausted, "busy: 100% öäü",
                                                std::chrono::milliseconds(1500)));
    if (request.path.ends_with("/Meta"))
      return responder.Send(GrpcAnswer::Ok(std::string(request.fields.Find("x-test"))));
    if (request.path.ends_with("/Late")) {
      std::thread([message = std::move(request.message), late = std::move(responder)]() mutable {
        late.Send(GrpcAnswer::Ok(std::move(message)));
      }).detach();
      return;
    }
    if (request.path.ends_with("/Never")) return kept_.push_back(std::move(responder));
    responder.Send(GrpcAnswer::Ok(std::move(request.message)));
  }
  void Clear() { kept_.clear(); }

 private:
  std::vector<GrpcResponder> kept_;
};

int Serve(const char* address, std::map<std::string, std::string, std::less<>> options) {
  auto at = ParseListenAddress(address);
  if (!at) return std::fprintf(stderr, "%s\n", at.error().detail.c_str()), 2;
  IoLoop loop;
  loop.Start();
  std::unique_ptr<Authenticator> authenticator;
  if (!options["web"].empty()) {
    auto opened =
        Authenticator::Open(loop, options["web"], [](const Endpoint&, const PasswordQueue::Job& job) {
          job(true);
          return true;
        });
    if (!opened) return std::fprintf(stderr, "%s\n", opened.error().detail.c_str()), 2;
    authenticator = *std::move(opened);
  }
  Echo echo;
  std::vector<GrpcRoute> routes;
  for (const char* name : {"Echo", "Busy", "Meta", "Late", "Never"})
    routes.push_back({std::string("/test.Echo/") + name, &echo});
  GrpcServer::Options rules;
  rules.authenticator = authenticator.get();
  auto server = std::make_unique<GrpcServer>(loop, std::move(routes), rules);
  auto bound = server->Listen(*at);
  if (!bound) return std::fprintf(stderr, "%s\n", bound.error().detail.c_str()), 2;
  std::printf("%s\n", bound->ToString().c_str());
  std::fflush(stdout);
  ReadAll(0);
  std::promise<void> ended;
  server->Shutdown(std::chrono::seconds(1), [&] { ended.set_value(); });
  ended.get_future().wait();
  loop.Call([&] { echo.Clear(); });
  server = nullptr;
  return 0;
}

}  // namespace
}  // namespace gpulens

int main(int count, char** words) {
  const std::string what = count > 1 ? words[1] : "";
  if (what == "call" && count >= 4)
    return gpulens::Call(words[2], words[3], gpulens::Options(count, words, 4));
  if (what == "serve" && count >= 3) return gpulens::Serve(words[2], gpulens::Options(count, words, 3));
  std::fputs("usage: grpc_pair call URL PATH … | grpc_pair serve ADDRESS …\n", stderr);
  return 2;
}
