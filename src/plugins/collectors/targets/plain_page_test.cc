// The collector as the agent drives it, against a local server that answers anything.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "base/testing/temp_folder.h"
#include "net/client/http_client.h"
#include "net/testing/certificates.h"
#include "net/testing/scripted_server.h"
#include "pipeline/instance.h"
#include "scrape/scrape_testing.h"
#include "wire/packing.h"

#include "plugins/remote_access.h"

namespace gpulens {
extern const CollectorSpec targets_collector;

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using testing::Answer200;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::ScriptedServer;
using ::testing::StartsWith;
using Turn = ScriptedServer::Turn;
using Values = std::map<std::string, Config::Value>;

constexpr auto kOpenMetricsType =
    "Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n";

Config::Value DefaultOf(const OptionSpec& spec);

Config DefaultsOf(std::span<const OptionSpec> options, const Values& set) {
  Config config;
  for (const OptionSpec& spec : options) {
    auto own = set.find(std::string(spec.key));
    // Options of the transport may be given by their own names.
    if (spec.key == kTransportKey && own == set.end())
      config.Set(spec.key, DefaultsOf(spec.children, set), {});
    else config.Set(spec.key, own != set.end() ? own->second : DefaultOf(spec), {});
  }
  return config;
}

Config::Value DefaultOf(const OptionSpec& spec) {
  switch (spec.type) {
    case OptionType::kBool: return false;
    case OptionType::kInt: return spec.fallback == "0" ? int64_t{0} : int64_t{100'000};
    case OptionType::kSize: return int64_t{64} << 20;
    case OptionType::kTime: return spec.key == "interval" ? Duration(seconds(15)) : Duration{};
    case OptionType::kTextMap: return std::map<std::string, std::string>{};
    case OptionType::kTexts: return std::vector<std::string>{};
    case OptionType::kGroup: return DefaultsOf(spec.children, {});
    case OptionType::kGroups: return std::vector<Config>{};
    default: return spec.key == "kind" ? std::string("prometheus") : std::string{};
  }
}

std::span<const OptionSpec> TargetOptions() { return targets_collector.options; }
std::span<const OptionSpec> OptionsOf(std::string_view group) {
  for (const OptionSpec& spec : TargetOptions()) {
    if (spec.key == group) return spec.children;
  }
  return {};
}
std::span<const OptionSpec> TlsOptions() { return kTlsOptions; }

class ScrapeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    loop.Start();
    env.clock = &clock;
    env.io = &loop;
    env.http = &client;
  }

  Result<std::unique_ptr<Collector>> Create(Values values) {
    values.emplace("name", "node");
    return targets_collector.create(DefaultsOf(TargetOptions(), values), env);
  }
  void Open(Values values) {
    values.emplace("name", "node");
    Instance::Setup setup{.name = "targets/node",
                          .spec = &targets_collector,
                          .config = DefaultsOf(TargetOptions(), values),
                          .period = seconds(15),
                          .deadline = seconds(15),
                          .ttl = seconds(30),
                          .table = {}};
    instance = std::make_unique<Instance>(std::move(setup), env);
    ASSERT_TRUE(instance->Ready());
    ASSERT_TRUE(instance->fetches());
  }
  // One run; the page that the agent would show.
  std::string Run() {
    clock.Advance(seconds(15));
    std::mutex mutex;
    std::condition_variable came;
    int calls = 0;
    loop.Call([&] {
      instance->Fetch(clock.Now() + seconds(15), [&](Status status) {
        EXPECT_TRUE(status.ok()) << "Collect has to run";
        std::lock_guard lock(mutex);
        ++calls;
        came.notify_one();
      });
    });
    std::unique_lock lock(mutex);
    EXPECT_TRUE(came.wait_for(lock, seconds(30), [&] { return calls > 0; }));
    lock.unlock();
    instance->Collect(Ok());
    EXPECT_EQ(calls, 1);
    return Page();
  }
  std::string Page() const {
    Snapshot snapshot;
    Ref<const Frame> frame = instance->latest();
    snapshot.frames.push_back({frame, frame->source, Precedence::kPassThrough, false});
    TextPage encoder(ExpositionFormat::kText004, NameNative);
    std::string text;
    encoder.Render(snapshot, text);
    return text;
  }
  std::string Why() const { return instance->stats().last.detail; }
  static std::string Errors(const char* reason, int count) {
    return "gpulens_scrape_errors_total{reason=\"" + std::string(reason) + "\",target=\"node\"} " +
           std::to_string(count) + "\n";
  }

  IoLoop loop;
  HttpClient client{loop};
  ManualClock clock;
  Env env;
  std::unique_ptr<Instance> instance;
};

TEST_F(ScrapeTest, ExportsAPageAndSelfMetrics) {
  std::string body = "# TYPE a_total counter\na_total 1\nnot a line\nb{target=\"x\"} 2\n";
  ScriptedServer server([&](int, int, const std::string&) { return Turn{.answer = Answer200(body)}; });
  Open({{"url", server.Url("/metrics")},
        {"attributes", std::map<std::string, std::string>{{"team", "red"}}},
        {"headers", std::map<std::string, std::string>{{"X-Scope", "me"}}}});
  std::string page = Run();
  EXPECT_THAT(
      page,
      AllOf(HasSubstr("a_total{target=\"node\",team=\"red\"} 1\n"),
            HasSubstr("b{exported_target=\"x\",target=\"node\",team=\"red\"} 2\n"),
            HasSubstr("gpulens_scrape_up{target=\"node\"} 1\n"),
            HasSubstr("gpulens_scrape_samples{target=\"node\"} 2\n"),
            HasSubstr("gpulens_scrape_size_bytes{target=\"node\"} " + std::to_string(body.size())),
            HasSubstr("gpulens_scrape_parse_errors_total{target=\"node\"} 1\n"),
            HasSubstr("gpulens_scrape_duration_seconds{target=\"node\"} 0\n"),
            HasSubstr("gpulens_scrape_info{target=\"node\",url=\"" + server.Url("/metrics") + "\"} 1\n")));
  EXPECT_THAT(page, HasSubstr(Errors("connect", 0)));
  EXPECT_TRUE(instance->stats().up);
  std::string request = server.requests()[0];
  EXPECT_THAT(request, AllOf(StartsWith("GET /metrics HTTP/1.1\r\n"), HasSubstr("X-Scope: me\r\n"),
                             HasSubstr("\r\nAccept: application/openmetrics-text;version=1.0.0;"),
                             HasSubstr("\r\nX-Prometheus-Scrape-Timeout-Seconds: 9.75\r\n"),
                             HasSubstr("\r\nUser-Agent: gpulens/"), Not(HasSubstr("Accept-Encoding"))));
  EXPECT_THAT(Run(), HasSubstr("gpulens_scrape_parse_errors_total{target=\"node\"} 2\n"));
  EXPECT_EQ(server.connections(), 1) << "the connection was kept";
}

TEST_F(ScrapeTest, DeadTargetIsDownAndValuesExpire) {
  auto server = std::make_unique<ScriptedServer>(
      [](int, int, const std::string&) { return Turn{.answer = Answer200("a 1\n")}; });
  std::string url = server->Url("/metrics");
  Open({{"url", url}});
  EXPECT_THAT(Run(), HasSubstr("\na{target=\"node\"} 1\n"));
  server.reset();
  std::string page = Run();
  EXPECT_EQ(Why(), url + ": connection refused");
  EXPECT_EQ(instance->stats().last.code, Code::kUnavailable);
  EXPECT_FALSE(instance->stats().up);
  EXPECT_THAT(page, AllOf(HasSubstr("gpulens_scrape_up{target=\"node\"} 0\n"),
                          HasSubstr(Errors("connect", 1)), HasSubstr("\na{target=\"node\"} 1 17")));
  Run();
  EXPECT_THAT(Run(), AllOf(HasSubstr(Errors("connect", 3)), Not(HasSubstr("\na{")),
                           Not(HasSubstr("gpulens_scrape_samples{"))));
}

TEST_F(ScrapeTest, FailuresHaveReasons) {
  std::string answer;
  ScriptedServer server([&](int, int, const std::string&) { return Turn{.answer = answer, .close = true}; });
  Open({{"url", server.Url("/metrics")},
        {"max_body", int64_t{5000}},
        {"timeout", Duration(milliseconds(500))}});
  auto scrape = [&](std::string with) {
    answer = std::move(with);
    std::string page = Run();
    EXPECT_THAT(page, HasSubstr("gpulens_scrape_up{target=\"node\"} 0\n"));
    EXPECT_THAT(Why(), StartsWith(server.Url("/metrics") + ": "));
    return page;
  };
  EXPECT_THAT(scrape("HTTP/1.1 401 No\r\n\r\n"), HasSubstr(Errors("auth", 1)));
  EXPECT_THAT(scrape("HTTP/1.1 500 No\r\n\r\n"), HasSubstr(Errors("status", 1)));
  EXPECT_THAT(Why(), HasSubstr("answers 500 Internal Server Error"));
  EXPECT_THAT(scrape("nonsense\r\n"), HasSubstr(Errors("protocol", 1)));
  EXPECT_THAT(scrape(Answer200("{}", "Content-Type: application/json\r\n")),
              HasSubstr(Errors("content_type", 1)));
  EXPECT_THAT(Why(), HasSubstr("answers with application/json, which is not a metrics page"));
  EXPECT_THAT(scrape(Answer200(std::string(5001, '#'))), HasSubstr(Errors("too_large", 1)));
  EXPECT_THAT(scrape(Answer200("a 1\n", kOpenMetricsType)),
              AllOf(HasSubstr(Errors("page", 1)), HasSubstr("\na{")));
  EXPECT_THAT(scrape(Answer200("<html>\n<body>\n")), HasSubstr(Errors("page", 2)));
  EXPECT_THAT(scrape("HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\n\r\n"),
              HasSubstr(Errors("status", 2)));
  EXPECT_EQ(server.requests().size(), 8u);
}

TEST_F(ScrapeTest, SilentTargetTimesOut) {
  ScriptedServer server([](int, int, const std::string&) { return Turn{}; });
  Open({{"url", server.Url("/")}, {"timeout", Duration(milliseconds(100))}});
  EXPECT_THAT(Run(), HasSubstr(Errors("timeout", 1)));
  EXPECT_EQ(Why(), server.Url("/") + ": no response within 90 ms");
}

TEST_F(ScrapeTest, UnpacksGzip) {
  GzipCompressor compressor(6);
  std::string packed, bomb, answer;
  compressor.Compress("a 5\n", packed);
  compressor.Compress(std::string(10 << 20, '\n'), bomb);
  const std::string fields = "Content-Type: text/plain\r\nContent-Encoding: gzip\r\n";
  ScriptedServer server([&](int, int, const std::string&) { return Turn{.answer = answer}; });
  Open({{"url", server.Url("/metrics")}, {"max_body", int64_t{1 << 20}}});
  answer = Answer200(packed, fields);
  EXPECT_THAT(Run(), HasSubstr("\na{target=\"node\"} 5\n"));
  answer = Answer200(bomb, fields);
  EXPECT_THAT(Run(), HasSubstr(Errors("too_large", 1)));
  packed[15] = static_cast<char>(packed[15] ^ 0x55);
  answer = Answer200(packed, fields);
  EXPECT_THAT(Run(), HasSubstr(Errors("protocol", 1)));
  EXPECT_THAT(Why(), HasSubstr("gzip"));
}

TEST_F(ScrapeTest, ReadsLargePagesRepeatedly) {
  std::string body;
  int round = 0;
  ScriptedServer server([&](int, int, const std::string&) {
    body.clear();
    ++round;
    for (int i = 0; i < 8000; ++i)
      body += "series_with_a_name{number=\"" + std::to_string(i) + "\",of=\"many\"} " +
              std::to_string(i * round) + "\n";
    return Turn{.answer = Answer200(body)};
  });
  Open({{"url", server.Url("/metrics")}});
  Run();
  EXPECT_THAT(Run(), HasSubstr("{number=\"7999\",of=\"many\",target=\"node\"} 15998\n"));
  EXPECT_EQ(instance->stats().series, 8000u + 21u);
}

TEST_F(ScrapeTest, PageAboveALimitFails) {
  std::string families;
  for (int i = 0; i < 10'001; ++i) families += "f" + std::to_string(i) + " 1\n";
  int round = 0;
  ScriptedServer server([&](int, int, const std::string&) {
    ++round;
    return Turn{.answer = Answer200(round == 1 ? "a 1\nb 2\n" : round == 2 ? "a 3\nb 4\nc 5\n" : families)};
  });
  Open({{"url", server.Url("/metrics")}, {"max_samples", int64_t{2}}});
  EXPECT_THAT(Run(), HasSubstr("gpulens_scrape_up{target=\"node\"} 1\n"));
  EXPECT_THAT(Run(), AllOf(HasSubstr("\na{target=\"node\"} 1 "), HasSubstr("\nb{target=\"node\"} 2 "),
                           Not(HasSubstr("\nc{")), HasSubstr(Errors("too_many_samples", 1)),
                           HasSubstr("gpulens_scrape_up{target=\"node\"} 0\n")))
      << "the values before, with their age";
  EXPECT_THAT(Why(), HasSubstr("the page has 3 samples, the limit is 2"));
  Open({{"url", server.Url("/metrics")}});
  EXPECT_THAT(Run(), AllOf(Not(HasSubstr("\nf1{")), HasSubstr(Errors("too_many_families", 1)),
                           HasSubstr("gpulens_scrape_parse_errors_total{target=\"node\"} 0\n"),
                           HasSubstr("gpulens_scrape_up{target=\"node\"} 0\n")));
  EXPECT_THAT(Why(), HasSubstr("more than 10000 families"));
}

// FastAPI mounts answer /metrics with a redirect to /metrics/.
TEST_F(ScrapeTest, FollowsRedirectsOnTheSameServer) {
  std::string location;
  ScriptedServer other([](int, int, const std::string&) { return Turn{.answer = Answer200("stolen 1\n")}; });
  ScriptedServer server([&](int, int, const std::string& request) {
    if (request.starts_with("GET /metrics/?a=b ")) return Turn{.answer = Answer200("a 1\n")};
    if (request.starts_with("GET /step ")) {
      return Turn{.answer = "HTTP/1.1 308 On\r\nLocation: /metrics/?a=b\r\nContent-Length: 0\r\n\r\n"};
    }
    return Turn{.answer = "HTTP/1.1 307 Here\r\nLocation: " + location + "\r\nContent-Length: 0\r\n\r\n"};
  });
  Open({{"url", server.Url("/metrics")}});
  for (const std::string& good :
       {std::string("/metrics/?a=b"), server.Url("/metrics/?a=b"), std::string("/step")}) {
    location = good;
    EXPECT_THAT(Run(), HasSubstr("\na{target=\"node\"} 1\n")) << good;
    EXPECT_THAT(Run(), HasSubstr("gpulens_scrape_up{target=\"node\"} 1\n"));
  }
  for (const std::string& bad : {other.Url("/metrics"), "//" + other.Url("/metrics").substr(7),
                                 "https" + server.Url("/metrics/?a=b").substr(4), std::string("metrics/"),
                                 std::string("ftp://127.0.0.1/"), std::string()}) {
    location = bad;
    EXPECT_THAT(Run(), HasSubstr("gpulens_scrape_up{target=\"node\"} 0\n")) << bad;
  }
  EXPECT_EQ(other.connections(), 0);
  const size_t before = server.requests().size();
  location = "/metrics";
  EXPECT_THAT(Run(), HasSubstr("gpulens_scrape_up{target=\"node\"} 0\n"));
  EXPECT_EQ(server.requests().size(), before + 6) << "the first one and five redirects";
}

TEST_F(ScrapeTest, KeepsTimestamps) {
  int64_t age_s = 0;
  ScriptedServer server([&](int, int, const std::string&) {
    const int64_t now_ms = clock.Now().unix_ns / 1'000'000;
    return Turn{.answer = Answer200("a 1 " + std::to_string(now_ms - age_s * 1000) + "\nb 2\n")};
  });
  Open({{"url", server.Url("/metrics")}, {"honor_timestamps", true}});
  auto quality_of = [&](int64_t seconds_old) {
    age_s = seconds_old;
    Run();
    const Frame& frame = *instance->latest();
    for (uint32_t slot = 0; slot < frame.layout->slots(); ++slot) {
      if ((*frame.layout)[slot].desc->name == "a") return std::pair(frame.quality[slot], frame.AgeMs(slot));
    }
    return std::pair(Quality::kAbsent, 0u);
  };
  EXPECT_EQ(quality_of(0), std::pair(Quality::kOk, 0u));
  EXPECT_EQ(quality_of(20), std::pair(Quality::kOk, 20'000u));
  EXPECT_EQ(quality_of(300), std::pair(Quality::kStale, 300'000u));
  EXPECT_EQ(quality_of(7200).first, Quality::kAbsent);
  EXPECT_EQ(quality_of(-60), std::pair(Quality::kOk, 0u)) << "a clock that is ahead";
  age_s = 300;
  EXPECT_THAT(Run(), AllOf(HasSubstr("\na{target=\"node\"} 1 1"), HasSubstr("\nb{target=\"node\"} 2\n")));
  Open({{"url", server.Url("/metrics")}, {"honor_timestamps", false}});
  EXPECT_EQ(quality_of(7200), std::pair(Quality::kOk, 0u));
}

TEST_F(ScrapeTest, DropsLabelsAndCountsFoldedSeries) {
  ScriptedServer server([](int, int, const std::string&) {
    return Turn{.answer = Answer200(
                    "# TYPE c counter\nc_total{pod=\"a\"} 1\nc_total{pod=\"b\"} 2\nc_total{pod=\"b\"} 9\n")};
  });
  auto with = [&](std::vector<std::string> labels) {
    return Values{{"url", server.Url("/metrics")},
                  {"series", DefaultsOf(OptionsOf("series"), {{"drop_labels", std::move(labels)}})}};
  };
  EXPECT_EQ(Create(with({"p*d"})).error().code, Code::kInvalidArgument);
  Open(with({"pod"}));
  EXPECT_THAT(Run(),
              AllOf(HasSubstr("\nc_total{target=\"node\"} 3\n"),
                    HasSubstr("gpulens_scrape_series_folded{target=\"node\"} 1\n"),
                    HasSubstr("gpulens_scrape_series_dropped{reason=\"duplicate\",target=\"node\"} 1\n"),
                    HasSubstr("gpulens_scrape_series_dropped{reason=\"limit\",target=\"node\"} 0\n")));
}

TEST_F(ScrapeTest, SendsCredentials) {
  testing::TempFolder folder;
  std::string token = folder.Write("token", "first\n");
  ScriptedServer server([](int, int, const std::string& request) {
    bool good = request.find("Authorization: Bearer second\r\n") != request.npos;
    return Turn{.answer = good ? Answer200("a 1\n") : "HTTP/1.1 401 No\r\n\r\n"};
  });
  Open({{"url", server.Url("/metrics")}, {"bearer_token_file", token}});
  EXPECT_THAT(Run(), HasSubstr(Errors("auth", 1)));
  folder.Write("token", "second\n");
  Run();  // the file is read once a run, for the next one
  EXPECT_THAT(Run(), HasSubstr("gpulens_scrape_up{target=\"node\"} 1\n"));
  ASSERT_EQ(::unlink(token.c_str()), 0);
  Run();
  EXPECT_THAT(Run(), HasSubstr(Errors("credentials", 1)));
  EXPECT_THAT(Why(), HasSubstr(token));
  folder.Write("token", "second");
  Run();
  EXPECT_THAT(Run(), HasSubstr("gpulens_scrape_up{target=\"node\"} 1\n"));
}

TEST_F(ScrapeTest, BasicAuthFromOptionsUrlAndFile) {
  testing::TempFolder folder;
  ScriptedServer server([](int, int, const std::string&) { return Turn{.answer = Answer200("a 1\n")}; });
  std::string host = server.endpoint().ToString();
  Open({{"url", server.Url("/")}, {"username", "a"}, {"password", "b"}});
  Run();
  Open({{"url", "http://a:b@" + host}});
  EXPECT_THAT(Run(), HasSubstr("url=\"http://" + host + "/metrics\""));
  Open({{"url", server.Url("/")}, {"username", "a"}, {"password_file", folder.Write("p", "b\n")}});
  Run();
  for (const std::string& request : server.requests()) EXPECT_THAT(request, HasSubstr("Basic YTpi\r\n"));
  EXPECT_THAT(server.requests()[1], StartsWith("GET /metrics HTTP/1.1\r\n"))
      << "a bare host means its metrics";
}

TEST_F(ScrapeTest, TlsWithAReloadedAuthority) {
  testing::TempFolder folder;
  testing::Pem ca = testing::MakeCa("ca"), other = testing::MakeCa("other");
  testing::Pem own = testing::MakeCertificate(ca, "server", {"127.0.0.1"});
  TlsServerOptions options;
  options.certificate.text = own.certificate;
  options.key.text = own.key;
  auto context = TlsContext::Server(options);
  ASSERT_TRUE(context.ok());
  ScriptedServer server([](int, int, const std::string&) { return Turn{.answer = Answer200("a 1\n")}; },
                        *context);
  std::string file = folder.Write("ca.pem", other.certificate + "\n");
  Open({{"url", server.Url("/metrics")}, {"tls", DefaultsOf(TlsOptions(), {{"ca_file", file}})}});
  EXPECT_THAT(Run(), HasSubstr(Errors("tls", 1)));
  folder.Write("ca.pem", ca.certificate);
  Run();
  EXPECT_THAT(Run(), HasSubstr("\na{target=\"node\"} 1\n"));
  Run();
  EXPECT_EQ(server.connections(), 3) << "two refused, one kept";
  Open({{"url", server.Url("/metrics")}, {"tls", DefaultsOf(TlsOptions(), {{"ca_file", "/nowhere/ca"}})}});
  EXPECT_THAT(Run(), HasSubstr(Errors("credentials", 1)));
  EXPECT_THAT(Why(), HasSubstr("/nowhere/ca"));
}

TEST_F(ScrapeTest, ReadsUnixSocketsAndRequestsGzipRemotely) {
  testing::TempFolder folder;
  std::string path = folder.path() + "/exporter";
  ScriptedServer server([](int, int, const std::string&) { return Turn{.answer = Answer200("a 1\n")}; },
                        nullptr, "unix:" + path);
  Open({{"url", "http://localhost/m"},
        {"unix_socket", path},
        {"headers", std::map<std::string, std::string>{{"accept", "text/plain"}}}});
  EXPECT_THAT(Run(), HasSubstr("\na{target=\"node\"} 1\n"));
  EXPECT_THAT(server.requests()[0],
              AllOf(HasSubstr("accept: text/plain\r\n"), Not(HasSubstr("openmetrics"))));
}

TEST_F(ScrapeTest, RejectsContradictoryOptions) {
  auto why = [&](Values values) {
    values.emplace("url", "http://127.0.0.1:1/");
    auto made = Create(std::move(values));
    EXPECT_FALSE(made.ok());
    return made ? "" : made.error().detail;
  };
  EXPECT_EQ(why({{"password", "a"}, {"password_file", "b"}}),
            "password and password_file contradict each other");
  EXPECT_EQ(why({{"bearer_token", "a"}, {"bearer_token_file", "b"}}),
            "bearer_token and bearer_token_file contradict each other");
  EXPECT_EQ(why({{"bearer_token", "a"}, {"username", "b"}}),
            "bearer_token and username contradict each other");
  std::map<std::string, std::string> auth{{"authorization", "x"}};
  EXPECT_THAT(why({{"headers", auth}, {"username", "b"}}), HasSubstr("headers.Authorization"));
  EXPECT_THAT(why({{"headers", std::map<std::string, std::string>{{"Host", "x"}}}}), HasSubstr("Host"));
  EXPECT_THAT(why({{"url", "ftp://x"}}), HasSubstr("http://"));
  EXPECT_THAT(why({{"tls", DefaultsOf(TlsOptions(), {{"cert_file", "x"}})}}),
              HasSubstr("must be set together"));
  env.http = nullptr;
  EXPECT_THAT(why({}), HasSubstr("no network"));
}

TEST_F(ScrapeTest, ProbeListsTargets) {
  Config config;
  config.Set("targets", std::vector<Config>{}, {});
  auto findings = targets_collector.probe(config, env);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].kind, Finding::kNotHere);
  EXPECT_EQ(findings[0].why, "no target is configured");
  std::vector<Config> targets = {
      DefaultsOf(TargetOptions(), {{"name", "x"}, {"url", "http://u:secret@h:9100"}}),
      DefaultsOf(TargetOptions(), {{"name", "y"}, {"url", "nonsense"}})};
  config.Set("targets", targets, {});
  findings = targets_collector.probe(config, env);
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[0].kind, Finding::kFound);
  EXPECT_EQ(findings[0].what, "configured: http://h:9100/metrics");
  EXPECT_EQ(findings[1].kind, Finding::kBroken);
}

}  // namespace
}  // namespace gpulens
