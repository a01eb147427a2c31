// What an idle stream costs. The bench measures 10,000.
#include <gtest/gtest.h>

#include "net/relay/relay_fixture.h"
#include "net/relay/relay_idle_streams.h"

namespace gpulens {
namespace {

TEST(RelayMemory, AnIdleStreamTakesLittle) {
  testing::FunctionPolicy policy;
  const testing::IdleStreams measured = testing::MeasureIdleStreams(policy, policy.upstream, 1000);
  EXPECT_EQ(measured.streams, 1000u);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's memory is not ours";
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  GTEST_SKIP() << "a sanitizer's memory is not ours";
#endif
#endif
  EXPECT_LT(measured.bytes_each, 20 * 1024);
  RecordProperty("bytes_each", static_cast<int>(measured.bytes_each));
}

}  // namespace
}  // namespace gpulens
