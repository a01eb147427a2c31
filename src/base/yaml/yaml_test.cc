#include "base/yaml/yaml.h"

#include <gtest/gtest.h>

namespace gpulens {
namespace {

// Repeats `unit` for 256 KiB.
std::string Full(std::string_view unit, std::string_view lead = "") {
  std::string text(lead);
  while (text.size() + unit.size() <= YamlLimits{}.bytes / 4) text += unit;
  return text;
}

TEST(Yaml, NodesKnowTheirPlaces) {
  std::vector<YamlProblem> problems;
  YamlTree tree = ParseYaml("# e\nk: [e, 'u: x', \"y\"]\nn:\n", {}, problems);
  ASSERT_TRUE(problems.empty());
  const YamlNode* list = tree.root()->Find("k");
  ASSERT_NE(list, nullptr);
  ASSERT_EQ(list->items.size(), 3u);
  EXPECT_EQ(list->items[1]->mark.byte, 7);
  EXPECT_EQ(list->items[1]->mark.bytes, 6u);
  EXPECT_EQ(list->items[2]->mark.byte, 15);
  YamlMark inner = list->items[1]->Within(2, 1);
  EXPECT_EQ(inner.line, 2);
  EXPECT_EQ(inner.byte, 10);
  EXPECT_TRUE(list->items[1]->quoted);
  EXPECT_FALSE(list->items[0]->quoted);
  // A null without text is at its key.
  EXPECT_EQ(tree.root()->Find("n")->mark.line, 3);
  EXPECT_EQ(tree.root()->Find("n")->mark.byte, 0);
  EXPECT_EQ(tree.root()->Find("m"), nullptr);
}

TEST(Yaml, LimitsAreErrorsWithTheLine) {
  auto error = [](std::string_view text, const YamlLimits& limits) {
    auto tree = ReadYaml(text, limits, "x");
    return tree.ok() ? "good" : std::string(CodeName(tree.error().code)) + " " + tree.error().detail;
  };
  EXPECT_EQ(error("", {}), "good");
  EXPECT_EQ(error("a: &b 1\nc: *b\n", {}), "good");
  EXPECT_EQ(error("a: [", {}),
            "invalid_argument x: yaml-cpp: error at line 1, column 1: end of sequence flow not found");
  EXPECT_EQ(error("a: &b 1\n", {.anchors = false}), "invalid_argument x line 1: anchors are not supported");
  EXPECT_EQ(error("\na: !!int 1\n", {.anchors = false}), "invalid_argument x line 2: tags are not supported");
  EXPECT_EQ(error("- 1\n- 2\n- 3\n", {.values = 3}), "exhausted x line 3: more than 3 values");
  EXPECT_EQ(error("[[1]]", {.depth = 1}), "invalid_argument x line 1: nested deeper than 1 levels");
  EXPECT_EQ(error("a: 1\na: 2\n", {}), "invalid_argument x line 2: duplicate key 'a'");
  EXPECT_EQ(error("--- 1\n--- 2\n", {}), "invalid_argument x line 2: a second document");
  EXPECT_EQ(error("a: \"\xff\"\n", {}), "invalid_argument x line 1: a byte that is not UTF-8");
}

TEST(YamlFields, ReadsTypedValuesOfAMap) {
  auto tree =
      ReadYaml("n: -3\nh: 0x1F\nd: 1.5\ne: 1e6\nf: true\nb: 2MiB\ns: text\nc: two\nl: [1, 2]\n", {}, "text");
  ASSERT_TRUE(tree.ok());
  YamlFields in(tree->top(), "line ");
  int n = 0, e = 0;
  unsigned h = 0;
  double d = 0, b = 0;
  bool f = false;
  std::string s;
  enum class Choice : uint8_t { kOne, kTwo } c = Choice::kOne;
  size_t items = 0;
  in.Number("n", n, -5, 5).Number("h", h, 0, 31).Number("d", d, 0, 2).Number("e", e, 0, 1'000'000);
  in.Flag("f", f).Bytes("b", b).String("s", s).Choice("c", c, {"one", "two"}).String("absent", s);
  EXPECT_TRUE(in.List("l", [&](const YamlNode&) { return ++items, Ok(); }).ok());
  EXPECT_TRUE(in.Done().ok()) << in.status().detail;
  EXPECT_EQ(n, -3);
  EXPECT_EQ(h, 31u);
  EXPECT_EQ(d, 1.5);
  EXPECT_EQ(e, 1'000'000);
  EXPECT_TRUE(f);
  EXPECT_EQ(b, 2 << 20);
  EXPECT_EQ(s, "text");
  EXPECT_EQ(c, Choice::kTwo);
  EXPECT_EQ(items, 2u);
}

TEST(YamlFields, KeepsTheFirstErrorWithItsLine) {
  auto tree = ReadYaml("n: 9\nf: maybe\nwrong: 1\n", {}, "text");
  ASSERT_TRUE(tree.ok());
  int n = 0;
  bool f = false;
  EXPECT_EQ(YamlFields(tree->top(), "line ").Number("n", n, 0, 8).Flag("f", f).Done().detail,
            "line 1: n is not a whole number in range");
  EXPECT_EQ(YamlFields(tree->top(), "line ").Number("n", n, 0, 9).Flag("f", f).Done().detail,
            "line 2: f is not true or false");
  YamlFields in(tree->top(), "line ");
  in.Number("n", n, 0, 9).Child("f");
  EXPECT_EQ(in.Done().detail, "line 3: unknown key 'wrong'");
  EXPECT_EQ(YamlFields(*tree->top().members[0].value, "line ").Done().detail, "line 1: expected a map");
}

TEST(Yaml, LimitsHostileTexts) {
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
    std::vector<YamlProblem> problems;
    YamlTree tree = ParseYaml(text, {}, problems);
    EXPECT_LE(tree.nodes().size(), YamlLimits{}.values + 1);
  }
}

}  // namespace
}  // namespace gpulens
