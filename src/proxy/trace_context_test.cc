#include "proxy/trace_context.h"

#include <gtest/gtest.h>

#include <string>

namespace gpulens::proxy {
namespace {

const std::string kTraceText = "4bf92f3577b34da6a3ce929d0e0e4736", kSpanText = "00f067aa0ba902b7";

TEST(TraceContext, IsWrittenAsItWasRead) {
  for (const char* flags : {"00", "01", "02", "03"}) {
    const std::string text = "00-" + kTraceText + "-" + kSpanText + "-" + flags;
    const auto read = ParseTraceparent(text);
    ASSERT_TRUE(read) << text;
    EXPECT_EQ(read->sampled(), flags[1] == '1' || flags[1] == '3');
    std::string written;
    AppendTraceparent(written, *read);
    EXPECT_EQ(written, text);
  }
}

TEST(TraceContext, FlagsAndFieldsOfLaterVersionsAreNotKept) {
  std::string written;
  const auto later = ParseTraceparent("cc-" + kTraceText + "-" + kSpanText + "-fd-what-is-new");
  ASSERT_TRUE(later);
  AppendTraceparent(written, *later);
  EXPECT_EQ(written, "00-" + kTraceText + "-" + kSpanText + "-01");
  EXPECT_TRUE(ParseTraceparent("cc-" + kTraceText + "-" + kSpanText + "-01"));
}

TEST(TraceContext, WhatTheSpecificationForbidsIsInvalid) {
  const std::string zeros(32, '0');
  for (const std::string& text :
       {std::string(), "00-" + kTraceText + "-" + kSpanText, "00-" + kTraceText + "-" + kSpanText + "-1",
        "00-" + kTraceText + "-" + kSpanText + "-01-x", "00-" + kTraceText + "-" + kSpanText + "-01.",
        "cc-" + kTraceText + "-" + kSpanText + "-01.x", "ff-" + kTraceText + "-" + kSpanText + "-01",
        "0x-" + kTraceText + "-" + kSpanText + "-01", "00-" + zeros + "-" + kSpanText + "-01",
        "00-" + kTraceText + "-" + zeros.substr(16) + "-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-" + kSpanText + "-01",
        "00-" + kTraceText + "-00F067AA0BA902B7-01", "00-" + kTraceText + "-" + kSpanText + "-0A",
        "00-" + kTraceText + "-" + kSpanText + "-g1", "00_" + kTraceText + "-" + kSpanText + "-01",
        "00-" + kTraceText + "_" + kSpanText + "-01", "00-" + kTraceText + "-" + kSpanText + "_01",
        " 00-" + kTraceText + "-" + kSpanText + "-01"})
    EXPECT_FALSE(ParseTraceparent(text)) << text;
}

}  // namespace
}  // namespace gpulens::proxy
