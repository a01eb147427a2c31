#include "export/part_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pipeline/delivery/send_setup.h"

namespace gpulens {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<std::vector<HttpUrl>> kOne = {{*ParseHttpUrl("http://a:1/x")}};
const std::vector<std::vector<HttpUrl>> kTwo = {{*ParseHttpUrl("http://a:1/x")},
                                                {*ParseHttpUrl("http://a:1/y")}};

Config Configured() {
  Config config;
  config.Set("where", std::vector<Config>(), Origin());
  config.Set("balance", std::string("failover"), Origin());
  config.Set("in_flight", int64_t{1}, Origin());
  return config;
}

Config WithTenant(const std::string& from, const std::string& fallback = "",
                  const std::string& header = "X-Scope-OrgID") {
  Config tenant;
  tenant.Set("from", from, Origin());
  tenant.Set("header", header, Origin());
  tenant.Set("fallback", fallback, Origin());
  Config config = Configured();
  config.Set("tenant", std::move(tenant), Origin());
  return config;
}

SplitPart PartOf(const std::string& value) {
  SplitPart part;
  part.has_value = true;
  part.value = value;
  return part;
}

TEST(PartRule, WithoutOptionsDataIsNotDivided) {
  const PartRule rule(WithTenant(""), kOne);
  EXPECT_EQ(rule.For(RecordSource::kOwn), nullptr);
  EXPECT_EQ(rule.For(RecordSource::kOtlp), nullptr);
  EXPECT_EQ(rule.HeadersOf({}), "");
}

TEST(PartRule, ReceivedDataIsSpreadOverRequestsByResourceAndOwnByItsKeys) {
  Config config = WithTenant("");
  config.Set("in_flight", int64_t{4}, Origin());
  const PartRule rule(config, kOne);
  EXPECT_EQ(rule.For(RecordSource::kOwn), nullptr);
  const SplitRule* received = rule.For(RecordSource::kRemoteWrite);
  ASSERT_NE(received, nullptr);
  EXPECT_EQ(received->hash, SplitHash::kTrace);
  EXPECT_EQ(received->shards, 4u);
  EXPECT_TRUE(received->endpoints.empty());
}

TEST(PartRule, EndpointsAreChosenByTheHashOfTheResource) {
  Config config = WithTenant("");
  config.Set("balance", std::string("hash"), Origin());
  EXPECT_EQ(PartRule(config, kOne).For(RecordSource::kOtlp), nullptr) << "one endpoint";
  const PartRule rule(config, kTwo);
  for (RecordSource source : {RecordSource::kOwn, RecordSource::kOtlp}) {
    const SplitRule* made = rule.For(source);
    ASSERT_NE(made, nullptr);
    EXPECT_EQ(made->hash, SplitHash::kResource);
    EXPECT_THAT(made->endpoints, ElementsAre(EndpointHash(kTwo[0]), EndpointHash(kTwo[1])));
  }
  EXPECT_NE(EndpointHash(kTwo[0]), EndpointHash(kTwo[1])) << "the path counts";
}

TEST(PartRule, ATenantIsAHeaderField) {
  const PartRule rule(WithTenant("team"), kOne);
  ASSERT_NE(rule.For(RecordSource::kOwn), nullptr);
  EXPECT_EQ(rule.For(RecordSource::kOwn)->by, "team");
  EXPECT_EQ(rule.HeadersOf(PartOf("a-team_1.b")), "X-Scope-OrgID: a-team_1.b\r\n");
  EXPECT_EQ(rule.HeadersOf({}), "") << "no fallback";
}

TEST(PartRule, AValueThatIsNoTenantGetsTheFallback) {
  const PartRule rule(WithTenant("team", "shared", "X-Tenant"), kOne);
  const std::string fallback = "X-Tenant: shared\r\n";
  EXPECT_EQ(rule.HeadersOf({}), fallback);
  for (const std::string& bad :
       {std::string(), std::string("a b"), std::string("a\r\nEvil: 1"), std::string("a\0b", 3),
        std::string("\xff"), std::string("t\xc3\xa9"), std::string(151, 'x')})
    EXPECT_EQ(rule.HeadersOf(PartOf(bad)), fallback) << bad;
  EXPECT_EQ(rule.HeadersOf(PartOf(std::string(150, 'x'))), "X-Tenant: " + std::string(150, 'x') + "\r\n");
}

TEST(PartRule, BadOptionsAreNamed) {
  const auto refusal = [](const Config& config) { return RefuseFaults(&CheckParts, config).detail; };
  EXPECT_EQ(refusal(WithTenant("team", "shared")), "");
  EXPECT_THAT(refusal(WithTenant("team", "a b")), HasSubstr("tenant.fallback"));
  EXPECT_THAT(refusal(WithTenant("team", "", "Bad Name")), HasSubstr("tenant.header"));
  EXPECT_THAT(refusal(WithTenant("team", "", "Content-Length")), HasSubstr("tenant.header"));
  EXPECT_EQ(refusal(WithTenant("", "a b")), "") << "without tenants it is not looked at";
}

}  // namespace
}  // namespace gpulens
