// The contract of analyzers, sinks, enrichers and discoveries, run over every row of the tables; and that
// each row of the catalogue has a writer.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <map>
#include <set>
#include <thread>

#include "agent/plugin_tables.h"
#include "agent/run/plan.h"
#include "base/files.h"
#include "base/testing/allocations.h"
#include "base/testing/temp_folder.h"
#include "base/threads.h"
#include "catalog/all.h"
#include "catalog/inference.h"
#include "config/loader.h"
#include "net/client/http_client.h"
#include "net/io_loop.h"
#include "pipeline/delivery/delivery.h"
#include "pipeline/self_metrics.h"
#include "plugins/event_queue.h"
#include "plugins/latest_snapshot.h"
#include "plugins/page_registry.h"

namespace gpulens {
namespace {

using std::chrono::seconds;

// Longer than any plugin may take, and than a busy machine makes of what takes a millisecond.
constexpr auto kHangs = seconds(30);

// Runs `work` on a thread of its own; a plugin that throws or does not come back fails the test by its name.
template <class Work>
void Guarded(std::string_view plugin, std::string_view what, Work work) {
  std::promise<void> done;
  std::future<void> ended = done.get_future();
  std::thread thread([&] {
    try {
      work();
    } catch (const std::exception& error) {
      ADD_FAILURE() << plugin << ": " << what << " throws " << error.what();
    } catch (...) {
      ADD_FAILURE() << plugin << ": " << what << " throws";
    }
    done.set_value();
  });
  if (ended.wait_for(kHangs) != std::future_status::ready) {
    std::fprintf(stderr, "%s: %s blocks\n", std::string(plugin).c_str(), std::string(what).c_str());
    std::abort();
  }
  thread.join();
}

// One reading of every row of the catalogue that is a single number, on a GPU.
class EveryRow {
 public:
  EveryRow() {
    for (const MetricDesc* desc : AllMetrics()) {
      if (desc->kind == Kind::kHistogram || desc->kind == Kind::kGaugeHistogram ||
          desc->kind == Kind::kSummary)
        continue;
      std::vector<AttributeSet::Attribute> attributes;
      for (std::string_view key : desc->keys) attributes.push_back({key, std::string_view("x")});
      const AttributeSet set{std::span<const AttributeSet::Attribute>(attributes)};
      if (Series series = table_.Declare(*desc, gpu_, set)) series_.emplace_back(series, desc);
    }
  }
  size_t size() const { return series_.size(); }

  Ref<Snapshot> Tick(Instant now) {
    writer_.Begin(now);
    ++tick_;
    for (const auto& [series, desc] : series_) {
      const bool grows = IsMonotonic(desc->kind);
      if (desc->number == Number::kInt) writer_.SetInt(series, grows ? static_cast<int64_t>(tick_) : 1);
      else writer_.Set(series, grows ? static_cast<double>(tick_) : 0.5);
    }
    Ref<Snapshot> snapshot = MakeRef<Snapshot>();
    snapshot->closed_at = now;
    snapshot->tick = tick_;
    snapshot->resource = {{"host.name", "h"}};
    Ref<const Frame> frame = writer_.Finish();
    const std::string_view source = frame->source;
    snapshot->frames.push_back({std::move(frame), source});
    return snapshot;
  }

 private:
  EntityRef gpu_ = MakeRef<Entity>(
      "gpu", AttributeSet({{"gpu.index", int64_t{0}}, {"gpu.uuid", "GPU-1"}, {"gpu.vendor", "nvidia"}}));
  SeriesTable table_;
  FrameWriter writer_{table_, seconds(10), "nvidia"};
  std::vector<std::pair<Series, const MetricDesc*>> series_;
  uint64_t tick_ = 0;
};

class PluginContract : public ::testing::Test {
 protected:
  PluginContract() {
    env_.io = &io_;
    env_.http = &client_;
    env_.workers = &workers_;
    env_.latest = &hub_;
    env_.pages = &pages_;
    env_.events = &queue_;
    env_.root = folder_.path() + "/root";
    env_.state_dir = folder_.path() + "/state";
    ConfigSources sources;
    sources.file_name = "test";
    sources.file_text =
        "sinks:\n"
        "  webhook: {url: \"http://127.0.0.1:9/\", interval: 0s}\n"
        "  file: {path: \"" +
        folder_.path() +
        "/lines.jsonl\"}\n"
        "  otlp: {endpoint: \"http://127.0.0.1:9\", interval: 0s}\n"
        "  remote_write: {url: \"http://127.0.0.1:9/\", interval: 0s}\n"
        "websocket: {listen: \"127.0.0.1:0\"}\n";
    LoadOutcome loaded = Load(*schema_, sources);
    EXPECT_TRUE(loaded.ok()) << loaded.Report();
    config_ = loaded.config;
    io_.Start();
  }
  ~PluginContract() override {
    io_.Stop();
    workers_.Stop();
  }
  Config OfSink(const SinkSpec& spec) const {
    return spec.name == "websocket" ? config_.Group("websocket") : SinkConfig(config_, spec.name);
  }

  testing::TempFolder folder_;
  std::unique_ptr<Schema> schema_ = MakeSchema();
  Config config_;
  IoLoop io_;
  HttpClient client_{io_};
  Workers workers_{2};
  LatestSnapshot hub_;
  PageRegistry pages_;
  EventQueue queue_;
  Env env_;
};

TEST_F(PluginContract, AnalyzersWriteOnlyDeclaredRows) {
  const auto known = AllMetrics();
  for (const AnalyzerSpec* spec : AllAnalyzers()) {
    auto made = spec->create(config_.Group("analyzers").Group(spec->name), env_);
    ASSERT_TRUE(made.ok()) << spec->name << ": " << made.error().detail;
    ManualClock clock;
    EveryRow rows;
    SeriesTable table;
    FrameWriter writer(table, seconds(10), std::string(spec->name));
    for (int tick = 0; tick < 3; ++tick) {
      clock.Advance(seconds(1));
      const Ref<Snapshot> snapshot = rows.Tick(clock.Now());
      writer.Begin(clock.Now());
      Guarded(spec->name, "Analyze", [&] {
        const Status status = (*made)->Analyze(*snapshot, writer);
        EXPECT_TRUE(status.ok() || !status.detail.empty()) << spec->name;
      });
      EXPECT_TRUE(writer.Finish()) << spec->name;
      EXPECT_EQ(writer.counts().invalid, 0u) << spec->name << " writes to series it does not have";
    }
    for (uint32_t slot = 0; slot < table.slots(); ++slot) {
      const MetricDesc* desc = table.InfoAt(slot).desc;
      if (!desc || desc->naming == Naming::kVerbatim) continue;
      EXPECT_TRUE(std::ranges::find(known, desc) != known.end())
          << spec->name << " writes " << desc->name << ", which is no row of catalog/all.cc";
      EXPECT_TRUE(std::ranges::find(spec->metrics, desc) != spec->metrics.end())
          << spec->name << " writes " << desc->name << ", which is not among the .metrics of its spec";
    }
  }
}

// What the sink `stdout` prints is no part of this test's output.
class NoOutput {
 public:
  NoOutput() : output_(::dup(STDOUT_FILENO)) {
    std::fflush(stdout);
    const int nothing = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    ::dup2(nothing, STDOUT_FILENO);
    ::close(nothing);
  }
  NoOutput(const NoOutput&) = delete;
  NoOutput& operator=(const NoOutput&) = delete;
  ~NoOutput() {
    std::fflush(stdout);
    ::dup2(output_, STDOUT_FILENO);
    ::close(output_);
  }

 private:
  const int output_;
};

TEST_F(PluginContract, SinksNeitherBlockThrowNorAllocatePerRow) {
  for (const SinkSpec* spec : AllSinks()) {
    auto made = MakeStandaloneSink(*spec, OfSink(*spec), env_);
    EXPECT_TRUE(made.ok()) << spec->name << ": " << made.error().detail;
    if (!made) continue;
    ManualClock clock;
    EveryRow rows;
    uint64_t allocations = 0;
    for (int tick = 0; tick < 6; ++tick) {
      clock.Advance(seconds(1));
      const Ref<Snapshot> snapshot = rows.Tick(clock.Now());
      Guarded(spec->name, "Write", [&] {
        auto silent = std::make_unique<NoOutput>();
        const uint64_t before = ThreadAllocations();
        const Status status = (*made)->Write(*snapshot);
        allocations = ThreadAllocations() - before;
        silent.reset();
        EXPECT_TRUE(status.ok()) << spec->name << ": " << status.detail;
      });
    }
    // A request and its place in a queue cost some; a series nothing.
    EXPECT_LT(allocations, rows.size() / 4) << spec->name << " allocates for series that it has seen before";
    Guarded(spec->name, "Write of events", [&] {
      const NoOutput silent;
      static_cast<void>((*made)->Write(Events()));
    });
    Guarded(spec->name, "Flush", [&] {
      const NoOutput silent;
      static_cast<void>((*made)->Flush(env_.clock->Now() + std::chrono::milliseconds(50)));
    });
    EXPECT_NE(spec->create != nullptr, spec->network != nullptr) << spec->name;
  }
}

TEST_F(PluginContract, ReceiversCheckRefusesWhatStartRefuses) {
  for (const ReceiverSpec* spec : AllReceivers()) {
    ConfigFaults faults;
    if (spec->check) spec->check(config_.Group("receivers").Group(spec->name), faults);
    EXPECT_TRUE(faults.empty()) << spec->name << " refuses its own defaults";
  }
}

// Fetch of an enricher or a discovery: on the loop, not for long, and answered once.
void ExpectOneAnswer(std::string_view plugin, Fetcher& fetcher, Env& env) {
  Guarded(plugin, "Fetch", [&] {
    auto answers = std::make_shared<std::atomic<int>>(0);
    std::promise<void> first;
    std::future<void> answered = first.get_future();
    const Instant deadline = env.clock->Now() + seconds(2);
    Duration on_loop{};
    env.io->Call([&] {
      const Instant began = env.clock->Now();
      fetcher.Fetch(deadline, [&first, answers](const Status& status) {
        EXPECT_TRUE(status.ok() || !status.detail.empty());
        if (answers->fetch_add(1) == 0) first.set_value();
      });
      on_loop = env.clock->Now() - began;
    });
    answered.wait();
    EXPECT_LT(on_loop, seconds(2)) << plugin << " blocks the I/O loop";
    EXPECT_EQ(answers->load(), 1) << plugin;
  });
}

TEST_F(PluginContract, EnrichersAndDiscoveriesAnswerOnce) {
  env_.http = nullptr;  // no question leaves this machine
  const EntityRef entity = MakeRef<Entity>("gpu", AttributeSet({{"gpu.uuid", "GPU-1"}}));
  for (const EnricherSpec* spec : AllEnrichers()) {
    auto made = spec->create(config_.Group("enrichers").Group(spec->name), env_);
    if (!made) {
      EXPECT_FALSE(made.error().detail.empty()) << spec->name;
      continue;
    }
    ExpectOneAnswer(spec->name, **made, env_);
    Guarded(spec->name, "Describe", [&] {
      static_cast<void>((*made)->Describe(*entity));
      static_cast<void>((*made)->Resource());
      static_cast<void>((*made)->missing());
    });
  }
  for (const DiscoverySpec* spec : AllDiscoveries()) {
    auto made = spec->create(config_.Group("discovery").Group(spec->name), env_);
    if (!made) {
      EXPECT_FALSE(made.error().detail.empty()) << spec->name;
      continue;
    }
    ExpectOneAnswer(spec->name, **made, env_);
    Guarded(spec->name, "Targets", [&] { static_cast<void>((*made)->Targets()); });
  }
}

using Words = std::set<std::string, std::less<>>;

void AddWords(std::string_view text, Words& out) {
  const auto in_word = [](char c) {
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && in_word(text[end])) ++end;
    if (end > at) out.emplace(text.substr(at, end - at));
    at = std::max(end, at + 1);
  }
}

// Takes away each piece from `begin` to `end`.
void Erase(std::string& text, std::string_view begin, std::string_view end) {
  for (size_t at = 0; (at = text.find(begin, at)) != std::string::npos;) {
    const size_t stop = text.find(end, at);
    text.erase(at, stop == std::string::npos ? stop : stop - at);
  }
}

bool IsTest(const std::string& path) {
  for (std::string_view part : {"_test.cc", "_fuzz.cc", "_bench.cc", "_testing.h", "/testing/"}) {
    if (path.find(part) != std::string::npos) return true;
  }
  return false;
}

// The sources of the program: which folder mentions which rows of the catalogue, and how rows are called.
class Mentions {
 public:
  Mentions() {
    namespace fs = std::filesystem;
    const std::string source = GPULENS_SOURCE_DIR "/src/";
    for (const auto& entry : fs::recursive_directory_iterator(source)) {
      const std::string path = entry.path().string(), kind = entry.path().extension().string();
      if (!entry.is_regular_file() || IsTest(path)) continue;
      const std::string inside = path.substr(source.size());
      const bool is_table = kind == ".tsv" && inside.starts_with("scrape/engine/tables/");
      if (!is_table && kind != ".cc" && kind != ".h" && kind != ".def") continue;
      auto text = ReadFile(path, 4 << 20);
      EXPECT_TRUE(text.ok()) << path;
      if (!text) continue;
      if (is_table) TakeTable(*text);
      else if (inside.starts_with("catalog/")) TakeRows(kind == ".def" ? *text : "");
      else TakeCode(inside, *std::move(text));
    }
  }

  // By the name of the constant.
  const std::map<std::string, std::string>& rows() const { return rows_; }
  // Whether the plugin's own folder ("plugins/collectors/nvidia"), or one in which plugins of its kind are at
  // home, has the row elsewhere than in a list: to be in a list is no writing. A role of an engine's table is
  // written by what reads that table.
  bool Writes(const std::string& folder, std::string_view metric) const {
    if (roles_.contains(metric)) return true;
    for (const auto& [constant, name] : rows_) {
      if (name != metric) continue;
      for (const std::string& place :
           {folder, std::string("scrape"), std::string("plugins"), std::string("pipeline"),
            std::string("quality"), std::string("ingest")}) {
        const auto found = used_.find(place);
        if (found != used_.end() && found->second.contains(constant)) return true;
      }
    }
    return false;
  }

 private:
  void TakeTable(const std::string& text) {
    Words words;
    AddWords(text, words);
    for (const EngineMetric& role : AllEngineMetrics()) {
      if (words.contains(role.name)) roles_.emplace(role.metric->name);
    }
  }
  void TakeRows(const std::string& text) {
    constexpr std::string_view kRow = "METRIC(";
    for (size_t at = 0; (at = text.find(kRow, at)) != std::string::npos;) {
      at = text.find_first_not_of(" \n", at + kRow.size());
      const std::string constant = text.substr(at, text.find_first_of(", \n", at) - at);
      const size_t quote = text.find('"', at) + 1;
      rows_[constant] = text.substr(quote, text.find('"', quote) - quote);
    }
  }
  // Names, checks, sinks and commands mention rows, too, and write none.
  void TakeCode(const std::string& path, std::string text) {
    Erase(text, "//", "\n");
    Erase(text, "constexpr const MetricDesc* ", "};");
    // "plugins/collectors/host" of a plugin, else "pipeline".
    size_t end = path.find('/');
    if (const size_t kind = path.find('/', end + 1);
        path.starts_with("plugins/") && kind != std::string::npos)
      end = path.find('/', kind + 1);
    AddWords(text, used_[path.substr(0, end)]);
  }

  std::map<std::string, std::string> rows_;
  std::map<std::string, Words> used_;  // by folder
  Words roles_;                        // names of metrics
};

TEST(CatalogueWriters, EveryRowIsWrittenByThePluginsThatListIt) {
  const Mentions mentions;
  EXPECT_GE(mentions.rows().size(), AllMetrics().size());
  std::set<std::string_view> listed;
  const auto take = [&](const std::string& folder, std::span<const MetricDesc* const> metrics) {
    for (const MetricDesc* metric : metrics) {
      listed.insert(metric->name);
      // Programs bring these; Training.ExportsTheRowsOfTheCatalogue compares them with the SDK's.
      if (metric->name.starts_with("training.")) continue;
      EXPECT_TRUE(mentions.Writes(folder, metric->name))
          << metric->name << " is among the .metrics of " << folder << ", which does not write it";
    }
  };
  for (const CollectorSpec* spec : AllCollectors())
    take("plugins/collectors/" + std::string(spec->name), spec->metrics);
  for (const AnalyzerSpec* spec : AllAnalyzers())
    take("plugins/analyzers/" + std::string(spec->name), spec->metrics);
  take("pipeline", SelfMetricRows());
  for (const auto& [constant, name] : mentions.rows()) {
    const MetricDesc* metric = FindMetric(name);
    ASSERT_NE(metric, nullptr) << name << " (" << constant << ") is no part of catalog/all.cc";
    EXPECT_TRUE(listed.contains(name) || metric->translated_only)
        << name << " (" << constant << ") is a row that nothing writes: feed it or take it out";
  }
}

}  // namespace
}  // namespace gpulens
