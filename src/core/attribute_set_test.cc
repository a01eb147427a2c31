#include "core/attribute_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "base/text.h"

namespace gpulens {
namespace {

std::string Shown(const AttributeSet& set) {
  std::string out;
  for (auto [key, value] : set) {
    out += std::string(key) + "=";
    AppendValue(out, value);
    out += ";";
  }
  return out;
}

TEST(AttributeSet, IsSortedByKeyAndKeepsTypes) {
  AttributeSet set({{"b", int64_t{-3}}, {"a", "text"}, {"d", true}, {"c", 0.5}});
  EXPECT_EQ(set.size(), 4u);
  EXPECT_EQ(Shown(set), "a=text;b=-3;c=0.5;d=true;");
  EXPECT_EQ(std::get<int64_t>(set.Find("b", false)), -3);
  EXPECT_EQ(std::get<double>(set.Find("c", false)), 0.5);
  EXPECT_TRUE(std::get<bool>(set.Find("d", false)));
  EXPECT_EQ(std::get<std::string_view>(set.Find("a", false)), "text");
}

TEST(AttributeSet, TheLastOfEqualKeysWins) {
  AttributeSet set({{"k", "first"}, {"a", "x"}, {"k", int64_t{2}}, {"k", "last"}});
  EXPECT_EQ(Shown(set), "a=x;k=last;");
}

TEST(AttributeSet, EmptyIsEmpty) {
  AttributeSet set;
  EXPECT_TRUE(set.empty());
  EXPECT_EQ(set.hash(), 0u);
  EXPECT_EQ(set.begin(), set.end());
  EXPECT_EQ(set, AttributeSet(std::span<const AttributeSet::Attribute>{}));
  EXPECT_EQ(set.Text("k"), "");
  EXPECT_FALSE(set.Has("k"));
  EXPECT_EQ(std::get<int64_t>(set.Find("k", int64_t{7})), 7);
}

TEST(AttributeSet, EmptyTextsAndNulBytesAreKept) {
  AttributeSet set({{"", "no key"}, {"empty", std::string_view{}}, {"nul", std::string_view("a\0b", 3)}});
  EXPECT_EQ(set.size(), 3u);
  EXPECT_TRUE(set.Has("empty"));
  EXPECT_EQ(set.Text("empty"), "");
  EXPECT_EQ(set.Text("nul"), std::string("a\0b", 3));
  EXPECT_EQ(set.Text(""), "no key");
}

TEST(AttributeSet, TextsAreValidUtf8WhateverCameIn) {
  const uint64_t before = ReplacedUtf8Bytes();
  const AttributeSet set({{"k\xff", "a训练模型\xe6\x8e"}, {"n", int64_t{1}}, {"ok", "größe"}});
  EXPECT_EQ(Shown(set), "k\uFFFD=a训练模型\uFFFD\uFFFD;n=1;ok=größe;");
  EXPECT_EQ(ReplacedUtf8Bytes(), before + 3);
  EXPECT_EQ(Shown(AttributeSet({{"x\xfe", "first"}, {"x\xff", "last"}})), "x\uFFFD=last;")
      << "keys that become one are one";
  EXPECT_EQ(Shown(set.OverlaidOn(AttributeSet({{"n", "\xc3"}}))), Shown(set));
}

TEST(AttributeSet, AKeyThatGrowsAboveTheLimitIsCutBetweenCharacters) {
  const std::string key(UINT16_MAX, '\xff');
  const AttributeSet set({{std::string_view(key), "x"}});
  ASSERT_EQ(set.size(), 1u);
  const std::string_view kept = (*set.begin()).key;
  EXPECT_LE(kept.size(), size_t{UINT16_MAX});
  EXPECT_TRUE(IsUtf8(kept));
}

TEST(AttributeSet, EqualContentIsEqual) {
  AttributeSet a({{"x", "1"}, {"y", int64_t{2}}});
  AttributeSet b({{"y", int64_t{2}}, {"x", "1"}});
  EXPECT_EQ(a, b);
  EXPECT_EQ(a.hash(), b.hash());
  EXPECT_NE(a, AttributeSet({{"x", "1"}, {"y", "2"}})) << "the type counts";
  EXPECT_NE(a, AttributeSet({{"x", "1"}, {"y", int64_t{3}}}));
  EXPECT_NE(a, AttributeSet({{"x", "1"}}));
  EXPECT_NE(a, AttributeSet{});
  EXPECT_NE(AttributeSet({{"ab", "c"}}), AttributeSet({{"a", "bc"}}));
}

TEST(AttributeSet, OverlaidKeepsTheStronger) {
  AttributeSet strong({{"a", "strong"}, {"b", "strong"}});
  AttributeSet weak({{"b", "weak"}, {"c", "weak"}});
  EXPECT_EQ(Shown(strong.OverlaidOn(weak)), "a=strong;b=strong;c=weak;");
  EXPECT_EQ(Shown(weak.OverlaidOn(strong)), "a=strong;b=weak;c=weak;");
  EXPECT_EQ(strong.OverlaidOn(AttributeSet{}), strong);
  EXPECT_EQ(AttributeSet{}.OverlaidOn(strong), strong);
  EXPECT_EQ(Shown(strong), "a=strong;b=strong;") << "operands are unchanged";
}

TEST(AttributeSet, TextsAreCopied) {
  std::string key = "key", value = "value";
  AttributeSet set({{key, value}});
  key.assign(3, '#');
  value.assign(5, '#');
  EXPECT_EQ(Shown(set), "key=value;");
}

TEST(AttributeSet, TextsOutliveTheSetTheyWereReadFrom) {
  AttributeSet copy;
  std::string_view text;
  {
    AttributeSet set({{"k", "a text that is longer than any small buffer would hold, to be sure"}});
    copy = set;
    text = std::get<std::string_view>(set.Find("k", {}));
  }
  EXPECT_EQ(text.substr(0, 6), "a text");
  EXPECT_EQ(copy.Text("k"), text);
}

TEST(AttributeSet, ManyAndLongAttributes) {
  std::vector<std::string> keys;
  for (int i = 0; i < 500; ++i) keys.push_back("key" + std::to_string(1000 - i));
  std::string value(100'000, 'v');
  std::vector<AttributeSet::Attribute> list;
  for (const std::string& key : keys)
    list.push_back({key, std::string_view(value).substr(0, key.size() * 100)});
  AttributeSet set{std::span<const AttributeSet::Attribute>(list)};
  EXPECT_EQ(set.size(), 500u);
  std::string_view last;
  for (auto [key, ignored] : set) {
    EXPECT_LT(last, key);
    last = key;
  }
  EXPECT_EQ(AttributeSet({{std::string(65'535, 'k'), "v"}}).size(), 1u);
  EXPECT_DEATH(AttributeSet({{std::string(65'536, 'k'), "v"}}), "CHECK failed");
}

TEST(AttributeSet, IteratorGoesOnFromACopy) {
  AttributeSet set({{"a", "1"}, {"b", "2"}});
  auto it = set.begin();
  auto before = it++;
  EXPECT_EQ((*before).key, "a");
  EXPECT_EQ((*it).key, "b");
  EXPECT_NE(it, before);
  EXPECT_EQ(++it, set.end());
}

TEST(AppendValue, ShowsValuesShortest) {
  auto text = [](AttributeSet::Value value) {
    std::string out = ">";
    AppendValue(out, value);
    return out;
  };
  EXPECT_EQ(text(int64_t{0}), ">0");
  EXPECT_EQ(text(std::numeric_limits<int64_t>::min()), ">-9223372036854775808");
  EXPECT_EQ(text(0.1), ">0.1");
  EXPECT_EQ(text(1e300), ">1e+300");
  EXPECT_EQ(text(-2.2250738585072014e-308), ">-2.2250738585072014e-308");
  EXPECT_EQ(text(std::numeric_limits<double>::infinity()), ">inf");
  EXPECT_EQ(text(false), ">false");
  EXPECT_EQ(text("x y"), ">x y");
}

TEST(AttributeSet, CopiesMayDieInAnyThread) {
  AttributeSet set({{"gpu.index", int64_t{3}}, {"gpu.model", "H100"}});
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([set] {
      for (int k = 0; k < 1000; ++k) {
        AttributeSet copy = set;
        EXPECT_EQ(copy.size(), 2u);
      }
    });
  }
  set = AttributeSet{};
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace gpulens
