// Transport of one OTLP request.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <gpulens/status.h>

#include "base/clock.h"
#include "net/blocking/blocking_post.h"

namespace gpulens::sdk {

// Outcome of a request. A plain value.
struct Delivered {
  Status status;
  Duration come_again{};  // requested by the receiver; 0: none
};

class Transport {
 public:
  virtual ~Transport() = default;
  // Waits for the answer. One thread at a time.
  virtual Delivered Send(std::shared_ptr<const std::string> request, Duration timeout) = 0;
  // Any thread: ends a Send that waits, and each later one.
  virtual void Cut() noexcept = 0;
  // In the child after a fork: closes what descriptors it has. Nothing is called afterwards.
  virtual void LeaveBehind() noexcept = 0;
  // Address of the receiver, without passwords.
  virtual std::string address() const = 0;
};

// Result of an OTLP/HTTP answer: untrusted bytes, read with limits. `retry_after` is that header field.
Delivered ValidateOtlpAnswer(int http_status, std::string_view body, std::string_view retry_after,
                             Instant now);
// The message of a success: whether all was taken.
Status ValidateOtlpSuccess(std::string_view answer);

// OTLP/HTTP in the clear: over TCP, or over a Unix socket.
class PlainTransport : public Transport {
 public:
  // `headers`: whole lines without Content-Type, each ending in "\r
  // ".
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
