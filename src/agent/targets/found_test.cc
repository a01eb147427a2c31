#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>

#include "agent/run/plan.h"
#include "agent/targets/found_targets.h"
#include "agent/targets/own_pages.h"
#include "base/threads.h"
#include "config/loader.h"

namespace gpulens {
namespace {

class FoundTest : public ::testing::Test {
 protected:
  Config LoadText(const std::string& text) {
    ConfigSources sources;
    sources.file_name = "test";
    sources.file_text = text;
    LoadOutcome loaded = Load(*schema_, sources);
    EXPECT_TRUE(loaded.ok()) << loaded.Report();
    return loaded.config;
  }
  static FoundTarget Target(const std::string& name, const std::string& url) {
    FoundTarget target;
    target.name = name;
    target.url = url;
    return target;
  }
  static std::vector<Config> Targets(const Config& config) { return config.Groups("targets"); }
  std::unique_ptr<Schema> schema_ = MakeSchema();
  std::vector<RefusedTarget> refused_;
};

TEST_F(FoundTest, FoundTargetsEqualConfiguredOnes) {
  Config config = LoadText("targets: [{name: node, url: \"http://localhost:9100\"}, {url: \"http://h:7\"}]");
  std::vector<FoundTarget> found = {Target("x", "http://127.0.0.1:9100/metrics"),
                                    Target("node", "http://10.0.0.1:1/metrics"),
                                    Target("h:7", "http://10.0.0.2:1/metrics")};
  found[1].options = {{"interval", "3s"}, {"optional", "true"}, {"kind", "vllm"}, {"no_option", "x"}};
  found[1].attributes = {{"team", "a \"b\""}};
  Config whole = WithFound(config, *schema_, found, refused_);
  EXPECT_TRUE(refused_.empty()) << refused_.front().why;
  auto targets = Targets(whole);
  ASSERT_EQ(targets.size(), 4u) << "the first one is configured already";
  EXPECT_EQ(targets[2].Text("name"), "node-2");
  EXPECT_EQ(targets[2].Text("kind"), "vllm");
  EXPECT_EQ(targets[2].Time("interval"), Duration(std::chrono::seconds(3)));
  EXPECT_EQ(targets[2].TextMap("attributes"), (std::map<std::string, std::string>{{"team", "a \"b\""}}));
  EXPECT_EQ(targets[3].Text("name"), "h:7-2") << "a configured target without a name has that of its URL";
  EXPECT_EQ(targets[3].Time("interval"), Duration(std::chrono::seconds(15)));
  PipelinePlan plan = MakePlan(whole, {});
  EXPECT_TRUE(
      std::ranges::any_of(plan.instances, [](const auto& setup) { return setup.name == "targets/node-2"; }));
}

TEST_F(FoundTest, NamesUnnamedTargets) {
  Config config = LoadText(
      "targets: [{url: \"http://h:7/a\"}, {url: \"http://h:7/b\"}, {name: \"h:7-2\", url: \"http://g\"}]");
  std::vector<std::string> names;
  for (const auto& setup : MakePlan(config, {}).instances) {
    if (setup.name.starts_with("targets/")) names.push_back(setup.config.Text("name"));
  }
  EXPECT_EQ(names, (std::vector<std::string>{"h:7", "h:7-3", "h:7-2"}));
}

TEST_F(FoundTest, RefusedTargetKeepsOthers) {
  std::vector<FoundTarget> found = {
      Target("bad", "http://10.0.0.1:1/metrics"), Target("good", "http://10.0.0.2:1/metrics"),
      Target("own", "http://localhost:9091/metrics"), Target("none", "http://10.0.0.3:1/")};
  found[3].options = {{"kind", "pigeons"}};
  found[0].options = {{"interval", "\"}]}]"}};
  auto targets = Targets(WithFound(LoadText(""), *schema_, found, refused_));
  ASSERT_EQ(targets.size(), 1u);
  EXPECT_EQ(targets[0].Text("name"), "good");
  ASSERT_EQ(refused_.size(), 3u);
  for (const RefusedTarget& one : refused_) EXPECT_FALSE(one.why.empty()) << one.name;
}

TEST_F(FoundTest, RefusesOwnPages) {
  auto refuse = [&](const std::string& url) {
    return RefuseOwnPages(LoadText("targets: [{name: x, url: \"" + url + "\"}]"));
  };
  for (const char* url : {"http://127.0.0.1:9091/metrics", "http://localhost:9091", "http://127.0.0.1:9092/",
                          "http://[::1]:9091/x"}) {
    Status status = refuse(url);
    EXPECT_EQ(status.code, Code::kInvalidArgument) << url;
    EXPECT_NE(status.detail.find("own page"), std::string::npos) << status.detail;
  }
  EXPECT_TRUE(refuse("http://127.0.0.1:9100/metrics").ok());
  EXPECT_TRUE(refuse("http://192.0.2.7:9091/metrics").ok());
}

TEST_F(FoundTest, RefusesSinkToOwnReceiver) {
  const Status status = RefuseOwnPages(LoadText("sinks: {otlp: {}}\nreceivers: {otlp: {}}"));
  EXPECT_EQ(status.code, Code::kInvalidArgument);
  EXPECT_NE(status.detail.find("own receiver"), std::string::npos) << status.detail;
  EXPECT_FALSE(
      RefuseOwnPages(LoadText("sinks: {otlp: {endpoint: 'http://192.0.2.7:1', logs_endpoint: "
                              "'http://localhost:4318/v1/logs'}}\nreceivers: {otlp: {}}")));
  EXPECT_TRUE(RefuseOwnPages(LoadText("sinks: {otlp: {}}")));
  EXPECT_TRUE(RefuseOwnPages(LoadText("sinks: {otlp: {}}\nreceivers: {otlp: {enabled: false}}")));
  EXPECT_TRUE(RefuseOwnPages(LoadText(
      "sinks: {otlp: {}}\nreceivers: {otlp: {http: {listen: '127.0.0.1:14318'}, grpc: {listen: []}}}")));
}

TEST_F(FoundTest, ListenerOnAllInterfacesMatchesEveryLocalAddress) {
  OwnPages own({*ParseListenAddress(":9091")}, {*ParseIp("10.1.2.3")});
  EXPECT_NE(own.Find(*ParseIp("10.1.2.3", 9091)), nullptr);
  EXPECT_NE(own.Find(*ParseIp("127.0.0.5", 9091)), nullptr);
  EXPECT_EQ(own.Find(*ParseIp("10.1.2.3", 9092)), nullptr);
  EXPECT_EQ(own.Find(*ParseIp("10.1.2.4", 9091)), nullptr);
  OwnPages loopback({*ParseListenAddress("127.0.0.1:9091")}, {*ParseIp("10.1.2.3")});
  EXPECT_EQ(loopback.Find(*ParseIp("10.1.2.3", 9091)), nullptr);
}

// What the fake discovery answers; guarded by the mutex of the test below.
std::mutex answers_mutex;
std::vector<FoundTarget> answers;
std::atomic<int> looks{0};

class FakeDiscovery final : public Discovery {
 public:
  void Fetch(Instant, std::function<void(Status)> done) override {
    ++looks;
    done(Ok());
  }
  std::vector<FoundTarget> Targets() const override {
    std::lock_guard lock(answers_mutex);
    return answers;
  }
};

constexpr OptionSpec kFakeOptions[] = {
    {.key = "refresh", .type = OptionType::kTime, .fallback = "10ms", .help = "x"},
};
const DiscoverySpec kFake{.name = "fake",
                          .help = "x",
                          .on_by_default = true,
                          .period = std::chrono::seconds(1),
                          .options = kFakeOptions,
                          .create = [](const Config&, Env&) -> Result<std::unique_ptr<Discovery>> {
                            return std::unique_ptr<Discovery>(std::make_unique<FakeDiscovery>());
                          },
                          .probe = nullptr};
constexpr const DiscoverySpec* kFakes[] = {&kFake};

Config FakeConfig(bool enabled) {
  Config fake, discovery, config;
  fake.Set("enabled", enabled, {});
  fake.Set("refresh", Duration(std::chrono::milliseconds(10)), {});
  discovery.Set("fake", fake, {});
  config.Set("discovery", discovery, {});
  return config;
}

TEST(DiscoveryRunnerTest, ReportsOnlyChanges) {
  IoLoop loop;
  Workers workers{1};
  Env env;
  env.io = &loop;
  env.workers = &workers;
  std::mutex mutex;
  std::condition_variable wake;
  int calls = 0;
  {
    DiscoveryRunner runner(env, kFakes, [&] {
      std::lock_guard lock(mutex);
      ++calls;
      wake.notify_all();
    });
    auto wait_for_reported = [&](int count) {
      std::unique_lock lock(mutex);
      return wake.wait_for(lock, std::chrono::seconds(60), [&] { return calls >= count; });
    };
    loop.Start();
    FoundTarget one;
    one.name = "a";
    {
      std::lock_guard lock(answers_mutex);
      answers = {one};
    }
    ASSERT_TRUE(runner.Apply(FakeConfig(true)));
    ASSERT_TRUE(wait_for_reported(1));
    EXPECT_EQ(runner.found(), (std::vector<FoundTarget>{one}));
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    for (int before = looks; looks < before + 3 && std::chrono::steady_clock::now() < limit;)
      std::this_thread::yield();
    {
      std::lock_guard lock(mutex);
      EXPECT_EQ(calls, 1) << "the set has not changed";
    }
    {
      std::lock_guard lock(answers_mutex);
      answers.clear();
    }
    ASSERT_TRUE(wait_for_reported(2));
    EXPECT_TRUE(runner.found().empty());
    // Switched off: nothing looks any more.
    ASSERT_TRUE(runner.Apply(FakeConfig(false)));
    EXPECT_TRUE(runner.found().empty());
    runner.Stop();
    loop.Stop();
    workers.Stop();
  }
}

}  // namespace
}  // namespace gpulens
