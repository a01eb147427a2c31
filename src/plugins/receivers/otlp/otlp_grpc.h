// OTLP/gRPC: the Export methods of the services for metrics, logs and traces.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <gpulens/status.h>

#include "ingest/ingest_receiver.h"
#include "ingest/otlp_ingest.h"
#include "net/grpc/grpc_server.h"

namespace gpulens {

class OtlpGrpc {
 public:
  struct Options {
    ReceiverListen at;
    size_t max_request = 16u << 20;   // of one message, packed and unpacked
    size_t max_arriving = 32u << 20;  // of all that are not answered yet
    size_t connections = 512;
    size_t transport = 0;  // index in OtlpIngest::Options
  };

  // Serves when it returns. `env` has an I/O loop; it and `ingest` outlive the object.
  static Result<std::unique_ptr<OtlpGrpc>> Open(const Options& options, Env& env, OtlpIngest& ingest);
  ~OtlpGrpc();

  // As of ReceiverHttp.
  void Close(Duration timeout);
  bool AwaitClosed(Duration timeout) { return closed_->Await(timeout); }
  std::vector<Endpoint> addresses() const { return server_->addresses(); }

 private:
  class Method;
  OtlpGrpc(const Options& options, Env& env, OtlpIngest& ingest);

  std::vector<std::unique_ptr<Method>> methods_;
  std::vector<std::shared_ptr<SharedSocket>> sockets_;
  const std::shared_ptr<CloseEvent> closed_ = std::make_shared<CloseEvent>();
  std::unique_ptr<GrpcServer> server_;
};

}  // namespace gpulens
