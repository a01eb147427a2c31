#include <gtest/gtest.h>

#include <unistd.h>
#include <condition_variable>

#include <filesystem>
#include <mutex>

#include "base/files.h"
#include "base/threads.h"
#include "plugins/discovery/file_sd/file_sd.h"

namespace gpulens {
extern const DiscoverySpec file_sd_discovery;

namespace {

using file_sd::ParseGroups;
using file_sd::ToTargets;

const std::string kData = GPULENS_SOURCE_DIR "/src/plugins/discovery/file_sd/testdata/";

Result<std::vector<FoundTarget>> Read(const std::string& text) {
  auto groups = ParseGroups(text);
  if (!groups) return groups.error();
  return ToTargets(*groups, "gpu");
}

TEST(FileSdTextTest, ReadsLabelsThatSetOptions) {
  auto targets = Read(*ReadFile(kData + "good/vllm.yaml"));
  ASSERT_TRUE(targets.ok()) << targets.error().detail;
  ASSERT_EQ(targets->size(), 3u);
  EXPECT_EQ((*targets)[0].url, "http://10.0.0.5:8000/metrics");
  EXPECT_EQ((*targets)[0].name, "10.0.0.5:8000");
  EXPECT_EQ((*targets)[0].options, (std::map<std::string, std::string>{{"kind", "vllm"}}));
  EXPECT_EQ((*targets)[0].attributes, (std::map<std::string, std::string>{{"team", "search"}}));
  EXPECT_EQ((*targets)[1].url, "http://gpu-7.example.org:8001/metrics");
  EXPECT_EQ((*targets)[2].url, "https://[2001:db8::7]:9000/engine/metrics?module=a%20b");
  EXPECT_EQ((*targets)[2].name, "seven");
  EXPECT_EQ((*targets)[2].options,
            (std::map<std::string, std::string>{{"interval", "30s"}, {"kind", "gpu"}}));
}

TEST(FileSdTextTest, ReadsJsonAndTheKind) {
  auto targets = Read(*ReadFile(kData + "good/targets.json"));
  ASSERT_TRUE(targets.ok()) << targets.error().detail;
  ASSERT_EQ(targets->size(), 1u);
  EXPECT_EQ((*targets)[0].options.at("kind"), "prometheus");
  EXPECT_EQ((*targets)[0].attributes.at("job"), "node");
}

TEST(FileSdTextTest, LabelEngineSetsTheKindOfAnEngine) {
  auto targets = Read(
      "- {targets: [\"a:1\"], labels: {engine: sglang}}\n"
      "- {targets: [\"b:1\"], labels: {engine: sglang, __kind__: prometheus}}\n"
      "- {targets: [\"c:1\"], labels: {engine: steam}}\n");
  ASSERT_TRUE(targets.ok()) << targets.error().detail;
  EXPECT_EQ((*targets)[0].options.at("kind"), "sglang");
  EXPECT_EQ((*targets)[1].options.at("kind"), "prometheus");
  EXPECT_EQ((*targets)[1].attributes.at("engine"), "sglang");
  EXPECT_EQ((*targets)[2].options.at("kind"), "gpu");
  EXPECT_EQ((*targets)[2].attributes.at("engine"), "steam");
}

TEST(FileSdTextTest, RefusesTheOldLabelNextToTheNewOne) {
  auto targets = Read("- {targets: [\"a:1\"], labels: {__collector__: scrape}}\n");
  ASSERT_FALSE(targets.ok());
  EXPECT_NE(targets.error().detail.find("__kind__"), std::string::npos) << targets.error().detail;
}

TEST(FileSdTextTest, EmptyFileHasNoTargets) {
  auto targets = Read("");
  ASSERT_TRUE(targets.ok());
  EXPECT_TRUE(targets->empty());
}

TEST(FileSdTextTest, BadFilesNameTheLine) {
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kData + "bad")) {
    auto targets = Read(*ReadFile(entry.path().string()));
    ASSERT_FALSE(targets.ok()) << entry.path();
    EXPECT_EQ(targets.error().code, Code::kInvalidArgument) << entry.path();
    EXPECT_TRUE(targets.error().detail.starts_with("line "))
        << entry.path() << ": " << targets.error().detail;
    ++files;
  }
  EXPECT_EQ(files, 12u);
}

TEST(FileSdTextTest, LimitsHold) {
  std::string many = "- targets: [";
  for (size_t i = 0; i <= file_sd::kFileTargets; ++i) many += "\"a:1\",";
  EXPECT_EQ(ParseGroups(many + "]").error().code, Code::kExhausted);
  EXPECT_EQ(ParseGroups("- targets: [\"" + std::string(file_sd::kLabelBytes + 1, 'a') + "\"]").error().code,
            Code::kExhausted);
  EXPECT_EQ(ParseGroups(std::string(file_sd::kFileBytes + 1, '#')).error().code, Code::kExhausted);
  std::string labels = "- labels: {";
  for (size_t i = 0; i <= file_sd::kGroupLabels; ++i) labels += "l" + std::to_string(i) + ": x, ";
  EXPECT_EQ(ParseGroups(labels + "}").error().code, Code::kExhausted);
}

class FileSdTest : public ::testing::Test {
 protected:
  FileSdTest() {
    static int number = 0;
    folder_ = ::testing::TempDir() + "file_sd_" + std::to_string(::getpid()) + "_" + std::to_string(number++);
    std::filesystem::create_directories(folder_);
    env_.workers = &workers_;
    Config config;
    config.Set("files", std::vector<std::string>{folder_ + "/*.yaml"}, {});
    config.Set("kind", std::string("prometheus"), {});
    discovery_ = std::move(*file_sd_discovery.create(config, env_));
  }
  ~FileSdTest() override { std::filesystem::remove_all(folder_); }

  void Put(const std::string& name, const std::string& text) {
    ASSERT_TRUE(WriteFileAtomically(folder_ + "/" + name, text));
  }
  // Returns the URLs after one Fetch.
  std::vector<std::string> Look() {
    std::mutex mutex;
    std::condition_variable came;
    bool done = false;
    discovery_->Fetch({}, [&](const Status& status) {
      std::lock_guard lock(mutex);
      EXPECT_TRUE(status.ok());
      done = true;
      came.notify_all();
    });
    std::unique_lock lock(mutex);
    EXPECT_TRUE(came.wait_for(lock, std::chrono::seconds(60), [&] { return done; }));
    std::vector<std::string> urls;
    for (const FoundTarget& target : discovery_->Targets()) urls.push_back(target.url);
    return urls;
  }

  std::string folder_;
  Workers workers_{1};
  Env env_;
  std::unique_ptr<Discovery> discovery_;
};

TEST_F(FileSdTest, FollowsItsFiles) {
  using Urls = std::vector<std::string>;
  EXPECT_EQ(Look(), Urls{});
  Put("a.yaml", "- targets: [\"a:1\"]\n");
  EXPECT_EQ(Look(), Urls{"http://a:1/metrics"});
  Put("b.yaml", "- targets: [\"b:1\"]\n");
  Put("c.txt", "- targets: [\"c:1\"]\n");
  EXPECT_EQ(Look(), (Urls{"http://a:1/metrics", "http://b:1/metrics"}));
  Put("a.yaml", "- targets: [\"a:2\"]\n");
  EXPECT_EQ(Look(), (Urls{"http://a:2/metrics", "http://b:1/metrics"}));
  std::filesystem::remove(folder_ + "/b.yaml");
  EXPECT_EQ(Look(), Urls{"http://a:2/metrics"});
}

TEST_F(FileSdTest, BadFileKeepsItsLastGoodTargets) {
  using Urls = std::vector<std::string>;
  Put("a.yaml", "- targets: [\"a:1\"]\n");
  EXPECT_EQ(Look(), Urls{"http://a:1/metrics"});
  Put("a.yaml", "- targets: [\"a:1\"\n");
  EXPECT_EQ(Look(), Urls{"http://a:1/metrics"});
  Put("a.yaml", "- targets: [\"a:3\"]\n");
  EXPECT_EQ(Look(), Urls{"http://a:3/metrics"});
}

}  // namespace
}  // namespace gpulens
