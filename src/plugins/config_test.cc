#include "plugins/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpulens {
namespace {

using testing::ElementsAre;
using testing::Pair;

Config Everything() {
  Config inner;
  inner.Set("name", std::string("inner"), {});
  Config config;
  config.Set("bool", true, {});
  config.Set("int", int64_t{-3}, {});
  config.Set("double", 0.5, {});
  config.Set("time", Duration(1'500'000'000), {});
  config.Set("size", int64_t{64} << 20, {});
  config.Set("text", std::string("words"), {});
  config.Set("texts", std::vector<std::string>{"a", "b"}, {});
  config.Set("map", std::map<std::string, std::string>{{"k", "v"}}, {});
  config.Set("group", inner, {});
  config.Set("groups", std::vector<Config>{inner, inner}, {});
  return config;
}

TEST(Config, ReturnsValuesByType) {
  Config config = Everything();
  EXPECT_TRUE(config.Bool("bool"));
  EXPECT_EQ(config.Int("int"), -3);
  EXPECT_EQ(config.Double("double"), 0.5);
  EXPECT_EQ(config.Time("time"), std::chrono::milliseconds(1500));
  EXPECT_EQ(config.Size("size"), uint64_t{64} << 20);
  EXPECT_EQ(config.Text("text"), "words");
  EXPECT_THAT(config.Texts("texts"), ElementsAre("a", "b"));
  EXPECT_THAT(config.TextMap("map"), ElementsAre(Pair("k", "v")));
  EXPECT_EQ(config.Group("group").Text("name"), "inner");
  EXPECT_EQ(config.Groups("groups").size(), 2u);
  EXPECT_TRUE(config.Has("int"));
  EXPECT_FALSE(config.Has("other"));
}

TEST(Config, WrongKeyOrTypeEndsTheProgram) {
  Config config = Everything();
  EXPECT_DEATH(config.Text("other"), "option is in the spec");
  EXPECT_DEATH(config.Text("int"), "CHECK failed");
  EXPECT_DEATH(config.Where("other"), "option is in the spec");
}

TEST(Config, ReportsTheOriginOfAValue) {
  Config config;
  config.Set("a", true, {});
  config.Set("b", true, {Origin::kFile, "gpulens.yaml", 7, 15});
  config.Set("c", true, {Origin::kEnvironment, "GPULENS_INTERVAL", 0, 0});
  config.Set("d", true, {Origin::kFlag, "--interval", 0, 0});
  EXPECT_EQ(config.Where("a"), "default");
  EXPECT_EQ(config.Where("b"), "gpulens.yaml:7:15");
  EXPECT_EQ(config.Where("c"), "GPULENS_INTERVAL");
  EXPECT_EQ(config.Where("d"), "--interval");
  EXPECT_EQ(config.origin("b").line, 7);
}

TEST(Config, SetReplacesInPlace) {
  Config config;
  config.Set("b", int64_t{1}, {});
  config.Set("a", int64_t{2}, {});
  config.Set("b", int64_t{3}, {Origin::kFlag, "-b", 0, 0});
  ASSERT_EQ(config.entries().size(), 2u);
  EXPECT_EQ(config.entries()[0].key, "b");
  EXPECT_EQ(config.Int("b"), 3);
  EXPECT_EQ(config.Where("b"), "-b");
}

TEST(Config, EqualityComparesValuesNotOrigins) {
  Config a = Everything(), b = Everything();
  EXPECT_EQ(a, b);
  b.Set("int", int64_t{-3}, {Origin::kFile, "other.yaml", 1, 1});
  EXPECT_EQ(a, b);
  b.Set("int", int64_t{-4}, {});
  EXPECT_FALSE(a == b);
  b = a;
  b.Set("more", true, {});
  EXPECT_FALSE(a == b);
  Config c = a;
  Config inner;
  inner.Set("name", std::string("changed"), {});
  c.Set("group", inner, {});
  EXPECT_FALSE(a == c) << "looks into groups";
  Config moved = std::move(c);
  c = std::move(moved);
  EXPECT_EQ(c.Group("group").Text("name"), "changed");
  EXPECT_EQ(Config(), Config());
}

constexpr OptionSpec kPumpOptions[] = {{.key = "speed", .type = OptionType::kInt},
                                       {.key = "url", .type = OptionType::kUrl}};

TEST(OptionsOf, ReadsDeclaredOptionsByTheirType) {
  Config config;
  config.Set("speed", int64_t{7}, {});
  config.Set("url", std::string("http://a"), {.where = Origin::kFlag, .name = "--url"});
  const OptionsOf<kPumpOptions> options(config);
  EXPECT_EQ(options.Int("speed"), 7);
  EXPECT_EQ(options.Text("url"), "http://a");
  EXPECT_EQ(options.Where("url"), "--url");
}

}  // namespace
}  // namespace gpulens
