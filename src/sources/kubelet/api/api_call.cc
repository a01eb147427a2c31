#include "sources/kubelet/api/api_call.h"

#include <utility>

#include "base/check.h"

namespace gpulens::kubelet {

void ApiCall::Start(const ApiAccess& access, Query ask) {
  Cancel();
  HttpTarget target{.url = access.url(), .unix_socket = {}, .limits = {}};
  // A kubeconfig's server may stand behind a path.
  std::string base = target.url.has_path && target.url.target != "/" ? target.url.target : std::string();
  target.url.target = base + ask.target;
  target.limits.body_bytes = ask.most_bytes;
  channel_ = client_.Open(std::move(target));
  shared_ = std::make_shared<Shared>();
  shared_->most_bytes = ask.most_bytes;
  HttpGet get{.headers = access.headers(), .tls = access.tls(), .timeout = ask.timeout, .buffer = {}};
  if (ask.stream) {
    get.on_body = [shared = shared_](std::string_view piece) {
      if (shared->stream.size() + piece.size() > shared->most_bytes) shared->overflowed = true;
      if (!shared->overflowed) shared->stream += piece;
    };
  }
  channel_->Get(std::move(get), [shared = shared_](HttpReply& reply) {
    shared->ended = true;
    shared->answer = {reply.failure, reply.detail, reply.status, std::move(reply.body)};
    if (auto wake = std::exchange(shared->wake, nullptr)) wake();
  });
}

ApiCall::Answer ApiCall::Take() {
  CHECK(ended());
  Answer answer = std::move(shared_->answer);
  shared_.reset();
  channel_.reset();
  return answer;
}

std::string ApiCall::TakeStream(bool& overflowed) {
  overflowed = shared_ && shared_->overflowed;
  return shared_ ? std::exchange(shared_->stream, {}) : std::string();
}

void ApiCall::WakeAtEnd(std::function<void()> wake) {
  if (shared_) shared_->wake = std::move(wake);
}

void ApiCall::Cancel() {
  if (shared_) shared_->wake = nullptr;
  shared_.reset();
  channel_.reset();
}

}  // namespace gpulens::kubelet
