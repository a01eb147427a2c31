#include "config/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/files.h"
#include "config/print.h"
#include "config/schema_testing.h"
#include "config/validate.h"

namespace gpulens {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::LoadText;
using ::testing::Pair;
using testing::TestSchema;

Config Good(std::string text, std::vector<EnvironmentVariable> environment = {},
            std::vector<FlagValue> flags = {}) {
  LoadOutcome outcome = LoadText(std::move(text), std::move(environment), std::move(flags));
  EXPECT_TRUE(outcome.ok()) << outcome.Report();
  return outcome.config;
}

std::string Bad(std::string text, std::vector<EnvironmentVariable> environment = {},
                std::vector<FlagValue> flags = {}) {
  LoadOutcome outcome = LoadText(std::move(text), std::move(environment), std::move(flags));
  EXPECT_FALSE(outcome.ok());
  return outcome.Report();
}

const Config& Plugin(const Config& config, std::string_view section, std::string_view name) {
  return config.Group(section).Group(name);
}

TEST(LoaderTest, DefaultsWithoutAnything) {
  LoadOutcome outcome = Load(TestSchema(), {});
  ASSERT_TRUE(outcome.ok()) << outcome.Report();
  EXPECT_EQ(outcome.Report(), "");
  const Config& config = outcome.config;
  EXPECT_EQ(config.Time("interval"), seconds(1));
  EXPECT_EQ(config.Where("interval"), "default");
  EXPECT_THAT(config.Group("http").Texts("listen"), ElementsAre("127.0.0.1:9091", "[::1]:9091"));
  EXPECT_FALSE(config.Group("http").Bool("insecure"));
  EXPECT_EQ(config.Group("limits").Size("memory"), 256u << 20);
  EXPECT_EQ(config.Group("resource").Text("cluster"), "");
  EXPECT_TRUE(config.Group("resource").TextMap("attributes").empty());
  EXPECT_EQ(Plugin(config, "collectors", "scrape").Time("interval"), seconds(15));
  EXPECT_EQ(Plugin(config, "collectors", "scrape").Time("ttl"), seconds(60));
  EXPECT_EQ(Plugin(config, "collectors", "scrape").Time("timeout"), Duration::zero());
  EXPECT_EQ(Plugin(config, "collectors", "scrape").Groups("ports")[1].Int("port"), 8002);
  EXPECT_TRUE(Plugin(config, "sinks", "prometheus").Bool("enabled"));
  EXPECT_FALSE(Plugin(config, "sinks", "otlp").Bool("enabled"));
  EXPECT_EQ(Plugin(config, "sinks", "otlp").Group("queue").Text("dir"), "spool");
  EXPECT_FALSE(Plugin(config, "sinks", "otlp").Has("ttl"));
}

TEST(LoaderTest, EveryKindFromTheFileWithItsPlace) {
  Config config = Good(R"(interval: 500ms
http:
  listen: 127.0.0.1:1
  max_body: 2MiB
resource: {cluster: 17, attributes: {site: north, rack: 4, empty: }}
collectors:
  nvidia: {processes: false}
  scrape:
    share: 0.25
    retries: 3
    targets:
      - {url: "http://a/"}
      - {name: b, url: 'https://b:1/x', interval: 1m, headers: {X: "1"}}
sinks: {prometheus: {names: [dcgm]}, otlp: {endpoint: "http://c", batch: 7}}
analyzers:
)");
  EXPECT_EQ(config.Time("interval"), milliseconds(500));
  EXPECT_EQ(config.Where("interval"), "gpulens.yaml:1:11");
  EXPECT_THAT(config.Group("http").Texts("listen"), ElementsAre("127.0.0.1:1"));
  EXPECT_EQ(config.Group("resource").Text("cluster"), "17");
  EXPECT_EQ(config.Group("resource").TextMap("attributes").at("rack"), "4");
  EXPECT_EQ(config.Group("resource").TextMap("attributes").at("empty"), "");
  const Config& scrape = Plugin(config, "collectors", "scrape");
  EXPECT_EQ(scrape.Double("share"), 0.25);
  EXPECT_EQ(scrape.Int("retries"), 3);
  ASSERT_EQ(scrape.Groups("targets").size(), 2u);
  EXPECT_EQ(scrape.Groups("targets")[0].Time("interval"), seconds(15));
  EXPECT_EQ(scrape.Groups("targets")[1].Text("url"), "https://b:1/x");
  EXPECT_EQ(scrape.Groups("targets")[1].Where("url"), "gpulens.yaml:13:24");
  EXPECT_TRUE(Plugin(config, "sinks", "otlp").Bool("enabled"));
  EXPECT_EQ(Plugin(config, "sinks", "otlp").Int("batch"), 7);
}

TEST(LoaderTest, FlagsOverEnvironmentOverFileOverDefault) {
  std::string file = "interval: 2s\n";
  std::vector<EnvironmentVariable> environment = {{"GPULENS_INTERVAL", "3s"}};
  EXPECT_EQ(Good("").Time("interval"), seconds(1));
  EXPECT_EQ(Good(file).Time("interval"), seconds(2));
  Config config = Good(file, environment);
  EXPECT_EQ(config.Time("interval"), seconds(3));
  EXPECT_EQ(config.Where("interval"), "GPULENS_INTERVAL");
  config = Good(file, environment, {{"--interval", "interval", "4s"}});
  EXPECT_EQ(config.Time("interval"), seconds(4));
  EXPECT_EQ(config.Where("interval"), "--interval");
  // A value of the file must be valid even when it is replaced.
  EXPECT_THAT(Bad("interval: fast\n", environment),
              HasSubstr("gpulens.yaml:1:11: interval: expected a duration"));
  // An empty variable is none.
  EXPECT_EQ(Good(file, {{"GPULENS_INTERVAL", ""}}).Time("interval"), seconds(2));
}

TEST(LoaderTest, VariablesOfEveryKind) {
  Config config = Good("", {{"GPULENS_HTTP_LISTEN", "127.0.0.1:1, [::1]:2"},
                            {"GPULENS_RESOURCE_ATTRIBUTES", "site=north,rack=4=b"},
                            {"GPULENS_COLLECTORS_NVIDIA_INTERVAL", "7s"},
                            {"GPULENS_LIMITS_SERIES_PER_TARGET", "9"},
                            {"GPULENS_SINKS_OTLP_ENDPOINT", "http://c:1"},
                            {"GPULENS_SINKS_OTLP_BATCH", "5"},
                            {"GPULENS_SINKS_OTLP_QUEUE_MAX_BYTES", "1GB"},
                            {"PATH", "/bin"}});
  EXPECT_THAT(config.Group("http").Texts("listen"), ElementsAre("127.0.0.1:1", "[::1]:2"));
  EXPECT_EQ(config.Group("resource").TextMap("attributes").at("rack"), "4=b");
  EXPECT_EQ(Plugin(config, "collectors", "nvidia").Time("interval"), seconds(7));
  EXPECT_EQ(config.Group("limits").Int("series_per_target"), 9);
  // A variable turns a sink on as listing it in the file would.
  EXPECT_TRUE(Plugin(config, "sinks", "otlp").Bool("enabled"));
  EXPECT_EQ(Plugin(config, "sinks", "otlp").Group("queue").Size("max_bytes"), 1'000'000'000u);
  EXPECT_EQ(Plugin(config, "sinks", "otlp").Group("queue").Text("dir"), "spool");
  EXPECT_FALSE(
      Plugin(Good("", {{"GPULENS_COLLECTORS_HOST_ENABLED", "false"}}), "collectors", "host").Bool("enabled"));
}

TEST(LoaderTest, WrongVariablesAndFlagsAreShownWithCarets) {
  EXPECT_EQ(Bad("log:", {{"GPULENS_INTERVAL", "fast"}, {"GPULENS_HTTP_LISTEN", "127.0.0.1:1,localhost:x"}}),
            "environment: interval: expected a duration, got the text \"fast\"\n"
            "    | GPULENS_INTERVAL=fast\n"
            "    |                  ^~~~  a number and a unit: 500ms 1s 5m 2h\n"
            "environment: http.listen: \"localhost:x\" is not an address to listen on\n"
            "    | GPULENS_HTTP_LISTEN=127.0.0.1:1,localhost:x\n"
            "    |                                           ^  a port is 1 to 65535\n"
            "2 errors in the environment.   every key with its default: gpulens config schema\n");
  EXPECT_EQ(
      Bad("interval: 1\n", {}, {{"-o", "resource.attributes", "a=1,b,a=2,=3"}}),
      "gpulens.yaml:1:11: interval: \"1\" has no unit\n"
      "  1 | interval: 1\n"
      "    |           ^  a number and a unit: 1ms 1s 1m\n"
      "command line: resource.attributes: expected KEY=TEXT\n"
      "    | -o a=1,b,a=2,=3\n"
      "    |        ^  like a=1,b=2\n"
      "command line: resource.attributes: duplicate key \"a\"\n"
      "    | -o a=1,b,a=2,=3\n"
      "    |          ^~~  like a=1,b=2\n"
      "command line: resource.attributes: expected KEY=TEXT\n"
      "    | -o a=1,b,a=2,=3\n"
      "    |              ^~  like a=1,b=2\n"
      "4 errors in gpulens.yaml and the command line.   every key with its default: gpulens config schema\n");
  EXPECT_EQ(Bad("log:", {}, {{"-o", "interval.x", "1s"}, {"-o", "zzzzzz", "1"}}),
            "command line: no option \"interval.x\"\n"
            "  did you mean interval?\n"
            "command line: no option \"zzzzzz\"\n"
            "  every key with its default: gpulens config schema\n"
            "2 errors in the command line.   every key with its default: gpulens config schema\n");
  EXPECT_THAT(Bad("", {{"GPULENS_COLLECTORS_SCRAPE_TARGETS", "x"}}),
              HasSubstr("collectors.scrape.targets: a list of maps can be set in the file only"));
  EXPECT_THAT(Bad("", {{"GPULENS_STATE_DIR", "caf\xe9"}}), HasSubstr("state_dir: bytes that are not UTF-8"));
  EXPECT_THAT(Bad("", {{"GPULENS_HTTP_LISTEN", "0.0.0.0:1"}}),
              HasSubstr("^~~~~~~~~  do: set http.web_config"));
  EXPECT_THAT(Bad("sinks: {otlp: {batch: 1}}", {{"GPULENS_SINKS_OTLP_ENDPOINT", "http//u:pw12345@h"}}),
              ::testing::Not(HasSubstr("pw12345")));
  EXPECT_THAT(Bad("", {}, {{"-o", "sinks.otlp.token", "…mread_paths"}}),
              ::testing::Not(HasSubstr("mread_paths")));
}

TEST(LoaderTest, UnknownVariablesAreWarnings) {
  LoadOutcome outcome = LoadText("", {{"GPULENS_HTTP_LISEN", ":9191"},
                                      {"GPULENS_ZZZZZZZZZZ\x1b[2J", "1"},
                                      {"GPULENS_CONFIG", "x"},
                                      {"GPULENS_NCCL_LEVEL", "link"},
                                      {"GPULENS_RUN_NAME", "x"},
                                      {"GPULENS_SERVICE_HOST", "10.0.0.1"},
                                      {"GPULENS_PORT", "tcp://10.0.0.1:9091"},
                                      {"GPULENS_PORT_9091_TCP", "x"}});
  EXPECT_TRUE(outcome.ok());
  EXPECT_EQ(outcome.Report(), "warning: gpulens.yaml: is empty, so every key has its default\n")
      << "not a word of them for every command";
  EXPECT_EQ(outcome.FullReport(),
            "warning: gpulens.yaml: is empty, so every key has its default\n"
            "warning: environment: GPULENS_HTTP_LISEN is not an option; did you mean GPULENS_HTTP_LISTEN?\n"
            "warning: environment: GPULENS_ZZZZZZZZZZ\\x1b[2J is not an option\n");
  std::vector<EnvironmentVariable> many;
  for (int i = 0; i < 1000; ++i) many.push_back({"GPULENS_NO_" + std::to_string(i), "1"});
  EXPECT_LE(LoadText("interval: 1s", many).unknown_variables.size(), 20u);
}

TEST(LoaderTest, ExpandsVariablesAndFiles) {
  ConfigSources sources;
  sources.file_name = "etc/gpulens.yaml";
  sources.file_text =
      "interval: ${TICK}\n"
      "resource: {cluster: \"${REGION}-$$1\", attributes: {team: \"${TEAM:-none}\"}}\n"
      "sinks: {otlp: {endpoint: \"http://${HOST}:4318\", batch: 1, token: \"${file:token}\", headers: "
      "{X-Scope: "
      "\"${file:/scope}\"}}}\n";
  sources.environment = {{"TICK", "5s"}, {"REGION", "eu"}, {"HOST", "h"}};
  sources.inspect_file = nullptr;
  sources.read = [](const std::string& path) -> Result<std::string> {
    if (path == "etc/token" || path == "/scope") return "secret of " + path;
    return Status{Code::kUnavailable, "no such file"};
  };
  LoadOutcome literal = Load(TestSchema(), sources);
  EXPECT_FALSE(literal.ok()) << "nothing is replaced unless it is read_paths for";
  sources.expand = true;
  LoadOutcome outcome = Load(TestSchema(), sources);
  ASSERT_TRUE(outcome.ok()) << outcome.Report();
  EXPECT_EQ(outcome.config.Time("interval"), seconds(5));
  EXPECT_EQ(outcome.config.Group("resource").Text("cluster"), "eu-$1");
  EXPECT_EQ(outcome.config.Group("resource").TextMap("attributes").at("team"), "none");
  const Config& otlp = Plugin(outcome.config, "sinks", "otlp");
  EXPECT_EQ(otlp.Text("endpoint"), "http://h:4318");
  EXPECT_EQ(otlp.Text("token"), "secret of etc/token");
  EXPECT_EQ(otlp.Where("token"), "etc/gpulens.yaml:3:66");
  // What comes from files is shown nowhere; what is printed can be loaded.
  const std::string printed = PrintConfig(TestSchema(), outcome.config);
  EXPECT_EQ(printed.find("secret of"), std::string::npos) << printed;
  EXPECT_THAT(printed, HasSubstr("cluster: \"eu-$1\""));
  EXPECT_EQ(Good(PrintConfig(TestSchema(), outcome.config, {.origins = true, .show_secrets = true})),
            outcome.config);
  // Credentials are files of the folder that the service manager names; outside of its unit, of the running
  // agent.
  sources.file_text = "sinks: {otlp: {endpoint: \"http://h:4318\", token: \"${credential:otlp}\"}}\n";
  std::vector<std::string> read_paths;
  sources.read = [&](const std::string& path) -> Result<std::string> {
    read_paths.push_back(path);
    return "secret of " + path;
  };
  EXPECT_EQ(Plugin(Load(TestSchema(), sources).config, "sinks", "otlp").Text("token"),
            "secret of /run/credentials/gpulens.service/otlp");
  sources.environment.push_back({"CREDENTIALS_DIRECTORY", "/run/credentials/mine.service"});
  const LoadOutcome credential = Load(TestSchema(), sources);
  EXPECT_EQ(read_paths.back(), "/run/credentials/mine.service/otlp");
  EXPECT_EQ(PrintConfig(TestSchema(), credential.config).find("secret of"), std::string::npos);
  sources.file_text = "interval: ${file:token}\n";
  const std::string report = Load(TestSchema(), sources).Report();
  EXPECT_THAT(report, HasSubstr("etc/gpulens.yaml:1:11: interval: expected a duration, got something else"));
  EXPECT_EQ(report.find("secret of"), std::string::npos) << report;
}

TEST(LoaderTest, WarnsAboutMissingFilesAndFolders) {
  ConfigSources sources;
  sources.file_name = "gpulens.yaml";
  static constexpr OptionSpec kFiles[] = {{.key = "ca_file", .help = "A file"}};
  constexpr PluginSchema kPluginsOfTest[] = {
      {"collectors", "nvidia", "GPUs", kFiles, true, seconds(1), seconds(1)},
      {"sinks", "prometheus", "Pages", testing::kPrometheus, true, {}, {}},
      {"sinks", "otlp", "OTLP", kFiles, false, {}, {}}};
  const Schema schema(kPluginsOfTest);
  sources.file_text =
      "state_dir: /proc/nope\n"
      "sinks: {otlp: {ca_file: /ca}}\n"
      "collectors: {nvidia: {enabled: false, ca_file: /off}}\n";
  sources.inspect_file = [](const std::string&) { return FileAnswer{"no such file", "do: write it"}; };
  const LoadOutcome outcome = Load(schema, sources);
  EXPECT_TRUE(outcome.ok());
  EXPECT_THAT(
      outcome.warnings,
      ElementsAre("gpulens.yaml:2:25: sinks.otlp.ca_file: cannot read \"/ca\": no such file; do: write it",
                  "gpulens.yaml:1:12: state_dir: cannot use \"/proc/nope\": /proc is a file system of the "
                  "kernel; queues, events and learned values are not kept.   name another folder"));
}

TEST(InspectFolderTest, ReportsUnusableFolder) {
  EXPECT_EQ(InspectFolder("/proc/nope/x").problem, "/proc is a file system of the kernel");
  EXPECT_EQ(InspectFolder("/etc/passwd/x").problem, "Not a directory");
  EXPECT_EQ(InspectFolder("/etc/passwd").problem, "/etc/passwd is not a folder");
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("folder_" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  EXPECT_EQ(InspectFolder(folder.string()).problem, "");
  EXPECT_EQ(InspectFolder((folder / "a" / "b").string()).problem, "");
  EXPECT_FALSE(std::filesystem::exists(folder / "a")) << "it makes nothing";
  chmod(folder.c_str(), 0555);
  if (geteuid() != 0) {
    EXPECT_EQ(InspectFolder((folder / "a").string()).problem, "permission denied");
  }
  std::filesystem::remove_all(folder);
}

TEST(LoaderTest, AliasesOfOtherPrograms) {
  Config config = Good("", {{"ZERNEL_METRICS_PORT", "9191"},
                            {"ZERNEL_WS_PORT", "9192"},
                            {"ZERNEL_PUSH_INTERVAL_MS", "200"},
                            {"ZERNEL_LOG", "zernel_ebpf=debug,warn"},
                            {"L9GPU_CLUSTER_NAME", "c1"}});
  EXPECT_THAT(config.Group("http").Texts("listen"), ElementsAre("127.0.0.1:9191", "[::1]:9191"));
  EXPECT_THAT(config.Group("websocket").Texts("listen"), ElementsAre("127.0.0.1:9192", "[::1]:9192"));
  EXPECT_EQ(config.Group("websocket").Time("push_interval"), milliseconds(200));
  EXPECT_EQ(config.Group("websocket").Where("push_interval"), "ZERNEL_PUSH_INTERVAL_MS");
  EXPECT_EQ(config.Group("log").Text("level"), "debug,warn");
  EXPECT_EQ(config.Group("resource").Text("cluster"), "c1");
  config = Good("", {{"ZERNEL_LOG", "warn"},
                     {"GPULENS_LOG", "debug"},
                     {"L9GPU_CLUSTER_NAME", "a"},
                     {"GPULENS_RESOURCE_CLUSTER", "b"}});
  EXPECT_EQ(config.Group("log").Text("level"), "debug");
  EXPECT_EQ(config.Group("resource").Text("cluster"), "b");
  EXPECT_THAT(Bad("", {{"ZERNEL_METRICS_PORT", "0"}}),
              HasSubstr("http.listen: expected a port, got the text \"0\""));
  EXPECT_THAT(Bad("", {{"ZERNEL_PUSH_INTERVAL_MS", "1s"}}), HasSubstr("expected a number of milliseconds"));
  EXPECT_THAT(Bad("", {{"ZERNEL_PUSH_INTERVAL_MS", "0"}}),
              HasSubstr("websocket.push_interval: 0ms is too short"));
}

TEST(LoaderTest, VariablesOfOpenTelemetry) {
  Config config =
      Good("resource: {attributes: {rack: a}}", {{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318"},
                                                 {"GPULENS_SINKS_OTLP_BATCH", "5"},
                                                 {"OTEL_SERVICE_NAME", "mine"},
                                                 {"OTEL_RESOURCE_ATTRIBUTES", "a=1%2C2,b=x+y%,c="}});
  EXPECT_TRUE(Plugin(config, "sinks", "otlp").Bool("enabled")) << "an endpoint says where to send";
  EXPECT_EQ(Plugin(config, "sinks", "otlp").Text("endpoint"), "http://c:4318");
  EXPECT_EQ(config.Group("resource").Text("service_name"), "mine");
  EXPECT_THAT(config.Group("resource").TextMap("attributes"),
              ElementsAre(Pair("a", "1,2"), Pair("b", "x+y%"), Pair("c", "")));
  // How to send is no reason to send.
  config = Good("", {{"OTEL_METRIC_EXPORT_INTERVAL", "5000"}, {"OTEL_EXPORTER_OTLP_COMPRESSION", "none"}});
  EXPECT_FALSE(Plugin(config, "sinks", "otlp").Bool("enabled"));
  EXPECT_THAT(Bad("", {{"OTEL_RESOURCE_ATTRIBUTES", "rack"}}), HasSubstr("expected KEY=TEXT"));
  EXPECT_THAT(Bad("", {{"OTEL_RESOURCE_ATTRIBUTES", "a=1,__name__=x"}}),
              HasSubstr("resource.attributes: \"__name__\" is reserved"));
  EXPECT_THAT(Bad("", {{"OTEL_RESOURCE_ATTRIBUTES", "a=%FF"}}),
              HasSubstr("resource.attributes: \"a\" has bytes that are not UTF-8"));
  EXPECT_THAT(Bad("", {}, {{"-o", "attributes", "le=1"}}), HasSubstr("attributes: \"le\" is reserved"));
}

TEST(LoaderTest, PluginsAreOnByDefaultOrOnceListed) {
  EXPECT_TRUE(Plugin(Good("sinks: {otlp: {endpoint: http://c, batch: 1}}"), "sinks", "otlp").Bool("enabled"));
  EXPECT_FALSE(Plugin(Good("sinks: {otlp: {enabled: false}}"), "sinks", "otlp").Bool("enabled"));
  EXPECT_FALSE(Plugin(Good("collectors: {host: {enabled: false}}"), "collectors", "host").Bool("enabled"));
  EXPECT_TRUE(Plugin(Good("collectors: {host: }"), "collectors", "host").Bool("enabled"));
  EXPECT_THAT(Bad("sinks: {otlp: }"), HasSubstr("\"endpoint\" is missing in sinks.otlp"));
  EXPECT_THAT(Bad("", {}, {{"-o", "sinks.otlp.batch", "1"}}),
              HasSubstr("\"endpoint\" is missing in sinks.otlp"));
}

TEST(LoaderTest, AnchorsAreRead) {
  Config config = Good("collectors:\n  host: &common {interval: 3s}\n  nvidia: *common\n");
  EXPECT_EQ(Plugin(config, "collectors", "nvidia").Time("interval"), seconds(3));
}

TEST(LoaderTest, OpenAddressesNeedTlsOrInsecure) {
  std::string open = "http: {listen: \"0.0.0.0:9091\", ";
  EXPECT_TRUE(LoadText(open + "insecure: true}").ok());
  EXPECT_TRUE(LoadText(open + "web_config: web.yaml}").ok());
  EXPECT_FALSE(LoadText(open + "insecure: false}").ok());
}

TEST(LoaderTest, ReadsMultilineTexts) {
  EXPECT_EQ(Good("state_dir: \"a\\\n  b\"\n").Text("state_dir"), "ab");
  EXPECT_EQ(Good("state_dir: \"a\n  b\"").Text("state_dir"), "a b");
  EXPECT_EQ(Good("state_dir: |\n  a\n  b\n").Text("state_dir"), "a\nb\n");
  EXPECT_EQ(Good("\xEF\xBB\xBFinterval: 2s\r\nstate_dir: x\r\n").Text("state_dir"), "x");
  EXPECT_THAT(Bad("interval: \"\\x41\"\n"), HasSubstr("gpulens.yaml:1:11: interval: expected a duration"));
}

TEST(InspectFileTest, ReportsUnreadableFile) {
  std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("look_" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  std::string file = (folder / "web.yaml").string();
  ASSERT_TRUE(WriteFileAtomically(file, "x").ok());
  EXPECT_EQ(InspectFile(file).problem, "");
  EXPECT_EQ(InspectFile(folder.string()).problem, "it is a folder");
  EXPECT_EQ(InspectFile(file + "x").problem, "no such file");
  EXPECT_EQ(InspectFile(file + "/x").problem, "Not a directory");
  chmod(file.c_str(), 0);
  bool root = geteuid() == 0;
  if (root) {
    ASSERT_EQ(seteuid(65534), 0);
  }
  FileAnswer denied = InspectFile(file);
  if (root) {
    ASSERT_EQ(seteuid(0), 0);
  }
  EXPECT_EQ(denied.problem, "permission denied");
  EXPECT_THAT(denied.hint, HasSubstr("mode 0000; this runs as "));
  chmod(folder.c_str(), 0700);
  if (root) {
    ASSERT_EQ(seteuid(65534), 0);
    denied = InspectFile(file);
    ASSERT_EQ(seteuid(0), 0);
    EXPECT_EQ(denied.hint, "no permission to enter one of its parent folders");
  }
  std::filesystem::remove_all(folder);
  EXPECT_EQ(DescribeOwner("/x", 0, 0600, 4'000'000'000u),
            "owned by root, mode 0600; this runs as 4000000000.   do: chown 4000000000 /x");
}

// Sinks of one kind by name: each is one of its own, with the defaults and the rules of its kind.
TEST(LoaderTest, NamedSinks) {
  const std::string longest(64, 'x');
  const Config config = Good("sinks:\n  otlp/" + longest +
                             ": {endpoint: \"http://l\", batch: 1}\n"
                             "  otlp/A-1_b: {endpoint: \"http://b\", batch: 2, interval: 5s}\n"
                             "  otlp: {endpoint: \"http://a\", batch: 3}\n");
  EXPECT_EQ(Plugin(config, "sinks", "otlp").Int("batch"), 3);
  EXPECT_EQ(Plugin(config, "sinks", "otlp").Time("interval"), seconds(60));
  const Config& b = Plugin(config, "sinks", "otlp/A-1_b");
  EXPECT_TRUE(b.Bool("enabled"));
  EXPECT_EQ(b.Time("interval"), seconds(5));
  EXPECT_EQ(b.Text("endpoint"), "http://b");
  EXPECT_EQ(b.Group("queue").Text("dir"), "spool");
  EXPECT_EQ(b.Where("batch"), "gpulens.yaml:3:45");
  EXPECT_EQ(Plugin(config, "sinks", "otlp/" + longest).Int("batch"), 1);
  std::vector<std::string> names;
  for (const Config::Entry& entry : config.Group("sinks").entries()) names.push_back(entry.key);
  EXPECT_THAT(names, ElementsAre("prometheus", "otlp", "otlp/" + longest, "otlp/A-1_b"))
      << "kinds first, then names as in the file";
}

TEST(LoaderTest, NamedSinkDoesNotEnableUnnamedOne) {
  const Config config = Good("sinks: {otlp/b: {endpoint: \"http://b\", batch: 2}}");
  EXPECT_FALSE(Plugin(config, "sinks", "otlp").Bool("enabled"));
  EXPECT_TRUE(Plugin(config, "sinks", "otlp/b").Bool("enabled"));
  const Config off = Good("sinks: {otlp/b: {enabled: false, endpoint: \"http://b\", batch: 2}}");
  EXPECT_FALSE(Plugin(off, "sinks", "otlp/b").Bool("enabled"));
}

void RefuseHttps(const Config& element, ConfigFaults& faults) {
  if (element.Text("url").starts_with("https")) faults.Refuse(element, "url", "not this one");
}

TEST(LoaderTest, ChecksElementsOfTopLevelList) {
  const PluginSchema plugins[] = {{.section = "collectors",
                                   .name = "pages",
                                   .help = "Pages",
                                   .options = testing::kTarget,
                                   .check = &RefuseHttps,
                                   .is_list = true}};
  const Schema schema(plugins);
  ConfigSources sources;
  sources.file_name = "gpulens.yaml";
  sources.file_text = "pages:\n  - {url: 'http://a'}\n  - {url: 'https://b'}\n";
  LoadOutcome outcome = Load(schema, sources);
  EXPECT_THAT(outcome.Report(), HasSubstr("gpulens.yaml:3:"));
  EXPECT_THAT(outcome.Report(), HasSubstr("pages[1]: not this one"));
  ASSERT_EQ(outcome.config.Groups("pages").size(), 2u);
  EXPECT_EQ(outcome.config.Groups("pages")[0].Time("interval"), seconds(15));
  EXPECT_FALSE(outcome.config.Group("collectors").Has("pages")) << "it has no group in its section";
  EXPECT_EQ(CheckSummary(schema, outcome.config, "f"), "f: good. 2 pages, 0 collectors, 0 sinks");
}

}  // namespace
}  // namespace gpulens
