// Every file of testdata/invalid/ against the words that a person must see for it. With
// GPULENS_WRITE_GOLDEN set, the words are written instead; read the difference before it is kept.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/files.h"
#include "config/print.h"
#include "config/schema_testing.h"

namespace gpulens {
namespace {

namespace fs = std::filesystem;

FileAnswer LookForTest(const std::string& path) {
  if (path == "/etc/gpulens/web.yaml") {
    return {"permission denied",
            "owned by root, mode 0600; this runs as gpulens.   do: chown gpulens /etc/gpulens/web.yaml"};
  }
  return {};
}

std::string WordsFor(const std::string& text) {
  ConfigSources sources;
  sources.file_name = "gpulens.yaml";
  sources.file_text = text;
  sources.inspect_file = LookForTest;
  sources.inspect_folder = nullptr;
  sources.expand = true;
  sources.read = nullptr;
  sources.environment = {{"REGION", "eu"}, {"WORD", "soon"}};
  LoadOutcome outcome = Load(testing::TestSchema(), sources);
  std::string words = outcome.Report();
  if (outcome.ok()) words += CheckSummary(testing::TestSchema(), outcome.config, "gpulens.yaml") + "\n";
  return words;
}

std::vector<fs::path> Inputs() {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(GPULENS_SOURCE_DIR "/src/config/testdata/invalid")) {
    if (entry.path().extension() == ".yaml") paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  return paths;
}

TEST(InvalidTest, EachFileHasItsErrors) {
  std::vector<fs::path> paths = Inputs();
  ASSERT_GE(paths.size(), 40u);
  for (fs::path path : paths) {
    SCOPED_TRACE(path.filename());
    auto text = ReadFile(path.string(), 4 << 20);
    ASSERT_TRUE(text.ok());
    std::string words = WordsFor(*text);
    path.replace_extension(".expect");
    if (std::getenv("GPULENS_WRITE_GOLDEN") != nullptr) {
      ASSERT_TRUE(WriteFileAtomically(path.string(), words).ok());
      continue;
    }
    auto expected = ReadFile(path.string());
    ASSERT_TRUE(expected.ok()) << "no words for it; they would be:\n" << words;
    EXPECT_EQ(words, *expected);
  }
}

TEST(InvalidTest, NoSecretIsQuoted) {
  std::string words = WordsFor(
      "collectors: {scrape: {targets: [{url: \"http:/x/?token=hunter2\",\n"
      "  headers: {X-Key: hunter2, Y: \"…\"}, wrong: 1}]}}\n"
      "sinks: {webhook: {url: \"http:/h/hunter2\"}}\n");
  EXPECT_NE(words.find("the text is not a URL"), std::string::npos) << words;
  EXPECT_NE(words.find("config print has hidden"), std::string::npos) << words;
  EXPECT_EQ(words.find("hunter2"), std::string::npos) << words;
}

// What would be too large to keep as a file.
TEST(InvalidTest, TooLarge) {
  EXPECT_EQ(WordsFor("interval: 1s\n#" + std::string(1 << 20, 'x')),
            "gpulens.yaml: larger than 1 MiB\n"
            "  a configuration is smaller than that\n"
            "1 error in gpulens.yaml.   every key with its default: gpulens config schema\n");
}

TEST(InvalidTest, TooManyValues) {
  std::string text = "collectors: {scrape: {targets: [";
  for (int i = 0; i < 30'000; ++i) text += "x,";
  std::string words = WordsFor(text + "]}}");
  EXPECT_NE(words.find("more than 20000 values"), std::string::npos) << words;
  EXPECT_LT(words.size(), 1000u);
}

TEST(InvalidTest, CountsAllErrorsShowsTwenty) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += "wrong_key_" + std::to_string(i) + ": 1\n";
  std::string words = WordsFor(text);
  EXPECT_NE(words.find("5000 errors in gpulens.yaml, the first 20 are shown."), std::string::npos);
  EXPECT_NE(words.find("gpulens.yaml:20:1:"), std::string::npos);
  EXPECT_EQ(words.find("gpulens.yaml:21:1:"), std::string::npos);
}

TEST(InvalidTest, ReadsOneLongLine) {
  std::string text = "collectors: {scrape: {targets: [";
  for (int i = 0; i < 3000; ++i) text += "{url: \"http://h/\\x41\", wrong: " + std::string(100, 'x') + "}, ";
  std::string words = WordsFor(text + "]}}");
  EXPECT_NE(words.find("3000 errors"), std::string::npos);
  EXPECT_LT(words.size(), 20'000u);
}

TEST(SourceText, PlacesCountCharacters) {
  SourceText source("x", "# é\nk: [é, 'ü: x', \"y\"]\nn:\n");
  ConfigProblems problems;
  YamlTree tree = ParseYaml(source, problems);
  ASSERT_EQ(problems.count(), 0u);
  const YamlNode* list = tree.root()->Find("k");
  ASSERT_NE(list, nullptr);
  ASSERT_EQ(list->items.size(), 3u);
  EXPECT_EQ(source.SpotOf(list->items[1]->mark).column, 8);
  EXPECT_EQ(source.SpotOf(list->items[1]->mark).length, 6);
  EXPECT_EQ(source.SpotOf(list->items[2]->mark).column, 16);
  SourcePlace inner = source.SpotOf(list->items[1]->Within(2, 1));
  EXPECT_EQ(inner.line, 2);
  EXPECT_EQ(inner.column, 10);
  // A null without text is at its key.
  EXPECT_EQ(source.SpotOf(tree.root()->Find("n")->mark).line, 3);
  EXPECT_EQ(source.SpotOf(tree.root()->Find("n")->mark).column, 1);
  EXPECT_EQ(tree.root()->Find("m"), nullptr);
}

TEST(SourceText, LongLinesAreCutAroundThePlace) {
  SourceText source("x", std::string(500, 'a') + "é" + std::string(500, 'b'));
  SourcePlace spot = source.SpotOf({1, 500, 2});
  EXPECT_EQ(spot.column, 501);
  source.Quote(spot);
  EXPECT_EQ(CountCharacters(spot.excerpt), 102u);
  EXPECT_EQ(spot.caret, 51);
  EXPECT_EQ(spot.length, 1);
}

}  // namespace
}  // namespace gpulens
