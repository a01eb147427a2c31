#include "agent/api/explain.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace gpulens {
namespace {

TEST(ExplainPage, AnEventWithItsCode) {
  Api api;
  AddExplainPage(api);
  const auto json = api.Get("/api/explain?event=gpu.xid&xid=79");
  ASSERT_TRUE(json) << json.status().detail;
  const auto page = JsonDocument::Parse(*json);
  EXPECT_EQ(page->Text("/schema"), "gpulens.explained/1");
  EXPECT_EQ(page->Text("/event/name"), "gpu.xid");
  EXPECT_FALSE(page->Text("/event/help")->empty());
  EXPECT_EQ(page->Text("/code/do"), "Reboot the machine.");
  EXPECT_EQ(page->Text("/code/meaning"), "GPU no longer answers on PCIe");
  EXPECT_TRUE(api.Get("/api/explain?sxid=10003"));
}

TEST(ExplainPage, RefusesWhatIsNotKnown) {
  Api api;
  AddExplainPage(api);
  for (const char* target : {"/api/explain", "/api/explain?event=gpu.nothing", "/api/explain?xid=99999",
                             "/api/explain?xid=x", "/api/explain?message=none"}) {
    const auto refused = api.Get(target);
    ASSERT_FALSE(refused) << target;
    EXPECT_EQ(refused.error().code, Code::kInvalidArgument) << target;
  }
}

}  // namespace
}  // namespace gpulens
