
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "base/files.h"
#include "base/testing/temp_folder.h"
#include "cli/exp/exp_command.h"
#include "wire/json/json_testing.h"

namespace gpulens {
namespace {

using namespace experiments;
using json_testing::Json;
using json_testing::JsonReader;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kSecond = 1'000'000'000, kStart = 1'763'690'821 * kSecond;

RunPage Page() {
  RunPage page;
  page.run.id = "exp-20251121-020701-9f3a11c2";
  page.run.name = "my \x1b[31mrun";
  page.run.status = kDone;
  page.run.started_ns = kStart;
  page.run.ended_ns = kStart + 100 * kSecond;
  page.run.git_commit = "abc";
  page.run.energy = {
      .joules = 41.8, .uncertainty_joules = 0.6, .method = "counter", .validity = "valid", .reason = {}};
  page.params = {{"lr", 0.001}, {"opt", std::string("adam")}, {"amp", true}};
  page.metrics = {
      {.key = "loss", .count = 1204, .nan_count = 1, .last_step = 1203, .last = NAN, .min = 0.5, .max = 2.5},
      {.key = "old", .count = {}, .nan_count = 0, .last_step = {}, .last = 3}};
  page.artifacts = {
      {.name = "model.pt", .path = "/x/model.pt", .bytes = 12345, .sha256 = std::string(64, 'a')}};
  return page;
}

TEST(ExpText, TruncatesDurations) {
  EXPECT_EQ(DurationText(0.256), "0.25s");
  EXPECT_EQ(DurationText(12.39), "12.3s");
  EXPECT_EQ(DurationText(59.99), "59.9s");
  EXPECT_EQ(DurationText(60), "1m 0s");
  EXPECT_EQ(DurationText(100), "1m 40s");
  EXPECT_EQ(DurationText(119.7), "1m 59s");
  EXPECT_EQ(DurationText(6120), "1h 42m");
  EXPECT_EQ(DurationText(3599.9), "59m 59s");
  EXPECT_EQ(DurationText(2 * 86'400 + 3 * 3600 + 59 * 60), "2d 3h");
  EXPECT_EQ(DurationText(NAN), "–");
  EXPECT_EQ(DurationText(-1), "–");
  EXPECT_EQ(DurationText(1e300), "–");
}

TEST(ExpText, NumbersAreReadable) {
  EXPECT_EQ(MetricText(3e-5), "3e-05");
  EXPECT_EQ(MetricText(0.0003125), "0.0003125");
  EXPECT_EQ(MetricText(124439808), "124439808");
  EXPECT_EQ(MetricText(NAN), "nan");
  EXPECT_EQ(MetricText(-INFINITY), "-inf");
  EXPECT_EQ(CountText(1), "1");
  EXPECT_EQ(CountText(999), "999");
  EXPECT_EQ(CountText(1204), "1,204");
  EXPECT_EQ(CountText(-1234567), "-1,234,567");
  EXPECT_EQ(CountText(-999), "-999");
  EXPECT_EQ(EnergyText(41.8), "41.8 J");
  EXPECT_EQ(EnergyText(6.48e6), "1.8 kWh");
  EXPECT_EQ(EnergyText(NAN), "–");
  EXPECT_EQ(ChangeText(2, 2.5), "+25.0 %");
  EXPECT_EQ(ChangeText(-2, -1), "+50.0 %") << "up is up, also below zero";
  EXPECT_EQ(ChangeText(0, 1), "");
  EXPECT_EQ(ChangeText(NAN, 1), "");
  EXPECT_EQ(ChangeText(1, INFINITY), "");
}

TEST(ExpText, PageOmitsUnknownValuesAndEscapesTexts) {
  std::string text = RunPageText(Page(), 0);
  EXPECT_THAT(text, HasSubstr("duration    1m 40s"));
  EXPECT_THAT(text, HasSubstr("energy      41.8 J ± 0.6 J  counter"));
  EXPECT_THAT(text, HasSubstr("loss     nan  0.5  2.5  1,204      1,203"));
  EXPECT_THAT(text, HasSubstr("old        3    –    –      –          –"));
  EXPECT_THAT(text, HasSubstr("model.pt  12,345  aaaaaaaaaaaa  /x/model.pt  (not copied)"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  RunPage crashed = Page();
  crashed.run.status = kCrashed;
  crashed.run.energy = {.method = {}, .validity = "no_device", .reason = "no GPU"};
  text = RunPageText(crashed, 0);
  EXPECT_THAT(text, HasSubstr("crashed: its last heartbeat was at 2025-11-21T02:08:41.000Z"));
  EXPECT_THAT(text, HasSubstr("energy      –  no_device: no GPU"));
}

TEST(ExpText, PageHasDeviceUse) {
  RunPage page = Page();
  page.run.energy = {.joules = 6'474'000,
                     .uncertainty_joules = NAN,
                     .method = "counter",
                     .validity = "running",
                     .reason = "2 processes use one of these devices",
                     .vendor = "nvidia",
                     .devices = 3,
                     .mean_power_watts = 1834.4,
                     .peak_power_watts = 2100,
                     .mean_utilization_ratio = 0.812,
                     .peak_utilization_ratio = 1,
                     .mean_memory_used_bytes = 3.0 * (1 << 30),
                     .peak_memory_used_bytes = 4.5 * (1 << 30)};
  const std::string text = RunPageText(page, 0);
  EXPECT_THAT(text, HasSubstr("counter, up to its last heartbeat; 2 processes use one"));
  EXPECT_THAT(text, HasSubstr("J/step      5,382\n"));
  EXPECT_THAT(text,
              HasSubstr("devices     3 nvidia: 81 % busy (peak 100 %), 1834 W (peak 2100 W), 3.0 GiB (peak "
                        "4.5 GiB)\n"));
  EXPECT_THAT(RunListText({{page.run, page.metrics}}, 0), HasSubstr("1m 40s     3  1.798 kWh   5,382"));
  page.run.resumed = 1;
  EXPECT_THAT(RunPageText(page, 0), HasSubstr("since it was resumed"));
  EXPECT_THAT(RunPageText(page, 0), Not(HasSubstr("J/step"))) << "steps of before have no joules";
  page.run.energy.vendor = "cpu_rapl";
  EXPECT_THAT(RunListText({{page.run, {}}}, 0), HasSubstr("1m 40s     0  1.798 kWh       –"));
  page.run.energy.mean_utilization_ratio = NAN;
  EXPECT_THAT(RunPageText(page, 0), HasSubstr("devices     3 cpu_rapl: 1834 W"));
}

TEST(ExpText, JsonIsValidAndOmitsUnknownValues) {
  std::string why;
  auto page = JsonReader::Read(RunPageJson(Page(), 0), &why);
  ASSERT_TRUE(page) << why;
  EXPECT_EQ((*page)["schema"].text, "gpulens.experiment/1");
  EXPECT_EQ((*page)["duration_seconds"].number(), 100);
  EXPECT_EQ((*page)["metrics"]["loss"]["last_special"].text, "NaN");
  EXPECT_FALSE((*page)["metrics"]["old"]["count"].here());
  EXPECT_EQ((*page)["params"]["amp"].type, Json::kBool);
  RunPage empty;
  EXPECT_TRUE(JsonReader::Read(RunPageJson(empty, 0), &why)) << why;
  EXPECT_TRUE(JsonReader::Read(RunListJson({}, 0), &why)) << why;
  EXPECT_TRUE(JsonReader::Read(RunListJson({{Page().run, Page().metrics}, {}}, 0), &why)) << why;
  EXPECT_TRUE(JsonReader::Read(CompareJson({Page(), Page()}, 0), &why)) << why;
}

TEST(ExpText, OnlyDifferencesAreCompared) {
  RunPage a = Page(), b = Page();
  b.run.id = "exp-20251121-020702-00000000";
  b.params[0].value = 0.003;
  b.metrics[0].last = 1.5;
  b.metrics[1].last = 6;
  std::string text = CompareText({a, b}, false, 0);
  EXPECT_THAT(text, HasSubstr("9f3a11c2"));
  EXPECT_THAT(text, ::testing::ContainsRegex("param lr +0.001 +0.003"));
  EXPECT_THAT(text, ::testing::ContainsRegex("old +3 +6 +.100.0 %"));
  EXPECT_THAT(text, ::testing::ContainsRegex("loss +nan +1.5\n"));
  EXPECT_THAT(text, Not(HasSubstr("param opt")));
  EXPECT_THAT(CompareText({a, b}, true, 0), HasSubstr("param opt"));
}

TEST(Mlflow, KeysStayInFolder) {
  EXPECT_EQ(MlflowKey("train/loss"), "train/loss");
  EXPECT_EQ(MlflowKey("../../etc/passwd"), "_/_/etc/passwd");
  EXPECT_EQ(MlflowKey("/abs"), "abs");
  EXPECT_EQ(MlflowKey("a//b/"), "a/b");
  EXPECT_EQ(MlflowKey("acc@5 %"), "acc_5 _");
  EXPECT_EQ(MlflowKey("///"), "_");
  EXPECT_EQ(MlflowKey("."), "_");
  const std::string longest = MlflowKey(std::string(250, 'k')), longer = MlflowKey(std::string(5000, 'k'));
  EXPECT_EQ(longest, std::string(250, 'k'));
  EXPECT_EQ(longer.size(), 250u);
  EXPECT_NE(longer, MlflowKey(std::string(5001, 'k'))) << "told apart";
  EXPECT_EQ(MlflowExperimentId("a").size(), 18u);
  EXPECT_NE(MlflowExperimentId("a"), MlflowExperimentId("b"));
}

TEST(Mlflow, KeysThatClashHaveFilesOfTheirOwn) {
  gpulens::testing::TempFolder folder;
  MlflowRun run{.page = Page(), .points = {{}, {}}};
  run.page.artifacts.clear();
  run.page.params.clear();
  for (const char* key : {"a", "a", "a_b", "a/b", "a/b", "a/b/c", "a_b/c"})
    run.page.params.push_back({key, true});
  ASSERT_TRUE(WriteMlflow(run, folder.path() + "/mlruns"));
  size_t files = 0;
  const std::string params =
      folder.path() + "/mlruns/" + MlflowExperimentId(run.page.run.name) + "/" + run.page.run.id + "/params";
  for (const auto& each : std::filesystem::recursive_directory_iterator(params))
    files += each.is_regular_file();
  EXPECT_EQ(files, run.page.params.size());
}

// The path of a copy is a text of the file, which may be made to harm.
TEST(Mlflow, CopiesOnlyArtifactsOfTheRun) {
  gpulens::testing::TempFolder folder;
  const std::string key = folder.Write("id_rsa", "private");
  MlflowRun run{.page = Page(), .points = {{}, {}}};
  const std::string below = folder.path() + "/runs/" + run.page.run.id + "/artifacts/";
  for (const std::string& path : {key, below + "../../../id_rsa", folder.path() + "/artifacts/id_rsa",
                                  key + std::string(1, '\0') + "/" + run.page.run.id + "/artifacts/id_rsa"}) {
    run.page.artifacts = {{.name = "id_rsa", .path = path, .bytes = 7, .sha256 = {}, .copied = true}};
    const Status refused = WriteMlflow(run, folder.path() + "/mlruns");
    EXPECT_EQ(refused.code, Code::kInvalidArgument) << path;
    EXPECT_THAT(refused.detail, HasSubstr("is not below the run's artifacts"));
  }
  const std::string out = "../../../id_rsa";
  run.page.artifacts = {{.name = out, .path = below + out, .bytes = 7, .sha256 = {}, .copied = true}};
  EXPECT_EQ(WriteMlflow(run, folder.path() + "/mlruns").code, Code::kInvalidArgument);
  std::error_code error;
  for (const auto& each : std::filesystem::recursive_directory_iterator(folder.path() + "/mlruns", error))
    EXPECT_NE(each.path().filename(), "id_rsa");
}

// The layout that MLflow documents for its file store.
TEST(Mlflow, WritesFileStore) {
  gpulens::testing::TempFolder folder;
  MlflowRun run{.page = Page(), .points = {{{0, kStart, 2.5}, {1, kStart + 2'000'000, NAN}}, {}}};
  const std::string copies = folder.path() + "/runs/" + run.page.run.id + "/artifacts";
  ASSERT_TRUE(MakeFoldersAbove(copies + "/best/model.pt") &&
              WriteFileAtomically(copies + "/best/model.pt", "abc"));
  run.page.run.name = "my: run";
  run.page.tags = {{"team", "nlp"}};
  run.page.metrics.push_back({.key = "loss/inner", .count = 1, .last_step = 5});
  run.points.push_back({{5, kStart, INFINITY}});
  run.page.artifacts = {
      {.name = "best/model.pt", .path = copies + "/best/model.pt", .bytes = 3, .sha256 = {}, .copied = true}};
  for (int i = 0; i < 2; ++i) {  // a second time over the first
    Status written = WriteMlflow(run, folder.path() + "/mlruns");
    ASSERT_TRUE(written) << written.detail;
  }
  const std::string experiment = folder.path() + "/mlruns/" + MlflowExperimentId("my: run");
  const std::string place = experiment + "/" + run.page.run.id;
  auto read = [](const std::string& path) { return ReadFile(path, 1 << 20).value_or("nothing"); };
  EXPECT_THAT(read(experiment + "/meta.yaml"), HasSubstr("name: \"my: run\"\n"));
  std::string meta = read(place + "/meta.yaml");
  EXPECT_THAT(meta, HasSubstr("run_id: \"exp-20251121-020701-9f3a11c2\"\n"));
  EXPECT_THAT(meta, HasSubstr("start_time: 1763690821000\n"));
  EXPECT_THAT(meta, HasSubstr("end_time: 1763690921000\n"));
  EXPECT_THAT(meta, HasSubstr("status: 3\n"));
  EXPECT_EQ(read(place + "/metrics/loss"), "1763690821000 2.5 0\n1763690821002 nan 1\n");
  EXPECT_EQ(read(place + "/metrics/loss_inner"), "1763690821000 inf 5\n") << "loss is a file already";
  EXPECT_EQ(read(place + "/metrics/old"), "1763690921000 3 0\n") << "the last value of an old file";
  EXPECT_EQ(read(place + "/metrics/energy_joules"), "1763690921000 41.8 0\n");
  EXPECT_EQ(read(place + "/params/lr"), "0.001");
  EXPECT_EQ(read(place + "/tags/team"), "nlp");
  EXPECT_EQ(read(place + "/tags/mlflow.source.git.commit"), "abc");
  EXPECT_EQ(read(place + "/artifacts/best/model.pt"), "abc");
  run.page.run.id = "../x";
  EXPECT_EQ(WriteMlflow(run, folder.path()).code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace gpulens
