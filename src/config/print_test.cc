#include "config/print.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <random>
#include <set>

#include "base/parse.h"
#include "config/schema_testing.h"

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

// Parts that share groups: all of one, some of one with another default, and groups that only look alike.
constexpr OptionSpec kTlsRows[] = {{.key = "ca_file", .help = "CAs."}, {.key = "cert_file", .help = "Ours."}};
constexpr OptionSpec kTransportRows[] = {
    {.key = "timeout", .type = OptionType::kTime, .fallback = "10s", .help = "Limit."},
    {.key = "password", .help = "Word."},
    {.key = "tls", .type = OptionType::kGroup, .help = "TLS.", .children = kTlsRows}};
constexpr OptionSpec kSlowTransportRows[] = {
    {.key = "timeout", .type = OptionType::kTime, .fallback = "30s", .help = "Limit."},
    {.key = "tls", .type = OptionType::kGroup, .help = "TLS.", .children = kTlsRows}};
constexpr OptionSpec kItemRows[] = {{.key = "items", .type = OptionType::kInt, .help = "Most."}};
constexpr OptionSpec kRuleRows[] = {
    {.key = "match", .help = "Which.", .required = true},
    {.key = "keep", .type = OptionType::kInt, .fallback = "5", .help = "How many."},
    {.key = "limit", .type = OptionType::kGroup, .help = "Bound.", .children = kItemRows}};
constexpr OptionSpec kWaitRows[] = {{.key = "wait", .type = OptionType::kTime, .help = "Longest."}};
constexpr OptionSpec kTransportOption = {
    .key = "transport", .type = OptionType::kGroup, .help = "How to connect.", .children = kTransportRows};
constexpr OptionSpec kRulesOption = {
    .key = "rules", .type = OptionType::kGroups, .help = "Rules", .children = kRuleRows};
constexpr OptionSpec kFirstSink[] = {
    kTransportOption,
    kRulesOption,
    {.key = "batch", .type = OptionType::kGroup, .help = "Together", .children = kItemRows}};
constexpr OptionSpec kSecondSink[] = {
    kTransportOption,
    kRulesOption,
    {.key = "batch", .type = OptionType::kGroup, .help = "Together", .children = kWaitRows}};
constexpr OptionSpec kThirdSink[] = {kTransportOption};
constexpr OptionSpec kReader[] = {
    {.key = "transport", .type = OptionType::kGroup, .help = "How to read.", .children = kSlowTransportRows}};
constexpr PluginSchema kSharing[] = {
    {"collectors", "reader", "", kReader, true, std::chrono::seconds(1), std::chrono::seconds(5)},
    {"sinks", "first", "", kFirstSink, false, {}, {}},
    {"sinks", "second", "", kSecondSink, false, {}, {}},
    {"sinks", "third", "", kThirdSink, false, {}, {}},
};

size_t Times(std::string_view text, std::string_view part) {
  size_t times = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) ++times;
  return times;
}

// The number in "412 keys: one that …".
int KeyCount(const std::string& markdown) {
  const size_t end = markdown.find(" keys: one that several parts share is counted once.\n");
  const size_t start = markdown.rfind(' ', end - 1) + 1;
  return end == markdown.npos ? -1 : ParseInt<int>(markdown.substr(start, end - start)).value_or(-1);
}

TEST(MarkdownSchemaTest, ASharedGroupIsPrintedOnce) {
  const std::string text = PrintMarkdownSchema(Schema(kSharing));
  EXPECT_THAT(text,
              HasSubstr("### Group `transport`\n\n| key | type | default | meaning |\n|---|---|---|---|\n"
                        "| `timeout` | a duration | `10s` | Limit. |\n"
                        "| `password` | a text | – | Word. |\n"
                        "| `tls.ca_file` | a text | – | CAs. |\n"
                        "| `tls.cert_file` | a text | – | Ours. |\n\n"));
  EXPECT_THAT(text, HasSubstr("### List `rules[]`\n\n| key | type | default | meaning |\n|---|---|---|---|\n"
                              "| `match` | a text | required | Which. |\n"));
  EXPECT_EQ(Times(text, "tls.ca_file"), 1u) << text;
  EXPECT_EQ(Times(text, "Group `tls`"), 0u) << "only transport has it";
  EXPECT_THAT(text, HasSubstr("| `limit.items` |"));
  // Several sinks have the same row.
  EXPECT_EQ(Times(text, "| `transport` | a group | – | How to connect; see [transport](#group-transport). |"),
            1u)
      << text;
  EXPECT_EQ(Times(text, "| `rules` | a list of maps | – | Rules; see [rules](#list-rules) |"), 1u) << text;
  // Not the same keys, so not the same group.
  EXPECT_THAT(text, HasSubstr("| `batch.items` |"));
  EXPECT_THAT(text, HasSubstr("| `batch.wait` |"));
  EXPECT_THAT(text, Not(HasSubstr("Group `batch`")));
  EXPECT_LT(text.find("## Keys of the whole agent\n"), text.find("## Groups that several parts share\n"));
  EXPECT_LT(text.find("## Groups that several parts share\n"), text.find("## Collectors\n"));
}

TEST(MarkdownSchemaTest, PartOfSharedGroupListsDifferences) {
  const std::string text = PrintMarkdownSchema(Schema(kSharing));
  EXPECT_THAT(text,
              HasSubstr("| `transport` | a group | – | How to read; see [transport](#group-transport), only "
                        "`timeout`, `tls`. |\n| `transport.timeout` | a duration | `30s` | Limit. |\n\n"));
  EXPECT_EQ(Times(text, "`transport."), 1u) << text;
}

TEST(MarkdownSchemaTest, KeysOfASharedGroupCountOnce) {
  // transport has 4 and rules 3. reader: enabled, interval, ttl, timeout, and another default of
  // transport.timeout. The sinks: enabled, and one of batch in each of two.
  const int none = KeyCount(PrintMarkdownSchema(Schema({})));
  EXPECT_GT(none, 0);
  EXPECT_EQ(KeyCount(PrintMarkdownSchema(Schema(kSharing))) - none, 4 + 3 + 5 + 1 + 2);
}

TEST(MarkdownSchemaTest, OneRowForAnOptionWithSeveralDefaults) {
  const std::string text = PrintMarkdownSchema(TestSchema());
  const std::string collectors =
      text.substr(text.find("## Collectors"), text.find("## Analyzers") - text.find("## Coll"));
  EXPECT_EQ(Times(collectors, "| `interval` |"), 1u) << collectors;
  EXPECT_THAT(collectors, HasSubstr("| `interval` | a duration | `1s` | How often it runs |\n"));
  EXPECT_THAT(collectors,
              HasSubstr("Also, as above: `enabled`, `interval` (default `15s`), `ttl` (default `1m`), "
                        "`timeout`.\n"));
  EXPECT_THAT(collectors, HasSubstr("Also, as above: `enabled`, `interval`, `ttl`, `timeout`.\n"));
}

TEST(MarkdownSchemaTest, EveryLinkHasItsHeading) {
  for (const std::string& text : {PrintMarkdownSchema(Schema(kSharing)), PrintMarkdownSchema(TestSchema())}) {
    std::set<std::string> anchors;
    for (size_t at = text.find("##"); at != text.npos; at = text.find("\n##", at + 1)) {
      // As GitHub makes them: small letters, a hyphen for a blank, no other characters.
      std::string anchor;
      for (char c : text.substr(text.find("# ", at) + 2, text.find('\n', at + 1) - text.find("# ", at) - 2)) {
        if (c == ' ') anchor += '-';
        else if (std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-')
          anchor += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      }
      EXPECT_TRUE(anchors.insert(anchor).second) << anchor;
    }
    for (size_t at = text.find("](#"); at != text.npos; at = text.find("](#", at + 1)) {
      const std::string anchor = text.substr(at + 3, text.find(')', at) - at - 3);
      EXPECT_TRUE(anchors.contains(anchor)) << anchor;
    }
  }
}

TEST(MarkdownSchemaTest, AListOfTheRootIsASection) {
  const PluginSchema plugins[] = {
      {.section = "collectors", .name = "pages", .help = "Read.", .options = kThirdSink, .is_list = true},
      kSharing[1]};
  const std::string text = PrintMarkdownSchema(Schema(plugins));
  const std::string pages =
      "\n\n## Pages\n\n| key | type | default | meaning |\n|---|---|---|---|\n"
      "| `pages` | a list of maps | – | Read. |\n"
      "| `pages[].transport` | a group | – | How to connect; see [transport](#group-transport). |\n\n"
      "## Collectors\n";
  EXPECT_THAT(text, HasSubstr(pages));
  EXPECT_EQ(Times(text, "`pages"), 2u) << "in no other section";
  // Of the sink: enabled, rules and its 3, batch.items.
  EXPECT_EQ(KeyCount(text) - KeyCount(PrintMarkdownSchema(Schema({}))), 1 + 4 + 1 + 4 + 1);
}

TEST(JsonSchemaTest, EqualGroupsAreWrittenOnce) {
  const std::string text = PrintJsonSchema(Schema(kSharing));
  EXPECT_EQ(Times(text, "\"$ref\": \"#/$defs/transport\""), 3u) << text;
  EXPECT_EQ(Times(text, "\"$ref\": \"#/$defs/rules\""), 2u) << text;
  // In the shared transport and in that of the reader, which differs from it.
  EXPECT_EQ(Times(text, "\"$ref\": \"#/$defs/tls\""), 2u) << text;
  EXPECT_EQ(Times(text, "\"default\": \"30s\""), 1u) << text;
  EXPECT_EQ(Times(text, "\"ca_file\": {"), 1u) << text;
  EXPECT_EQ(Times(text, "\"required\": [\"match\"]"), 1u) << text;
  EXPECT_EQ(Times(text, "\"default\": 5\n"), 1u) << "elements of lists have their defaults";
  const std::string shared = text.substr(text.find("\"$defs\": {"));
  for (const char* name : {"tls", "transport", "rules"})
    EXPECT_THAT(shared, HasSubstr("\n    \"" + std::string(name) + "\": {\n")) << text;
  EXPECT_THAT(shared, Not(HasSubstr("batch")));
  EXPECT_THAT(text, Not(HasSubstr("$defs/limit"))) << "only rules has it";
}

TEST(JsonSchemaTest, GroupsWithOtherDefaultsDiffer) {
  constexpr OptionSpec kPlain[] = {
      {.key = "queue", .type = OptionType::kGroup, .help = "On disk", .children = testing::kQueue}};
  constexpr OptionSpec kSpool[] = {{.key = "queue",
                                    .type = OptionType::kGroup,
                                    .fallback = "{dir: spool}",
                                    .help = "On disk",
                                    .children = testing::kQueue}};
  const PluginSchema two[] = {{"sinks", "a", "", kPlain, true, {}, {}},
                              {"sinks", "b", "", kSpool, true, {}, {}}};
  EXPECT_THAT(PrintJsonSchema(Schema(two)), Not(HasSubstr("$defs")));
  const PluginSchema four[] = {
      two[0], two[1], {"sinks", "c", "", kPlain, true, {}, {}}, {"sinks", "d", "", kSpool, true, {}, {}}};
  const std::string text = PrintJsonSchema(Schema(four));
  EXPECT_EQ(Times(text, "\"$ref\": \"#/$defs/queue\""), 2u) << text;
  EXPECT_EQ(Times(text, "\"$ref\": \"#/$defs/queue-2\""), 2u) << text;
  EXPECT_EQ(Times(text, "\"default\": \"spool\""), 1u) << text;
}

TEST(PrintTest, SummaryOfAGoodFile) {
  auto summary = [](std::string text, std::vector<EnvironmentVariable> environment,
                    std::vector<FlagValue> flags = {}) {
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
