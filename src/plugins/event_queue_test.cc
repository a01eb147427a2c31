#include "plugins/event_queue.h"

#include <gtest/gtest.h>

namespace gpulens {
namespace {

TEST(EventQueue, WhatIsReportedIsTakenOnceAndWhatIsPublishedToo) {
  EventQueue desk;
  Event event;
  event.name = "gpu.xid";
  desk.Report(event);
  EXPECT_TRUE(desk.TakeReady().empty()) << "nobody has looked at it yet";
  auto taken = desk.Take();
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_TRUE(desk.Take().empty());
  desk.Publish(taken[0]);
  EXPECT_EQ(desk.TakeReady().size(), 1u);
  EXPECT_TRUE(desk.TakeReady().empty());
}

TEST(EventQueue, AFloodIsBoundedAndCounted) {
  EventQueue desk;
  for (size_t i = 0; i < EventQueue::kMaxWaiting + 10; ++i) desk.Report({});
  EXPECT_EQ(desk.Take().size(), EventQueue::kMaxWaiting);
  EXPECT_EQ(desk.dropped(), 10u);
  desk.Suppressed(3);
  EXPECT_EQ(desk.suppressed(), 3u);
}

TEST(EventQueue, BodiesAreValidUtf8) {
  EventQueue desk;
  Event event;
  event.body = "process a训练\xe6\x8e died";
  desk.Report(event);
  EXPECT_EQ(desk.Take().at(0).body, "process a训练\uFFFD\uFFFD died");
  desk.Publish(event);
  EXPECT_EQ(desk.TakeReady().at(0).body, "process a训练\uFFFD\uFFFD died");
}

TEST(EventQueue, WhoWatches) {
  EventQueue desk;
  EXPECT_FALSE(desk.Watched());
  desk.Watches("nvml", true);
  desk.Watches("nvml", true);
  desk.Watches("kernel_log", true);
  EXPECT_TRUE(desk.Watched("nvml"));
  desk.Watches("nvml", false);
  EXPECT_FALSE(desk.Watched("nvml"));
  EXPECT_TRUE(desk.Watched());
  desk.Watches("kernel_log", false);
  EXPECT_FALSE(desk.Watched());
}

}  // namespace
}  // namespace gpulens
