#include <gtest/gtest.h>

#include "plugins/plugin.h"

namespace gpulens {
extern const SinkSpec do_nothing_sink;
namespace {

TEST(DoNothing, AcceptsEverything) {
  Env env;
  auto sink = do_nothing_sink.create({}, env);
  ASSERT_TRUE(sink);
  EXPECT_TRUE((*sink)->Write(Snapshot()).ok());
  EXPECT_TRUE((*sink)->Write(Events()).ok());
  EXPECT_TRUE((*sink)->Flush({}).ok());
  EXPECT_TRUE(do_nothing_sink.takes_received);
  EXPECT_TRUE(do_nothing_sink.threaded);
}

}  // namespace
}  // namespace gpulens
