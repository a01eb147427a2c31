// Answers requests for pages of an Api over HTTP and the control socket. They run on workers one at a time,
// so that a worker is always left for collectors however many clients there are.
#pragma once

#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

#include <gpulens/status.h>

#include "agent/api/api.h"
#include "base/threads.h"
#include "net/http/http_server.h"

namespace gpulens {

// Thread-safe. `api` and `workers` outlive it; `workers` are stopped before it ends.
class ApiServer final : public HttpHandler {
 public:
  // Requests that wait; a further one is refused.
  static constexpr size_t kMostWaiting = 64;

  ApiServer(const Api& api, Workers& workers) : api_(api), workers_(workers) {}

  // Whether a path belongs to it: below /api/.
  static bool Serves(std::string_view path) noexcept { return path.starts_with("/api/"); }

  // GET and HEAD.
  void Handle(const HttpRequest& request, HttpResponder responder) override;
  // Calls `done` on a worker with the page. False, and `done` is not called, when too many requests wait.
  bool Get(std::string target, std::function<void(Result<std::string>)> done);
  const Api& api() const noexcept { return api_; }
  // Runs another job among the requests. False when too many wait.
  bool Post(std::function<void()> job);

 private:
  void RunOne();

  const Api& api_;
  Workers& workers_;
  std::mutex mutex_;  // guards what follows
  std::deque<std::function<void()>> waiting_;
  bool running_ = false;
};

}  // namespace gpulens
