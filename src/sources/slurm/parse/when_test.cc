#include "sources/slurm/parse/when.h"

#include <gtest/gtest.h>

namespace gpulens::slurm {
namespace {

TEST(ParseWhen, AsPeopleType) {
  constexpr int64_t kNow = 1795344006;  // 2026-11-22T10:40:06Z
  EXPECT_EQ(*ParseWhen("now", kNow), kNow);
  EXPECT_EQ(*ParseWhen("3 hours ago", kNow), kNow - 3 * 3600);
  EXPECT_EQ(*ParseWhen("1 day ago", kNow), kNow - 86400);
  EXPECT_EQ(*ParseWhen("2026-11-22T10:40:06", 0), kNow);
  EXPECT_EQ(*ParseWhen("2026-11-22 10:40:06Z", 0), kNow);
  EXPECT_EQ(*ParseWhen("2026-11-22T10:40", 0), kNow - 6);
  EXPECT_EQ(*ParseWhen("2026-11-22", 0) % 86400, 0);
  for (const char* wrong :
       {"", "yesterday", "-3 hours ago", "3 years ago", "hours ago", "2026-13-01", "9999999 weeks ago"})
    EXPECT_EQ(ParseWhen(wrong, kNow).error().code, Code::kInvalidArgument) << wrong;
}

}  // namespace
}  // namespace gpulens::slurm
