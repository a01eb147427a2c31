// What a load run does. A plain value.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "net/message/address.h"
#include "net/tls.h"

namespace gpulens {

struct LoadPlan {
  HttpUrl url;          // where to post: ".../v1/chat/completions"
  std::string headers;  // whole lines, each ending "\r\n"
  std::shared_ptr<const TlsContext> tls;
  bool chat = true;  // messages; else a prompt
  bool stream = true;
  std::string model;

  uint64_t requests = 200;  // at most; 0: until `duration`
  Duration duration{};      // no request begins later; 0: until `requests`
  // Closed loop: so many requests are always in flight, each begins when one ends.
  // Open loop (rate > 0): requests a second fall due at random (Poisson), whatever the server does; at most
  // `concurrency` are in flight, and one that had to wait for that is timed from when it was due.
  uint32_t concurrency = 8;
  double rate = 0;
  uint64_t warmup = 0;  // so many requests at the start are in no figure

  uint32_t prompt_words = 128;  // about as many tokens
  uint32_t shared_words = 0;    // of these, the same in all prompts, at their beginning: a prefix cache helps
  uint32_t max_tokens = 128;
  bool ignore_eos = false;  // vLLM, SGLang: always max_tokens
  Duration timeout = std::chrono::seconds(120);
  uint64_t seed = 1;  // of the prompts and of the times they fall due
};

// The body of request `number`. Equal plans and numbers make equal bodies; different numbers different
// prompts.
std::string RequestBody(const LoadPlan& plan, uint64_t number);
// Seconds from one request to the next, of an open loop.
class ArrivalTimes {
 public:
  ArrivalTimes(double rate, uint64_t seed) noexcept : rate_(rate), state_(seed) {}
  Duration Next() noexcept;

 private:
  double rate_;
  uint64_t state_;
};

}  // namespace gpulens
