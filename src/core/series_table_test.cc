#include "core/series_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

namespace gpulens {
namespace {

constexpr MetricDesc kA{.name = "a", .unit = "1", .help = "A."};
constexpr MetricDesc kB{.name = "b", .unit = "By", .help = "B.", .kind = Kind::kCounter};
constexpr MetricDesc kNameless{.name = "", .unit = "", .help = ""};

EntityRef Gpu(int64_t index, EntityRef host = {}) {
  return MakeRef<const Entity>("gpu", AttributeSet({{"gpu.index", index}}), std::move(host));
}

Ref<const Shape> Buckets(std::vector<double> bounds) {
  auto shape = MakeRef<Shape>();
  shape->bounds = std::move(bounds);
  return shape;
}

TEST(SeriesTable, AHandleIsValidUntilRetired) {
  SeriesTable table;
  Series series = table.Declare(kA, Gpu(0));
  EXPECT_TRUE(series);
  EXPECT_TRUE(table.Live(series));
  EXPECT_EQ(table.size(), 1u);
  table.Retire(series);
  EXPECT_FALSE(table.Live(series));
  EXPECT_EQ(table.size(), 0u);
  table.Retire(series);
  EXPECT_EQ(table.size(), 0u) << "twice does nothing";
  EXPECT_FALSE(Series{});
  EXPECT_FALSE(table.Live(Series{}));
  table.Retire(Series{});
}

TEST(SeriesTable, ARetiredSlotIsUsedAgainUnderANewGeneration) {
  SeriesTable table;
  Series old = table.Declare(kA, Gpu(0));
  table.Declare(kA, Gpu(1));
  table.Retire(old);
  Series next = table.Declare(kB, Gpu(0));
  EXPECT_EQ(next.slot, old.slot);
  EXPECT_NE(next.generation, old.generation);
  EXPECT_FALSE(table.Live(old));
  EXPECT_EQ(table.slots(), 2u);
  table.Retire(old);
  EXPECT_TRUE(table.Live(next)) << "an old handle is not valid";
}

TEST(SeriesTable, SlotsAreReusedOnlyBySeriesWithAsManyCells) {
  SeriesTable table;
  Series histogram = table.Declare(kA, Gpu(0), {}, {.shape = Buckets({1, 2})});
  EXPECT_EQ(table.cells(), 4u);
  table.Retire(histogram);
  Series gauge = table.Declare(kB, Gpu(0));
  EXPECT_NE(gauge.slot, histogram.slot);
  EXPECT_EQ(table.cells(), 5u);
  Series other = table.Declare(kA, Gpu(1), {}, {.shape = Buckets({5, 6})});
  EXPECT_EQ(other.slot, histogram.slot);
  EXPECT_EQ(table.InfoAt(other.slot).first_cell, 0u);
  EXPECT_EQ(table.cells(), 5u);
}

// A page of many families repeats the same label sets: a series then costs its row and no text.
TEST(SeriesTable, EqualSetsOfOneRunShareTheirText) {
  SeriesTable table;
  auto text_of = [&](Series series) { return (*table.InfoAt(series.slot).attributes.begin()).key.data(); };
  const EntityRef gpu = Gpu(0);
  Series a = table.Declare(kA, gpu, {{"mode", "user"}}), b = table.Declare(kB, gpu, {{"mode", "user"}});
  Series other = table.Declare(kA, gpu, {{"mode", "idle"}});
  EXPECT_EQ(text_of(a), text_of(b));
  EXPECT_NE(text_of(a), text_of(other));
  EXPECT_EQ(table.InfoAt(other.slot).attributes.Text("mode"), "idle");
  for (int i = 0; i < 1000; ++i) {
    std::string mode = std::to_string(i % 100);
    table.Declare(i < 100 ? kA : kB, Gpu(i), {{"mode", std::string_view(mode)}});
  }
  table.Freeze();
  table.Retire(a);
  EXPECT_EQ(table.InfoAt(b.slot).attributes.Text("mode"), "user") << "the text lives on";
}

TEST(SeriesTable, DuplicatesAreRefused) {
  SeriesTable table;
  Series first = table.Declare(kA, Gpu(0), AttributeSet({{"k", "v"}}));
  EXPECT_TRUE(first);
  EXPECT_FALSE(table.Declare(kA, Gpu(0), AttributeSet({{"k", "v"}}))) << "another entity, equal attributes";
  EXPECT_EQ(table.refused(SeriesRefusal::kDuplicate), 1u);
  EXPECT_TRUE(table.Declare(kA, Gpu(0), AttributeSet({{"k", "w"}})));
  EXPECT_TRUE(table.Declare(kB, Gpu(0), AttributeSet({{"k", "v"}})));
  table.Retire(first);
  EXPECT_TRUE(table.Declare(kA, Gpu(0), AttributeSet({{"k", "v"}}))) << "free again";
  EXPECT_EQ(table.refused(SeriesRefusal::kDuplicate), 1u);
}

TEST(SeriesTable, ANameIsNeeded) {
  SeriesTable table;
  EXPECT_FALSE(table.Declare(kNameless, Gpu(0)));
  EXPECT_EQ(table.refused(SeriesRefusal::kInvalidName), 1u);
}

TEST(SeriesTable, ItsOwnLimit) {
  SeriesTable table({.limit = 2, .describe = {}});
  Series first = table.Declare(kA, Gpu(0));
  table.Declare(kA, Gpu(1));
  EXPECT_FALSE(table.Declare(kA, Gpu(2)));
  EXPECT_EQ(table.refused(SeriesRefusal::kLimit), 1u);
  table.Retire(first);
  EXPECT_TRUE(table.Declare(kA, Gpu(2)));
}

// Otherwise the agent could not report that a page is down, or that series of it are missing.
TEST(SeriesTable, TheAgentsOwnSeriesNeedNoRoom) {
  static constexpr MetricDesc kUp{.name = "gpulens.scrape.up", .help = "H."};
  SeriesTable table({.has_room = [] { return false; }, .describe = {}});
  EXPECT_FALSE(table.Declare(kA, Gpu(0)));
  EXPECT_EQ(table.refused(SeriesRefusal::kMemory), 1u);
  EXPECT_TRUE(table.Declare(kUp, Gpu(0)));
}

TEST(SeriesTable, TheCommonBudgetIsTakenAndGivenBack) {
  SeriesBudget budget(3);
  {
    SeriesTable a({.budget = &budget, .describe = {}}), b({.budget = &budget, .describe = {}});
    Series series = a.Declare(kA, Gpu(0));
    a.Declare(kA, Gpu(1));
    b.Declare(kA, Gpu(0));
    EXPECT_EQ(budget.used(), 3u);
    EXPECT_FALSE(b.Declare(kA, Gpu(1)));
    EXPECT_EQ(b.refused(SeriesRefusal::kLimit), 1u);
    EXPECT_EQ(budget.used(), 3u) << "a refusal takes nothing";
    a.Retire(series);
    EXPECT_EQ(budget.used(), 2u);
    EXPECT_TRUE(b.Declare(kA, Gpu(1)));
    EXPECT_EQ(budget.limit(), 3u);
  }
  EXPECT_EQ(budget.used(), 0u);
}

TEST(SeriesTable, AttributesResolveFromExtraDownToEnrichers) {
  SeriesTable table({.describe = [](const Entity& entity) {
    EXPECT_NE(entity.type, "host") << "the description of a GPU includes what follows from its host";
    return AttributeSet({{"pod", "p1"}, {"gpu.index", int64_t{99}}, {"host", "enricher"}});
  }});
  auto host = MakeRef<const Entity>("host", AttributeSet({{"host", "h"}, {"k", "host"}}));
  Series series = table.Declare(kA, Gpu(3, host), AttributeSet({{"k", "extra"}}));
  const AttributeSet& attributes = table.InfoAt(series.slot).attributes;
  EXPECT_EQ(attributes.Text("k"), "extra");
  EXPECT_EQ(attributes.Text("gpu.index"), "3");
  EXPECT_EQ(attributes.Text("host"), "h");
  EXPECT_EQ(attributes.Text("pod"), "p1");
}

TEST(SeriesTable, RetiringAnEntityRetiresItsSeriesOnly) {
  SeriesTable table;
  EntityRef gone = Gpu(0), stays = Gpu(1);
  table.Declare(kA, gone);
  table.Declare(kB, gone);
  Series kept = table.Declare(kA, stays);
  table.Retire(gone);
  EXPECT_EQ(table.size(), 1u);
  EXPECT_TRUE(table.Live(kept));
}

TEST(SeriesTable, FormGivesShapeAndStart) {
  SeriesTable table;
  Series plain = table.Declare(kB, Gpu(0));
  Series known = table.Declare(kB, Gpu(1), {}, {.start_unix_ns = 77});
  EXPECT_FALSE(table.InfoAt(plain.slot).start_known);
  EXPECT_EQ(table.InfoAt(plain.slot).cells(), 1u);
  EXPECT_TRUE(table.InfoAt(known.slot).start_known);
  EXPECT_EQ(table.InfoAt(known.slot).start_unix_ns, 77);
  table.Restart(known.slot, 99);
  EXPECT_EQ(table.InfoAt(known.slot).start_unix_ns, 99);
  EXPECT_FALSE(table.InfoAt(known.slot).start_known);
}

TEST(Shape, ReportsWhereItsCellsAre) {
  Shape shape;
  shape.bounds = {1, 2, 3};
  EXPECT_EQ(shape.cells(), 5u);
  EXPECT_EQ(shape.sum_cell(), 3u);
  EXPECT_EQ(shape.count_cell(), 4u);
  shape.has_sum = false;
  EXPECT_EQ(shape.cells(), 4u);
  EXPECT_EQ(shape.count_cell(), 3u);
}

TEST(Layout, IsTheSameUntilSomethingChanges) {
  SeriesTable table;
  auto empty = table.Freeze();
  EXPECT_EQ(empty->slots(), 0u);
  Series series = table.Declare(kA, Gpu(0));
  auto first = table.Freeze();
  EXPECT_NE(first->id(), empty->id());
  EXPECT_EQ(table.Freeze(), first);
  table.Declare(kA, Gpu(0));
  EXPECT_EQ(table.Freeze(), first) << "a refused declaration changes nothing";
  table.Retire(series);
  EXPECT_NE(table.Freeze()->id(), first->id());
  EXPECT_NE(first->id(), 0u);
}

TEST(Layout, IdsAreUniqueOverTables) {
  std::set<uint64_t> ids;
  for (int i = 0; i < 10; ++i) {
    SeriesTable table;
    EXPECT_TRUE(ids.insert(table.Freeze()->id()).second);
  }
}

std::vector<std::string> Shown(const Layout& layout) {
  std::vector<std::string> out;
  for (uint32_t slot = 0; slot < layout.slots(); ++slot) {
    const SeriesInfo& info = layout[slot];
    out.push_back(info.desc ? std::string(info.desc->name) + "/" + info.attributes.Text("gpu.index") + "/" +
                                  info.attributes.Text("pod") + "/" + std::to_string(info.start_unix_ns) +
                                  "/" + std::to_string(info.first_cell)
                            : "free");
  }
  return out;
}

TEST(Layout, AnOldOneNeverChanges) {
  std::string pod = "p1";
  SeriesTable table({.describe = [&](const Entity&) { return AttributeSet({{"pod", pod}}); }});
  std::vector<Series> series;
  for (int i = 0; i < 600; ++i) series.push_back(table.Declare(kB, Gpu(i)));
  auto old = table.Freeze();
  const auto before = Shown(*old);
  auto unchanged = [&] { return Shown(*old) == before && old->slots() == 600 && old->cells() == 600; };

  table.Restart(300, 5);
  EXPECT_TRUE(unchanged());
  auto restarted = table.Freeze();
  EXPECT_EQ((*restarted)[300].start_unix_ns, 5);
  EXPECT_EQ(&(*restarted)[0], &(*old)[0]) << "blocks without a change are shared";
  EXPECT_NE(&(*restarted)[300], &(*old)[300]);

  table.Retire(series[10]);
  EXPECT_TRUE(unchanged());
  table.Declare(kA, Gpu(700));
  EXPECT_TRUE(unchanged());
  for (int i = 1000; i < 1300; ++i) table.Declare(kB, Gpu(i));
  EXPECT_TRUE(unchanged());
  pod = "p2";
  table.Redescribe(9);
  EXPECT_TRUE(unchanged());
  EXPECT_EQ((*restarted)[300].attributes.Text("pod"), "p1");
  auto now = table.Freeze();
  EXPECT_EQ((*now)[10].desc, &kA);
  EXPECT_EQ((*now)[10].first_cell, 10u);
  EXPECT_EQ((*now)[300].attributes.Text("pod"), "p2");
  EXPECT_EQ(now->slots(), 900u);
}

TEST(Layout, OutlivesItsTable) {
  Ref<const Layout> layout;
  {
    SeriesTable table;
    const MetricDesc* scraped = table.Own({.name = std::string("scraped"), .unit = "", .help = "Help."});
    table.Declare(*scraped, Gpu(0));
    layout = table.Freeze();
  }
  EXPECT_EQ((*layout)[0].desc->name, "scraped");
  EXPECT_EQ((*layout)[0].desc->help, "Help.");
}

TEST(Redescribe, BeginsANewIdentityOnlyWhereSomethingChanged) {
  std::map<std::string, std::string> pods = {{"0", "a"}, {"1", "b"}};
  SeriesTable table({.describe = [&](const Entity& entity) {
    return AttributeSet({{"pod", pods[entity.attributes.Text("gpu.index")]}});
  }});
  Series zero = table.Declare(kB, Gpu(0), AttributeSet({{"k", "v"}}), {.start_unix_ns = 1});
  Series one = table.Declare(kB, Gpu(1), {}, {.start_unix_ns = 1});
  auto before = table.Freeze();
  table.Redescribe(50);
  EXPECT_EQ(table.Freeze(), before);
  pods["0"] = "c";
  table.Redescribe(60);
  EXPECT_NE(table.Freeze(), before);
  EXPECT_EQ(table.InfoAt(zero.slot).attributes.Text("pod"), "c");
  EXPECT_EQ(table.InfoAt(zero.slot).attributes.Text("k"), "v") << "the extra stays";
  EXPECT_EQ(table.InfoAt(zero.slot).start_unix_ns, 60);
  EXPECT_FALSE(table.InfoAt(zero.slot).start_known);
  EXPECT_EQ(table.InfoAt(one.slot).start_unix_ns, 1);
  EXPECT_TRUE(table.Live(zero)) << "the handle stays good";
  EXPECT_FALSE(table.Declare(kB, Gpu(0), AttributeSet({{"k", "v"}}))) << "known by its new identity";
  table.Retire(zero);
  EXPECT_TRUE(table.Declare(kB, Gpu(0), AttributeSet({{"k", "v"}})));
}

TEST(SeriesTable, RedescribeSkipsFreeSlots) {
  int calls = 0;
  SeriesTable table({.describe = [&](const Entity&) { return AttributeSet({{"n", int64_t{++calls}}}); }});
  Series series = table.Declare(kA, Gpu(0));
  table.Declare(kB, Gpu(0));
  table.Retire(series);
  calls = 0;
  table.Redescribe(1);
  EXPECT_EQ(calls, 1);
}

TEST(SeriesTable, ChurnNeitherGrowsNorForgets) {
  SeriesTable table;
  std::vector<Series> live;
  for (int round = 0; round < 200; ++round) {
    for (int i = 0; i < 20; ++i) {
      Series series = table.Declare(kA, Gpu(round * 20 + i));
      ASSERT_TRUE(series);
      live.push_back(series);
    }
    ASSERT_FALSE(table.Declare(kA, Gpu(round * 20))) << "still known among many dead entries";
    while (live.size() > 30) {
      table.Retire(live.front());
      live.erase(live.begin());
    }
    table.Freeze();
  }
  EXPECT_EQ(table.size(), 30u);
  EXPECT_LE(table.slots(), 50u);
  EXPECT_LE(table.cells(), 50u);
}

TEST(Own, EqualRowsAreSharedAndOtherOnesAreNot) {
  SeriesTable table;
  std::string name = "http_requests";
  const MetricDesc* a = table.Own({.name = name, .unit = "By", .help = "H.", .kind = Kind::kCounter});
  const MetricDesc* b =
      table.Own({.name = "http_requests", .unit = "By", .help = "H.", .kind = Kind::kCounter});
  EXPECT_EQ(a, b);
  name.assign(name.size(), '#');
  EXPECT_EQ(a->name, "http_requests") << "copied";
  EXPECT_NE(a, table.Own({.name = "http_requests", .unit = "s", .help = "H.", .kind = Kind::kCounter}));
  EXPECT_NE(a, table.Own({.name = "http_requests", .unit = "By", .help = "X.", .kind = Kind::kCounter}));
  EXPECT_NE(a, table.Own({.name = "http_requests", .unit = "By", .help = "H.", .kind = Kind::kGauge}));
  EXPECT_NE(a, table.Own({.name = "other", .unit = "By", .help = "H.", .kind = Kind::kCounter}));
}

TEST(SeriesTable, OwnedTextsAreValidUtf8) {
  SeriesTable table;
  const MetricDesc* row = table.Own({.name = "n\xff", .unit = "\xc3", .help = "h\xe2\x82"});
  ASSERT_NE(row, nullptr);
  EXPECT_EQ(row->name, "n\uFFFD");
  EXPECT_EQ(row->unit, "\uFFFD");
  EXPECT_EQ(row->help, "h\uFFFD\uFFFD");
  EXPECT_EQ(table.Own({.name = "n\xff", .unit = "\xc3", .help = "h\xe2\x82"}), row);
}

TEST(Own, IsBounded) {
  SeriesTable table;
  for (int i = 0; i < 10'000; ++i) {
    ASSERT_NE(table.Own({.name = "n" + std::to_string(i), .unit = "", .help = ""}), nullptr);
  }
  EXPECT_EQ(table.Own({.name = "one_more", .unit = "", .help = ""}), nullptr);
  EXPECT_NE(table.Own({.name = "n5", .unit = "", .help = ""}), nullptr) << "those known still are";
}

TEST(SeriesRefusalName, IsClosed) {
  EXPECT_EQ(SeriesRefusalName(SeriesRefusal::kLimit), "limit");
  EXPECT_EQ(SeriesRefusalName(SeriesRefusal::kDuplicate), "duplicate");
  EXPECT_EQ(SeriesRefusalName(SeriesRefusal::kInvalidName), "invalid_name");
  EXPECT_EQ(SeriesRefusalName(static_cast<SeriesRefusal>(kSeriesRefusals)), "unknown");
}

}  // namespace
}  // namespace gpulens
