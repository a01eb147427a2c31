#include "plugins/event_queue.h"

#include <gtest/gtest.h>

namespace gpulens {
namespace {

TEST(EventQueue, TakesReportedAndPublishedEventsOnce) {
  EventQueue queue;
  Event event;
  event.name = "gpu.xid";
  queue.Report(event);
  EXPECT_TRUE(queue.TakeReady().empty()) << "nobody has looked at it yet";
  auto taken = queue.Take();
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_TRUE(queue.Take().empty());
  queue.Publish(taken[0]);
  EXPECT_EQ(queue.TakeReady().size(), 1u);
  EXPECT_TRUE(queue.TakeReady().empty());
}

TEST(EventQueue, BoundsAndCountsAFlood) {
  EventQueue queue;
  for (size_t i = 0; i < EventQueue::kMaxWaiting + 10; ++i) queue.Report({});
  EXPECT_EQ(queue.Take().size(), EventQueue::kMaxWaiting);
  EXPECT_EQ(queue.dropped(), 10u);
  queue.Suppressed(3);
  EXPECT_EQ(queue.suppressed(), 3u);
}

TEST(EventQueue, BodiesAreValidUtf8) {
  EventQueue queue;
  Event event;
  event.body = "process a训练\xe6\x8e died";
  queue.Report(event);
  EXPECT_EQ(queue.Take().at(0).body, "process a训练\uFFFD\uFFFD died");
  queue.Publish(event);
  EXPECT_EQ(queue.TakeReady().at(0).body, "process a训练\uFFFD\uFFFD died");
}

TEST(EventQueue, ListsWatchers) {
  EventQueue queue;
  EXPECT_FALSE(queue.Watched());
  queue.Watches("nvml", true);
  queue.Watches("nvml", true);
  queue.Watches("kernel_log", true);
  EXPECT_TRUE(queue.Watched("nvml"));
  queue.Watches("nvml", false);
  EXPECT_FALSE(queue.Watched("nvml"));
  EXPECT_TRUE(queue.Watched());
  queue.Watches("kernel_log", false);
  EXPECT_FALSE(queue.Watched());
}

}  // namespace
}  // namespace gpulens
