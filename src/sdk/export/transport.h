// The way of one request of OTLP to whoever takes it.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <gpulens/status.h>

#include "base/clock.h"

namespace gpulens::sdk {

// What became of a request. A plain value.
struct Delivered {
  Status status;
  Duration come_again{};  // as the other side wants; 0: it did not say
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
  // Where to, without passwords; for people.
  virtual std::string address() const = 0;
};

// What an answer of OTLP/HTTP means: bytes from outside, read with limits. `retry_after` is that field.
Delivered ValidateOtlpAnswer(int http_status, std::string_view body, std::string_view retry_after,
                             Instant now);
// The message of a success: whether all was taken.
Status ValidateOtlpSuccess(std::string_view answer);

}  // namespace gpulens::sdk
