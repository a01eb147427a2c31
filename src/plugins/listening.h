// Listening sockets of plugins that serve a protocol of their own: receivers, and the scaler of KEDA.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "base/fd.h"
#include "net/message/address.h"
#include "net/server/server.h"
#include "plugins/plugin.h"

namespace gpulens {

// Where a plugin listens. `group`, `plugin` and `protocol` are static.
struct PluginListen {
  std::string_view plugin;
  std::vector<std::string> listen;
  bool insecure = false;
  std::string_view protocol = {};  // for the log: "OTLP over gRPC"
  std::string_view group = "receivers";
};

// Binds each address, passes the descriptor to `serve`, which returns the actual address, and logs it. Other
// machines are accepted only with TLS and authentication, or if `insecure`. `env` has an I/O loop. The caller
// keeps the sockets while they are served.
Result<std::vector<std::shared_ptr<SharedSocket>>> ListenForPlugin(
    const PluginListen& at, Env& env, const std::function<Result<Endpoint>(UniqueFd)>& serve);

// Runs tasks on the workers, or directly if they take none.
std::function<void(std::function<void()>)> OffloadTo(Workers* workers);

// Event that the loop reports and another thread awaits.
class CloseEvent {
 public:
  void Report();
  bool Await(Duration longest);

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  bool closed_ = false;
};

}  // namespace gpulens
