#include <gtest/gtest.h>

#include "pipeline/plugin.h"
#include "pipeline/receive/receiver.h"

namespace gpulens {
extern const SinkSpec do_nothing_sink;
namespace {

TEST(DoNothing, TakesEverything) {
  Env env;
  auto sink = do_nothing_sink.create({}, env);
  ASSERT_TRUE(sink);
  EXPECT_TRUE((*sink)->Write(Snapshot()).ok());
  EXPECT_TRUE((*sink)->Write(Events()).ok());
  EXPECT_TRUE((*sink)->Flush({}).ok());
  auto* taker = dynamic_cast<OtlpTaker*>(sink->get());
  ASSERT_TRUE(taker);
  EXPECT_TRUE(taker->Take(ReceivedOtlp()).ok());
  EXPECT_TRUE(do_nothing_sink.threaded);
}

}  // namespace
}  // namespace gpulens
