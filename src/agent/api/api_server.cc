#include "agent/api/api_server.h"

#include <memory>
#include <utility>

#include "base/text.h"
#include "wire/packing.h"

namespace gpulens {
namespace {

// A smaller page costs less than packing it.
constexpr size_t kLeastPacked = 1024;

int HttpStatusOf(Code code) {
  switch (code) {
    case Code::kInvalidArgument: return 400;
    case Code::kUnavailable: return 404;
    case Code::kExhausted: return 413;
    default: return 500;
  }
}

HttpResponse JsonResponse(int status, std::string json, bool gzip) {
  HttpResponse response;
  response.status = status;
  response.content_type = "application/json";
  response.AddHeader("Cache-Control", "no-store");
  response.AddHeader("Cross-Origin-Resource-Policy", "same-origin");
  response.AddHeader("Vary", "Accept-Encoding");
  if (gzip && json.size() >= kLeastPacked) {
    std::string packed;
    GzipCompressor().Compress(json, packed);
    json.swap(packed);
    response.AddHeader("Content-Encoding", "gzip");
  }
  response.body = SharedBytes(std::move(json));
  return response;
}

HttpResponse ErrorResponse(int status, std::string_view why) {
  std::string json = "{\"error\":";
  AppendJsonString(json, why);
  return JsonResponse(status, json + "}\n", false);
}

}  // namespace

void ApiServer::Handle(const HttpRequest& request, HttpResponder responder) {
  auto answer = std::make_shared<HttpResponder>(std::move(responder));
  const bool posted = Post([this, answer, target = std::string(request.target()),
                            gzip = AcceptsGzip(request.JoinedHeader("Accept-Encoding"))] {
    if (!answer->wanted()) return;
    Result<std::string> page = api_.Get(target);
    answer->Send(page ? JsonResponse(200, *std::move(page), gzip)
                      : ErrorResponse(HttpStatusOf(page.error().code), page.error().detail));
  });
  if (posted) return;
  HttpResponse busy = ErrorResponse(503, "too many requests wait; try again");
  busy.AddHeader("Retry-After", "1");
  answer->Send(std::move(busy));
}

bool ApiServer::Get(std::string target, std::function<void(Result<std::string>)> done) {
  return Post([this, target = std::move(target), done = std::move(done)] { done(api_.Get(target)); });
}

bool ApiServer::Post(std::function<void()> job) {
  std::lock_guard lock(mutex_);
  if (waiting_.size() >= kMostWaiting) return false;
  if (!running_ && !workers_.Post([this] { RunOne(); })) return false;
  running_ = true;
  waiting_.push_back(std::move(job));
  return true;
}

// One a turn: what collectors posted meanwhile comes before the next.
void ApiServer::RunOne() {
  std::unique_lock lock(mutex_);
  std::function<void()> job = std::move(waiting_.front());
  waiting_.pop_front();
  lock.unlock();
  job();
  job = nullptr;  // answers a request that it left unanswered
  lock.lock();
  if (waiting_.empty()) {
    running_ = false;
  } else if (!workers_.Post([this] { RunOne(); })) {
    // The queue of the workers is full, or they stop: those who wait are refused.
    running_ = false;
    auto refused = std::exchange(waiting_, {});
    lock.unlock();
  }
}

}  // namespace gpulens
