// Sinks that come and go: what each receiver gets, and which folders are there, over reloads and restarts.
#include "pipeline/delivery/delivery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/testing/temp_folder.h"
#include "net/client/http_client.h"
#include "net/io_loop.h"
#include "net/testing/scripted_server.h"

namespace gpulens {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr auto kLongest = seconds(20);

// A receiver that keeps accepted bodies, and refuses on request.
class Taker {
 public:
  void Answer(int status) {
    std::lock_guard lock(mutex_);
    status_ = status;
  }
  std::vector<std::string> bodies() const {
    std::lock_guard lock(mutex_);
    return bodies_;
  }
  // All that came, once there are so many.
  std::vector<std::string> Wait(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kLongest, [&] { return bodies_.size() >= count; });
    return bodies_;
  }
  bool WaitForRefused(size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kLongest, [&] { return refused_ >= count; });
  }
  std::string url() const { return server_.Url("/"); }

 private:
  testing::ScriptedServer::Turn Take(const std::string& request) {
    std::lock_guard lock(mutex_);
    if (status_ == 200) bodies_.push_back(request.substr(request.find("\r\n\r\n") + 4));
    else ++refused_;
    changed_.notify_all();
    return {"HTTP/1.1 " + std::to_string(status_) + " X\r\nContent-Length: 0\r\n\r\n"};
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int status_ = 200;
  size_t refused_ = 0;
  std::vector<std::string> bodies_;
  testing::ScriptedServer server_{[this](int, int, const std::string& request) { return Take(request); }};
};

Result<SendPlan> MakePlan(const std::string& name, const Config& config) {
  SendPlan plan;
  plan.name = name;
  plan.signals = {"metrics"};
  plan.routes.resize(4);
  auto url = ParseHttpUrl(config.Text("url"));
  if (!url) return url.error();
  plan.urls = {{*url}};
  plan.validate = [](const HttpReply& reply, size_t) -> SendOutcome {
    if (reply.status == 200) return {};
    return {IsRetryable(reply.status) ? SendOutcome::kAgain : SendOutcome::kRefused, 0, reply.detail};
  };
  return plan;
}

constexpr NetworkSink kNetwork{.plan = &MakePlan,
                               .packing = [](const Config&) { return size_t{0}; },
                               .takes = [](const Config&) { return uint32_t{0b011}; }};
constexpr SinkSpec kSpec{
    .name = "test", .help = "", .several = true, .takes_received = true, .network = &kNetwork};

class DeliveryTest : public ::testing::Test {
 protected:
  struct Wish {
    std::string name;
    const Taker* taker = nullptr;
    std::string encoding = "1";  // sinks of the same share a log
    std::vector<std::string> sources = {"own"};
    std::string storage = "disk";
  };

  DeliveryTest() {
    loop_.Start();
    env_.state_dir = folder_.path();
    env_.io = &loop_;
    env_.http = &client_;
    Restart();
  }
  ~DeliveryTest() override { Kill(); }

  static Config ConfigOf(const Wish& wish) {
    Config queue, retry, tls, config, transport;
    queue.Set("storage", wish.storage, {});
    queue.Set("dir", std::string(), {});
    queue.Set("max_bytes", int64_t{8 << 20}, {});
    queue.Set("max_age", Duration(0), {});
    queue.Set("fsync", std::string("none"), {});
    retry.Set("initial", Duration(milliseconds(5)), {});
    retry.Set("max", Duration(milliseconds(20)), {});
    retry.Set("statuses", std::vector<std::string>(), {});
    for (const char* key : {"ca_file", "cert_file", "key_file", "server_name"})
      tls.Set(key, std::string(), {});
    tls.Set("insecure_skip_verify", false, {});
    config.Set("url", wish.taker->url(), {});
    config.Set("encoding", wish.encoding, {});
    config.Set("sources", wish.sources, {});
    config.Set("endpoints", std::vector<std::string>(), {});
    config.Set("balance", std::string("failover"), {});
    config.Set("in_flight", int64_t{1}, {});
    config.Set("queue", queue, {});
    config.Set("retry", retry, {});
    for (const char* key :
         {"unix_socket", "username", "password", "password_file", "bearer_token", "bearer_token_file"})
      transport.Set(key, std::string(), {});
    transport.Set("timeout", Duration(seconds(5)), {});
    transport.Set("headers", std::map<std::string, std::string>(), {});
    transport.Set("tls", tls, {});
    config.Set("transport", transport, {});
    return config;
  }

  // As the pipeline does it: sinks of one encoding share the log of the first of them.
  void Run(const std::vector<Wish>& wishes, bool receivers = false) {
    Delivery::Plan plan;
    std::map<std::string, std::unique_ptr<LogWriter>> writers;
    for (const Wish& wish : wishes) {
      const Config config = ConfigOf(wish);
      const Status added = delivery_->Add({wish.name, &kSpec, config}, plan);
      ASSERT_TRUE(added.ok()) << added.detail;
      if (!Delivery::SendsOwn(config)) continue;
      std::unique_ptr<LogWriter>& writer = writers[wish.encoding];
      if (!writer) {
        std::vector<std::string> members;
        for (const Wish& other : wishes)
          if (other.encoding == wish.encoding) members.push_back(other.name);
        writer = std::make_unique<LogWriter>(
            delivery_->LogOf(wish.name, members, LogOptionsOf(config, delivery_->DefaultFolder(wish.name))));
      }
      plan.destinations.back().own = writer->log();
    }
    delivery_->PlanReceived(receivers, plan);
    writers_ = std::move(writers);
    delivery_->Apply(std::move(plan), RealClock().Now() + milliseconds(50));
  }
  void Write(const std::string& body, const std::string& encoding = "1") {
    const Status written = writers_[encoding]->Append(0, body, 1, ++key_);
    ASSERT_TRUE(written.ok()) << written.detail;
  }
  // The process ends, and another begins. What is under way is cut off.
  void Kill() {
    writers_.clear();
    if (delivery_) delivery_->Finish(RealClock().Now());
    delivery_.reset();
  }
  void Restart() {
    Kill();
    delivery_ = std::make_unique<Delivery>(env_);
  }
  DeliveryStats StatsOf(const std::string& sink) {
    DeliveryStats stats;
    EXPECT_TRUE(delivery_->ReadStats(sink, stats));
    return stats;
  }
  bool UntilEmpty(const std::string& sink) {
    return Until([&] { return StatsOf(sink).queued_records == 0; });
  }
  static bool Until(const std::function<bool()>& holds) {
    const Instant end = RealClock().Now() + kLongest;
    while (!holds()) {
      if (end - RealClock().Now() <= Duration::zero()) return false;
      ::poll(nullptr, 0, 2);
    }
    return true;
  }
  // Names in the queue folder once they are so; a log is let go of by the sender's thread.
  std::vector<std::string> Folders(const std::vector<std::string>& expected) {
    std::vector<std::string> found;
    Until([&] {
      delivery_->Tidy();
      found.clear();
      for (const auto& entry : fs::directory_iterator(folder_.path() + "/queue"))
        found.push_back(entry.path().filename().string());
      std::ranges::sort(found);
      return found == expected;
    });
    return found;
  }
  std::string Queue(const std::string& name) const { return folder_.path() + "/queue/" + name; }
  // What became of it, once it is known.
  struct Reported {
    std::mutex mutex;
    std::vector<Code> codes;
    std::vector<Code> all() {
      std::lock_guard lock(mutex);
      return codes;
    }
  };
  void Receive(const std::string& bytes, Reported& reported, OtlpSignal signal = OtlpSignal::kMetrics,
               RecordSource source = RecordSource::kOtlp) {
    delivery_->Forward({signal, 1, source, 0, bytes}, [&reported](const Status& status) {
      std::lock_guard lock(reported.mutex);
      reported.codes.push_back(status.code);
    });
  }

  testing::TempFolder folder_;
  IoLoop loop_;
  HttpClient client_{loop_};
  Env env_;
  Taker a_, b_, c_;
  std::unique_ptr<Delivery> delivery_;
  std::map<std::string, std::unique_ptr<LogWriter>> writers_;  // by encoding
  uint32_t key_ = 0;
};

TEST_F(DeliveryTest, SinksOfOneEncoderShareALogAndDoNotWaitForEachOther) {
  b_.Answer(503);
  Run({{"test", &a_}, {"test/b", &b_}, {"test/c", &c_, "2"}});
  for (const char* body : {"1", "2", "3"}) Write(body);
  Write("other", "2");
  EXPECT_THAT(a_.Wait(3), ElementsAre("1", "2", "3"));
  EXPECT_THAT(c_.Wait(1), ElementsAre("other"));
  EXPECT_THAT(Folders({"test", "test.c"}), ElementsAre("test", "test.c"));
  EXPECT_TRUE(UntilEmpty("test"));
  EXPECT_TRUE(b_.WaitForRefused(2));
  const DeliveryStats waiting = StatsOf("test/b");
  EXPECT_EQ(waiting.queued_records, 3u);
  EXPECT_FALSE(waiting.up);
  EXPECT_TRUE(waiting.on_disk);
  EXPECT_THAT(b_.bodies(), IsEmpty());
  b_.Answer(200);
  EXPECT_THAT(b_.Wait(3), ElementsAre("1", "2", "3"));
  EXPECT_TRUE(UntilEmpty("test/b"));
}

TEST_F(DeliveryTest, AGroupThatLosesASinkGoesOnInAnotherFolder) {
  a_.Answer(503), b_.Answer(503);
  Run({{"test", &a_}, {"test/b", &b_}});
  Write("1"), Write("2");
  Run({{"test", &a_}});
  EXPECT_EQ(writers_["1"]->log()->options().folder, Queue("test+1"));
  Write("3");
  EXPECT_EQ(StatsOf("test").queued_records, 3u);
  DeliveryStats none;
  EXPECT_FALSE(delivery_->ReadStats("test/b", none));
  a_.Answer(200);
  EXPECT_THAT(a_.Wait(3), ElementsAre("1", "2", "3")) << "what was before comes first";
  // It stays for the one that left.
  EXPECT_THAT(Folders({"test", "test+1"}), ElementsAre("test", "test+1"));
  EXPECT_TRUE(RequestLog::HasReader(Queue("test"), "test/b", "test"));
  EXPECT_TRUE(Until([&] { return !RequestLog::HasReader(Queue("test"), "test", "test"); }));
  // And comes when that is there again, and nothing that was written while it was away.
  Run({{"test", &a_}, {"test/b", &b_}});
  Write("4");
  b_.Answer(200);
  EXPECT_THAT(b_.Wait(3), ElementsAre("1", "2", "4"));
  EXPECT_THAT(a_.Wait(4), ElementsAre("1", "2", "3", "4"));
  EXPECT_THAT(Folders({"test+1"}), ElementsAre("test+1"));
  EXPECT_TRUE(UntilEmpty("test/b")) << "a record leaves the queue after its receiver has it";
}

// However often: what nothing waits in goes away, and no record comes to another than those it is for.
TEST_F(DeliveryTest, SinksThatComeAndGoLeaveNothingBehind) {
  std::vector<std::string> for_a, for_b;
  for (int round = 0; round < 6; ++round) {
    Run({{"test", &a_}, {"test/b", &b_}});
    Write("both" + std::to_string(round));
    for_a.push_back("both" + std::to_string(round)), for_b.push_back(for_a.back());
    Run({{"test", &a_}});
    Write("one" + std::to_string(round));
    for_a.push_back("one" + std::to_string(round));
  }
  Run({{"test", &a_}, {"test/b", &b_}});
  EXPECT_EQ(a_.Wait(for_a.size()), for_a);
  // What was on its way when the sink left is sent again.
  std::vector<std::string> came;
  EXPECT_TRUE(Until([&] {
    came = b_.Wait(0);
    came.erase(std::unique(came.begin(), came.end()), came.end());
    return came == for_b;
  })) << ::testing::PrintToString(came);
  EXPECT_TRUE(Until([&] {
    delivery_->Tidy();
    return std::distance(fs::directory_iterator(Queue("")), fs::directory_iterator()) == 1;
  }));
}

TEST_F(DeliveryTest, ASinkThatGoesForGoodHoldsNoFolderWhenNothingWaitsForIt) {
  Run({{"test", &a_}, {"test/b", &b_}});
  Write("1");
  EXPECT_THAT(b_.Wait(1), ElementsAre("1"));
  EXPECT_TRUE(UntilEmpty("test/b"));
  Run({{"test", &a_}});
  Write("2");
  EXPECT_THAT(a_.Wait(2), ElementsAre("1", "2"));
  EXPECT_THAT(Folders({"test+1"}), ElementsAre("test+1"));
}

TEST_F(DeliveryTest, ARestartGoesOnInOrder) {
  a_.Answer(503), b_.Answer(503);
  Run({{"test", &a_}, {"test/b", &b_}});
  Write("1");
  Run({{"test", &a_}});
  Write("2");
  Restart();
  Run({{"test", &a_}});
  Write("3");
  a_.Answer(200);
  EXPECT_THAT(a_.Wait(3), ElementsAre("1", "2", "3"));
  EXPECT_TRUE(UntilEmpty("test"));
  Restart();
  Run({{"test", &a_}, {"test/b", &b_}});
  Write("4");
  b_.Answer(200);
  EXPECT_THAT(b_.Wait(2), ElementsAre("1", "4"));
  EXPECT_THAT(a_.Wait(4), ElementsAre("1", "2", "3", "4"));
}

TEST_F(DeliveryTest, ARenamedSinkIsANewOneAndTheOldOnesRecordsStay) {
  a_.Answer(503);
  Run({{"test/old", &a_}});
  Write("1");
  Run({{"test/new", &a_}});
  Write("2");
  a_.Answer(200);
  EXPECT_THAT(a_.Wait(1), ElementsAre("2"));
  EXPECT_TRUE(UntilEmpty("test/new"));
  EXPECT_THAT(Folders({"test.new", "test.old"}), ElementsAre("test.new", "test.old"));
  Run({{"test/old", &a_}});
  // A request of the first sender that was under way at its end may be answered only now, and then it comes
  // again.
  EXPECT_THAT(a_.Wait(2), AnyOf(ElementsAre("2", "1"), ElementsAre("2", "1", "1")));
}

TEST_F(DeliveryTest, TheSameNameWithAnotherEncoderKeepsTheOrder) {
  a_.Answer(503);
  Run({{"test", &a_, "1"}});
  Write("1");
  Run({{"test", &a_, "2"}});
  Write("2", "2");
  a_.Answer(200);
  EXPECT_THAT(a_.Wait(2), ElementsAre("1", "2"));
  EXPECT_TRUE(UntilEmpty("test"));
  // One of two that shared a log is encoded in another way from now on.
  a_.Answer(503), b_.Answer(503);
  Run({{"test", &a_, "2"}, {"test/b", &b_, "2"}});
  Write("3", "2");
  Run({{"test", &a_, "2"}, {"test/b", &b_, "3"}});
  Write("4", "2"), Write("5", "3");
  a_.Answer(200), b_.Answer(200);
  EXPECT_THAT(a_.Wait(4), ElementsAre("1", "2", "3", "4"));
  EXPECT_THAT(b_.Wait(2), ElementsAre("3", "5"));
  EXPECT_TRUE(UntilEmpty("test"));
  EXPECT_TRUE(UntilEmpty("test/b"));
}

TEST_F(DeliveryTest, AReloadThatChangesNothingChangesNoLog) {
  for (const char* storage : {"disk", "memory"}) {
    a_.Answer(503);
    const size_t before = a_.bodies().size();
    Run({{"test", &a_, "1", {"own"}, storage}});
    const auto log = writers_["1"]->log();
    EXPECT_EQ(log->options().folder.empty(), std::string(storage) == "memory");
    Write("1"), Write("2");
    for (int i = 0; i < 3; ++i) Run({{"test", &a_, "1", {"own"}, storage}});
    EXPECT_EQ(writers_["1"]->log(), log);
    Write("3");
    EXPECT_EQ(StatsOf("test").on_disk, std::string(storage) == "disk");
    a_.Answer(200);
    EXPECT_EQ(a_.Wait(before + 3).size(), before + 3) << storage;
    EXPECT_TRUE(UntilEmpty("test"));
  }
  EXPECT_THAT(a_.bodies(), ElementsAre("1", "2", "3", "1", "2", "3"));
}

// From memory to disk and back: what waits in the one before is sent first.
TEST_F(DeliveryTest, AnotherStorageLosesNothing) {
  a_.Answer(503);
  int number = 0;
  for (const char* storage : {"memory", "disk", "memory"}) {
    Run({{"test", &a_, "1", {"own"}, storage}});
    Write(std::to_string(++number)), Write(std::to_string(++number));
  }
  EXPECT_EQ(StatsOf("test").queued_records, 6u);
  a_.Answer(200);
  EXPECT_THAT(a_.Wait(6), ElementsAre("1", "2", "3", "4", "5", "6"));
  EXPECT_TRUE(UntilEmpty("test"));
  EXPECT_EQ(a_.bodies().size(), 6u);
}

TEST_F(DeliveryTest, ReceivedDataGoesToThoseThatSendIt) {
  b_.Answer(503);
  Run({{"test", &a_, "1", {"own", "otlp"}},
       {"test/b", &b_, "1", {"otlp", "remote_write"}},
       {"test/c", &c_, "1"}},
      true);
  EXPECT_TRUE(delivery_->has_sink());
  Reported reported;
  Receive("x", reported);
  EXPECT_THAT(reported.all(), ElementsAre(Code::kOk)) << "it is on disk";
  Receive("y", reported, OtlpSignal::kLogs, RecordSource::kRemoteWrite);
  Receive("z", reported, OtlpSignal::kTraces);
  EXPECT_THAT(reported.all(), ElementsAre(Code::kOk, Code::kOk, Code::kInvalidArgument))
      << "no sink sends traces";
  Write("own");
  EXPECT_THAT(a_.Wait(2), UnorderedElementsAre("x", "own"));
  EXPECT_THAT(c_.Wait(1), ElementsAre("own"));
  EXPECT_TRUE(UntilEmpty("test"));
  EXPECT_EQ(StatsOf("test").left_out, 1u) << "of another receiver";
  EXPECT_EQ(StatsOf("test/b").queued_records, 2u);
  EXPECT_EQ(StatsOf("test/b").queue_limit, 8u << 20);
  // Over a restart and without the one that had it.
  Restart();
  Run({{"test/b", &b_, "1", {"otlp", "remote_write"}}}, true);
  Receive("w", reported);
  b_.Answer(200);
  EXPECT_THAT(b_.Wait(3), ElementsAre("x", "y", "w"));
  EXPECT_EQ(a_.bodies().size(), 2u);
}

// Each reload changes the group of sinks, and with it the log of received data.
TEST_F(DeliveryTest, WhatIsAcceptedDuringReloadsGoesToAllSinks) {
  const std::vector<std::string> sources = {"otlp"};
  const std::vector<Wish> two = {{"test", &a_, "1", sources}, {"test/b", &b_, "1", sources}};
  std::vector<Wish> three = two;
  three.push_back({"test/c", &c_, "1", sources});
  Run(two, true);
  std::atomic<bool> ended{false};
  std::vector<std::vector<std::string>> accepted(4);
  std::vector<std::thread> senders;
  for (size_t i = 0; i < accepted.size(); ++i) {
    senders.emplace_back([&, i] {
      for (int number = 0; !ended; ++number) {
        Reported reported;
        std::string body = std::to_string(i) + "-" + std::to_string(number);
        Receive(body, reported);
        if (reported.all() == std::vector<Code>{Code::kOk}) accepted[i].push_back(std::move(body));
        ::poll(nullptr, 0, 1);
      }
    });
  }
  for (int reload = 0; reload < 60; ++reload) {
    Run(reload % 2 == 0 ? three : two, true);
    for (int tick = 0; tick < 5; ++tick) delivery_->Tidy(), ::poll(nullptr, 0, 1);
  }
  ended = true;
  for (std::thread& sender : senders) sender.join();
  std::set<std::string> all;
  for (const auto& list : accepted) all.insert(list.begin(), list.end());
  ASSERT_GT(all.size(), 100u);
  for (Taker* taker : {&a_, &b_}) {
    const auto missing = [&] {
      const std::vector<std::string> bodies = taker->bodies();
      const std::set<std::string> taken(bodies.begin(), bodies.end());
      return std::ranges::count_if(all, [&](const std::string& body) { return !taken.contains(body); });
    };
    EXPECT_TRUE(Until([&] { return missing() == 0; })) << missing() << " of " << all.size();
  }
}

TEST_F(DeliveryTest, WithoutADiskReceivedDataIsAnsweredWhenItIsDelivered) {
  Run({{"test", &a_, "1", {"otlp"}, "memory"}}, true);
  Reported reported;
  Receive("x", reported);
  EXPECT_THAT(a_.Wait(1), ElementsAre("x"));
  EXPECT_TRUE(Until([&] { return !reported.all().empty(); }));
  a_.Answer(503);
  Receive("y", reported);
  EXPECT_TRUE(Until([&] { return reported.all().size() == 2; }));
  EXPECT_THAT(reported.all(), ElementsAre(Code::kOk, Code::kExhausted)) << "its sender still has it";
  EXPECT_TRUE(UntilEmpty("test"));
  a_.Answer(200);
  EXPECT_THAT(a_.bodies(), ElementsAre("x")) << "and it is not sent later";
}

// A file is where the folder should be.
TEST_F(DeliveryTest, AFolderThatCannotBeUsedStopsNothing) {
  fs::create_directories(Queue(""));
  for (const char* name : {"test", "received"}) folder_.Write(std::string("queue/") + name, "");
  Run({{"test", &a_, "1", {"own", "otlp"}}}, true);
  EXPECT_TRUE(StatsOf("test").unusable);
  Write("1");
  Reported reported;
  Receive("x", reported);
  EXPECT_THAT(a_.Wait(2), UnorderedElementsAre("1", "x"));
  EXPECT_TRUE(Until([&] { return !reported.all().empty(); }));
  EXPECT_THAT(reported.all(), ElementsAre(Code::kOk));
}

TEST_F(DeliveryTest, WithoutReceiversOrSinksPlansNoLog) {
  Reported reported;
  Run({{"test", &a_, "1", {"own", "otlp"}}});
  EXPECT_FALSE(delivery_->has_sink());
  Receive("x", reported);
  Run({{"test", &a_, "1", {"own"}}}, true);
  EXPECT_FALSE(delivery_->has_sink());
  Receive("x", reported);
  EXPECT_THAT(reported.all(), ElementsAre(Code::kUnavailable, Code::kUnavailable));
}

TEST_F(DeliveryTest, TheEndReportsWhatIsLeft) {
  b_.Answer(503), c_.Answer(400);
  Run({{"test", &a_}, {"test/b", &b_}, {"test/c", &c_}});
  Write("1");
  EXPECT_TRUE(b_.WaitForRefused(1));
  EXPECT_TRUE(c_.WaitForRefused(1));
  EXPECT_THAT(a_.Wait(1), ElementsAre("1"));
  EXPECT_TRUE(UntilEmpty("test"));
  EXPECT_TRUE(UntilEmpty("test/c"));
  const DeliveryStats refused = StatsOf("test/c");
  EXPECT_EQ(refused.dropped.back(), (std::pair<std::string_view, uint64_t>("refused", 1)));
  EXPECT_EQ(StatsOf("test").signals[0].delivered, 1u);
  writers_.clear();
  auto ends = delivery_->Finish(RealClock().Now() + milliseconds(100));
  EXPECT_TRUE(ends["test"].ok()) << ends["test"].detail;
  EXPECT_EQ(ends["test/b"].code, Code::kTimeout);
  EXPECT_THAT(ends["test/b"].detail, HasSubstr("1 points or records were not delivered in time"));
  EXPECT_EQ(ends["test/c"].code, Code::kDataLoss);
}

}  // namespace
}  // namespace gpulens
