// One request to the API server or the kubelet, whose answer is fetched whenever one looks: so that nobody
// has to be there when it comes.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "net/client/http_client.h"
#include "sources/kubelet/api/api_server.h"

namespace gpulens::kubelet {

// Used on the loop's thread; made and destroyed on any. Destruction forgets a request under way.
class ApiCall {
 public:
  struct Query {
    std::string target;  // "/api/v1/pods?…"
    Duration timeout{};
    size_t most_bytes = 64u << 20;  // of the answer; of a stream, of what waits to be taken
    bool stream = false;            // the answer goes on; TakeStream gets it bit by bit
  };
  struct Answer {
    HttpFailure failure = HttpFailure::kNone;
    std::string detail;
    int status = 0;
    std::string body;
  };

  explicit ApiCall(HttpClient& client) noexcept : client_(client) {}

  // Ends what was under way.
  void Start(const ApiAccess& access, Query ask);
  bool busy() const noexcept { return shared_ && !shared_->ended; }
  // Ended, and its answer not taken yet.
  bool ended() const noexcept { return shared_ && shared_->ended; }
  // Of one that ended.
  Answer Take();
  // What of a stream has come since; it may end in the middle of a line. `overflowed`: more came than may
  // wait, so that lines are lost and all has to be read anew.
  std::string TakeStream(bool& overflowed);
  // `wake` is called once, from the loop, when the request ends. Only while the caller stands: it is taken
  // back by an empty one.
  void WakeAtEnd(std::function<void()> wake);
  void Cancel();

 private:
  // Of the callbacks: they may still come while a channel is being destroyed elsewhere. The loop's.
  struct Shared {
    bool ended = false, overflowed = false;
    size_t most_bytes = 0;
    Answer answer;
    std::string stream;
    std::function<void()> wake;
  };

  HttpClient& client_;
  std::shared_ptr<Shared> shared_;
  std::unique_ptr<HttpChannel> channel_;
};

}  // namespace gpulens::kubelet
