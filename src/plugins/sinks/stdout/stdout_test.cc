#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <csignal>
#include <thread>

#include "base/fd.h"
#include "catalog/gpu.h"
#include "catalog/inference.h"
#include "catalog/self.h"
#include "export/names_testing.h"
#include "plugins/plugin.h"
#include "plugins/sinks/stdout/collect_forms.h"
#include "wire/json/json_testing.h"

namespace gpulens {
extern const SinkSpec stdout_sink;
namespace {

using json_testing::Gpu;
using json_testing::Json;
using json_testing::JsonReader;
using json_testing::MakeSnapshot;
using json_testing::TestSource;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::string_view kSensorKeys[] = {"gpu.temperature.sensor"};
constexpr MetricDesc kPower{.name = "gpu.power.draw", .unit = "W", .help = ""};
constexpr MetricDesc kTemperature{.name = "gpu.temperature", .unit = "Cel", .help = "", .keys = kSensorKeys};
constexpr MetricDesc kMemory{.name = "gpu.memory.used", .unit = "By", .help = "", .number = Number::kInt};
constexpr MetricDesc kWait{.name = "wait", .unit = "s", .help = "", .kind = Kind::kHistogram};
constexpr MetricDesc kScraped{.name = "up\x1b[31m", .unit = "", .help = "", .naming = Naming::kVerbatim};

// Two GPUs of one collector, with a reading that is stale and some that are absent.
struct TwoGpus {
  TwoGpus() {
    auto gpu = [&](int64_t index) {
      return MakeRef<const Entity>("gpu", AttributeSet({{"gpu.model", "H100"}, {"gpu.index", index}}), host);
    };
    EntityRef first = gpu(0), second = gpu(1);
    AttributeSet hotspot({{"gpu.temperature.sensor", "hotspot"}});
    power[0] = source.table.Declare(kPower, first);
    power[1] = source.table.Declare(kPower, second);
    heat = source.table.Declare(kTemperature, first, hotspot);
    source.table.Declare(kTemperature, second, hotspot);
    memory[0] = source.table.Declare(kMemory, first);
    memory[1] = source.table.Declare(kMemory, second);
    source.writer.Begin(now);
    source.writer.Set(power[1], 598);
    source.writer.Finish();
    source.writer.Begin(now);
    source.writer.Set(power[0], 612.3);
    source.writer.Set(heat, 71);
    source.writer.SetInt(memory[0], int64_t{72} << 30);
    source.writer.SetInt(memory[1], int64_t{1} << 29);
  }
  Instant now = ManualClock().Now();
  EntityRef host = MakeRef<const Entity>("host", AttributeSet({{"host.name", "n1"}}));
  TestSource source{"nvidia"};
  Series power[2], memory[2], heat;
};

Json Read(std::string_view text) {
  std::string why;
  auto json = JsonReader::Read(text, &why);
  EXPECT_TRUE(json.has_value()) << why << "\n" << text;
  return json.value_or(Json());
}

TEST(CollectJson, GroupsReadingsByEntity) {
  TwoGpus gpus;
  TestSource self("gpulens");
  Series took = self.table.Declare(kSelfCollectorDuration, {}, AttributeSet({{"collector", "nvidia"}}));
  Series other = self.table.Declare(kSelfCollectorDuration, {}, AttributeSet({{"collector", "host"}}));
  self.writer.Begin(gpus.now);
  self.writer.Set(took, 0.0148);
  self.writer.Set(other, 1);
  auto snapshot =
      MakeSnapshot(1, gpus.now + std::chrono::milliseconds(11), {gpus.source.Entry(), self.Entry()});
  CollectJson form(false, testing::NamesOf());
  std::string text;
  form.Append(*snapshot, text);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  Json json = Read(text);
  ASSERT_EQ(json.items.size(), 2u);  // of the agent itself nothing
  const Json& first = json[0];
  EXPECT_EQ(first["schema"].text, "gpulens.collect/1");
  EXPECT_EQ(first["collector"].text, "nvidia");
  EXPECT_EQ(first["read_at"].text, "2023-11-14T22:13:20.000Z");
  EXPECT_EQ(first["duration_s"].text, "0.0148");
  EXPECT_EQ(first["entity_type"].text, "gpu");
  EXPECT_EQ(first["entity"]["gpu.index"].text, "0");
  EXPECT_EQ(first["entity"]["host.name"].text, "n1");
  ASSERT_EQ(first["readings"].items.size(), 3u);
  EXPECT_EQ(first["readings"][0]["name"].text, "gpu.memory.used");
  EXPECT_EQ(first["readings"][1]["name"].text, "gpu.power.draw");
  EXPECT_EQ(first["readings"][1]["unit"].text, "W");
  EXPECT_EQ(first["readings"][1]["value"].text, "612.3");
  EXPECT_EQ(first["readings"][1]["quality"].text, "ok");
  EXPECT_EQ(first["readings"][1]["age_s"].text, "0.011");
  EXPECT_FALSE(first["readings"][1]["attributes"].here());
  EXPECT_EQ(first["readings"][2]["attributes"]["gpu.temperature.sensor"].text, "hotspot");
  EXPECT_TRUE(first["absent"].items.empty());
  EXPECT_EQ(json[1]["readings"][1]["quality"].text, "stale");
  ASSERT_EQ(json[1]["absent"].items.size(), 1u);
  EXPECT_EQ(json[1]["absent"][0]["name"].text, "gpu.temperature");
}

// A histogram and a gauge of an engine.
Ref<const Snapshot> EngineSnapshot(TestSource& source) {
  EntityRef engine = MakeRef<const Entity>(
      "engine", AttributeSet({{"target", "t"}, {"inference.engine", "vllm"}, {"inference.layer", "engine"}}));
  Ref<Shape> shape = MakeRef<Shape>();
  shape->bounds = {0.5, HUGE_VAL};
  Series first = source.table.Declare(kInferenceTimeToFirstToken, engine, AttributeSet({{"model.name", "m"}}),
                                      SeriesTable::Form{shape});
  Series memory = source.table.Declare(kGpuMemoryUsed, engine);
  Instant now = ManualClock().Now();
  source.writer.Begin(now);
  std::span<Cell> cells = source.writer.Cells(first);
  cells[0].d = 3, cells[1].d = 4, cells[2].d = 1.5, cells[3].d = 4;
  source.writer.SetInt(memory, int64_t{3} << 20);
  return MakeSnapshot(1, now, {source.Entry()});
}

const Json* Reading(const Json& element, std::string_view name) {
  for (const Json& reading : element["readings"].items) {
    if (reading["name"].text == name) return &reading;
  }
  return nullptr;
}

TEST(CollectJson, WritesReadingsUnderEachName) {
  TestSource source("engines/t");
  auto snapshot = EngineSnapshot(source);
  CollectJson form(false, testing::NamesOf({"native", "otel_genai", "dcgm"}));
  std::string text;
  form.Append(*snapshot, text);
  Json json = Read(text);
  ASSERT_EQ(json.items.size(), 1u) << text;
  const Json* native = Reading(json[0], "inference.time_to_first_token");
  const Json* genai = Reading(json[0], "gen_ai.server.time_to_first_token");
  ASSERT_TRUE(native && genai) << text;
  EXPECT_EQ((*genai)["unit"].text, "s");
  EXPECT_EQ((*genai)["attributes"]["gen_ai.operation.name"].text, "chat");
  EXPECT_EQ((*genai)["attributes"]["gen_ai.provider.name"].text, "vllm");
  EXPECT_EQ((*genai)["attributes"]["gen_ai.request.model"].text, "m");
  EXPECT_FALSE((*genai)["attributes"]["target"].here()) << "the entity says it";
  EXPECT_EQ((*genai)["count"].text, "4");
  EXPECT_EQ((*genai)["buckets"].items.size(), 2u);
  const Json* used = Reading(json[0], "DCGM_FI_DEV_FB_USED");
  ASSERT_TRUE(used) << text;
  EXPECT_EQ((*used)["value"].text, "3") << "in their unit, whole MiB";

  CollectJson alone(false, testing::NamesOf({"otel_genai"}));
  text.clear();
  alone.Append(*snapshot, text);
  json = Read(text);
  EXPECT_EQ(json[0]["readings"].items.size(), 1u) << text;
}

TEST(CollectJson, WritesTheResource) {
  TwoGpus gpus;
  auto snapshot = MakeSnapshot(1, gpus.now, {gpus.source.Entry()});
  snapshot->resource = AttributeSet({{"k8s.cluster.name", "prod"}});
  CollectJson form(false, testing::NamesOf());
  std::string text;
  form.Append(*snapshot, text);
  EXPECT_EQ(Read(text)[0]["resource"]["k8s.cluster.name"].text, "prod");
}

TEST(CollectJson, ShowsOnlyGpusByOption) {
  constexpr MetricDesc kUsed{.name = "used", .unit = "By", .help = ""};
  TestSource source("nvidia");
  EntityRef gpu = Gpu(3);
  EntityRef slice = MakeRef<const Entity>("mig", AttributeSet({{"gpu.mig.instance_id", int64_t{1}}}), gpu);
  EntityRef process = MakeRef<const Entity>("process", AttributeSet({{"process.pid", int64_t{7}}}), gpu);
  EntityRef driver = MakeRef<const Entity>("reader", AttributeSet({{"reader", "nvml"}}));
  std::vector<Series> all;
  for (const EntityRef& entity : {driver, EntityRef(), gpu, slice, process})
    all.push_back(source.table.Declare(kUsed, entity));
  source.writer.Begin({});
  for (Series series : all) source.writer.Set(series, 1);
  auto snapshot = MakeSnapshot(1, {}, {source.Entry()});
  CollectJson everything(false, testing::NamesOf()), gpus(true, testing::NamesOf());
  std::string text;
  everything.Append(*snapshot, text);
  EXPECT_EQ(Read(text).items.size(), 5u);
  text.clear();
  gpus.Append(*snapshot, text);
  Json json = Read(text);
  ASSERT_EQ(json.items.size(), 2u);
  EXPECT_EQ(json[0]["entity_type"].text, "gpu");
  EXPECT_EQ(json[1]["entity_type"].text, "mig");
}

TEST(CollectJson, EmptySnapshotIsAnArray) {
  CollectJson form(false, testing::NamesOf());
  std::string text;
  TestSource empty("empty");
  empty.writer.Begin({});
  form.Append(*MakeSnapshot(1, {}, {empty.Entry()}), text);
  EXPECT_EQ(text, "[]\n");
}

TEST(CollectJson, KeepsAllLabelsOfAScrapedSeries) {
  TestSource scrape("scrape/x");
  EntityRef target = MakeRef<const Entity>("target", AttributeSet({{"instance", "n1:9100"}}));
  Series up = scrape.table.Declare(kScraped, target, AttributeSet({{"job", "j"}}));
  Series lone = scrape.table.Declare(kPower, {});
  scrape.writer.Begin({});
  scrape.writer.Set(up, 1);
  scrape.writer.Set(lone, 1);
  CollectJson form(false, testing::NamesOf());
  std::string text;
  form.Append(*MakeSnapshot(1, {}, {scrape.Entry(Precedence::kPassThrough, true)}), text);
  Json json = Read(text);
  EXPECT_EQ(json[0]["entity"]["instance"].text, "n1:9100");
  EXPECT_FALSE(json[0]["entity"]["job"].here());
  EXPECT_EQ(json[0]["readings"][0]["attributes"]["job"].text, "j");
  EXPECT_EQ(json[0]["readings"][0]["quality"].text, "stale");
  EXPECT_EQ(json[1]["entity_type"].text, "");
  EXPECT_TRUE(json[1]["entity"].keys.empty());
}

TEST(CollectTable, ShowsARowPerSeriesAndAColumnPerEntity) {
  TwoGpus gpus;
  CollectTable form;
  std::string text;
  form.Append(*MakeSnapshot(1, gpus.now, {gpus.source.Entry()}), text);
  EXPECT_EQ(text,
            "gpu (nvidia) by gpu.index         0     1\n"
            "  gpu.memory.used         GiB  72.0   0.5\n"
            "  gpu.power.draw          W     612   598~\n"
            "  gpu.temperature hotspot °C     71     –\n"
            "\n"
            "2023-11-14T22:13:20.000Z: 2 entities, 5 readings, 1 of them stale (~), 1 absent (–)\n"
            "\n");
}

TEST(CollectTable, WrapsManyColumns) {
  TestSource disks("host");
  std::vector<Series> all;
  for (int i = 0; i < 30; ++i) {
    EntityRef disk =
        MakeRef<const Entity>("disk", AttributeSet({{"system.device", "nvme" + std::to_string(i) + "n1"}}));
    all.push_back(disks.table.Declare(kMemory, disk));
  }
  disks.writer.Begin({});
  for (size_t i = 0; i < all.size(); ++i) disks.writer.SetInt(all[i], static_cast<int64_t>(i));
  CollectTable form(60);
  std::string text;
  form.Append(*MakeSnapshot(1, {}, {disks.Entry()}), text);
  for (int i = 0; i < 30; ++i) EXPECT_THAT(text, HasSubstr("nvme" + std::to_string(i) + "n1"));
  std::string_view rest = text;
  while (!rest.empty()) EXPECT_LE(DisplayWidth(TakeUntil(rest, '\n')), 60u + 20u);
  EXPECT_THAT(text, HasSubstr("30 entities, 30 readings\n"));
}

TEST(CollectTable, ShowsDistributionsAndEscapesControlCharacters) {
  TestSource app("app");
  auto shape = MakeRef<Shape>();
  shape->bounds = {0.1};
  auto bare = MakeRef<Shape>();
  bare->has_sum = bare->has_count = false;
  EntityRef one = MakeRef<const Entity>("app", AttributeSet({{"a", "x"}, {"b", "y"}}));
  EntityRef two = MakeRef<const Entity>("app", AttributeSet({{"a", "x"}, {"b", "z"}, {"c", "w"}}));
  SeriesTable::Form form_of{shape};
  SeriesTable::Form bare_form{bare};
  Series wait = app.table.Declare(kWait, one, {}, form_of);
  app.table.Declare(kWait, two, {}, form_of);
  app.table.Declare(kWait, {}, {}, bare_form);
  Series odd = app.table.Declare(kScraped, one, AttributeSet({{"l", "\x1b[0m\n"}}));
  app.writer.Begin({});
  auto cells = app.writer.Cells(wait);
  cells[0].d = 1, cells[1].d = 0.5, cells[2].d = 2000;
  app.writer.Set(odd, std::nan(""));
  CollectTable form;
  std::string text;
  form.Append(*MakeSnapshot(1, {}, {app.Entry()}), text);
  EXPECT_THAT(text, HasSubstr("wait count"));
  EXPECT_THAT(text, HasSubstr("2,000"));
  EXPECT_THAT(text, HasSubstr("wait mean"));
  EXPECT_THAT(text, HasSubstr("250"));
  EXPECT_THAT(text, HasSubstr("app (app) by b"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
}

TEST(HumanUnits, FollowTheUnitAndTheLargestValue) {
  struct Case {
    const char* unit;
    double value;
    const char* shown;
  };
  constexpr Case kCases[] = {
      {"By", 79.6 * 1073741824, "79.6 GiB"},
      {"By", 5242880, "5.0 MiB"},
      {"By", 2048, "2.0 KiB"},
      {"By", 12, "12 B"},
      {"By/s", 25e9, "25.0 GB/s"},
      {"By/s", 1.5e6, "1.5 MB/s"},
      {"By/s", 2500, "2.5 kB/s"},
      {"By/s", 3, "3 B/s"},
      {"W", 612.3, "612 W"},
      {"W", 7.25, "7.2 W"},
      {"W", 12345, "12.3 kW"},
      {"J", 500, "500 J"},
      {"J", 51120, "51.1 kJ"},
      {"J", 7.2e6, "2.00 kWh"},
      {"1", 0.97, "97 %"},
      {"1", 0.052, "5.2 %"},
      {"1", 7, "7.00"},
      {"{percent}", 42, "42 %"},
      {"Cel", 64.4, "64 °C"},
      {"MHz", 1755, "1,755 MHz"},
      {"s", 0.00085, "850 µs"},
      {"s", 0.0421, "42.1 ms"},
      {"s", 1.84, "1.84 s"},
      {"s", 12345, "12,345 s"},
      {"s", 0, "0.00 s"},
      {"{thing}", 0.5, "0.50"},
      {"V", 1.05, "1.05 V"},
  };
  for (const Case& c : kCases) {
    MetricDesc desc{.name = "x", .unit = c.unit, .help = ""};
    HumanScale scale = HumanScaleFor(desc, c.value);
    std::string shown = HumanNumber(c.value, scale);
    if (!scale.unit.empty()) shown += " " + std::string(scale.unit);
    EXPECT_EQ(shown, c.shown) << c.unit << " " << c.value;
  }
  MetricDesc count{.name = "x", .unit = "{packet}", .help = "", .number = Number::kInt};
  EXPECT_EQ(HumanNumber(1904, HumanScaleFor(count, 1904)), "1,904");
  EXPECT_EQ(HumanNumber(1234567, HumanScaleFor(count, 1234567)), "1,234,567");
  EXPECT_EQ(HumanNumber(12.34e6, HumanScaleFor(count, 12.34e6)), "12.3");
  EXPECT_EQ(HumanScaleFor(count, 12.34e6).unit, "M");
}

TEST(HumanUnits, WriteAnyNumber) {
  EXPECT_EQ(HumanNumber(-1234.5, {1, "", 1}), "-1,234.5");
  EXPECT_EQ(HumanNumber(-0.0001, {1, "", 1}), "0.0");
  EXPECT_EQ(HumanNumber(INFINITY, {}), "+Inf");
  EXPECT_EQ(HumanNumber(-INFINITY, {}), "-Inf");
  EXPECT_EQ(HumanNumber(NAN, {}), "NaN");
  EXPECT_GT(HumanNumber(1e308, {100, "", 2}).size(), 300u);
  EXPECT_EQ(DisplayWidth("µ–x"), 3u);
}

// Replaces fd 1 during its lifetime.
class StdoutTo {
 public:
  explicit StdoutTo(int fd) : before_(::dup(STDOUT_FILENO)) { ::dup2(fd, STDOUT_FILENO); }
  ~StdoutTo() { ::dup2(before_.get(), STDOUT_FILENO); }

 private:
  UniqueFd before_;
};

Config Options(const char* format, bool end_when_closed = false) {
  Config config;
  config.Set("format", std::string(format), {});
  config.Set("end_when_closed", end_when_closed, {});
  config.Set("gpus_only", false, {});
  testing::SetNames(config);
  return config;
}

struct Pipe {
  explicit Pipe(int flags = 0) {
    int fds[2];
    if (::pipe2(fds, O_CLOEXEC | flags) == 0) out.reset(fds[0]), in.reset(fds[1]);
  }
  UniqueFd out, in;
};

std::string ReadPipe(int fd) {
  char buffer[65536];
  ssize_t count = ::read(fd, buffer, sizeof buffer);
  return {buffer, static_cast<size_t>(std::max<ssize_t>(count, 0))};
}

TEST(StdoutSink, WritesTheConfiguredFormat) {
  TwoGpus gpus;
  auto snapshot = MakeSnapshot(1, gpus.now, {gpus.source.Entry()});
  Env env;
  for (const char* format : {"json", "table"}) {
    Pipe pipe;
    auto sink = *stdout_sink.create(Options(format), env);
    {
      StdoutTo redirected(pipe.in.get());
      EXPECT_TRUE(sink->Write(*snapshot).ok());
    }
    std::string text = ReadPipe(pipe.out.get());
    if (format == std::string("json")) EXPECT_EQ(Read(text).items.size(), 2u);
    else EXPECT_THAT(text, HasSubstr("gpu.power.draw"));
  }
}

TEST(StdoutSink, WaitsForASlowReader) {
  Pipe pipe(O_NONBLOCK);
  TestSource many("many");
  std::vector<Series> all;
  for (int64_t i = 0; i < 2000; ++i) all.push_back(many.table.Declare(kPower, Gpu(i)));
  many.writer.Begin({});
  for (Series series : all) many.writer.Set(series, 1);
  auto snapshot = MakeSnapshot(1, {}, {many.Entry()});
  std::string text;
  std::thread reader([&] {
    pollfd ready{pipe.out.get(), POLLIN, 0};
    while (!text.ends_with("]\n") && ::poll(&ready, 1, 10'000) == 1) text += ReadPipe(pipe.out.get());
  });
  Env env;
  auto sink = *stdout_sink.create(Options("json"), env);
  {
    StdoutTo redirected(pipe.in.get());
    EXPECT_TRUE(sink->Write(*snapshot).ok());
  }
  reader.join();
  EXPECT_EQ(Read(text).items.size(), 2000u);
}

std::atomic<int> terminated{0};

TEST(StdoutSink, IsQuietWithoutAReader) {
  TwoGpus gpus;
  auto snapshot = MakeSnapshot(1, gpus.now, {gpus.source.Entry()});
  Env env;
  auto before = std::signal(SIGTERM, [](int) { ++terminated; });
  for (bool ends : {false, true}) {
    terminated = 0;
    Pipe pipe;
    pipe.out.reset();
    auto sink = *stdout_sink.create(Options("json", ends), env);
    StdoutTo redirected(pipe.in.get());
    // SIGPIPE has its default action here: without care, this ends the test.
    EXPECT_TRUE(sink->Write(*snapshot).ok());
    EXPECT_TRUE(sink->Write(*snapshot).ok());
    EXPECT_EQ(terminated, ends ? 1 : 0);
  }
  std::signal(SIGTERM, before);
}

TEST(StdoutSink, ReportsAFullDisk) {
  TwoGpus gpus;
  UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  if (!full) GTEST_SKIP() << "there is no /dev/full";
  Env env;
  auto sink = *stdout_sink.create(Options("json"), env);
  auto snapshot = MakeSnapshot(1, gpus.now, {gpus.source.Entry()});
  StdoutTo redirected(full.get());
  EXPECT_EQ(sink->Write(*snapshot).code, Code::kExhausted);
}

}  // namespace
}  // namespace gpulens
