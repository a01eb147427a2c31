#include "wire/json/json_snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>

#include "wire/json/json_testing.h"
#include "wire/json/json_text.h"

namespace gpulens {
namespace {

using json_testing::Gpu;
using json_testing::Json;
using json_testing::JsonReader;
using json_testing::MakeSnapshot;
using json_testing::TestSource;
using ::testing::HasSubstr;

constexpr Instant kNow{1'000'000'000'000, 1'700'000'000'123'000'000};
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

constexpr MetricDesc kPower{.name = "gpu.power.draw", .unit = "W", .help = "Power \"drawn\"."};
constexpr MetricDesc kUsed{
    .name = "gpu.process.memory.used", .unit = "By", .help = "Used.", .number = Number::kInt};
constexpr MetricDesc kPeak{
    .name = "gpu.process.memory.peak", .unit = "By", .help = "Peak.", .number = Number::kInt};
constexpr MetricDesc kWait{.name = "wait", .unit = "s", .help = "", .kind = Kind::kHistogram};
constexpr MetricDesc kLatency{.name = "latency", .unit = "s", .help = "", .kind = Kind::kSummary};

void NameWithUnderscores(const SeriesInfo& series, std::vector<NamedSeries>& out) {
  NamedSeries& named = out.emplace_back();
  for (char c : series.desc->name) named.name += c == '.' ? '_' : c;
}

Json ReadJson(const std::string& text) {
  std::string why;
  auto value = JsonReader::Read(text, &why);
  EXPECT_TRUE(value.has_value()) << why << "\n" << text;
  return value.value_or(Json());
}

Json Render(JsonSnapshot& page, const Snapshot& snapshot, std::string_view members = {}) {
  std::string text = "left over";
  page.Render(snapshot, members, text);
  return ReadJson(text);
}

std::string Number(double value) {
  std::string out;
  AppendJsonNumber(out, value);
  return out;
}
std::string Time(int64_t unix_ns) {
  std::string out;
  AppendRfc3339(out, unix_ns);
  return out;
}

TEST(JsonText, NumbersReadBackExactlyAndAreJson) {
  EXPECT_EQ(Number(612.3), "612.3");
  EXPECT_EQ(Number(5), "5");
  EXPECT_EQ(Number(0.1 + 0.2), "0.30000000000000004");
  EXPECT_EQ(Number(kNan), "null");
  EXPECT_EQ(Number(-kInfinity), "null");
  for (double value : {0.0, -0.0, 1e-300, 1e300, 5e-324, -1.5, 9007199254740993.0, 1e22}) {
    Json read = ReadJson(Number(value));
    ASSERT_EQ(read.type, Json::kNumber) << value;
    EXPECT_EQ(read.number(), value);
  }
  std::string out;
  AppendJsonInt(out, std::numeric_limits<int64_t>::min());
  EXPECT_EQ(out, "-9223372036854775808");
}

TEST(JsonText, MembersWithoutAJsonNumberAreStrings) {
  std::string out;
  AppendJsonMember(out, "value", 1.5);
  AppendJsonMember(out, "value", kNan);
  AppendJsonMember(out, "sum", -kInfinity);
  AppendJsonMember(out, "sum", kInfinity);
  EXPECT_EQ(out, "\"value\":1.5\"special\":\"NaN\"\"sum_special\":\"-Inf\"\"sum_special\":\"+Inf\"");
}

TEST(JsonText, AttributesKeepTheirTypes) {
  std::string out;
  AppendJsonAttributes(
      out, AttributeSet({{"a", "x\"\n\xff"}, {"b", int64_t{-3}}, {"c", 0.5}, {"d", true}, {"e", kNan}}));
  EXPECT_EQ(out, "{\"a\":\"x\\\"\\n\uFFFD\",\"b\":-3,\"c\":0.5,\"d\":true,\"e\":\"NaN\"}")
      << "its texts are valid UTF-8";
  out.clear();
  AppendJsonAttributes(out, {});
  EXPECT_EQ(out, "{}");
}

TEST(JsonText, TimesAreUtcWithMilliseconds) {
  EXPECT_EQ(Time(0), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(Time(-1), "1969-12-31T23:59:59.999Z");
  EXPECT_EQ(Time(1'709'210'096'789'999'999), "2024-02-29T12:34:56.789Z");
  EXPECT_EQ(Time(1'735'689'599'999'000'000), "2024-12-31T23:59:59.999Z");
  EXPECT_EQ(Time(951'782'400'000'000'000), "2000-02-29T00:00:00.000Z");
  EXPECT_EQ(Time(std::numeric_limits<int64_t>::max()), "2262-04-11T23:47:16.854Z");
  EXPECT_EQ(Time(std::numeric_limits<int64_t>::min()), "1677-09-21T00:12:43.145Z");
  std::string out;
  AppendJsonSeconds(out, 61'007);
  AppendJsonSeconds(out, -5);
  EXPECT_EQ(out, "61.007-0.005");
}

TEST(JsonSnapshot, ShowsFamiliesWithTheirSeries) {
  TestSource nvidia("nvidia");
  Series power0 = nvidia.table.Declare(kPower, Gpu(0));
  nvidia.table.Declare(kPower, Gpu(1));
  Series used = nvidia.table.Declare(kUsed, Gpu(0));
  nvidia.writer.Begin(kNow);
  nvidia.writer.Set(power0, 612.3);
  nvidia.writer.SetInt(used, 9'007'199'254'740'993);
  auto snapshot = MakeSnapshot(7, kNow + std::chrono::milliseconds(11), {nvidia.Entry()});
  snapshot->resource = AttributeSet({{"host.name", "n1"}});

  JsonSnapshot page(NameWithUnderscores);
  Json json = Render(page, *snapshot, "\"gpu_memory\":{}");
  EXPECT_EQ(json["schema"].text, "gpulens.json/1");
  EXPECT_EQ(json["tick"].text, "7");
  EXPECT_EQ(json["last_update_ms"].text, "1700000000134");
  EXPECT_EQ(json["resource"]["host.name"].text, "n1");
  EXPECT_EQ(json["gpu_memory"].type, Json::kObject);
  const Json& power = json["metrics"]["gpu.power.draw"];
  EXPECT_EQ(power["kind"].text, "gauge");
  EXPECT_EQ(power["unit"].text, "W");
  EXPECT_EQ(power["help"].text, "Power \"drawn\".");
  EXPECT_EQ(power["names"][0].text, "gpu_power_draw");
  ASSERT_EQ(power["series"].items.size(), 1u);  // the other GPU was never read
  const Json& series = power["series"][0];
  EXPECT_EQ(series["attributes"]["gpu.index"].text, "0");
  EXPECT_EQ(series["source"].text, "nvidia");
  EXPECT_EQ(series["value"].text, "612.3");
  EXPECT_EQ(series["quality"].text, "ok");
  EXPECT_EQ(series["age_s"].text, "0.011");
  EXPECT_EQ(json["metrics"]["gpu.process.memory.used"]["series"][0]["value"].text, "9007199254740993");
}

TEST(JsonSnapshot, ReadingsWithoutAValueHaveAReason) {
  TestSource nvidia("nvidia"), other("other");
  Series power0 = nvidia.table.Declare(kPower, Gpu(0));
  Series power1 = nvidia.table.Declare(kPower, Gpu(1));
  nvidia.writer.Begin(kNow);
  nvidia.writer.Set(power0, 612.3);
  nvidia.writer.Reject(power1, Validation::kNotSupported);
  other.table.Declare(kPower, Gpu(2));
  Series used = other.table.Declare(kUsed, Gpu(2));
  other.writer.Begin(kNow);
  other.writer.SetInt(used, 1);
  auto snapshot = MakeSnapshot(1, kNow, {nvidia.Entry(), other.Entry()});

  JsonSnapshot page(NameWithUnderscores);
  Json metrics = Render(page, *snapshot)["metrics"];
  const Json& power = metrics["gpu.power.draw"];
  EXPECT_EQ(power["series"].items.size(), 1u);
  ASSERT_EQ(power["absent"].items.size(), 2u);
  EXPECT_EQ(power["absent"][0]["attributes"]["gpu.index"].text, "1");
  EXPECT_EQ(power["absent"][0]["source"].text, "nvidia");
  EXPECT_EQ(power["absent"][0]["reason"].text, "not_supported");
  EXPECT_EQ(power["absent"][1]["source"].text, "other");
  EXPECT_EQ(power["absent"][1]["reason"].text, "not_read");
  EXPECT_TRUE(metrics["gpu.process.memory.used"]["absent"].items.empty());
}

TEST(JsonSnapshot, ShowsStaleValuesWithTheirAge) {
  TestSource nvidia("nvidia");
  Series power = nvidia.table.Declare(kPower, Gpu(0));
  nvidia.writer.Begin(kNow);
  nvidia.writer.Set(power, 5);
  auto first = nvidia.Entry(Precedence::kNative, true);
  nvidia.writer.Begin(kNow + std::chrono::seconds(2));
  auto second = nvidia.Entry();

  JsonSnapshot page(NameWithUnderscores);
  Json overdue = Render(page, *MakeSnapshot(1, kNow + std::chrono::seconds(1), {first}));
  EXPECT_EQ(overdue["metrics"]["gpu.power.draw"]["series"][0]["quality"].text, "stale");
  EXPECT_EQ(overdue["metrics"]["gpu.power.draw"]["series"][0]["age_s"].text, "1.000");
  Json stale = Render(page, *MakeSnapshot(2, kNow + std::chrono::seconds(3), {second}));
  EXPECT_EQ(stale["metrics"]["gpu.power.draw"]["series"][0]["quality"].text, "stale");
  EXPECT_EQ(stale["metrics"]["gpu.power.draw"]["series"][0]["age_s"].text, "3.000");
}

TEST(JsonSnapshot, ShowsDistributions) {
  TestSource app("app");
  auto buckets = MakeRef<Shape>();
  buckets->bounds = {0.1, kInfinity};
  auto quantiles = MakeRef<Shape>();
  quantiles->bounds = {0.5};
  quantiles->has_sum = false;
  SeriesTable::Form histogram_form{buckets}, summary_form{quantiles};
  Series wait = app.table.Declare(kWait, {}, {}, histogram_form);
  Series latency = app.table.Declare(kLatency, {}, {}, summary_form);
  app.writer.Begin(kNow);
  auto cells = app.writer.Cells(wait);
  cells[0].d = 3, cells[1].d = 4, cells[2].d = 0.25, cells[3].d = 4;
  cells = app.writer.Cells(latency);
  cells[0].d = kNan, cells[1].d = 0;
  JsonSnapshot page(NameWithUnderscores);
  Json json = Render(page, *MakeSnapshot(1, kNow, {app.Entry()}));
  const Json& h = json["metrics"]["wait"]["series"][0];
  EXPECT_EQ(h["buckets"][0]["le"].text, "0.1");
  EXPECT_EQ(h["buckets"][0]["count"].text, "3");
  EXPECT_EQ(h["buckets"][1]["le"].text, "+Inf");
  EXPECT_EQ(h["sum"].text, "0.25");
  EXPECT_EQ(h["count"].text, "4");
  const Json& s = json["metrics"]["latency"]["series"][0];
  EXPECT_EQ(s["quantiles"][0]["quantile"].text, "0.5");
  EXPECT_EQ(s["quantiles"][0]["special"].text, "NaN");
  EXPECT_FALSE(s["sum"].here());
  EXPECT_EQ(s["count"].text, "0");
}

TEST(JsonSnapshot, JoinsFamiliesOfSeveralSourcesAndKeepsTheirDifferences) {
  constexpr MetricDesc kOther{.name = "gpu.power.draw", .unit = "mW", .help = "", .kind = Kind::kCounter};
  TestSource nvidia("nvidia"), scrape("scrape/\"x\"");
  Series native = nvidia.table.Declare(kPower, Gpu(0));
  Series same = scrape.table.Declare(kPower, Gpu(0));
  Series other = scrape.table.Declare(kOther, Gpu(1));
  for (TestSource* source : {&nvidia, &scrape}) source->writer.Begin(kNow);
  nvidia.writer.Set(native, 1);
  scrape.writer.Set(same, 2);
  scrape.writer.Set(other, 3);
  // The passed-on one comes first, but the native one has precedence.
  auto snapshot = MakeSnapshot(1, kNow, {scrape.Entry(Precedence::kPassThrough), nvidia.Entry()});
  JsonSnapshot page(NameWithUnderscores);
  Json json = Render(page, *snapshot);
  const Json& family = json["metrics"]["gpu.power.draw"];
  EXPECT_EQ(family["unit"].text, "W");
  ASSERT_EQ(family["series"].items.size(), 3u);
  EXPECT_EQ(family["series"][0]["source"].text, "nvidia");
  EXPECT_FALSE(family["series"][0]["kind"].here());
  EXPECT_EQ(family["series"][1]["source"].text, "scrape/\"x\"");
  EXPECT_EQ(family["series"][2]["value"].text, "3");
  EXPECT_EQ(family["series"][2]["kind"].text, "counter");
  EXPECT_EQ(family["series"][2]["unit"].text, "mW");
}

TEST(JsonSnapshot, ShowsFamiliesThatNothingFeeds) {
  NamedSeries fed, unfed;
  fed.name = "gpu_power_draw";
  unfed.name = "zernel_nothing_seconds", unfed.unit = "seconds", unfed.help = "H",
  unfed.kind = Kind::kSummary;
  JsonSnapshot page(NameWithUnderscores);
  page.AlwaysShow({fed, unfed});
  Json empty = Render(page, *MakeSnapshot(1, kNow, {}));
  EXPECT_EQ(empty["metrics"].keys.size(), 2u);

  TestSource nvidia("nvidia");
  nvidia.table.Declare(kPower, Gpu(0));
  nvidia.writer.Begin(kNow);
  Json json = Render(page, *MakeSnapshot(2, kNow, {nvidia.Entry()}));
  ASSERT_EQ(json["metrics"].keys.size(), 2u);
  EXPECT_EQ(json["metrics"]["gpu.power.draw"]["series"].type, Json::kArray);
  EXPECT_TRUE(json["metrics"]["gpu.power.draw"]["series"].items.empty());
  EXPECT_EQ(json["metrics"]["zernel_nothing_seconds"]["kind"].text, "summary");
  EXPECT_EQ(json["metrics"]["zernel_nothing_seconds"]["names"][0].text, "zernel_nothing_seconds");
}

TEST(JsonSnapshot, IsValidWithNothingAtAll) {
  JsonSnapshot page(NameWithUnderscores);
  EXPECT_TRUE(Render(page, *MakeSnapshot(0, {}, {}))["metrics"].keys.empty());
}

TEST(JsonSnapshot, FollowsLayoutsThatChange) {
  TestSource nvidia("nvidia");
  Series power = nvidia.table.Declare(kPower, Gpu(0));
  JsonSnapshot page(NameWithUnderscores);
  for (int64_t i = 1; i <= 5; ++i) {
    nvidia.writer.Begin(kNow + std::chrono::seconds(i));
    nvidia.writer.Set(power, static_cast<double>(i));
    Json json = Render(
        page, *MakeSnapshot(static_cast<uint64_t>(i), kNow + std::chrono::seconds(i), {nvidia.Entry()}));
    EXPECT_EQ(json["metrics"]["gpu.power.draw"]["series"][0]["value"].number(), static_cast<double>(i));
    EXPECT_EQ(json["metrics"]["gpu.power.draw"]["series"][0]["attributes"]["gpu.index"].number(),
              static_cast<double>(i - 1));
    nvidia.table.Retire(power);
    power = nvidia.table.Declare(kPower, Gpu(i));
  }
}

TEST(JsonSnapshot, FiveThousandSeriesTakeMilliseconds) {
  TestSource source("many");
  std::vector<Series> all;
  for (int64_t i = 0; i < 5000; ++i) all.push_back(source.table.Declare(kPower, Gpu(i)));
  source.writer.Begin(kNow);
  for (size_t i = 0; i < all.size(); ++i) source.writer.Set(all[i], static_cast<double>(i) * 1.1);
  auto snapshot = MakeSnapshot(1, kNow, {source.Entry()});
  JsonSnapshot page(NameWithUnderscores);
  std::string text;
  page.Render(*snapshot, {}, text);
  auto best = std::chrono::nanoseconds::max();
  for (int i = 0; i < 20; ++i) {
    auto started = std::chrono::steady_clock::now();
    page.Render(*snapshot, {}, text);
    best = std::min<std::chrono::nanoseconds>(best, std::chrono::steady_clock::now() - started);
  }
  EXPECT_EQ(ReadJson(text)["metrics"]["gpu.power.draw"]["series"].items.size(), 5000u);
  RecordProperty("best_us", static_cast<int>(best.count() / 1000));
  // Far above what it takes, for slow machines and sanitizers.
  EXPECT_LT(best, std::chrono::milliseconds(200));
}

TEST(MemoryByProcess, KeysByPidAndGpu) {
  TestSource nvidia("nvidia");
  AttributeSet pid({{"process.pid", int64_t{4242}}});
  Series used = nvidia.table.Declare(kUsed, Gpu(1), pid);
  Series duplicate =
      nvidia.table.Declare(kUsed, Gpu(1), AttributeSet({{"process.pid", int64_t{4242}}, {"x", "y"}}));
  Series peak = nvidia.table.Declare(kPeak, Gpu(1), pid);
  Series lone = nvidia.table.Declare(kPeak, Gpu(0), pid);
  Series unowned = nvidia.table.Declare(kUsed, Gpu(2));
  nvidia.writer.Begin(kNow);
  nvidia.writer.SetInt(used, 100);
  nvidia.writer.SetInt(duplicate, 7);
  nvidia.writer.SetInt(peak, 300);
  nvidia.writer.SetInt(lone, 1);
  nvidia.writer.SetInt(unowned, 1);
  MemoryByProcess memory(kUsed, kPeak);
  auto found = memory.Of(*MakeSnapshot(1, kNow, {nvidia.Entry()}));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found["4242:1"].current, 100);
  EXPECT_EQ(found["4242:1"].peak, 300);
  EXPECT_EQ(found["4242:0"].current, std::nullopt);
  EXPECT_EQ(found["4242:0"].peak, 1);
}

TEST(PerLayout, ForgetsUnusedLayouts) {
  TestSource source("a");
  source.table.Declare(kPower, Gpu(0));
  auto first = source.table.Freeze();
  source.table.Declare(kPower, Gpu(1));
  auto second = source.table.Freeze();
  PerLayout<uint32_t> sizes;
  int made = 0;
  auto make = [&](const Layout& layout) { return ++made, layout.slots(); };
  EXPECT_EQ(sizes.Of(first, make), 1u);
  EXPECT_EQ(sizes.Of(second, make), 2u);
  sizes.Forget();
  EXPECT_EQ(sizes.Of(second, make), 2u);
  sizes.Forget();
  EXPECT_EQ(sizes.size(), 1u);
  EXPECT_EQ(made, 2);
}

TEST(JsonReader, RejectsInvalidJson) {
  for (const char* bad : {"", "{", "[1,]", "{\"a\":1,\"a\":2}", "01", "1.", "NaN", "\"\x01\"", "\"\xff\"",
                          "[1] 2", "{\"a\" 1}", "\"\\x\"", "nul", "-"}) {
    EXPECT_FALSE(JsonReader::Read(bad).has_value()) << bad;
  }
}

}  // namespace
}  // namespace gpulens
