#include "sdk/export/otlp_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpulens::sdk {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST(KeyValues, ParsesTheFormatOfOpenTelemetry) {
  EXPECT_THAT(*ParseKeyValues(""), IsEmpty());
  EXPECT_THAT(*ParseKeyValues(" , "), IsEmpty());
  EXPECT_THAT(*ParseKeyValues("a=1, b = x%20y%2Cz ,c=,d=e=f"),
              ElementsAre(Pair("a", "1"), Pair("b", "x y,z"), Pair("c", ""), Pair("d", "e=f")));
  EXPECT_THAT(*ParseKeyValues("a=1+1"), ElementsAre(Pair("a", "1+1"))) << "no form of a web page";
}

TEST(KeyValues, NamesErrors) {
  for (const char* text : {"a", "=1", "a=%", "a=%2", "a=%zz", "a=%0d%0ab", "a=\x01"}) {
    const auto read = ParseKeyValues(text);
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_EQ(read.error().code, Code::kInvalidArgument);
    EXPECT_FALSE(read.error().detail.empty());
  }
  EXPECT_THAT(ParseKeyValues("x=1,nonsense").error().detail, HasSubstr("\"nonsense\" has no '='"));
  std::string many;
  for (int i = 0; i < 129; ++i) many += "k" + std::to_string(i) + "=v,";
  EXPECT_FALSE(ParseKeyValues(many).ok());
}

}  // namespace
}  // namespace gpulens::sdk
