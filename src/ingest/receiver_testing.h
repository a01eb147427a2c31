// For tests of receivers: sinks that block, are full, or take all.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "ingest/otlp_ingest.h"
#include "net/io_loop.h"
#include "plugins/receiver.h"

namespace gpulens::receiver_testing {

// Sinks as one: takes, refuses, or keeps its answers back.
class FakeSinks final : public OtlpForward {
 public:
  struct Taken {
    OtlpSignal signal;
    uint32_t items;
    std::string bytes;
  };

  bool has_sink() const override { return true; }
  size_t packing() const override { return 0; }
  void Forward(const ReceivedOtlp& received, Done done) override {
    std::unique_lock lock(mutex_);
    received_.push_back(
        std::make_shared<const Taken>(Taken{received.signal, received.items, std::string(received.bytes)}));
    changed_.notify_all();
    if (holding_) {
      held_.push_back(std::move(done));
      return;
    }
    const Status answer = answer_;
    lock.unlock();
    done(answer);
  }

  void Answer(Status status) {
    std::lock_guard lock(mutex_);
    answer_ = std::move(status);
  }
  void Hold() {
    std::lock_guard lock(mutex_);
    holding_ = true;
  }
  void LetGo() {
    std::deque<Done> held;
    {
      std::lock_guard lock(mutex_);
      holding_ = false;
      held.swap(held_);
    }
    for (const Done& done : held) done(Ok());
  }
  bool Await(size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return received_.size() >= count; });
  }
  std::vector<std::shared_ptr<const Taken>> received() const {
    std::lock_guard lock(mutex_);
    return received_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<const Taken>> received_;
  std::deque<Done> held_;
  Status answer_;
  bool holding_ = false;
};

// Fixture with an OtlpIngest in front of FakeSinks; a derived test adds the server of a receiver.
class IngestTest : public ::testing::Test {
 protected:
  explicit IngestTest(std::string_view transport) {
    loop_.Start();
    env_.io = &loop_;
    ingest_options_.transports = {transport};
    ingest_options_.timeout = std::chrono::milliseconds(50);
  }
  // Creates the OtlpIngest from the options.
  void OpenIngest() {
    const ReceiverContext context{.env = env_,
                                  .forward = sinks_,
                                  .stated = {},
                                  .host_name = "here",
                                  .memory_limit = 0,
                                  .describer = {}};
    ingest_ = std::make_unique<OtlpIngest>(ingest_options_, context);
  }
  // For the destructor: ends the server once all is answered, and before the OtlpIngest.
  void Close(const std::function<void()>& end_server) {
    sinks_.LetGo();
    if (ingest_) ingest_->Finish();
    end_server();
    ingest_ = nullptr;
    loop_.Stop();
  }

  IoLoop loop_;
  Env env_;
  OtlpIngest::Options ingest_options_;
  FakeSinks sinks_;
  std::unique_ptr<OtlpIngest> ingest_;
};

}  // namespace gpulens::receiver_testing
