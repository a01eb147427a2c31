#include "phases/engine_evidence.h"

#include <gtest/gtest.h>

namespace gpulens::phases {
namespace {

TEST(EngineShares, WithoutWorkItIsQueuedOrIdle) {
  EngineCounters page{.running = 0,
                      .waiting = 0,
                      .prompt_tokens = 10,
                      .generated_tokens = 20,
                      .prefill_seconds = {},
                      .decode_seconds = {}};
  EXPECT_EQ(SharesOf(page, page)->idle, 1);
  page.waiting = 3;
  EXPECT_EQ(SharesOf(page, page)->queued, 1);
  page.running = 1;
  EXPECT_EQ(SharesOf(page, page)->prefill, 1) << "a long prompt";
}

TEST(EngineShares, TimesOfRequestsDivideTheWork) {
  EngineCounters before{.running = 4,
                        .waiting = 0,
                        .prompt_tokens = 0,
                        .generated_tokens = 0,
                        .prefill_seconds = {},
                        .decode_seconds = {}};
  before.prefill_seconds = before.decode_seconds = 0;
  EngineCounters after = before;
  after.prompt_tokens = 1000;
  after.generated_tokens = 400;
  after.prefill_seconds = 0.25;
  after.decode_seconds = 3;  // of four at once
  EXPECT_DOUBLE_EQ(SharesOf(before, after)->prefill, 0.25);
  EXPECT_DOUBLE_EQ(SharesOf(before, after)->decode, 0.75);
  after.prefill_seconds.reset();
  EXPECT_EQ(SharesOf(before, after)->decode, 1);
  after.generated_tokens = 0;
  EXPECT_EQ(SharesOf(before, after)->prefill, 1);
}

TEST(EngineShares, NothingIsMadeUp) {
  EXPECT_FALSE(SharesOf({}, {}));
  EngineCounters before{.running = 0,
                        .waiting = 0,
                        .prompt_tokens = 10,
                        .generated_tokens = 20,
                        .prefill_seconds = {},
                        .decode_seconds = {}};
  EngineCounters after = before;
  after.prompt_tokens = 3;
  after.generated_tokens = 1;
  EXPECT_FALSE(SharesOf(before, after)) << "it was started again";
}

}  // namespace
}  // namespace gpulens::phases
