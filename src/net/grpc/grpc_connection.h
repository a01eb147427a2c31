// The connection of one client of a GrpcServer. Internal to net/grpc; lives on the loop's thread.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "net/grpc/grpc_server.h"
#include "net/grpc/grpc_wire.h"
#include "net/http2/http2_transport.h"
#include "net/server/server.h"

namespace gpulens {

// State that the connections of one server share. A connection touches it only until its Close.
struct GrpcShared {
  IoLoop& loop;
  const std::vector<GrpcRoute> routes;
  Authenticator* authenticator;
  const std::function<void(std::function<void()>)> offload;
  const GrpcLimits limits;
  GrpcStats stats;
  ConnectionSet connections;  // last: its end closes them, and that uses the others
};

class GrpcConnection final : public Connection, private StreamHandler, private Http2Handler {
 public:
  GrpcConnection(GrpcShared& shared, Stream stream, const Endpoint& peer,
                 std::shared_ptr<const WebRules> rules);
  ~GrpcConnection() override;

  void Start();
  // Answers the call of a stream. Ignored when it is already answered or the client is gone.
  void Answer(int32_t stream, GrpcAnswer answer);
  // Sends one message of several, under the same conditions.
  void Push(int32_t stream, std::string_view message);
  bool gone() const noexcept { return gone_; }

  void OnDeadline(Phase phase) override;
  void Close() override;
  void FinishAndClose() override;

 private:
  struct Call;

  void OnReadable() override;
  void OnWritable() override;
  void OnFields(int32_t stream, const Http2Fields& fields, bool ended, bool too_large) override;
  void OnData(int32_t stream, std::string_view bytes) override;
  void OnEnd(int32_t stream) override;
  void OnClosed(int32_t stream, uint32_t error) override;
  void OnGoaway(uint32_t) override {}

  // Calls.
  Call* Incoming(int32_t stream);
  bool Admit(Call& call, bool too_large);
  void CheckAccess(Call& call);
  void OnAccess(int32_t stream, Access access);
  void Deny(Call& call, Access access);
  void ReadTimeout(Call& call);
  bool Charge(Call& call, size_t bytes);
  void Discharge(Call& call);
  void Proceed(Call& call);
  void Unpack(Call& call);
  void OnUnpacked(int32_t stream, bool good, std::string message);
  void HandOver(Call& call, std::string message);
  void Reply(Call& call, GrpcAnswer answer);
  void Fail(Call& call, GrpcCode code, std::string why);
  void RefuseHttp(Call& call, int status);
  void Forget(Call& call);
  // The connection.
  void Flush();
  void Settle();
  Phase PhaseNow() const;
  void ExpireOld();
  void Refused();
  void Linger();

  GrpcShared& shared_;
  Http2Transport transport_;
  const Endpoint peer_;
  std::shared_ptr<const WebRules> rules_;
  std::map<int32_t, std::unique_ptr<Call>> calls_;  // open calls by stream: in the order of arrival
  std::atomic<bool> gone_{false};
  bool busy_ = false;                                   // inside a callback that ends with Settle
  bool draining_ = false;                               // GOAWAY was sent
  bool lingering_ = false;                              // nothing more is sent
  uint64_t answered_ = 0;                               // calls whose response is sent
  uint64_t progress_ = 0, progress_answered_ = 0;       // bytes sent and answers when the phase began
  uint64_t reported_received_ = 0, reported_sent_ = 0;  // to the statistics
};

// A call, from its fields to the end of its stream.
struct GrpcConnection::Call {
  Call(int32_t number, size_t limit) : stream(number), reader(limit) {}

  const int32_t stream;
  GrpcMessageReader reader;
  Http2Fields fields;
  const GrpcRoute* route = nullptr;
  Access access = Access::kPending;
  bool gzip = false, ended = false, handed = false, answered = false;
  bool streams = false;  // the fields of its response are sent, and its body is open
  int64_t begun_ns = 0;
  std::optional<Duration> timeout;
  IoLoop::TimerId deadline = 0;
  size_t charged = 0;
  std::shared_ptr<std::atomic<bool>> gone = std::make_shared<std::atomic<bool>>(false);
};

int64_t GrpcNowNs();

}  // namespace gpulens
