#include "reader/culprit.h"

#include <gtest/gtest.h>

namespace gpulens::driver {
namespace {

TEST(CulpritOf, IsTheCallThatTheProcessNames) {
  CallPage page;
  page.devices[3].Begin(7, 1);
  page.devices[5].Begin(8, 1);
  page.ended_in = kEndedInDevice + 5;
  EXPECT_EQ(CulpritOf(page, false), (Culprit{Culprit::kDevice, 5, 8}));
  page.ended_in = kEndedInWaiting;
  page.waiting.Begin(9, 1);
  EXPECT_EQ(CulpritOf(page, true), (Culprit{Culprit::kWaiting, 0, 9}));
  page.ended_in = kEndedInMain;
  EXPECT_EQ(CulpritOf(page, true).who, Culprit::kMain);
}

TEST(CulpritOf, IsTheOnlyDeviceInACall) {
  CallPage page;
  page.waiting.Begin(9, 1);
  EXPECT_EQ(CulpritOf(page, true).who, Culprit::kUnknown) << "to wait for events is no fault";
  page.devices[63].Begin(7, 1);
  EXPECT_EQ(CulpritOf(page, true), (Culprit{Culprit::kDevice, 63, 7}));
  EXPECT_EQ(CulpritOf(page, false).who, Culprit::kUnknown);
  page.devices[0].Begin(7, 1);
  EXPECT_EQ(CulpritOf(page, true).who, Culprit::kUnknown) << "two may be it";
  page.main.Begin(2, 1);
  EXPECT_EQ(CulpritOf(page, true), (Culprit{Culprit::kMain, 0, 2}));
}

// The page is written by the process that has just failed.
TEST(CulpritOf, BelievesNoNumberOutOfRange) {
  CallPage page;
  for (uint32_t number : {kEndedInWaiting + 1, 1000U, ~0U}) {
    page.ended_in = number;
    EXPECT_EQ(CulpritOf(page, false).who, Culprit::kUnknown) << number;
  }
}

}  // namespace
}  // namespace gpulens::driver
