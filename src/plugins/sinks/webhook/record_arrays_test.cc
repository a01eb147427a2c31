#include "plugins/sinks/webhook/record_arrays.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpulens {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> Arrays(std::string_view lines, const RecordArrayLimits& limits) {
  std::vector<std::string> all;
  std::string array;
  while (uint32_t records = TakeRecordArray(lines, limits, array)) {
    array.erase(std::remove(array.begin(), array.end(), '\n'), array.end());
    all.push_back(std::to_string(records) + array);
  }
  return all;
}

TEST(RecordArrays, EachLineIsAnElement) {
  EXPECT_THAT(Arrays("", {}), ElementsAre());
  EXPECT_THAT(Arrays("{}\n", {}), ElementsAre("1[{}]"));
  EXPECT_THAT(Arrays("{\"a\":1}\n{\"b\":2}\n{}\n", {}), ElementsAre("3[{\"a\":1},{\"b\":2},{}]"));
}

TEST(RecordArrays, AreBounded) {
  EXPECT_THAT(Arrays("1\n2\n3\n4\n5\n", {.records = 2}), ElementsAre("2[1,2]", "2[3,4]", "1[5]"));
  EXPECT_THAT(Arrays("1\n1234567890\n2\n", {.bytes = 6}), ElementsAre("1[1]", "1[1234567890]", "1[2]"));
}

}  // namespace
}  // namespace gpulens
