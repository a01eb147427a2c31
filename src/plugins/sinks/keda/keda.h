// The server of KEDA's external scaler: answers of a ScalerState over gRPC.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <gpulens/status.h>

#include "net/grpc/grpc_server.h"
#include "plugins/listening.h"
#include "plugins/plugin.h"
#include "plugins/sinks/keda/scaler_state.h"

namespace gpulens::keda {

// Thread-safe. `env`, which has an I/O loop, outlives it.
class ScalerServer {
 public:
  // Serves when it returns.
  static Result<std::unique_ptr<ScalerServer>> Open(const PluginListen& at, Env& env);
  ~ScalerServer();

  // Takes a tick, and pushes changes to the streams. Not on the loop.
  void Update(const Snapshot& snapshot);
  // Ends streams and accepts no more connections; calls in progress end until `timeout`.
  void Close(Duration timeout);
  std::vector<Endpoint> addresses() const { return server_->addresses(); }

 private:
  class Methods;
  ScalerServer(Env& env);

  IoLoop& io_;
  const std::unique_ptr<Methods> methods_;
  std::vector<std::shared_ptr<SharedSocket>> sockets_;
  const std::shared_ptr<CloseEvent> closed_ = std::make_shared<CloseEvent>();
  std::unique_ptr<GrpcServer> server_;
};

}  // namespace gpulens::keda
