#include "catalog/codes/codes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/parse.h"

namespace gpulens {
namespace {

using ::testing::HasSubstr;

TEST(Codes, HasCommonCodes) {
  const CodeFacts* bus = FindXid(79);
  ASSERT_TRUE(bus);
  EXPECT_EQ(bus->klass, "bus");
  EXPECT_EQ(bus->action, "reboot");
  EXPECT_EQ(bus->severity, "fatal");
  EXPECT_EQ(FindXid(13)->klass, "application");
  EXPECT_EQ(FindXid(48)->action, "reset_gpu");
  EXPECT_EQ(FindXid(94)->action, "restart_app");
  EXPECT_EQ(FindSxid(11001)->klass, "nvlink");
  EXPECT_EQ(FindMessage("amdgpu.ras.umc.ue")->severity, "fatal");
}

TEST(Codes, UnknownCodesAreNotFound) {
  for (int64_t code : {int64_t{-1}, int64_t{0}, int64_t{999}, int64_t{1} << 40}) {
    EXPECT_EQ(FindXid(code), nullptr) << code;
  }
  EXPECT_EQ(FindSxid(79), nullptr);
  EXPECT_EQ(FindMessage(""), nullptr);
  EXPECT_EQ(FindMessage("zz"), nullptr);
}

TEST(Codes, FindsAllCodes) {
  for (int64_t code = 1; code <= 172; ++code) EXPECT_TRUE(FindXid(code)) << code;
  for (const CodeFacts& row : AllXids()) EXPECT_EQ(FindXid(*ParseInt<int64_t>(row.code)), &row);
  for (const CodeFacts& row : AllSxids()) EXPECT_EQ(FindSxid(*ParseInt<int64_t>(row.code)), &row);
  for (const CodeFacts& row : AllMessages()) EXPECT_EQ(FindMessage(row.code), &row);
}

TEST(Codes, RowsHaveSourcesAndActionsSentences) {
  for (auto rows : {AllXids(), AllSxids(), AllMessages()}) {
    for (const CodeFacts& row : rows) {
      EXPECT_FALSE(row.sources.empty()) << row.code;
      std::string_view rest = row.sources;
      while (!rest.empty()) EXPECT_TRUE(FindCodeSource(TakeUntil(rest, ' '))) << row.code;
      EXPECT_EQ(ActionSentence(row.action).empty(), row.action == "unknown") << row.code;
      EXPECT_NE(Explain("x", row).find(row.code), std::string::npos);
    }
  }
}

TEST(Codes, ExplainsACode) {
  std::string page = Explain("XID", *FindXid(79));
  EXPECT_THAT(page, HasSubstr("XID 79"));
  EXPECT_THAT(page, HasSubstr("class     bus"));
  EXPECT_THAT(page, HasSubstr("reboot: Reboot the machine."));
  EXPECT_THAT(page, HasSubstr("docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html, 2025-10-29"));
  EXPECT_THAT(Explain("XID", *FindXid(172)), HasSubstr("unknown: not documented"));
}

}  // namespace
}  // namespace gpulens
