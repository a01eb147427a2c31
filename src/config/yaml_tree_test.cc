#include "config/yaml_tree.h"

#include <gtest/gtest.h>

namespace gpulens {
namespace {

// Repeats `unit` for 256 KiB.
std::string Full(std::string_view unit, std::string_view lead = "") {
  std::string text(lead);
  while (text.size() + unit.size() <= kConfigBytes / 4) text += unit;
  return text;
}

TEST(YamlTreeTest, PlacesCountCharacters) {
  SourceText source("x", "# é\nk: [é, 'ü: x', \"y\"]\nn:\n");
  Problems problems;
  YamlTree tree = ParseYaml(source, problems);
  ASSERT_EQ(problems.count(), 0u);
  const YamlNode* list = tree.root()->Find("k");
  ASSERT_NE(list, nullptr);
  ASSERT_EQ(list->items.size(), 3u);
  EXPECT_EQ(list->items[1]->span.column, 8);
  EXPECT_EQ(list->items[1]->span.length, 6);
  EXPECT_EQ(list->items[2]->span.column, 16);
  TextSpan inner = list->items[1]->Within(2, 1);
  EXPECT_EQ(inner.line, 2);
  EXPECT_EQ(inner.column, 10);
  // What is not there stands where its key stands.
  EXPECT_EQ(tree.root()->Find("n")->span.line, 3);
  EXPECT_EQ(tree.root()->Find("n")->span.column, 1);
  EXPECT_EQ(tree.root()->Find("m"), nullptr);
}

TEST(YamlTreeTest, LongLinesAreCutAroundThePlace) {
  SourceText source("x", std::string(500, 'a') + "é" + std::string(500, 'b'));
  Spot spot = source.SpotOf(source.SpanOf(0, 500, 2));
  EXPECT_EQ(spot.column, 501);
  source.Quote(spot);
  EXPECT_EQ(CountCharacters(spot.excerpt), 102u);
  EXPECT_EQ(spot.caret, 51);
  EXPECT_EQ(spot.length, 1);
}

TEST(YamlTreeTest, HostileTextsEndSoon) {
  const std::string kTexts[] = {
      Full("["),          Full("{"),
      Full("- "),         Full("? "),
      Full("a: "),        Full("- - \n"),
      Full("? \n"),       Full("a:\n"),
      Full("'"),          Full("\""),
      Full("&a "),        Full("*a "),
      Full("!a "),        Full("!!"),
      Full("|\n"),        Full(">\n"),
      Full("%YAML\n"),    Full("---\n"),
      Full("...\n"),      Full("#"),
      Full("\n"),         Full(" "),
      Full("\t"),         Full("a "),
      Full("a\n"),        Full("a: b\n"),
      Full("{a: ", ""),   Full("[{"),
      Full(","),          Full("[a,", "["),
      Full("\\", "\""),   Full("\\n", "\""),
      Full(" \n", "\"a"), Full("\n ", "a: |\n"),
      Full("&a *a "),     Full("[]"),
      Full("{}\n"),       Full("? a\n: b\n"),
      Full("- a\n"),      Full("\r"),
      Full(": "),         Full("-"),
      Full("%TAG ! x\n"), Full("&a\n"),
      Full("!<a"),        Full("a: &a\n"),
      Full("[? a : b,"),  Full("'a': "),
  };
  for (const std::string& text : kTexts) {
    SCOPED_TRACE(text.substr(0, 8));
    SourceText source("x", text);
    Problems problems;
    YamlTree tree = ParseYaml(source, problems);
    EXPECT_LE(tree.nodes().size(), kConfigValues + 1);
    EXPECT_LE(problems.Shown(&source).size(), Problems::kShown);
  }
}

}  // namespace
}  // namespace gpulens
