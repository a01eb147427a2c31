#include "plugins/sinks/remote_write/remote_write.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "catalog/self.h"

namespace gpulens {
namespace {

HttpReply Reply(int status, std::string kept = {}) {
  HttpReply reply;
  reply.status = status;
  reply.failure = status / 100 == 2 ? HttpFailure::kNone : HttpFailure::kStatus;
  reply.detail = "answers " + std::to_string(status);
  reply.body = status / 100 == 2 ? "" : "no\n";
  reply.kept = std::move(kept);
  return reply;
}

constexpr const char* kThree =
    "x-prometheus-remote-write-samples-written: 2\nx-prometheus-remote-write-histograms-written: 1\n"
    "x-prometheus-remote-write-exemplars-written: 7\n";

TEST(RemoteWriteAnswer, ReadsTheFirstVersion) {
  RemoteWritePeer peer;
  EXPECT_EQ(ClassifyRemoteWriteReply(Reply(204), false, peer).kind, SendOutcome::kTaken);
  EXPECT_FALSE(ClassifyRemoteWriteReply(Reply(204), false, peer).accepted);
  for (int status : {429, 500, 502, 503, 504, 599})
    EXPECT_EQ(ClassifyRemoteWriteReply(Reply(status), false, peer).kind, SendOutcome::kAgain) << status;
  for (int status : {301, 400, 401, 404, 413, 415})
    EXPECT_EQ(ClassifyRemoteWriteReply(Reply(status), false, peer).kind, SendOutcome::kRefused) << status;
  EXPECT_EQ(ClassifyRemoteWriteReply(Reply(400), false, peer).detail, "answers 400: no");
}

TEST(RemoteWriteAnswer, SecondVersionReportsWhatWasWritten) {
  RemoteWritePeer peer{.may_fall_back = true};
  SendOutcome outcome = ClassifyRemoteWriteReply(Reply(200, kThree), true, peer);
  EXPECT_EQ(outcome.kind, SendOutcome::kTaken);
  EXPECT_EQ(outcome.accepted, 3u);
  EXPECT_TRUE(peer.knows_2);
  outcome = ClassifyRemoteWriteReply(Reply(400, kThree), true, peer);
  EXPECT_EQ(outcome.kind, SendOutcome::kTaken) << "some were written";
  EXPECT_EQ(outcome.detail, "answers 400: no");
  EXPECT_EQ(ClassifyRemoteWriteReply(Reply(503, kThree), true, peer).kind, SendOutcome::kAgain);
  EXPECT_EQ(ClassifyRemoteWriteReply(Reply(400), true, peer).kind, SendOutcome::kRefused) << "it knows 2.0";
  EXPECT_FALSE(peer.only_1);
  EXPECT_EQ(ClassifyRemoteWriteReply(Reply(415), true, peer).kind, SendOutcome::kRework)
      << "it was replaced by an older one";
  EXPECT_TRUE(peer.only_1);
}

TEST(RemoteWriteAnswer, FallsBackToTheFirstVersion) {
  for (int status : {200, 204, 400, 406, 415}) {
    RemoteWritePeer peer{.may_fall_back = true};
    EXPECT_EQ(ClassifyRemoteWriteReply(Reply(status), true, peer).kind, SendOutcome::kRework) << status;
    EXPECT_TRUE(peer.only_1);
  }
  for (int status : {401, 404, 413, 429, 500}) {
    RemoteWritePeer peer{.may_fall_back = true};
    EXPECT_NE(ClassifyRemoteWriteReply(Reply(status), true, peer).kind, SendOutcome::kRework) << status;
    EXPECT_FALSE(peer.only_1);
  }
  for (const char* odd : {"x-prometheus-remote-write-samples-written: -1\n", "x-prometheus-remote-write-\n",
                          "x-prometheus-remote-write-samples-written: 99999999999999999999\n", "\n:\n"}) {
    RemoteWritePeer peer{.may_fall_back = true};
    EXPECT_EQ(ClassifyRemoteWriteReply(Reply(200, odd), true, peer).kind, SendOutcome::kRework) << odd;
  }
}

TEST(RemoteWriteAnswer, CountsNothingAsWrittenWithoutAFallback) {
  RemoteWritePeer peer;
  SendOutcome outcome = ClassifyRemoteWriteReply(Reply(204), true, peer);
  EXPECT_EQ(outcome.kind, SendOutcome::kRefused);
  EXPECT_EQ(outcome.detail, "its response does not confirm that anything was written");
  EXPECT_EQ(ClassifyRemoteWriteReply(Reply(415), true, peer).kind, SendOutcome::kRefused);
}

TEST(RemoteWriteLabels, HaveTheTargetAndTheResource) {
  AttributeSet resource({{"host.name", "n1"},
                         {"service.name", "gpulens"},
                         {"k8s.cluster.name", "c"},
                         {"cluster", "x"},
                         {"cloud.region", "r"},
                         {"rack", int64_t{7}}});
  EXPECT_EQ(RemoteWriteLabelsOf(resource), (RemoteWriteLabels{{"job", "gpulens"},
                                                              {"instance", "n1"},
                                                              {"cluster", "x"},
                                                              {"k8s_cluster_name", "c"},
                                                              {"rack", "7"}}));
  resource = AttributeSet({{"service.name", "s"}, {"service.namespace", "a"}, {"service.instance.id", "i"}});
  EXPECT_EQ(RemoteWriteLabelsOf(resource), (RemoteWriteLabels{{"job", "a/s"}, {"instance", "i"}}));
}

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

std::vector<NamedSeries> MakeNames(const MetricDesc& desc) {
  SeriesInfo series;
  series.desc = &desc;
  series.entity =
      MakeRef<Entity>("target", AttributeSet({{"target", "node"}}), EntityRef{},
                      AttributeSet({{"job", "node"}, {"instance", "n1:9100"}, {"team.name", "a"}}));
  series.attributes = series.entity->attributes;
  std::vector<NamedSeries> out;
  NameTargetHealth(series, out);
  return out;
}

TEST(TargetHealth, UpHasTheLabelsOfItsTarget) {
  const auto up = MakeNames(kSelfScrapeUp);
  ASSERT_EQ(up.size(), 1u);
  EXPECT_EQ(up[0].name, "up");
  EXPECT_EQ(up[0].kind, Kind::kGauge);
  EXPECT_THAT(up[0].labels, ElementsAre(Pair("instance", "n1:9100"), Pair("job", "node"),
                                        Pair("target", "node"), Pair("team_name", "a")));
}

TEST(TargetHealth, DurationAndSamplesHavePrometheusNames) {
  EXPECT_EQ(MakeNames(kSelfScrapeDuration).at(0).name, "scrape_duration_seconds");
  EXPECT_EQ(MakeNames(kSelfScrapeSamples).at(0).name, "scrape_samples_scraped");
}

TEST(TargetHealth, OtherMetricsHaveNoNames) {
  EXPECT_THAT(MakeNames(kSelfScrapeErrors), IsEmpty());
  EXPECT_THAT(MakeNames(kSelfSinkUp), IsEmpty());
}

TEST(TargetHealth, SeriesWithoutAnEntityHasItsOwnLabels) {
  SeriesInfo series;
  series.desc = &kSelfScrapeUp;
  series.attributes = AttributeSet({{"target", "x"}});
  std::vector<NamedSeries> out;
  NameTargetHealth(series, out);
  EXPECT_THAT(out.at(0).labels, ElementsAre(Pair("target", "x")));
}

}  // namespace

}  // namespace gpulens
