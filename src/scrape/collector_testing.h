// For tests of plugins that read pages: an instance of a spec as the agent drives it, against a local server.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "names/naming.h"
#include "net/client/http_client.h"
#include "net/testing/scripted_server.h"
#include "pipeline/instance.h"
#include "wire/exposition/text_page.h"

namespace gpulens::scraping_testing {

using Values = std::map<std::string, Config::Value>;

// The defaults of an option table, and what is set. An option that is set counts as configured.
inline Config ConfigOf(std::span<const OptionSpec> options, const Values& set) {
  Config config;
  for (const OptionSpec& spec : options) {
    auto own = set.find(std::string(spec.key));
    if (own != set.end()) {
      config.Set(spec.key, own->second, {Origin::kFile, {}, 0, 0});
      continue;
    }
    Config::Value value = std::string(spec.fallback);
    if (spec.type == OptionType::kBool) value = spec.fallback == "true";
    if (spec.type == OptionType::kInt) value = spec.fallback == "0" ? int64_t{0} : int64_t{100'000};
    if (spec.type == OptionType::kSize) value = int64_t{64} << 20;
    if (spec.type == OptionType::kTime)
      value = spec.key == "interval" ? Duration(std::chrono::seconds(15)) : Duration{};
    if (spec.type == OptionType::kTextMap) value = std::map<std::string, std::string>{};
    if (spec.type == OptionType::kTexts) value = std::vector<std::string>{};
    if (spec.type == OptionType::kGroups) value = std::vector<Config>{};
    if (spec.type == OptionType::kGroup) value = ConfigOf(spec.children, {});
    config.Set(spec.key, value, {});
  }
  for (std::string_view key : {"interval", "timeout"}) {
    if (!config.Has(key))
      config.Set(key, key == "interval" ? Duration(std::chrono::seconds(15)) : Duration{}, {});
  }
  return config;
}

class CollectorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    loop.Start();
    env.clock = &clock;
    env.io = &loop;
    env.http = &client;
  }
  // A run's end may be reported while the loop is still in it: the loop stops before what it uses is
  // destroyed.
  void TearDown() override {
    instance.reset();
    loop.Stop();
  }

  void Open(const CollectorSpec& spec, Config config) {
    Instance::Setup setup{.name = "t",
                          .spec = &spec,
                          .config = std::move(config),
                          .period = std::chrono::seconds(15),
                          .deadline = std::chrono::seconds(15),
                          .ttl = std::chrono::seconds(30),
                          .table = {}};
    instance = std::make_unique<Instance>(std::move(setup), env);
    ASSERT_TRUE(instance->Ready());
  }
  // One run; the page that the agent would show.
  std::string Run(Duration later = std::chrono::seconds(15)) {
    clock.Advance(later);
    std::mutex mutex;
    std::condition_variable came;
    bool done = false;
    loop.Call([&] {
      instance->Fetch(clock.Now() + std::chrono::seconds(15), [&](Status) {
        std::lock_guard lock(mutex);
        done = true;
        came.notify_all();
      });
    });
    std::unique_lock lock(mutex);
    EXPECT_TRUE(came.wait_for(lock, std::chrono::seconds(60), [&] { return done; }));
    lock.unlock();
    instance->Collect(Ok());
    Snapshot snapshot;
    Ref<const Frame> frame = instance->latest();
    snapshot.frames.push_back({frame, frame->source, Precedence::kPassThrough, false});
    TextPage encoder(ExpositionFormat::kText004, NameNative);
    std::string text;
    encoder.Render(snapshot, text);
    return text;
  }

  ManualClock clock;
  IoLoop loop;
  HttpClient client{loop};
  Env env;
  std::unique_ptr<Instance> instance;
};

}  // namespace gpulens::scraping_testing
