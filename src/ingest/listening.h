// What transports of receivers do alike: binding their addresses, and the wait for their end.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "net/server/server.h"
#include "plugins/plugin.h"

namespace gpulens {

// Where the receiver `receiver` ("otlp") is reached.
struct ReceiverListen {
  std::string_view receiver;  // static storage
  std::vector<std::string> listen;
  bool insecure = false;
  std::string_view protocol = {};  // for people: "OTLP over gRPC"; static storage
};

// Binds each address, gives a descriptor to `serve`, which returns where it is reached, and says so in the
// log. Other machines are let in only with TLS and passwords, or when `insecure` says that they need neither.
// `env` has an I/O loop. The sockets are to be held as long as they are served.
Result<std::vector<std::shared_ptr<SharedSocket>>> ListenForReceiver(
    const ReceiverListen& at, Env& env, const std::function<Result<Endpoint>(UniqueFd)>& serve);

// Off the loop's thread, on one that may take its time; never drops a task.
std::function<void(std::function<void()>)> OffloadTo(Workers* workers);

// Told on the loop, waited for elsewhere.
class Closed {
 public:
  void Report();
  bool Await(Duration longest);

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  bool closed_ = false;
};

}  // namespace gpulens
