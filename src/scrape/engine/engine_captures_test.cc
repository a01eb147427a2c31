// The tables have every family of pages that real engines served.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/check.h"
#include "base/files.h"
#include "scrape/engine/engine_row.h"
#include "wire/exposition/exposition_page.h"

namespace gpulens::engine_page {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::UnorderedElementsAre;

const fs::path kCaptures = fs::path(GPULENS_SOURCE_DIR) / "../shared/fixtures";

class EngineCaptures : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(kCaptures)) GTEST_SKIP() << "captures not here: " << kCaptures;
  }
};

struct Family {
  std::string name;
  const Engine* engine = nullptr;  // null: common, or unknown
  std::span<const EngineRow> rows;
  ExpositionType type = ExpositionType::kUnknown;
  bool typed = false;
};

// The rows of every family of a page. `first`: the engine that wins where two know a name.
std::vector<Family> FamiliesOf(const std::string& body, const Engine* first = nullptr) {
  ScrapedPage page;
  EXPECT_TRUE(page.Update(body, ExpositionFormat::kText004).ok());
  std::vector<Family> out;
  for (const ExpositionFamily& family : page.families()) {
    if (!family.alive) continue;
    Family found{family.name, nullptr, {}, family.type, family.typed};
    std::string name = CanonicalFamily(family.name);
    if (first) found.rows = RowsOf(*first, name);
    if (!found.rows.empty()) found.engine = first;
    for (const Engine& engine : AllEngines()) {
      if (!found.rows.empty()) break;
      found.rows = RowsOf(engine, name);
      if (!found.rows.empty()) found.engine = &engine;
    }
    if (found.rows.empty()) found.rows = CommonRowsOf(name);
    out.push_back(found);
  }
  return out;
}

std::string Read(const fs::path& path) {
  auto text = ReadFile(path.string(), 4 << 20);
  CHECK(text.ok());
  return *text;
}

std::vector<fs::path> PagesOf(std::string_view folder) {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(kCaptures / folder)) {
    if (entry.path().extension() == ".txt") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

constexpr std::string_view kFolders[] = {"vllm",   "sglang",           "nim",     "triton",
                                         "trtllm", "dynamo",           "litellm", "epp",
                                         "aibrix", "envoy-ai-gateway", "tei",     "llamacpp"};

TEST_F(EngineCaptures, EveryFamilyIsKnown) {
  // A typing error of the page's author, kept on purpose as an unknown family.
  const std::set<std::string> unknown = {"iinference_model_request_tpot_seconds"};
  std::set<std::string> seen;
  size_t pages = 0, mapped = 0;
  for (std::string_view folder : kFolders) {
    for (const fs::path& path : PagesOf(folder)) {
      ++pages;
      size_t of_page = 0;
      for (const Family& family : FamiliesOf(Read(path))) {
        SCOPED_TRACE(path.filename().string() + " " + family.name);
        if (family.rows.empty()) {
          EXPECT_THAT(unknown, Contains(family.name));
          seen.insert(family.name);
          continue;
        }
        of_page += family.engine != nullptr && std::any_of(family.rows.begin(), family.rows.end(),
                                                           [](const EngineRow& row) { return row.metric; });
      }
      // A page of one family that has no role.
      const std::set<std::string> only_passed = {"normalized_time_per_output_token_seconds_metric.txt",
                                                 "plugin_processing_latencies_metric.txt",
                                                 "prefix_indexer_hit_bytes_metric.txt",
                                                 "prefix_indexer_hit_ratio_metric.txt",
                                                 "prefix_indexer_size_metric.txt",
                                                 "queue_avg_size_metrics.txt",
                                                 "request_sizes_metric.txt",
                                                 "response_sizes_metric.txt",
                                                 "flow_control_dispatch_cycle_duration_seconds_metric.txt",
                                                 "flow_control_enqueue_duration_seconds_metric.txt",
                                                 "tensorrtllm_backend_v1_metrics.txt"};
      EXPECT_EQ(of_page == 0, only_passed.contains(path.filename().string())) << path;
      mapped += of_page;
    }
  }
  EXPECT_EQ(seen, unknown);
  EXPECT_GE(pages, 38u);
  EXPECT_GE(mapped, 250u);
}

TEST_F(EngineCaptures, TypesAreThoseOfTheTables) {
  for (std::string_view folder : kFolders) {
    for (const fs::path& path : PagesOf(folder)) {
      for (const Family& family : FamiliesOf(Read(path), folder == "nim" ? FindEngine("nim") : nullptr)) {
        // Common rows cover groups of families of any type.
        if (!family.typed || family.rows.empty() || !family.engine) continue;
        EXPECT_TRUE(std::any_of(family.rows.begin(), family.rows.end(),
                                [&](const EngineRow& row) { return row.Takes(family.type); }))
            << path.filename() << " " << family.name << " is a " << ExpositionTypeName(family.type);
      }
    }
  }
}

// Each page and its engine.
TEST_F(EngineCaptures, PagesAreOfTheirEngines) {
  auto engines = [](const char* path, const Engine* first = nullptr) {
    std::set<std::string> names;
    for (const Family& family : FamiliesOf(Read(kCaptures / path), first)) {
      if (family.engine) names.insert(std::string(family.engine->name));
    }
    return names;
  };
  EXPECT_THAT(engines("vllm/datadog_vllm_metrics.txt"), UnorderedElementsAre("vllm"));
  EXPECT_THAT(engines("vllm/dynamo_vllm_lmcache_metrics.txt"),
              UnorderedElementsAre("vllm", "lmcache", "dynamo-worker"));
  EXPECT_THAT(engines("sglang/dynamo_sglang_metrics.txt"), UnorderedElementsAre("sglang", "dynamo-worker"));
  EXPECT_THAT(engines("trtllm/dynamo_trtllm_metrics.txt"),
              UnorderedElementsAre("trtllm-serve", "dynamo-worker"));
  EXPECT_THAT(engines("nim/datadog_nim_metrics.txt", FindEngine("nim")), UnorderedElementsAre("nim"));
  EXPECT_THAT(engines("triton/datadog_triton_metrics_part1.txt"), UnorderedElementsAre("triton"));
  EXPECT_THAT(engines("triton/tensorrtllm_backend_readme.txt"), UnorderedElementsAre("triton-tensorrtllm"));
  EXPECT_THAT(engines("triton/vllm_backend_readme.txt"), UnorderedElementsAre("vllm"));
  EXPECT_THAT(engines("dynamo/frontend_metrics.txt"), UnorderedElementsAre("dynamo-frontend"));
  EXPECT_THAT(engines("litellm/datadog_litellm_metrics.txt"), UnorderedElementsAre("litellm"));
  EXPECT_THAT(engines("llamacpp/docker_model_runner_readme.txt"), UnorderedElementsAre("llama.cpp"));
  EXPECT_THAT(engines("tei/genaicomps_readme.txt"), UnorderedElementsAre("tei"));
  EXPECT_THAT(engines("aibrix/runtime_doc_vllm.txt"), UnorderedElementsAre("vllm"));
  EXPECT_THAT(engines("envoy-ai-gateway/admin_metrics.txt"), UnorderedElementsAre("envoy-ai-gateway"));
}

// Of two names of the same observations on one page, one is ignored.
TEST_F(EngineCaptures, OldNamesAreAliasesOfNewOnes) {
  std::map<std::string, std::string> aliases;
  for (const Family& family : FamiliesOf(Read(kCaptures / "vllm/datadog_vllm_metrics.txt"))) {
    if (!family.rows.empty() && !family.rows.front().alias_of.empty())
      aliases[family.name] = family.rows.front().alias_of;
  }
  EXPECT_EQ(aliases["vllm:gpu_cache_usage_perc"], "vllm:kv_cache_usage_perc");
  EXPECT_EQ(aliases["vllm:time_per_output_token_seconds"], "vllm:inter_token_latency_seconds");
}

// Words of a text that begin as families of an engine do and are none that its table knows.
std::set<std::string> UnknownWords(const std::string& text, const Engine& engine, std::string_view prefix,
                                   size_t& known) {
  auto part = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == ':'; };
  std::set<std::string> unknown;
  for (size_t at = text.find(prefix); at != text.npos; at = text.find(prefix, at + 1)) {
    if (at > 0 && (part(text[at - 1]) || text[at - 1] == '-' || text[at - 1] == '/')) continue;
    size_t end = at;
    while (end < text.size() && part(text[end])) ++end;
    std::string name = text.substr(at, end - at);
    for (std::string_view suffix : {"_bucket", "_sum", "_count"}) {
      if (name.ends_with(suffix) && RowsOf(engine, name).empty()) name.resize(name.size() - suffix.size());
    }
    if (RowsOf(engine, name).empty()) unknown.insert(name);
    else ++known;
  }
  return unknown;
}

// Families named by documents and dashboards, for engines without a recorded page.
TEST_F(EngineCaptures, NamesInDocumentsAreKnown) {
  struct Document {
    const char *path, *engine, *prefix;
    std::set<std::string> no_families;
  };
  const Document documents[] = {
      {"mooncake/tent_metrics.md",
       "mooncake",
       "tent_",
       {"tent_metrics", "tent_new_counter", "tent_new_histogram"}},
      {"mooncake/mooncake_grafana.json", "mooncake", "master_", {}},
      {"tgi/tgi_grafana.json", "tgi", "tgi_", {}},
      {"aibrix/vllm_engine_dashboard.json", "vllm", "vllm:", {}},
  };
  for (const Document& document : documents) {
    size_t known = 0;
    EXPECT_EQ(
        UnknownWords(Read(kCaptures / document.path), *FindEngine(document.engine), document.prefix, known),
        document.no_families)
        << document.path;
    EXPECT_GE(known, 5u) << document.path;
  }
}

}  // namespace
}  // namespace gpulens::engine_page
