// Our gRPC client and server for tests with others' (tests/e2e/test_grpc.py).
//
//   grpc_pair call URL PATH [unix=PATH] [gzip=1] [ms=N] [ca=FILE] [times=N] [answer=FILE]
//   grpc_pair serve ADDRESS [cert=FILE key=FILE]                                ends with its standard input
//
// `call` sends what comes by standard input, and prints a line for each reply: code, failure, size of the
// answer, milliseconds of RetryInfo or -1, message. `answer` gets the bytes of the last.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <future>
#include <map>

#include "base/fd.h"
#include "base/parse.h"
#include "net/grpc/grpc_client.h"
#include "wire/gzip.h"

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

}  // namespace
}  // namespace gpulens

int main(int count, char** words) {
  const std::string what = count > 1 ? words[1] : "";
  if (what == "call" && count >= 4)
    return gpulens::Call(words[2], words[3], gpulens::Options(count, words, 4));
  std::fputs("usage: grpc_pair call URL PATH … | grpc_pair serve ADDRESS …\n", stderr);
  return 2;
}
