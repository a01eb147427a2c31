// OTLP/HTTP in the clear: over TCP, or over a Unix socket.
#pragma once

#include <string>

#include "net/blocking/blocking_post.h"
#include "sdk/export/transport.h"

namespace gpulens::sdk {

class PlainTransport : public Transport {
 public:
  // `headers`: whole lines, each ending "\r\n", besides Content-Type.
  PlainTransport(HttpUrl url, std::string headers);

  Delivered Send(std::shared_ptr<const std::string> request, Duration timeout) override;
  void Cut() noexcept override { post_.Cut(); }
  void LeaveBehind() noexcept override { post_.LeaveBehind(); }
  std::string address() const override { return url_.ToString(); }

 protected:
  Delivered SendTo(std::string unix_socket, const std::string& request, Duration timeout);

 private:
  const HttpUrl url_;
  const std::string headers_;
  BlockingPost post_;
};

}  // namespace gpulens::sdk
