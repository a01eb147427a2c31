#include "pipeline/enricher_set.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <chrono>

#include "net/io_loop.h"

namespace gpulens {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// What the enrichers of one test do and saw.
struct Script {
  std::atomic<int> made{0}, ended{0}, looks{0};
  std::atomic<bool> here{true}, fail{false};
  std::atomic<uint64_t> generation{1};
  std::mutex mutex;  // guards what follows
  bool silent = false;
  std::vector<std::function<void(Status)>> unanswered;
};
Script* script = nullptr;

class TestEnricher final : public Enricher {
 public:
  explicit TestEnricher(std::string word) : word_(std::move(word)) { ++script->made; }
  ~TestEnricher() override { ++script->ended; }
  void Fetch(Instant, std::function<void(Status)> done) override {
    ++script->looks;
    std::lock_guard lock(script->mutex);
    if (script->silent) return script->unanswered.push_back(std::move(done));
    done(script->fail ? Status{Code::kTimeout, "without answered"} : Ok());
  }
  uint64_t generation() const noexcept override { return script->generation; }
  AttributeSet Describe(const Entity& entity) const override {
    if (entity.type != "gpu") return {};
    return AttributeSet({{"pod", std::string_view(word_)}, {word_, true}});
  }
  AttributeSet Resource() const override { return AttributeSet({{"zone", std::string_view(word_)}}); }

 private:
  const std::string word_;
};

Result<std::unique_ptr<Enricher>> MakeTest(const Config& config, Env&) {
  if (!script->here) return Status{Code::kUnavailable, "no such thing here"};
  if (config.Text("word") == "bad") return Status{Code::kInvalidArgument, "no word"};
  return std::unique_ptr<Enricher>(std::make_unique<TestEnricher>(config.Text("word")));
}

const EnricherSpec kSpec{.name = "test", .help = "Test.", .period = milliseconds(1), .create = &MakeTest};

EnricherSet::Setup Called(const std::string& word) {
  Config config;
  config.Set("word", word, {});
  return {&kSpec, config, milliseconds(1)};
}

template <class Holds>
bool Eventually(Holds holds) {
  for (int i = 0; i < 20'000 && !holds(); ++i) ::poll(nullptr, 0, 1);
  return holds();
}

class EnricherSetTest : public ::testing::Test {
 protected:
  void SetUp() override {
    script = &script_;
    env_.io = &io_;
    io_.Start();
  }
  void TearDown() override {
    set_.Stop();
    io_.Stop();
  }
  Status Adopt(const std::vector<EnricherSet::Setup>& setups) {
    auto made = set_.Make(setups);
    if (!made) return made.error();
    set_.Adopt(*std::move(made));
    return Ok();
  }
  EnricherSet::View View(size_t i = 0) {
    std::vector<EnricherSet::View> views;
    set_.Read(views);
    return views.at(i);
  }

  Script script_;
  IoLoop io_;
  Env env_;
  EnricherSet set_{env_};
  const Entity gpu_{"gpu", AttributeSet({{"gpu.index", int64_t{3}}})};
  const Entity host_{"host", {}};
};

TEST_F(EnricherSetTest, DescribesByAllOfThemTheFirstOnTop) {
  ASSERT_TRUE(Adopt({Called("one"), Called("two")}));
  EXPECT_EQ(set_.Describe(gpu_), AttributeSet({{"one", true}, {"pod", "one"}, {"two", true}}));
  EXPECT_TRUE(set_.Describe(host_).empty());
  EXPECT_EQ(set_.Resource(), AttributeSet({{"zone", "one"}}));
}

TEST_F(EnricherSetTest, LooksAgainAndAgain) {
  ASSERT_TRUE(Adopt({Called("one")}));
  set_.AwaitFirst(seconds(20));
  EXPECT_TRUE(View().answered && View().up);
  EXPECT_TRUE(Eventually([&] { return script_.looks > 3; }));
  script_.fail = true;
  EXPECT_TRUE(
      Eventually([&] { return View().errors[static_cast<size_t>(Code::kTimeout)] > 1 && !View().up; }));
  EXPECT_EQ(View().last.detail, "without answered");
  script_.fail = false;
  EXPECT_TRUE(Eventually([&] { return View().up; }));
}

TEST_F(EnricherSetTest, AnotherGenerationForEveryChange) {
  const uint64_t without = set_.generation();
  ASSERT_TRUE(Adopt({Called("one")}));
  const uint64_t one = set_.generation();
  EXPECT_NE(one, without);
  ++script_.generation;
  const uint64_t moved = set_.generation();
  EXPECT_NE(moved, one);
  ASSERT_TRUE(Adopt({}));
  EXPECT_NE(set_.generation(), moved);
  EXPECT_TRUE(set_.Describe(gpu_).empty());
}

TEST_F(EnricherSetTest, EqualOnesStayAndOthersEndAfterTheirLook) {
  ASSERT_TRUE(Adopt({Called("one"), Called("two")}));
  ASSERT_TRUE(Adopt({Called("two"), Called("three")}));
  EXPECT_EQ(script_.made, 3);
  EXPECT_EQ(set_.Describe(gpu_).Text("pod"), "two");
  EXPECT_TRUE(Eventually([&] {
    static_cast<void>(Adopt({Called("two"), Called("three")}));
    return script_.ended == 1;
  }));
}

TEST_F(EnricherSetTest, AHangingSinkDelaysNoOther) {
  script_.silent = true;
  ASSERT_TRUE(Adopt({Called("one")}));
  set_.AwaitFirst(milliseconds(1));
  EXPECT_FALSE(View().answered);
  ASSERT_TRUE(Eventually([&] { return script_.looks == 1; }));
  ASSERT_TRUE(Adopt({}));
  ASSERT_TRUE(Adopt({}));
  EXPECT_EQ(script_.ended, 0) << "its look is not over";
  io_.Call([&] {
    std::lock_guard lock(script_.mutex);
    for (auto& done : script_.unanswered) done(Ok());
    script_.unanswered.clear();
  });
  EXPECT_TRUE(Eventually([&] {
    static_cast<void>(Adopt({}));
    return script_.ended == 1;
  }));
  EXPECT_EQ(script_.looks, 1);
}

TEST_F(EnricherSetTest, OneThatIsNotHereIsNoError) {
  script_.here = false;
  ASSERT_TRUE(Adopt({Called("one")}));
  set_.AwaitFirst(seconds(20));
  EXPECT_TRUE(View().answered);
  EXPECT_FALSE(View().up);
  EXPECT_EQ(View().last.detail, "no such thing here");
  EXPECT_TRUE(set_.Describe(gpu_).empty());
}

TEST_F(EnricherSetTest, AnInvalidEnricherChangesNothing) {
  ASSERT_TRUE(Adopt({Called("one")}));
  const uint64_t before = set_.generation();
  EXPECT_EQ(Adopt({Called("two"), Called("bad")}).code, Code::kInvalidArgument);
  EXPECT_EQ(set_.generation(), before);
  EXPECT_EQ(set_.Describe(gpu_).Text("pod"), "one");
}

}  // namespace
}  // namespace gpulens
