#include "base/result.h"
#include "net/client/http_client.h"
#include "net/io_loop.h"
#include "net/plain/secure_post.h"
#include "net/tls.h"

namespace gpulens {
namespace {

// What is handed over in pieces goes on for longer than the pause between two of them.
constexpr int kPieces = 12;
constexpr size_t kMostAtOnce = 64 << 20;

bool Answered(const HttpReply& reply) noexcept {
  return reply.failure == HttpFailure::kNone || reply.failure == HttpFailure::kStatus ||
         reply.failure == HttpFailure::kAuth;
}

}  // namespace

Result<PlainReply> PostOverTls(const PlainPost::Request& request, Duration timeout) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const TlsContext> tls, TlsContext::Client({}));
  IoLoop loop;
  HttpClient client(loop);
  HttpTarget target{.url = request.url, .unix_socket = {}, .limits = {}};
  target.limits.body_bytes = request.on_body ? kMostAtOnce : request.most_bytes;
  const auto channel = client.Open(std::move(target));
  Result<PlainReply> out = Status{Code::kUnavailable, "cancelled"};
  bool ended = false;
  loop.Post([&] {
    HttpPost post{.headers = request.headers,
                  .body = std::make_shared<const std::string>(request.body),
                  .tls = tls,
                  .timeout = request.on_body ? kPieces * timeout : timeout,
                  .buffer = {}};
    if (request.on_body) {
      post.on_body = [&](std::string_view piece) {
        if (ended || request.on_body(piece)) return;
        ended = true;
        loop.Stop();
      };
    }
    channel->Post(std::move(post), [&](HttpReply& reply) {
      if (ended) return;
      if (Answered(reply))
        out = PlainReply{reply.status, reply.content_type, std::move(reply.body), reply.retry_after};
      else out = Status{HttpFailureCode(reply.failure), reply.detail};
      loop.Stop();
    });
  });
  loop.Run();
  return out;
}

void LinkSecurePost() noexcept { SetSecurePost(&PostOverTls); }

}  // namespace gpulens
