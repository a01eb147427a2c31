// The public face, with real threads and the real clock.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gpulens/energy.h>

#include "base/sanitizers.h"
#include "sdk/energy/engine.h"
#include "sdk/energy/fake_source_for_test.h"
#include "sdk/energy/sources/system_sources.h"
#include "sources/nvml/simulated/fake_world.h"

namespace gpulens::sdk {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

// Waits for something that another thread does; machines of CI are slow.
template <class Done>
bool Eventually(Done done) {
  const auto deadline = steady_clock::now() + 20s;
  while (!done()) {
    if (steady_clock::now() > deadline) return false;
    ::poll(nullptr, 0, 1);
  }
  return true;
}

std::shared_ptr<FakeSource> SteadyGpu(double watts) {
  auto source = std::make_shared<FakeSource>(SteadyClock(), EnergyVendor::kNvidia);
  source->AddGpu("GPU-0", [watts](int64_t ns) {
    EnergyReading reading;
    reading.watts = watts;
    reading.joules = watts * SecondsOf(ns);
    return reading;
  });
  return source;
}

EnergyMonitor MonitorOf(std::shared_ptr<EnergySource> source, Share share = Share::kByTime) {
  EnergyOptions options;
  options.share = share;
  options.interval = 5ms;
  options.sources = {std::move(source)};
  return EnergyMonitor(std::move(options));
}

TEST(EnergyMonitor, SyncIsCalledBeforeBothEdges) {
  EnergyMonitor monitor = MonitorOf(SteadyGpu(200));
  std::vector<steady_clock::time_point> calls;
  EnergyWindow window = monitor.Window([&] {
    ::poll(nullptr, 0, 20);
    calls.push_back(steady_clock::now());
  });
  const auto begun = steady_clock::now();
  ASSERT_EQ(calls.size(), 1u);
  const EnergyResult result = window.result();
  ASSERT_EQ(calls.size(), 2u);
  static_cast<void>(window.result());
  EXPECT_EQ(calls.size(), 2u) << "once for each edge";
  EXPECT_GE(result.duration, calls[1] - begun) << "what the program waited for is in the window";
  EXPECT_LE(result.duration, calls[1] - calls[0] + 1s);
  EXPECT_TRUE(result.valid()) << result.reason;
  {
    EnergyWindow dropped = monitor.Request([&] { calls.clear(); });
  }
  EXPECT_TRUE(calls.empty()) << "a destructor does not wait";
}

TEST(EnergyMonitor, ASyncThatThrowsLosesNoWindow) {
  EnergyMonitor monitor = MonitorOf(SteadyGpu(200));
  EnergyWindow window = monitor.Window([] { throw std::runtime_error("the device is gone"); });
  const EnergyResult result = window.result(1s);
  EXPECT_TRUE(result.valid());
  EXPECT_NE(result.reason.find("sync failed at the end"), std::string::npos) << result.reason;
  EXPECT_NE(result.reason.find("the device is gone"), std::string::npos) << result.reason;
}

TEST(EnergyMonitor, CarbonIsThatOfTheEnergy) {
  EXPECT_NEAR(*CarbonIntensity("DE"), *CarbonIntensity("deu"), 0);
  EXPECT_NEAR(*CarbonIntensity("WORLD"), 475, 0);
  EXPECT_GT(*CarbonIntensity("aws/eu-central-1"), 0);
  EXPECT_EQ(CarbonIntensity("Atlantis").error().code, Code::kInvalidArgument);
  EXPECT_FALSE(CarbonIntensity("").ok());
  EnergyOptions options;
  options.sources = {SteadyGpu(200)};
  options.carbon_grams_per_kwh = 360;
  EnergyMonitor monitor(options);
  const EnergyResult result = monitor.Window().result(1s);
  ASSERT_TRUE(result.valid()) << result.reason;
  EXPECT_NEAR(result.carbon_grams(), result.energy_joules * 1e-4, 1e-12);
  EXPECT_NEAR(result.carbon_grams(720), result.energy_joules * 2e-4, 1e-12);
  EXPECT_TRUE(std::isnan(EnergyResult{}.carbon_grams(720))) << "of an unknown energy";
  EnergyResult unknown = result;
  unknown.carbon_grams_per_kwh = kNotMeasured;
  EXPECT_TRUE(std::isnan(unknown.carbon_grams()));
}

TEST(EnergyMonitor, MeasuresWindowsInRealTime) {
  EnergyMonitor monitor = MonitorOf(SteadyGpu(200));
  ASSERT_TRUE(monitor.status().ok()) << monitor.status().detail;
  EXPECT_EQ(monitor.vendor(), EnergyVendor::kNvidia);
  ASSERT_EQ(monitor.devices().size(), 1u);
  EXPECT_EQ(monitor.devices()[0].id, "GPU-0");
  EnergyWindow outer = monitor.Window();
  EnergyWindow request = monitor.Request();
  ASSERT_TRUE(Eventually([&] { return request.Estimate().energy_joules > 4; }));
  EXPECT_EQ(request.Estimate().validity, EnergyValidity::kRunning);
  request.Mark("decode");
  ASSERT_TRUE(Eventually([&] { return request.Estimate().energy_joules > 6; }));
  const EnergyResult result = request.result(20s);
  ASSERT_TRUE(result.valid()) << result.reason;
  const double length = std::chrono::duration<double>(result.duration).count();
  EXPECT_NEAR(result.energy_joules, 200 * length, result.uncertainty_joules + 1e-6);
  EXPECT_NEAR(result.energy_joules, 200 * length, 0.01);
  EXPECT_GT(request.phase("decode").energy_joules, 0);
  EXPECT_EQ(request.phase("never").validity, EnergyValidity::kGap);
  EXPECT_EQ(request.result(20s).energy_joules, result.energy_joules) << "settled stays settled";
  EXPECT_NE(ToString(result).find("(counter, 0.0"), std::string::npos) << ToString(result);
  EnergyWindow moved = std::move(outer);
  EXPECT_GE(moved.result(20s).energy_joules, result.energy_joules);
  EXPECT_EQ(outer.Estimate().validity, EnergyValidity::kNoDevice);  // NOLINT: a use after a move
  EXPECT_TRUE(monitor.Between(steady_clock::now() - 20ms, steady_clock::now() - 10ms).valid());
  EXPECT_FALSE(monitor.History(steady_clock::now() - 1s, steady_clock::now()).empty());
}

TEST(EnergyMonitor, EndsItsThreadWithTheLastWindow) {
  std::shared_ptr<FakeSource> source = SteadyGpu(100);
  std::weak_ptr<FakeSource> alive = source;
  auto monitor = std::make_unique<EnergyMonitor>(MonitorOf(std::move(source)));
  auto window = std::make_unique<EnergyWindow>(monitor->Window());
  monitor.reset();
  EXPECT_TRUE(window->result(20s).valid()) << "it keeps the reading alive";
  EXPECT_FALSE(alive.expired());
  window.reset();
  EXPECT_TRUE(Eventually([&] { return alive.expired(); }));
}

TEST(EnergyMonitor, HangingDriverAffectsNoOtherMonitor) {
  auto hanging = SteadyGpu(100);
  struct Gate {
    std::mutex mutex;
    std::condition_variable changed;
    bool closed = false, in = false;
  };
  auto gate = std::make_shared<Gate>();
  hanging->before_read = [gate] {
    std::unique_lock lock(gate->mutex);
    gate->in = gate->closed;
    gate->changed.notify_all();
    gate->changed.wait(lock, [&] { return !gate->closed; });
  };
  EnergyMonitor monitor = MonitorOf(hanging), other = MonitorOf(SteadyGpu(50));
  ASSERT_TRUE(monitor.status().ok());
  EnergyWindow before = monitor.Window();
  {
    std::unique_lock lock(gate->mutex);
    gate->closed = true;
    ASSERT_TRUE(gate->changed.wait_for(lock, 20s, [&] { return gate->in; }));
  }
  // Some time after the last reading nothing is placed any more.
  EnergyResult result;
  EXPECT_TRUE(Eventually([&] {
    result = monitor.Request().result(1ms);
    return result.validity == EnergyValidity::kSourceFailed;
  })) << ToString(result);
  EXPECT_TRUE(std::isnan(result.energy_joules));
  EXPECT_NE(result.reason.find("fakeRead"), std::string::npos) << result.reason;
  EXPECT_EQ(before.result(1ms).validity, EnergyValidity::kSourceFailed);
  EXPECT_TRUE(other.Window().result(20s).valid());
  std::lock_guard lock(gate->mutex);
  gate->closed = false;
  gate->changed.notify_all();
}

TEST(EnergyMonitor, ReportsAHangingOpen) {
  class Stuck final : public EnergySource {
   public:
    ~Stuck() override = default;
    std::string_view name() const noexcept override { return "stuck"; }
    EnergyVendor vendor() const noexcept override { return EnergyVendor::kNvidia; }
    Result<std::vector<EnergyDevice>> Open() override {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return open; });
      return Status{Code::kUnavailable, "late"};
    }
    Status Read(size_t, EnergyReading&) override { return {}; }
    std::string Doing() const override { return "nvmlInit"; }
    std::mutex mutex;
    std::condition_variable changed;
    bool open = false;
  };
  auto source = std::make_shared<Stuck>();
  EnergyMonitor monitor = MonitorOf(source);
  EXPECT_EQ(monitor.status().code, Code::kTimeout);
  EXPECT_NE(monitor.status().detail.find("nvmlInit"), std::string::npos) << monitor.status().detail;
  const EnergyResult result = monitor.Request().result();
  EXPECT_EQ(result.validity, EnergyValidity::kSourceFailed);
  {
    std::lock_guard lock(source->mutex);
    source->open = true;
    source->changed.notify_all();
  }
  EXPECT_TRUE(Eventually([&] { return monitor.status().code == Code::kUnavailable; })) << "it is asked again";
}

TEST(EnergyMonitor, ManyThreadsShareOneBoard) {
  EnergyMonitor monitor = MonitorOf(SteadyGpu(300), Share::kByTokens);
  ASSERT_TRUE(monitor.status().ok());
  EnergyWindow window = monitor.Window();
  EnergyWindow cover = monitor.Request();
  std::mutex mutex;
  double sum = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i) {
        EnergyWindow request = monitor.Request();
        for (int k = 0; k <= t; ++k) request.AddTokens(1);
        request.Mark("decode");
        const EnergyResult result = request.result(20s);
        EXPECT_TRUE(result.valid()) << result.reason;
        const std::lock_guard lock(mutex);
        sum += result.energy_joules;
        {
          const EnergyWindow forgotten = monitor.Request();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const double rest = cover.result(20s).energy_joules;
  const EnergyResult whole = window.result(20s);
  ASSERT_TRUE(whole.valid());
  EXPECT_LE(sum + rest, whole.energy_joules + 1e-3);
  EXPECT_GT(sum + rest, whole.energy_joules * 0.5) << "the forgotten ones had little";
}

TEST(EnergyMonitor, ReadsInAForkedChild) {
  if (kThreadSanitizer) GTEST_SKIP() << "the thread sanitizer ends a child that starts a thread";
  EnergyMonitor monitor = MonitorOf(SteadyGpu(100));
  ASSERT_TRUE(monitor.status().ok());
  EnergyWindow across = monitor.Window();
  const pid_t child = ::fork();
  if (child == 0) {
    int failed = 0;
    if (across.result(1ms).validity != EnergyValidity::kSourceFailed) failed |= 1;
    EnergyWindow own = monitor.Request();
    if (!Eventually([&] { return own.Estimate().energy_joules > 0.5; })) failed |= 8;
    const EnergyResult result = own.result(20s);
    if (!result.valid() || !(result.energy_joules > 0.5)) failed |= 2;
    if (!monitor.status().ok()) failed |= 4;
    ::_exit(failed);
  }
  ASSERT_GT(child, 0);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_TRUE(across.result(20s).valid()) << "the parent goes on";
}

// The whole way: the simulated library, the source, the thread.
TEST(EnergyMonitor, ReadsTheSimulatedNvml) {
  ASSERT_TRUE(nvml::FakeWorld::Get()
                  .Use("model: H100\ngpus: 8\nload: {kind: constant, level: 0.5}\n", &RealClock())
                  .ok());
  auto source = std::make_shared<NvmlEnergy>(&nvml::FakeNvmlLookup, RealClock());
  EnergyMonitor monitor = MonitorOf(source);
  ASSERT_TRUE(monitor.status().ok()) << monitor.status().detail;
  EXPECT_EQ(monitor.devices().size(), 8u);
  EnergyWindow window = monitor.Window();
  ASSERT_TRUE(Eventually([&] { return window.Estimate().duration > 60ms; }));
  const EnergyResult result = window.result(20s);
  ASSERT_TRUE(result.valid()) << result.reason;
  const double length = std::chrono::duration<double>(result.duration).count();
  const double watts = (70 + 700) / 2.0 * 8;
  EXPECT_NEAR(result.energy_joules, watts * length, result.uncertainty_joules + 0.05 * watts * length)
      << ToString(result);
  EXPECT_EQ(result.method, EnergyMethod::kCounter);
  EXPECT_EQ(result.sensor_accuracy_ratio, 0.05);
  EXPECT_EQ(result.devices, 8u);
}

TEST(EnergyMonitor, NamesAHangingCall) {
  const std::string good = "model: H100\ngpus: 2\n";
  ASSERT_TRUE(nvml::FakeWorld::Get().Use(good, &RealClock()).ok());
  EnergyMonitor monitor = MonitorOf(std::make_shared<NvmlEnergy>(&nvml::FakeNvmlLookup, RealClock()));
  ASSERT_TRUE(monitor.status().ok()) << monitor.status().detail;
  ASSERT_TRUE(nvml::FakeWorld::Get()
                  .Use(good + "hangs: [{gpu: 1, call: nvmlDeviceGetTotalEnergyConsumption}]\n", &RealClock())
                  .ok());
  EnergyResult result;
  EXPECT_TRUE(Eventually([&] {
    result = monitor.Window().result(1ms);
    return result.validity == EnergyValidity::kSourceFailed;
  })) << ToString(result);
  EXPECT_NE(result.reason.find("in nvmlDeviceGetTotalEnergyConsumption"), std::string::npos) << result.reason;
  ASSERT_TRUE(nvml::FakeWorld::Get().Use(good, &RealClock()).ok());
  EXPECT_TRUE(Eventually([&] { return monitor.Window().result(1s).valid(); })) << "it came back";
}

// Runs on any machine.
TEST(EnergyMonitor, ReportsWhyThereIsNoDevice) {
  const EnergyMonitor found;
  EnergyMonitor again = found;
  EnergyResult result = again.Window().result(1s);
  // A process that opens a library may take long to start on a busy machine.
  for (int i = 0; i < 20 && result.reason.find("still being opened") != std::string::npos; ++i)
    result = again.Window().result(1s);
  if (found.status().ok()) {
    EXPECT_NE(found.vendor(), EnergyVendor::kNone);
    EXPECT_FALSE(found.devices().empty());
  } else {
    EXPECT_TRUE(result.validity == EnergyValidity::kNoDevice ||
                result.validity == EnergyValidity::kPermissionDenied ||
                result.validity == EnergyValidity::kSourceFailed)
        << ToString(result);
    EXPECT_TRUE(std::isnan(result.energy_joules));
    EXPECT_NE(result.reason.find("rapl"), std::string::npos) << result.reason;
    EXPECT_TRUE(std::isnan(found.unattributed_joules()));
    EXPECT_FALSE(found.Between(steady_clock::now() - 1s, steady_clock::now()).valid());
  }
}

TEST(EnergyMonitor, FormatsResults) {
  EnergyResult result;
  result.energy_joules = 41.83;
  result.device_energy_joules = 166.92;
  result.uncertainty_joules = 0.6;
  result.duration = 520ms;
  result.devices = 1;
  result.vendor = EnergyVendor::kNvidia;
  result.method = EnergyMethod::kCounter;
  result.validity = EnergyValidity::kValid;
  EXPECT_EQ(ToString(result), "41.8 J ± 0.6 J (counter, 0.520 s, 1 GPU, of 166.9 J on the device)");
  EXPECT_EQ(EnergyValidityName(EnergyValidity::kSourceFailed), "source_failed");
  EXPECT_EQ(EnergyVendorName(EnergyVendor::kCpuRapl), "cpu_rapl");
}

}  // namespace
}  // namespace gpulens::sdk
