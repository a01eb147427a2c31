#include "pipeline/receive/otlp_fan.h"

#include <gtest/gtest.h>

namespace gpulens {
namespace {

TEST(OtlpFan, IsDoneWhenAllSinksAre) {
  OtlpFan fan;
  std::vector<OtlpFan::Done> waiting;
  const OtlpFan::Taker taker = [&](const Ref<const ReceivedOtlp>&, OtlpFan::Done done) {
    waiting.push_back(done);
  };
  fan.Set({taker, taker});
  EXPECT_TRUE(fan.wanted());
  int done = 0;
  Status last;
  const auto count = [&](Status status) { last = std::move(status), ++done; };
  fan.Forward(MakeRef<ReceivedOtlp>(), count);
  ASSERT_EQ(waiting.size(), 2u);
  waiting[0](Ok());
  EXPECT_EQ(done, 0);
  waiting[1](Ok());
  EXPECT_EQ(done, 1);
  EXPECT_TRUE(last.ok());

  fan.Forward(MakeRef<ReceivedOtlp>(), count);
  waiting[2]({Code::kIo, "disk"});
  waiting[3]({Code::kExhausted, "full"});
  EXPECT_EQ(done, 2);
  EXPECT_EQ(last.code, Code::kExhausted);
}

TEST(OtlpFan, WithoutSinksNothingIsTaken) {
  OtlpFan fan;
  EXPECT_FALSE(fan.wanted());
  Status told;
  fan.Forward(MakeRef<ReceivedOtlp>(), [&](Status status) { told = std::move(status); });
  EXPECT_EQ(told.code, Code::kUnavailable);
}

}  // namespace
}  // namespace gpulens
