#include "agent/config/print.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "agent/config/schema_for_test.h"

namespace gpulens {
namespace {

using ::testing::HasSubstr;
using testing::LoadText;
using ::testing::Not;
using testing::TestSchema;

constexpr std::string_view kFile = R"(interval: 2s
resource: {cluster: "a: b", attributes: {site: north, "k: 1": "null"}}
collectors:
  scrape:
    targets:
      - {name: a, url: "http://me:secret12@a/?key=QUERY", password: correct-horse-3f9a, headers: {Cookie: "Bearer abcdefgh", b: ""}}
      - {name: "1", url: "http://b/", headers: {}}
sinks: {otlp: {endpoint: "http://c", batch: 2, token: 0123456789ab}}
)";

TEST(PrintTest, EveryValueWithItsOrigin) {
  LoadOutcome outcome =
      LoadText(std::string(kFile), {{"GPULENS_LIMITS_SERIES", "7"}}, {{"--log-level", "log.level", "debug"}});
  ASSERT_TRUE(outcome.ok()) << outcome.Report();
  std::string text = PrintConfig(TestSchema(), outcome.config);
  EXPECT_THAT(text, HasSubstr("interval: 2s  # gpulens.yaml:1:11\n"));
  EXPECT_THAT(text, HasSubstr("  listen: [\"127.0.0.1:9091\", \"[::1]:9091\"]  # default\n"));
  EXPECT_THAT(text, HasSubstr("  series: 7  # GPULENS_LIMITS_SERIES\n"));
  EXPECT_THAT(text, HasSubstr("  level: debug  # --log-level\n"));
  EXPECT_THAT(text, HasSubstr("      - name: a  # gpulens.yaml:6:16\n        url: \"http://me:…@a/?…\"  #"));
  EXPECT_THAT(text, HasSubstr("password: \"…\"  #"));
  EXPECT_THAT(text, HasSubstr("headers: {Cookie: \"…\", b: \"\"}  #"));
  EXPECT_THAT(text, HasSubstr("    timeout: null  # default\n"));
  EXPECT_THAT(text, Not(HasSubstr("secret12")));
  EXPECT_THAT(text, Not(HasSubstr("correct")));
  EXPECT_THAT(text, Not(HasSubstr("QUERY")));
  EXPECT_THAT(text, Not(HasSubstr("efgh")));
  EXPECT_THAT(text, Not(HasSubstr("456789")));
  // Hidden secrets are refused, not taken for the secret.
  LoadOutcome again = LoadText(text);
  EXPECT_EQ(again.error_count, 4u) << again.Report();
  EXPECT_THAT(again.Report(), HasSubstr("expected a secret, got one that config print has hidden"));
  EXPECT_THAT(again.Report(), Not(HasSubstr("3f9a")));
}

TEST(PrintTest, PrintedConfigurationLoadsToTheSame) {
  LoadOutcome outcome = LoadText(std::string(kFile));
  LoadOutcome again =
      LoadText(PrintConfig(TestSchema(), outcome.config, {.origins = true, .show_secrets = true}));
  ASSERT_TRUE(again.ok()) << again.Report();
  EXPECT_TRUE(again.config == outcome.config);
  LoadOutcome other = LoadText(std::string(kFile) + "state_dir: x\n");
  EXPECT_FALSE(other.config == outcome.config);
}

// Texts that YAML could take for something else, among random ones.
std::string RandomText(std::mt19937_64& random) {
  constexpr const char* kTraps[] = {"null",
                                    "~",
                                    "true",
                                    "1",
                                    "1e3",
                                    "-",
                                    "- a",
                                    "a: b",
                                    "#x",
                                    " x ",
                                    "'",
                                    "\"",
                                    "\\",
                                    "[",
                                    "{}",
                                    "a\nb\n",
                                    "\t",
                                    "\r",
                                    "é",
                                    "…",
                                    "*a",
                                    "&a",
                                    "!x",
                                    "%x",
                                    "@",
                                    "`",
                                    "|",
                                    ">",
                                    "a #b",
                                    "?",
                                    ":",
                                    "---",
                                    "...",
                                    "\xF0\x9F\x98\x80",
                                    "\x01\x7F",
                                    "\xC2\x85",
                                    "\xE2\x80\xA8",
                                    "\xEF\xBB\xBF",
                                    "a,b",
                                    "<<",
                                    "=",
                                    "0x1F",
                                    "1:2",
                                    "2001-01-01"};
  std::string out;
  for (size_t i = random() % 4; i > 0; --i) {
    if (random() % 2 == 0) out += kTraps[random() % std::size(kTraps)];
    for (size_t j = random() % 6; j > 0; --j) out += static_cast<char>(' ' + random() % 95);
  }
  return out;
}

TEST(PrintTest, RoundTripOfRandomConfigurations) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 300; ++round) {
    LoadOutcome outcome =
        LoadText("collectors: {scrape: {targets: [{url: \"http://a/\"}, {url: \"http://b/\"}]}}");
    Config config = outcome.config;
    auto set = [&](Config& group, std::string_view key, Config::Value value) {
      group.Set(key, std::move(value), {Origin::kFile, RandomText(random), 1, 1});
    };
    Config resource = config.Group("resource");
    set(resource, "cluster", RandomText(random));
    std::map<std::string, std::string> map;
    for (size_t i = random() % 5; i > 0; --i) map[RandomText(random)] = RandomText(random);
    // Names of attributes may not be just anything.
    std::map<std::string, std::string> attributes;
    for (const auto& [key, text] : map) {
      std::string name = key;
      std::erase_if(name, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
      attributes["a" + name] = text;
    }
    set(resource, "attributes", attributes);
    set(config, "resource", resource);
    set(config, "state_dir", RandomText(random));
    set(config, "interval", Duration(10'000'000 + static_cast<int64_t>(random() % 1'000'000'000)));
    Config collectors = config.Group("collectors"), scrape = collectors.Group("scrape");
    set(scrape, "share", static_cast<double>(random() % 1000) / 999);
    std::vector<Config> targets = scrape.Groups("targets");
    set(targets[0], "name", "x" + RandomText(random));
    set(targets[1], "password", "p" + RandomText(random));
    // One that begins with "…" would be refused as hidden.
    std::map<std::string, std::string> headers;
    for (const auto& [key, text] : map) headers[key] = "h" + text;
    set(targets[1], "headers", headers);
    set(scrape, "targets", targets);
    set(collectors, "scrape", scrape);
    set(config, "collectors", collectors);
    std::string text = PrintConfig(TestSchema(), config, {.origins = round % 2 == 0, .show_secrets = true});
    LoadOutcome again = LoadText(text);
    ASSERT_TRUE(again.ok()) << text << again.Report();
    ASSERT_TRUE(again.config == config) << text;
  }
}

TEST(PrintTest, SchemaIsTheDefaultConfiguration) {
  std::string text = PrintSchema(TestSchema());
  LoadOutcome outcome = LoadText(text);
  ASSERT_TRUE(outcome.ok()) << outcome.Report() << text;
  EXPECT_TRUE(outcome.config == Load(TestSchema(), {}).config);
  EXPECT_THAT(text, HasSubstr("# Time between two snapshots. A duration, 10ms to 1d.\ninterval: 1s\n"));
  EXPECT_THAT(text, HasSubstr("      # - name:   Name of the target. A text.\n"
                              "      #   url:   The page. A URL, required.\n"));
  EXPECT_THAT(text,
              HasSubstr("# auto is journal under systemd, else text. A text: auto text journal json.\n"));
  for (const Schema::Leaf& leaf : TestSchema().leaves()) {
    EXPECT_THAT(text, HasSubstr(std::string(leaf.spec->key) + ":")) << leaf.path;
  }
}

// Counts brackets outside of strings: enough to see that the JSON is whole.
TEST(PrintTest, JsonSchemaIsWhole) {
  std::string text = PrintJsonSchema(TestSchema());
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"' && text[i - 1] != '\\') quoted = !quoted;
    if (!quoted) depth += (text[i] == '{' || text[i] == '[') - (text[i] == '}' || text[i] == ']');
    ASSERT_GE(depth, i + 1 < text.size() && i + 2 < text.size() ? 1 : 0) << text.substr(0, i);
  }
  EXPECT_EQ(depth, 0);
  EXPECT_THAT(text, HasSubstr("\"$schema\": \"https://json-schema.org/draft/2020-12/schema\""));
  EXPECT_THAT(text, HasSubstr("\"default\": [\"127.0.0.1:9091\", \"[::1]:9091\"]"));
  EXPECT_THAT(text, HasSubstr("\"required\": [\"url\"]"));
  EXPECT_THAT(text, HasSubstr("\"enum\": [\"auto\", \"text\", \"journal\", \"json\"]"));
  EXPECT_THAT(text, HasSubstr("\"minimum\": 0"));
  EXPECT_THAT(text, HasSubstr("\"additionalProperties\": false"));
}

TEST(PrintTest, SummaryOfAGoodFile) {
  auto summary = [](std::string text, std::vector<Variable> environment, std::vector<FlagValue> flags = {}) {
    LoadOutcome outcome = LoadText(std::move(text), std::move(environment), std::move(flags));
    return CheckSummary(TestSchema(), outcome.config, "gpulens.yaml");
  };
  EXPECT_EQ(
      summary("analyzers: {fleet_health: {enabled: false}}\nsinks: {otlp: {endpoint: http://c, batch: 1}}",
              {{"GPULENS_HTTP_LISTEN", "127.0.0.1:1"}}),
      "gpulens.yaml: good. 3 collectors, 2 sinks, 1 from the environment (GPULENS_HTTP_LISTEN)");
  EXPECT_EQ(
      summary("collectors: {host: {enabled: false}, scrape: {enabled: false}}",
              {{"GPULENS_INTERVAL", "1s"}, {"GPULENS_STATE_DIR", "x"}}, {{"--demo", "log.level", "info"}}),
      "gpulens.yaml: good. 1 collector, 1 analyzer, 1 sink, 2 from the environment (GPULENS_INTERVAL "
      "GPULENS_STATE_DIR), 1 from the command line (--demo)");
  EXPECT_EQ(CheckSummary(TestSchema(), Load(TestSchema(), {}).config, ""),
            "no file, defaults: good. 3 collectors, 1 analyzer, 1 sink");
}

TEST(SchemaTest, VariablesAreUnambiguous) {
  const Schema::Leaf* leaf = TestSchema().FindLeaf("http.listen");
  ASSERT_NE(leaf, nullptr);
  EXPECT_EQ(leaf->variable, "GPULENS_HTTP_LISTEN");
  EXPECT_EQ(TestSchema().FindLeaf("collectors.nvidia.interval")->variable,
            "GPULENS_COLLECTORS_NVIDIA_INTERVAL");
  EXPECT_EQ(TestSchema().FindLeaf("http"), nullptr);
  constexpr OptionSpec kClash[] = {{.key = "a_b", .fallback = {}, .help = {}},
                                   {.key = "a_b", .fallback = {}, .help = {}}};
  const PluginSchema plugins[] = {{"sinks", "x", "", kClash, true, {}, {}}};
  EXPECT_DEATH(Schema schema(plugins), "");
  constexpr PluginSchema kHurried[] = {{"collectors", "uptime", "No period", {}, true, {}, {}}};
  EXPECT_DEATH(Schema schema(kHurried), "the spec of the collector uptime has .period and .ttl");
}

TEST(SchemaTest, APluginsOwnOptionReplacesTheCommonOne) {
  constexpr OptionSpec kOwn[] = {{.key = "ttl", .type = OptionType::kTime, .fallback = "9s", .help = "Mine"}};
  const PluginSchema plugins[] = {
      {"collectors", "x", "", kOwn, true, std::chrono::seconds(1), std::chrono::seconds(5)},
      {"discovery", "y", "", {}, false, {}, {}}};
  Schema schema(plugins);
  LoadOutcome outcome = Load(schema, {});
  EXPECT_EQ(outcome.config.Group("collectors").Group("x").Time("ttl"), std::chrono::seconds(9));
  EXPECT_TRUE(outcome.config.Has("discovery"));
  EXPECT_FALSE(Load(TestSchema(), {}).config.Has("discovery"));
}

}  // namespace
}  // namespace gpulens
