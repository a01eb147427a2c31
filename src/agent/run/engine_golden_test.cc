// Goldens of the pages of real engines, from bytes to names: roles, the seed's native names over a window of
// two scrapes, and the genai names. The pages are captures, and those that tests/engines recorded.
//
// With GPULENS_WRITE_GOLDEN set the outcomes are written; read the difference before it is committed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agent/plugin_tables.h"
#include "base/files.h"
#include "base/parse.h"
#include "names/naming.h"
#include "plugins/config.h"
#include "scrape/engine/engine_page_testing.h"

namespace gpulens {
namespace {

namespace fs = std::filesystem;
using engine_page::EngineFixture;

const fs::path kGoldens = GPULENS_SOURCE_DIR "/src/agent/run/testdata/engine_pages";

std::string NumberOf(double value) {
  char text[kNumberBytes];
  return {text, WriteNumber(text, value)};
}

// The page as it was when all counters and histograms had half of what they have now.
std::string Earlier(std::string_view body) {
  std::string out, type;
  while (!body.empty()) {
    std::string_view line = TakeUntil(body, '\n');
    if (line.starts_with("# TYPE ")) type = line.substr(line.rfind(' ') + 1);
    size_t space = line.rfind(' ');
    bool grows = type == "counter" || type == "histogram" || type == "summary";
    auto value = line.starts_with('#') || !grows || space == std::string_view::npos
                     ? std::nullopt
                     : ParseDouble(line.substr(space + 1));
    if (value) out.append(line.substr(0, space + 1)).append(NumberOf(*value / 2));
    else out += line;
    out += '\n';
  }
  return out;
}

// Appends one line per series, by its exported name; a histogram's cells share the line.
void AppendSeries(const Frame& frame, const SeriesNamer& make_names, std::vector<std::string>& lines) {
  for (uint32_t slot = 0; slot < frame.layout->slots(); ++slot) {
    const SeriesInfo& info = (*frame.layout)[slot];
    if (!info.desc || frame.quality[slot] != Quality::kOk) continue;
    std::vector<NamedSeries> named;
    make_names(info, named);
    auto number = [&](uint32_t cell) {
      Cell at = frame.cells[info.first_cell + cell];
      return info.desc->number == Number::kInt ? static_cast<double>(at.i) : at.d;
    };
    for (const NamedSeries& one : named) {
      std::string line = one.name + "{";
      for (const auto& [label, value] : one.labels)
        line += (line.ends_with('{') ? "" : ",") + label + "=" + value;
      line += "} ";
      if (!info.shape) {
        lines.push_back(line + NumberOf(number(0) * one.scale));
        continue;
      }
      const Shape& shape = *info.shape;
      if (shape.has_count) line += "count " + NumberOf(number(shape.count_cell())) + " ";
      if (shape.has_sum) line += "sum " + NumberOf(number(shape.sum_cell()) * one.scale) + " ";
      for (uint32_t i = 0; i < shape.bounds.size(); ++i)
        line += " " + NumberOf(shape.bounds[i] * one.scale) + ":" + NumberOf(number(i));
      lines.push_back(line);
    }
  }
}

class Outcome {
 public:
  explicit Outcome(std::string_view engine)
      : fixture_(engine_page::EnginePageSeries::Options{.target = "t",
                                                        .engine = engine_page::FindEngine(engine)}) {
    const AnalyzerSpec* spec = FindAnalyzer("inference");
    Config config;
    for (const OptionSpec& option : spec->options) {
      if (option.type == OptionType::kTime) config.Set(option.key, Duration(std::chrono::seconds(60)), {});
    }
    env_.clock = &fixture_.clock;
    auto made = spec->create(config, env_);
    EXPECT_TRUE(made.ok());
    if (made.ok()) analyzer_ = std::move(*made);
  }

  std::string Of(const std::string& body) {
    Tick(Earlier(body));
    Tick(body);
    std::string out = "# roles\n" + Section(*fixture_.frame, NameNative, nullptr);
    out += "# native\n" + Section(*native_, NameNative, nullptr);
    const std::vector<std::string> genai = {"otel_genai"};
    SeriesNamer namer = MakeSeriesNamer(genai);
    namer.Refresh(snapshot_);
    out += "# genai\n" + Section(*fixture_.frame, namer, native_.get());
    return out;
  }

 private:
  void Tick(const std::string& body) {
    fixture_.Read(body);
    snapshot_.frames.clear();
    snapshot_.closed_at = fixture_.clock.Now();
    snapshot_.frames.push_back({fixture_.frame, "engines/t", Precedence::kNative, false});
    writer_.Begin(fixture_.clock.Now());
    EXPECT_TRUE(analyzer_->Analyze(snapshot_, writer_).ok());
    native_ = writer_.Finish();
    snapshot_.frames.push_back({native_, "inference", Precedence::kNative, false});
  }

  static std::string Section(const Frame& frame, const SeriesNamer& namer, const Frame* besides) {
    std::vector<std::string> lines;
    AppendSeries(frame, namer, lines);
    if (besides) AppendSeries(*besides, namer, lines);
    std::ranges::sort(lines);
    std::string out;
    for (const std::string& line : lines) out += line + "\n";
    return out;
  }

  EngineFixture fixture_;
  Env env_;
  SeriesTable table_;
  FrameWriter writer_{table_, std::chrono::seconds(30), "inference"};
  std::unique_ptr<Analyzer> analyzer_;
  Snapshot snapshot_;
  Ref<const Frame> native_;
};

// `engine`: as configured; empty: detected from the page.
void ExpectGolden(const fs::path& page, const std::string& name, std::string_view engine = {}) {
  auto body = ReadFile(page.string(), 4 << 20);
  ASSERT_TRUE(body.ok()) << page;
  std::string outcome = Outcome(engine).Of(*body);
  const fs::path golden = kGoldens / (name + ".txt");
  if (std::getenv("GPULENS_WRITE_GOLDEN")) std::ofstream(golden) << outcome;
  EXPECT_EQ(outcome, ReadFile(golden.string(), 4 << 20).value_or(""))
      << golden << ": GPULENS_WRITE_GOLDEN=1 writes it";
}

struct Capture {
  const char *page, *engine;
};
constexpr Capture kCaptures[] = {
    {"vllm/datadog_vllm_metrics.txt", ""},
    {"vllm/dynamo_vllm_lmcache_metrics.txt", ""},
    {"sglang/dynamo_sglang_metrics.txt", ""},
    {"nim/datadog_nim_metrics.txt", "nim"},
    {"triton/datadog_triton_metrics_part1.txt", ""},
    {"triton/tensorrtllm_backend_base_metrics.txt", ""},
    {"triton/tensorrtllm_backend_readme.txt", ""},
    {"triton/tensorrtllm_backend_v1_metrics.txt", ""},
    {"triton/vllm_backend_readme.txt", ""},
    {"trtllm/dynamo_trtllm_metrics.txt", ""},
    {"dynamo/frontend_metrics.txt", ""},
    {"litellm/datadog_litellm_metrics.txt", ""},
    {"litellm/datadog_litellm_metrics_v1_95_part1.txt", ""},
    {"aibrix/runtime_doc_vllm.txt", "aibrix"},
    {"envoy-ai-gateway/admin_metrics.txt", ""},
    {"llamacpp/docker_model_runner_readme.txt", ""},
    {"tei/genaicomps_readme.txt", ""},
};

TEST(EngineGoldenCapture, Captures) {
  const fs::path captures = fs::path(GPULENS_SOURCE_DIR) / "../shared/fixtures";
  if (!fs::exists(captures)) GTEST_SKIP() << "captures not here: " << captures;
  for (const Capture& capture : kCaptures) {
    SCOPED_TRACE(capture.page);
    std::string name = capture.page;
    std::ranges::replace(name, '/', '_');
    ExpectGolden(captures / capture.page, name.substr(0, name.size() - 4), capture.engine);
  }
  // The EPP's are one family a file.
  for (const auto& entry : fs::directory_iterator(captures / "epp")) {
    ExpectGolden(entry.path(), "epp_" + entry.path().stem().string(), "epp");
  }
}

TEST(EngineGolden, PagesThatTestsRecorded) {
  size_t pages = 0;
  for (const auto& entry : fs::directory_iterator(GPULENS_SOURCE_DIR "/tests/engines/pages")) {
    SCOPED_TRACE(entry.path());
    ExpectGolden(entry.path(), "recorded_" + entry.path().stem().string());
    ++pages;
  }
  EXPECT_GE(pages, 2u);
}

}  // namespace
}  // namespace gpulens
