#include "agent/local/local_node.h"

#include <gtest/gtest.h>

#include "agent/run/plan.h"
#include "base/json.h"

namespace gpulens {
namespace {

Config Defaults(const Schema& schema) {
  ConfigSources sources;
  sources.file_name = "test";
  // Engines of this machine are none of the test's.
  sources.file_text = "discovery: {local: {enabled: false}}\n";
  const LoadOutcome loaded = Load(schema, sources);
  EXPECT_TRUE(loaded.ok()) << loaded.Report();
  return loaded.config;
}

TEST(LocalNode, AnswersAfterTheFirstReadings) {
  const std::unique_ptr<Schema> schema = MakeSchema();
  auto node = LocalNode::Start(*schema, Defaults(*schema), false);
  ASSERT_TRUE(node) << node.error().detail;
  const auto now = (*node)->Get("/api/now");
  ASSERT_TRUE(now) << now.error().detail;
  const auto document = JsonDocument::Parse(*now);
  ASSERT_TRUE(document) << document.error().detail;
  EXPECT_EQ(document->Text("/schema"), "gpulens.now/1");
  EXPECT_EQ(document->Truth("/simulated"), false);
  EXPECT_NE(now->find("system.memory.limit"), std::string::npos) << "the host was read";
  EXPECT_TRUE((*node)->Get("/api/history?select=system.memory.limit"));
  EXPECT_TRUE((*node)->Get("/api/events?since=1h"));
}

TEST(LocalNode, HasNoOtherPages) {
  const std::unique_ptr<Schema> schema = MakeSchema();
  auto node = LocalNode::Start(*schema, Defaults(*schema), false, Duration{});
  ASSERT_TRUE(node) << node.error().detail;
  EXPECT_EQ((*node)->Get("/metrics").error().code, Code::kUnavailable);
}

}  // namespace
}  // namespace gpulens
