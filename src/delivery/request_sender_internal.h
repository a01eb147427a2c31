// What a RequestSender has under way. Included by the files that make up RequestSender alone.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "delivery/request_sender.h"

namespace gpulens {

// Outlives the sender in the hands of logs.
struct RequestSender::Waker {
  std::mutex mutex;
  std::condition_variable changed;
  bool woken = false;

  void Wake() {
    {
      std::lock_guard lock(mutex);
      woken = true;
    }
    changed.notify_one();
  }
  void Wait(Duration longest) {
    std::unique_lock lock(mutex);
    changed.wait_for(lock, longest, [this] { return woken; });
    woken = false;
  }
};

struct RequestSender::Source {
  std::shared_ptr<LogReader> reader;
  Chain chain = kOwn;
  size_t open = 0;             // records under way
  std::shared_ptr<Open> held;  // one that waits for those before it
  std::vector<SendPart> held_parts;
  std::atomic<bool> leaving{false};
};

// A record whose requests are under way.
struct RequestSender::Open {
  std::shared_ptr<Source> source;
  uint64_t id = 0;
  uint32_t items = 0;
  bool once = false;
  size_t left = 0;  // requests
  uint32_t left_out = 0, untranslated = 0;
  bool taken = false, refused = false, dropped = false;
};

struct RequestSender::Item {
  std::shared_ptr<Open> open;
  SendPart part;
  unsigned tries = 0;
  bool anew = false;
};

// Requests that go one after the other.
struct RequestSender::Queue {
  struct Channel {
    std::unique_ptr<HttpChannel> http;  // one of the two
    std::unique_ptr<GrpcChannel> grpc;
  };
  std::deque<Item> items;
  bool busy = false;
  size_t endpoint = 0;            // of the request under way
  std::vector<Channel> channels;  // by endpoint and signal; made when they are needed
};

struct RequestSender::Endpoint {
  Backoff backoff;
  Instant until;       // not before
  bool waits = false;  // the last request was not taken
};

struct RequestSender::Answer {
  size_t queue = 0;
  uint64_t generation = 0;
  bool grpc = false;
  HttpReply http;
  GrpcReply call;
};

}  // namespace gpulens
