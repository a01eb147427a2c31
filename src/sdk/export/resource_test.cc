#include "sdk/export/otlp_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>

namespace gpulens::sdk {
namespace {

using ::testing::MatchesRegex;

AttributeSet Of(std::map<std::string, std::string> environment, std::string_view program = "train") {
  return ResourceOf([&](const char* name) { return environment[name]; }, program, 42, "the-id");
}

TEST(SdkResource, DefaultsToTheProgram) {
  const AttributeSet own = Of({});
  EXPECT_EQ(own.Text("service.name"), "train");
  EXPECT_EQ(own.Text("service.instance.id"), "the-id");
  EXPECT_EQ(own.Text("process.pid"), "42");
  EXPECT_EQ(own.Text("telemetry.sdk.name"), "gpulens");
  EXPECT_EQ(own.Text("telemetry.sdk.language"), "cpp");
  EXPECT_EQ(Of({}, "").Text("service.name"), "unknown_service");
}

TEST(SdkResource, PrefersTheEnvironment) {
  const std::string listed = "service.name=listed,team=nlp,process.pid=1,telemetry.sdk.name=other";
  EXPECT_EQ(Of({{"OTEL_RESOURCE_ATTRIBUTES", listed}}).Text("service.name"), "listed");
  const AttributeSet both = Of({{"OTEL_RESOURCE_ATTRIBUTES", listed}, {"OTEL_SERVICE_NAME", "named"}});
  EXPECT_EQ(both.Text("service.name"), "named");
  EXPECT_EQ(both.Text("team"), "nlp");
  EXPECT_EQ(both.Text("process.pid"), "42") << "a fact";
  EXPECT_EQ(both.Text("telemetry.sdk.name"), "gpulens");
  EXPECT_EQ(Of({{"OTEL_RESOURCE_ATTRIBUTES", "team=nlp,broken"}}).Text("team"), "") << "all or nothing";
}

TEST(SdkResource, PrefersTheServiceNameOption) {
  ASSERT_EQ(::setenv("OTEL_SERVICE_NAME", "environment", 1), 0);
  EXPECT_EQ(ProcessResource().Text("service.name"), "environment");
  EXPECT_EQ(ProcessResource("own").Text("service.name"), "own");
  ::unsetenv("OTEL_SERVICE_NAME");
}

TEST(SdkResource, ForkHasAnotherInstanceId) {
  const std::string own = InstanceId();
  EXPECT_THAT(own, MatchesRegex("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"));
  EXPECT_EQ(InstanceId(), own);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(InstanceId() != own ? 0 : 1);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(InstanceId(), own);
}

}  // namespace
}  // namespace gpulens::sdk
