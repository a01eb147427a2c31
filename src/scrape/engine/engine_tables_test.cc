#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/parse.h"
#include "catalog/inference.h"
#include "scrape/engine/engine_row.h"

namespace gpulens::engine_page {
namespace {

std::string Place(const Engine* engine, const EngineRow& row) {
  return std::string(engine ? engine->name : "common") + " " + std::string(row.family);
}

// Every row of every table, with its engine; null: common.
template <typename Visit>
void ForEachRow(Visit&& visit) {
  for (const Engine& engine : AllEngines()) {
    for (const EngineRow& row : engine.rows) visit(&engine, row);
  }
  for (const EngineRow& row : CommonRows()) visit(static_cast<const Engine*>(nullptr), row);
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> words;
  while (!text.empty()) words.push_back(TakeUntil(text, separator));
  return words;
}

// The attributes that a row makes of labels, or adds.
std::vector<std::string_view> AttributesOf(const EngineRow& row) {
  std::vector<std::string_view> out;
  for (std::string_view word : Split(row.labels, ',')) {
    if (word.starts_with('+')) out.push_back(word.substr(1, word.find('=') - 1));
    else if (size_t at = word.find('>'); at != word.npos) {
      out.push_back(word.substr(at + 1, word.find('(') - at - 1));
    }
  }
  return out;
}

size_t LongestPrefix(const Engine& engine, std::string_view family) {
  size_t longest = 0;
  for (std::string_view prefix : Split(engine.recognised, ' ')) {
    if (family.starts_with(prefix)) longest = std::max(longest, prefix.size());
  }
  return longest;
}

// Returns the engine of a family on a page; null: none.
const Engine* Recognised(std::string_view family) {
  const Engine* best = nullptr;
  for (const Engine& engine : AllEngines()) {
    if (LongestPrefix(engine, family) > (best ? LongestPrefix(*best, family) : 0)) best = &engine;
  }
  return best;
}

TEST(EngineTables, UnitTimesScaleIsTheMetricsUnit) {
  struct Pair {
    std::string_view unit, role_unit;
    double scale;
  };
  constexpr Pair kPairs[] = {
      {"ms", "s", 1e-3},
      {"us", "s", 1e-6},
      {"MBy", "By", 1e6},
      {"{uUSD}", "{USD}", 1e-6},
      // SGLang writes GB and divides by 2^30.
      {"GBy", "By", 1073741824},
  };
  ForEachRow([&](const Engine* engine, const EngineRow& row) {
    if (!row.metric) return;
    SCOPED_TRACE(Place(engine, row) + " " + std::string(row.metric->name));
    const bool counts = row.use == RowUse::kCountOfRole || row.use == RowUse::kCellCountRole;
    if (counts) {
      // A count, whatever the role measures; Triton's executions have no unit.
      EXPECT_TRUE(row.unit.starts_with('{') || row.unit == "1") << row.unit;
      EXPECT_EQ(row.scale, 1);
      return;
    }
    auto pair = std::find_if(std::begin(kPairs), std::end(kPairs), [&](const Pair& p) {
      return p.unit == row.unit && p.role_unit == row.metric->unit;
    });
    if (pair != std::end(kPairs)) {
      EXPECT_DOUBLE_EQ(row.scale, pair->scale);
      return;
    }
    // An info and a state set have no unit of their own.
    const bool unitless = row.metric->unit.empty() && row.unit == "1";
    EXPECT_TRUE(unitless || row.unit == row.metric->unit) << row.unit << " is not " << row.metric->unit;
    EXPECT_EQ(row.scale, 1);
  });
}

TEST(EngineTables, TypesFitTheMetricsKind) {
  auto takes_only = [](const EngineRow& row, std::initializer_list<ExpositionType> types) {
    unsigned allowed = 0;
    for (ExpositionType type : types) allowed |= 1u << static_cast<unsigned>(type);
    return row.types != 0 && (row.types & ~allowed) == 0;
  };
  using enum ExpositionType;
  // Newer SGLang has a histogram where older ones had a gauge: only the histogram is the metric.
  const std::set<std::string_view> was_gauge = {
      "sglang:kv_transfer_latency_ms", "sglang:kv_transfer_total_mb", "sglang:kv_transfer_bootstrap_ms",
      "sglang:kv_transfer_alloc_ms"};
  ForEachRow([&](const Engine* engine, const EngineRow& row) {
    if (!row.metric) return;
    SCOPED_TRACE(Place(engine, row) + " " + std::string(row.metric->name));
    const Kind kind = row.metric->kind;
    switch (row.use) {
      case RowUse::kSame:
        if (kind == Kind::kHistogram && was_gauge.contains(row.family))
          EXPECT_TRUE(takes_only(row, {kHistogram, kGauge}));
        // Of a summary its sum and count are taken: a histogram without buckets.
        else if (kind == Kind::kHistogram) EXPECT_TRUE(takes_only(row, {kHistogram, kSummary}));
        else if (kind == Kind::kCounter) EXPECT_TRUE(takes_only(row, {kCounter}));
        else EXPECT_TRUE(takes_only(row, {kGauge}));
        break;
      case RowUse::kSumOfRole:
      case RowUse::kCountOfRole:
        EXPECT_EQ(kind, Kind::kHistogram);
        EXPECT_TRUE(takes_only(row, {kCounter}));
        break;
      case RowUse::kCellCountRole:
        EXPECT_EQ(kind, Kind::kHistogram);
        EXPECT_TRUE(takes_only(row, {kHistogram}));
        break;
      case RowUse::kOwnSum:
      case RowUse::kOwnCount:
        EXPECT_EQ(kind, Kind::kCounter);
        EXPECT_TRUE(takes_only(row, {kHistogram, kSummary}));
        break;
      case RowUse::kLabelNumber:
      case RowUse::kLabelNames:
        EXPECT_NE(kind, Kind::kHistogram);
        EXPECT_NE(kind, Kind::kCounter);
        EXPECT_TRUE(takes_only(row, {kGauge}));
        EXPECT_FALSE(row.label.empty());
        break;
      case RowUse::kPass:
      case RowUse::kIgnore: ADD_FAILURE() << "has a role and does not"; break;
    }
  });
}

// A sum needs a count, and the reverse.
TEST(EngineTables, HistogramsWithoutBucketsHaveBothParts) {
  for (const Engine& engine : AllEngines()) {
    std::map<std::string, int> parts;
    for (const EngineRow& row : engine.rows) {
      if (!row.metric) continue;
      std::string key(row.metric->name);
      for (std::string_view word : Split(row.labels, ',')) {
        if (word.starts_with('+')) key += word;
      }
      if (row.use == RowUse::kSumOfRole) parts[key] |= 1;
      if (row.use == RowUse::kCountOfRole || row.use == RowUse::kCellCountRole) parts[key] |= 2;
    }
    for (const auto& [key, both] : parts) EXPECT_EQ(both, 3) << engine.name << " " << key;
  }
}

TEST(EngineTables, AliasesAreInTheSameTable) {
  ForEachRow([&](const Engine* engine, const EngineRow& row) {
    if (row.alias_of.empty()) return;
    SCOPED_TRACE(Place(engine, row) + " of " + std::string(row.alias_of));
    ASSERT_NE(engine, nullptr);
    std::span<const EngineRow> other = RowsOf(*engine, row.alias_of);
    ASSERT_FALSE(other.empty()) << "no such family";
    EXPECT_EQ(other.front().family, row.alias_of);
    EXPECT_TRUE(other.front().alias_of.empty()) << "is an alias itself";
    EXPECT_NE(other.front().family, row.family);
    EXPECT_TRUE(std::any_of(other.begin(), other.end(), [&](const EngineRow& o) {
      return o.metric == row.metric && (row.metric || o.use == row.use);
    })) << "means something else";
  });
}

TEST(EngineTables, AttributesAreThoseOfTheMetric) {
  ForEachRow([&](const Engine* engine, const EngineRow& row) {
    if (!row.metric) return;
    for (std::string_view attribute : AttributesOf(row)) {
      EXPECT_TRUE(std::find(row.metric->keys.begin(), row.metric->keys.end(), attribute) !=
                  row.metric->keys.end())
          << Place(engine, row) << ": " << row.metric->name << " has no attribute " << attribute;
    }
  });
}

TEST(EngineTables, IgnoredRowsHaveAReason) {
  ForEachRow([&](const Engine* engine, const EngineRow& row) {
    EXPECT_FALSE(row.use == RowUse::kIgnore && row.note.empty()) << Place(engine, row);
  });
}

TEST(EngineTables, EveryFamilyIsFound) {
  for (const Engine& engine : AllEngines()) {
    for (const EngineRow& row : engine.rows) {
      if (row.family.ends_with('*')) continue;
      std::span<const EngineRow> rows = RowsOf(engine, row.family);
      ASSERT_FALSE(rows.empty()) << row.family;
      EXPECT_EQ(rows.front().family, row.family);
      std::string_view bare = row.family;
      if (!row.Takes(ExpositionType::kCounter) || !bare.ends_with("_total")) continue;
      bare.remove_suffix(6);
      EXPECT_FALSE(RowsOf(engine, bare).empty()) << bare << ": OpenMetrics names it so";
    }
  }
  EXPECT_TRUE(RowsOf(*FindEngine("vllm"), "vllm:no_such_thing").empty());
  EXPECT_TRUE(CommonRowsOf("vllm:no_such_thing").empty());
}

TEST(EngineTables, PrefixesAreEquivalent) {
  EXPECT_EQ(CanonicalFamily("ray_vllm_num_requests_running"), "vllm:num_requests_running");
  EXPECT_EQ(CanonicalFamily("ray_vllm:num_requests_running"), "vllm:num_requests_running");
  EXPECT_EQ(CanonicalFamily("sglang_token_usage"), "sglang:token_usage");
  EXPECT_EQ(CanonicalFamily("llm_d_router_epp_request_total"), "llm_d_epp_request_total");
  EXPECT_EQ(CanonicalFamily("tgi_queue_size"), "tgi_queue_size");
  for (const EnginePrefix& prefix : AllPrefixes()) {
    EXPECT_NE(Recognised(prefix.canonical), nullptr) << prefix.canonical << " is no engine's";
  }
  // Its families are vLLM's, too: the newer NIM is vLLM.
  EXPECT_FALSE(RowsOf(*FindEngine("nim"), "vllm:num_requests_running").empty());
}

TEST(EngineTables, DetectsAnEngineByItsFamilies) {
  struct Known {
    std::string_view engine, family, why;
  };
  constexpr Known kNotReported[] = {
      {"triton", "nv_", "of the machine: beside its other families, and of no use alone"},
      {"nim", "", "names without a prefix: it is configured, or asked for its metadata"},
      {"ray-serve", "ray_node_", "every program of Ray has them"},
      {"mooncake", "file_cache_", "too general to tell a program by"},
      {"mooncake", "ha_", "too general to tell a program by"},
      {"mooncake", "mem_cache_", "too general to tell a program by"},
      {"mooncake", "nof_segment_", "beside master_ families"},
      {"mooncake", "total_get_nums_", "too general to tell a program by"},
      {"mooncake", "valid_get_nums_", "too general to tell a program by"},
      {"aibrix", "", "it shows engines' families without their prefix"},
      {"vllm-production-stack", "router_", "of the machine: beside its other families"},
      {"semantic-router", "llm_", "many programs begin so: beside its other families"},
      {"semantic-router", "rag_", "likewise"},
      {"semantic-router", "batch_classification_", "likewise"},
      {"semantic-router", "sr_", "likewise"},
      {"gpulens-proxy", "zumik_", "zumik has them, too: beside its other families"},
      {"gpulens-proxy", "http_request", "of any program of the web: beside its other families"},
  };
  for (const Engine& engine : AllEngines()) {
    EXPECT_FALSE(engine.recognised.empty()) << engine.name;
    for (const EngineRow& row : engine.rows) {
      const Engine* detected = Recognised(row.family);
      if (detected == &engine || (detected && detected->name == engine.instead_of)) continue;
      EXPECT_EQ(detected, nullptr) << row.family << " of " << engine.name << " is taken for "
                                   << detected->name;
      EXPECT_TRUE(std::any_of(std::begin(kNotReported), std::end(kNotReported),
                              [&](const Known& known) {
                                return known.engine == engine.name && row.family.starts_with(known.family);
                              }))
          << row.family << " does not tell " << engine.name;
    }
  }
}

TEST(EngineTables, PrefixesOfTwoEnginesDoNotOverlap) {
  // A part of Dynamo that is another layer: the longer prefix wins.
  const std::set<std::string_view> documented = {"dynamo_component_router_",
                                                 "dynamo_component_kv_cache_events_"};
  for (const Engine& a : AllEngines()) {
    for (const Engine& b : AllEngines()) {
      if (&a == &b) continue;
      for (std::string_view shorter : Split(a.recognised, ' ')) {
        for (std::string_view longer : Split(b.recognised, ' ')) {
          if (!longer.starts_with(shorter) || documented.contains(longer) || b.instead_of == a.name) continue;
          ADD_FAILURE() << shorter << " of " << a.name << " and " << longer << " of " << b.name;
        }
      }
    }
  }
}

TEST(EngineTables, EveryEngineMetricHasAnEngine) {
  for (const EngineMetric& role : AllEngineMetrics()) {
    bool offered = false;
    ForEachRow([&](const Engine*, const EngineRow& row) { offered = offered || row.metric == role.metric; });
    EXPECT_TRUE(offered) << role.name;
  }
}

}  // namespace
}  // namespace gpulens::engine_page
