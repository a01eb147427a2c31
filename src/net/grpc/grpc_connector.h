// From a target to a connected socket: looks its name up, tries its addresses in order. Internal to net/grpc.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ref.h"
#include "net/io_loop.h"
#include "net/message/address.h"
#include "net/stream.h"
#include "net/tls.h"

namespace gpulens {

// Used on the loop's thread. One attempt at a time. TLS is set up and not yet shaken hands.
class GrpcConnector final : public RefCounted<GrpcConnector>, private StreamHandler {
 public:
  // Once for each Start, never from inside, unless Cancel comes first. `tls`: it is TLS's fault.
  using Done = std::function<void(Result<Stream> stream, bool tls)>;

  GrpcConnector(IoLoop& loop, HttpUrl url, std::string unix_socket)
      : loop_(loop), url_(std::move(url)), unix_socket_(std::move(unix_socket)) {}

  // An address that swallows packets gets its share of `timeout`, so that the others have their turn.
  void Start(std::shared_ptr<const TlsContext> tls, Duration timeout, Done done);
  void Cancel();
  bool under_way() const noexcept { return done_ != nullptr; }

 private:
  void OnReadable() override {}
  void OnWritable() override;
  void Next();
  void Finish(Result<Stream> result, bool tls = false);

  IoLoop& loop_;
  const HttpUrl url_;
  const std::string unix_socket_;
  std::shared_ptr<const TlsContext> tls_;
  Duration timeout_{};
  Done done_;
  Stream stream_;
  std::vector<Endpoint> addresses_;
  size_t address_ = 0;
  uint64_t attempt_ = 0;
  IoLoop::TimerId next_ = 0;
  std::string last_error_;
};

}  // namespace gpulens
