// The agent's HTTP pages that are nobody's sink: health, readiness, reload, and the landing page.
#pragma once

#include <functional>
#include <memory>

#include "net/http/http_router.h"
#include "pipeline/page_board.h"
#include "pipeline/pipeline.h"

namespace gpulens {

// Used on the loop's thread. What it refers to outlives it.
class Endpoints final : public HttpHandler {
 public:
  // Re-reads the configuration; called on a worker.
  using Reload = std::function<Status()>;

  // What the agent tells of itself, as JSON; called on a worker.
  using StatusPage = std::function<std::string()>;

  Endpoints(const Env& env, const Pipeline& pipeline, Reload reload, StatusPage page);
  void Handle(const HttpRequest& request, HttpResponder responder) override;
  // Health and readiness: a kubelet's probe has no password, and they tell nothing but themselves.
  bool IsForAll(const HttpRequest& request) const override;

 private:
  void Health(HttpResponder responder) const;
  void Ready(HttpResponder responder) const;
  void TellStatus(HttpResponder responder) const;
  void Landing(const HttpRequest& request, HttpResponder responder) const;

  const Env& env_;
  const Pipeline& pipeline_;
  const Reload reload_;
  const StatusPage status_;
  HttpRouter router_;
};

}  // namespace gpulens
