#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <future>
#include <thread>

#include "base/testing/temp_folder.h"
#include "sdk/energy/engine.h"
#include "sdk/energy/fake_source_for_test.h"
#include "sdk/energy/feed/feed_server.h"
#include "sdk/energy/feed/feed_wire.h"
#include "sdk/energy/sources/system_sources.h"

namespace gpulens::sdk {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

// ---- messages

TEST(FeedWire, RoundTrips) {
  const auto request = DecodeFeedRequest(EncodeFeedRequest({FeedRequest::Kind::kRead, 7}));
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->kind, FeedRequest::Kind::kRead);
  EXPECT_EQ(request->device, 7u);

  FeedDevice gpu;
  gpu.device = {.id = "GPU-1", .name = "H100", .most_watts = 1050, .counter_lag = Duration(-1)};
  gpu.vendor = EnergyVendor::kNvidia;
  const auto devices = DecodeFeedDevices(EncodeFeedDevices(std::vector<FeedDevice>{gpu, gpu}));
  ASSERT_TRUE(devices.ok());
  ASSERT_EQ(devices->size(), 2u);
  const EnergyDevice& one = (*devices)[1].device;
  EXPECT_EQ(one.id, "GPU-1");
  EXPECT_EQ(one.name, "H100");
  EXPECT_EQ(one.most_watts, 1050);
  EXPECT_EQ(one.counter_lag, Duration(-1));
  EXPECT_TRUE(std::isnan(one.accuracy_ratio));
  EXPECT_EQ((*devices)[1].vendor, EnergyVendor::kNvidia);

  FeedReading reported{.reading = {}, .began_ns = 5, .ended_ns = 6, .now_ns = 9};
  reported.reading.joules = 12.5;
  const auto reading = DecodeFeedReading(EncodeFeedReading(reported));
  ASSERT_TRUE(reading.ok());
  EXPECT_EQ(reading->reading.joules, 12.5);
  EXPECT_TRUE(std::isnan(reading->reading.watts));
  EXPECT_EQ(reading->now_ns, 9);

  const auto failure = DecodeFeedReading(EncodeFeedFailure({Code::kIo, "GPU is lost"}));
  EXPECT_EQ(failure.status().code, Code::kIo);
  EXPECT_EQ(failure.status().detail, "GPU is lost");
}

TEST(FeedWire, RejectsOtherBytes) {
  const std::string request = EncodeFeedRequest({}), list = EncodeFeedDevices({}),
                    reading = EncodeFeedReading({.reading = {}, .began_ns = 1, .ended_ns = 1, .now_ns = 1});
  for (const std::string& bad :
       {std::string(), std::string("x"), request + "x", reading, std::string(500, '\0')})
    EXPECT_FALSE(DecodeFeedRequest(bad).ok());
  for (const std::string& bad :
       {std::string(), reading, list + "x", list.substr(1), std::string(500, '\xff')})
    EXPECT_EQ(DecodeFeedDevices(bad).status().code, Code::kDataLoss);
  for (const std::string& bad : {std::string(), list, reading + "x", reading.substr(0, 40)})
    EXPECT_EQ(DecodeFeedReading(bad).status().code, Code::kDataLoss);
  // A reading of the future, one that ended before it began, and one of a clock that never ran.
  for (const FeedReading& odd : {FeedReading{{}, 1, 3, 2}, FeedReading{{}, 3, 2, 4}, FeedReading{}})
    EXPECT_EQ(DecodeFeedReading(EncodeFeedReading(odd)).status().code, Code::kDataLoss);
}

TEST(FeedWire, RoundTripsProcessesWithoutTheirIds) {
  const EnergyProcesses reported{
      .list = {{.pid = 7, .own = true, .utilization_ratio = 0.5, .memory_used_bytes = 12},
               {.pid = 8, .own = false}}};
  const std::string bytes = EncodeFeedProcesses(reported);
  const auto back = DecodeFeedProcesses(bytes);
  ASSERT_TRUE(back.ok());
  ASSERT_EQ(back->list.size(), 2u);
  EXPECT_TRUE(back->list[0].own);
  EXPECT_EQ(back->list[0].pid, 0u);
  EXPECT_EQ(back->list[0].utilization_ratio, 0.5);
  EXPECT_TRUE(std::isnan(back->list[1].memory_used_bytes));
  for (const std::string& bad : {std::string(), bytes + "x", bytes.substr(0, 30), EncodeFeedDevices({})})
    EXPECT_EQ(DecodeFeedProcesses(bad).status().code, Code::kDataLoss);
  std::string list = EncodeFeedDevices({});
  EXPECT_TRUE(FeedReportsProcesses(list));
  list[12] = 0;  // as the first version answered
  EXPECT_FALSE(FeedReportsProcesses(list));
  EXPECT_TRUE(DecodeFeedDevices(list).ok());
}

// ---- a reader and its clients

UniqueFd Listen(const std::string& path) {
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  path.copy(at.sun_path, sizeof at.sun_path - 1);
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  EXPECT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
  EXPECT_EQ(::listen(socket.get(), 64), 0);
  return socket;
}

// The monotonic clock of another machine's boot.
class Shifted final : public Clock {
 public:
  explicit Shifted(int64_t by_ns) : by_ns_(by_ns) {}
  Instant Now() const noexcept override {
    const int64_t ns = SteadyClock().Now().boot_ns + by_ns_;
    return {ns, ns};
  }

 private:
  const int64_t by_ns_;
};

// The agent's reader in a thread, with a board of 300 W.
class Reader {
 public:
  Reader(const std::string& path, FeedServer::Options options = {}, const Clock& clock = SteadyClock())
      : source(std::make_shared<FakeSource>(clock, EnergyVendor::kNvidia)), stop_(::eventfd(0, EFD_CLOEXEC)) {
    for (const char* id : {"GPU-0", "GPU-1"}) {
      EnergyDevice device{.id = id, .name = "Fake", .most_watts = 450, .counter_lag = Duration(0)};
      source->Add(std::move(device), [base = clock.Now().boot_ns](int64_t ns) {
        EnergyReading reading;
        reading.joules = 1'000 + 300 * SecondsOf(ns - base);
        reading.watts = 300;
        return reading;
      });
    }
    options.longest_call_seconds = 0;
    thread_ = std::thread([this, &clock, options, socket = Listen(path)]() mutable {
      FeedServer(std::move(socket), {source}, clock, options).Run(stop_.get());
      ended.set_value();
    });
  }
  ~Reader() {
    ::eventfd_write(stop_.get(), 1);
    thread_.join();
  }

  const std::shared_ptr<FakeSource> source;
  std::promise<void> ended;

 private:
  UniqueFd stop_;
  std::thread thread_;
};

class FeedTest : public ::testing::Test {
 protected:
  void SetUp() override { ::unsetenv("CUDA_VISIBLE_DEVICES"); }
  AgentEnergy::Options At() const { return {.socket = path_}; }
  const testing::TempFolder folder_;
  const std::string path_ = folder_.path() + "/energy.sock";
};

// Both boards, over 0.3 s of real time.
void ExpectTrueJoules(EnergyMonitor& monitor, const char* what) {
  EnergyWindow window = monitor.Window();
  const auto until = std::chrono::steady_clock::now() + milliseconds(300);
  while (std::chrono::steady_clock::now() < until) ::poll(nullptr, 0, 10);
  const EnergyResult result = window.result(seconds(5));
  ASSERT_TRUE(result.valid()) << what << ": " << result.reason;
  const double truth = 600 * SecondsOf(result.duration.count());
  EXPECT_NEAR(result.energy_joules, truth, result.uncertainty_joules + 0.01) << what;
  EXPECT_EQ(result.method, EnergyMethod::kCounter);
  EXPECT_EQ(result.devices, 2u);
}

TEST_F(FeedTest, WindowHasTheJoulesOfTheCounter) {
  const Reader reader(path_);
  EnergyMonitor monitor({.sources = {std::make_shared<AgentEnergy>(At(), SteadyClock())}});
  ASSERT_TRUE(monitor.status().ok()) << monitor.status().detail;
  EXPECT_EQ(monitor.vendor(), EnergyVendor::kNvidia);
  ExpectTrueJoules(monitor, "one clock");
}

TEST_F(FeedTest, AnotherClockWidensTheUncertainty) {
  const Shifted hour(3'600'000'000'000);
  const Reader reader(path_, {}, hour);
  EnergyMonitor monitor({.sources = {std::make_shared<AgentEnergy>(At(), SteadyClock())}});
  ASSERT_TRUE(monitor.status().ok()) << monitor.status().detail;
  ExpectTrueJoules(monitor, "an hour apart");
}

TEST_F(FeedTest, ReadingsHaveTheirTimes) {
  const Reader reader(path_);
  AgentEnergy first(At(), SteadyClock()), second(At(), SteadyClock());
  ASSERT_TRUE(first.Open().ok() && second.Open().ok());
  EnergyReading a, b;
  const int64_t before_ns = SteadyClock().Now().boot_ns;
  ASSERT_TRUE(first.Read(0, a).ok());
  ASSERT_TRUE(second.Read(0, b).ok());
  EXPECT_GE(a.began.time_since_epoch().count(), before_ns);
  EXPECT_LE(a.began, a.ended);
  EXPECT_LE(b.ended.time_since_epoch().count(), SteadyClock().Now().boot_ns);
  // Two requests at once share a reading with its time.
  if (b.ended == a.ended) {
    EXPECT_EQ(a.joules, b.joules);
  }
}

TEST_F(FeedTest, NamesAMissingAgentAndUsesANewOne) {
  auto reader = std::make_unique<Reader>(path_);
  EnergyMonitor monitor({.sources = {std::make_shared<AgentEnergy>(At(), SteadyClock())}});
  ExpectTrueJoules(monitor, "before");
  reader.reset();
  ::unlink(path_.c_str());
  EnergyWindow alone = monitor.Window();
  const auto until = std::chrono::steady_clock::now() + seconds(20);
  while (alone.Estimate().validity != EnergyValidity::kSourceFailed &&
         std::chrono::steady_clock::now() < until)
    ::poll(nullptr, 0, 20);
  const EnergyResult lost = alone.result();
  EXPECT_EQ(lost.validity, EnergyValidity::kSourceFailed) << lost.reason;
  EXPECT_THAT(lost.reason, HasSubstr("agent"));
  EXPECT_TRUE(std::isnan(lost.energy_joules));

  reader = std::make_unique<Reader>(path_);
  bool back = false;
  while (!back && std::chrono::steady_clock::now() < until + seconds(20)) {
    EnergyWindow window = monitor.Window();
    ::poll(nullptr, 0, 20);
    back = window.result().valid();
  }
  ASSERT_TRUE(back);
  ExpectTrueJoules(monitor, "after");
}

TEST_F(FeedTest, ReportsAMissingAgent) {
  AgentEnergy alone(At(), SteadyClock());
  const auto devices = alone.Open();
  EXPECT_EQ(devices.status().code, Code::kUnavailable);
  EXPECT_EQ(devices.status().detail, "no agent at " + path_);
}

TEST_F(FeedTest, ReportsFailuresUnchanged) {
  const Reader reader(path_);
  AgentEnergy querying(At(), SteadyClock());
  ASSERT_TRUE(querying.Open().ok());
  EnergyReading out;
  EXPECT_TRUE(querying.Read(1, out).ok());
  AgentEnergy::Options amd = At();
  amd.vendor = EnergyVendor::kAmd;
  EXPECT_EQ(AgentEnergy(amd, SteadyClock()).Open().status().code, Code::kUnavailable);
}

TEST_F(FeedTest, EndsWithoutRequestsAndWithoutDevices) {
  {
    Reader idle(path_, {.idle = milliseconds(1)});
    EXPECT_EQ(idle.ended.get_future().wait_for(seconds(20)), std::future_status::ready);
  }
  ::unlink(path_.c_str());
  std::atomic<bool> lost{false};
  Reader reader(path_, {.lost = milliseconds(1)});
  reader.source->before_read = [&] {
    if (lost) throw std::runtime_error("the driver is gone");
  };
  AgentEnergy querying(At(), SteadyClock());
  ASSERT_TRUE(querying.Open().ok());
  lost = true;
  auto ended = reader.ended.get_future();
  std::string stated;
  while (ended.wait_for(milliseconds(5)) != std::future_status::ready) {
    EnergyReading out;
    for (size_t i = 0; i < 2; ++i) {
      if (Status status = querying.Read(i, out); !status.ok() && stated.empty()) stated = status.detail;
    }
  }
  EXPECT_EQ(stated, "it threw: the driver is gone");
}

TEST_F(FeedTest, LimitsClients) {
  const Reader reader(path_, {.clients = 2});
  AgentEnergy::Options hasty = At();
  hasty.first_answer = milliseconds(300);
  AgentEnergy one(At(), SteadyClock()), two(At(), SteadyClock());
  ASSERT_TRUE(one.Open().ok() && two.Open().ok());
  EXPECT_EQ(AgentEnergy(hasty, SteadyClock()).Open().status().code, Code::kTimeout);
  EnergyReading out;
  EXPECT_TRUE(one.Read(0, out).ok()) << "who is in is served";
}

TEST_F(FeedTest, InvalidRequestEndsTheConnection) {
  const Reader reader(path_);
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  path_.copy(at.sun_path, sizeof at.sun_path - 1);
  const UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
  ASSERT_EQ(::send(socket.get(), "GET / HTTP/1.1", 14, MSG_NOSIGNAL), 14);
  char byte = 0;
  EXPECT_LE(::recv(socket.get(), &byte, 1, 0), 0);
}

// The kernel reports the client's process to the reader, which finds its descendants in /proc.
TEST_F(FeedTest, ReportsProcessesFromTheClientsView) {
  Reader reader(path_);
  reader.source->who = [](size_t, EnergyProcesses& out) {
    out.list = {{.pid = static_cast<uint32_t>(::getpid()), .own = false, .utilization_ratio = 0.25},
                {.pid = 1, .own = true, .utilization_ratio = 0.5}};
    return Status();
  };
  AgentEnergy program(At(), SteadyClock());
  ASSERT_TRUE(program.Open().ok());
  EnergyProcesses found;
  const Status status = program.Processes(1, found);
  ASSERT_TRUE(status.ok()) << status.detail;
  ASSERT_EQ(found.list.size(), 2u);
  EXPECT_TRUE(found.list[0].own) << "we ask";
  EXPECT_FALSE(found.list[1].own) << "that it was the reader's own says nothing of us";
  EXPECT_EQ(found.list[0].utilization_ratio, 0.25);
}

TEST_F(FeedTest, RefusesAMigDeviceWithAReason) {
  Reader reader(path_);
  ::setenv("CUDA_VISIBLE_DEVICES", "MIG-1234", 1);
  AgentEnergy program(At(), SteadyClock());
  const auto devices = program.Open();
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  EXPECT_EQ(devices.status().code, Code::kInvalidArgument);
  EXPECT_THAT(devices.status().detail, HasSubstr("MIG device, which NVML alone knows"));
}

}  // namespace
}  // namespace gpulens::sdk
