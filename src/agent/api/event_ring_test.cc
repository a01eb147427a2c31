#include "agent/api/event_ring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "base/testing/temp_folder.h"
#include "store/incident_store.h"

namespace gpulens {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kStartNs = 1'700'000'000'000'000'000;

Event MakeEvent(int64_t seconds, std::string_view name, int64_t gpu = -1, std::string body = "b") {
  Event event;
  event.at.unix_ns = kStartNs + seconds * 1'000'000'000;
  event.name = name;
  if (gpu >= 0)
    event.entity = MakeRef<const Entity>("gpu", AttributeSet({{"gpu.index", gpu}, {"gpu.model", "H100"}}));
  event.body = std::move(body);
  return event;
}

Events ListOf(std::vector<Event> list) {
  Events events;
  events.list = std::move(list);
  return events;
}

// The bodies of events, as the page has them.
std::vector<std::string> Bodies(const std::vector<std::string>& events) {
  std::vector<std::string> bodies;
  for (const std::string& event : events) {
    JsonScanner json(event);
    json.Object([&](std::string_view key) {
      if (key == "body") bodies.emplace_back(json.Text());
    });
    EXPECT_TRUE(json.Finish().ok()) << event;
  }
  return bodies;
}

TEST(EventRing, JoinsTheEntityAndTakesTheSeverityOfTheRow) {
  EventRing ring;
  Event event = MakeEvent(1, "gpu.ecc", 3, "errors");
  event.attributes = AttributeSet({{"gpu.ecc.error_type", "dbe"}});
  EXPECT_THAT(
      ring.Add(ListOf({event})),
      ElementsAre("{\"at\":1700000001000,\"name\":\"gpu.ecc\",\"severity\":\"error\",\"body\":\"errors\","
                  "\"attributes\":{\"gpu.ecc.error_type\":\"dbe\",\"gpu.index\":3,\"gpu.model\":\"H100\"}}"));
  event.severity = EventSeverity::kInfo;
  EXPECT_THAT(ring.Add(ListOf({event}))[0], HasSubstr("\"severity\":\"info\""));
  event.name = "no.such.row";
  event.severity = EventSeverity::kUnset;
  EXPECT_THAT(ring.Add(ListOf({event}))[0], HasSubstr("\"severity\":\"unset\""));
}

TEST(EventRing, NewestFirstByTimeAndFiltered) {
  EventRing ring;
  ring.Add(ListOf({MakeEvent(5, "gpu.ecc", 0, "five"), MakeEvent(2, "gpu.ecc", 1, "two")}));
  ring.Add(ListOf({MakeEvent(3, "gpu.ecc", 0, "three"), MakeEvent(9, "host.oom_kill", -1, "nine")}));
  EXPECT_THAT(Bodies(ring.Find({})), ElementsAre("nine", "five", "three", "two"));
  EXPECT_THAT(Bodies(ring.Find({.gpu_index = 0})), ElementsAre("five", "three"));
  EXPECT_THAT(Bodies(ring.Find({.since_ms = 1'700'000'003'000, .gpu_index = {}})),
              ElementsAre("nine", "five", "three"));
  EXPECT_THAT(Bodies(ring.Find({.gpu_index = {}, .limit = 2})), ElementsAre("nine", "five"));
}

TEST(EventRing, HasLimits) {
  EventRing ring;
  for (int i = 0; i < 3000; ++i) ring.Add(ListOf({MakeEvent(i, "gpu.ecc", 0, std::to_string(i))}));
  std::vector<std::string> bodies = Bodies(ring.Find({.gpu_index = {}, .limit = 10'000}));
  EXPECT_EQ(bodies.size(), EventRing::kMostEvents);
  EXPECT_EQ(bodies.front(), "2999");
  EXPECT_EQ(bodies.back(), "1000") << "the oldest went";
  // Long texts: few of them, each cut at a character.
  std::string text;
  for (int i = 0; i < 50'000; ++i) text += "é";
  for (int i = 0; i < 1000; ++i) ring.Add(ListOf({MakeEvent(4000 + i, "gpu.ecc", 0, "x" + text)}));
  const std::vector<std::string> long_ones = ring.Find({.gpu_index = {}, .limit = 10'000});
  size_t bytes = 0;
  for (const std::string& event : long_ones) bytes += event.size();
  EXPECT_LE(bytes, EventRing::kMostBytes);
  EXPECT_GT(long_ones.size(), 50u);
  EXPECT_EQ(Bodies({long_ones[0]})[0].size(), 4095u);
  Event fat = MakeEvent(9000, "gpu.ecc", 0, "fat");
  fat.attributes = AttributeSet({{"k", std::string_view(text)}});
  EXPECT_THAT(ring.Add(ListOf({fat}))[0], HasSubstr("\"attributes\":{}"));
}

TEST(EventRing, HostileTextStaysText) {
  EventRing ring;
  const std::string json = ring.Add(ListOf({MakeEvent(1, "gpu.ecc", 0, "</script>\"\x1b[2J\xff\n")}))[0];
  EXPECT_EQ(Bodies({json})[0].substr(0, 10), "</script>\"");
  EXPECT_THAT(json, Not(HasSubstr("\n")));
  EXPECT_THAT(json, Not(HasSubstr("\x1b")));
}

TEST(EventRing, EarlierRunsComeFromTheStore) {
  testing::TempFolder folder;
  const std::string path = folder.path() + "/incidents.db";
  auto store = IncidentStore::Open({.path = path});
  ASSERT_TRUE(store.ok()) << store.error().detail;
  for (int64_t seconds : {-7200, -600, -60, 5}) {
    ASSERT_TRUE(
        (*store)->Add(MakeIncident(MakeEvent(seconds, "gpu.ecc", 2, "stored " + std::to_string(seconds)))));
  }
  Incident broken = MakeIncident(MakeEvent(-30, "gpu.ecc", 2, "broken"));
  broken.attributes = "{\"a\":";
  ASSERT_TRUE((*store)->Add(broken));
  EventRing ring;
  ring.Begin({.store = path, .start_ns = kStartNs});
  ring.Add(ListOf({MakeEvent(5, "gpu.ecc", 2, "now 5")}));
  EXPECT_THAT(Bodies(ring.Find({.gpu_index = 2})), ElementsAre("now 5", "stored -60", "stored -600"))
      << "what this run stored is not listed twice, nor is what is older than an hour";
  EXPECT_EQ(ring.Find({}).size(), 3u) << "read once";
}

TEST(EventRing, WithoutAStoreItIsEmpty) {
  testing::TempFolder folder;
  EventRing missing;
  missing.Begin({.store = folder.path() + "/incidents.db", .start_ns = kStartNs});
  EXPECT_TRUE(missing.Find({}).empty());
  EventRing broken;
  broken.Begin({.store = folder.Write("broken.db", "no database"), .start_ns = kStartNs});
  EXPECT_TRUE(broken.Find({}).empty());
}

TEST(EventsPage, ReadsItsParameters) {
  ManualClock clock({1, kStartNs});
  EventRing ring;
  Api api;
  AddEventsPage(api, ring, clock);
  EXPECT_EQ(*api.Get("/api/events"), "{\"schema\":\"gpulens.events/1\",\"events\":[]}");
  ring.Add(ListOf({MakeEvent(-10, "gpu.ecc", 0, "ten"), MakeEvent(-100, "gpu.ecc", 1, "hundred"),
                   MakeEvent(-4000, "gpu.ecc", 1, "old")}));
  auto count = [&](const char* target) {
    const std::string page = *api.Get(target);
    size_t found = 0;
    for (size_t at = page.find("\"at\""); at != std::string::npos; at = page.find("\"at\"", at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count("/api/events"), 2u) << "of the last hour";
  EXPECT_EQ(count("/api/events?since=2h"), 3u);
  EXPECT_EQ(count("/api/events?since=30s"), 1u);
  EXPECT_EQ(count("/api/events?since=0"), 3u);
  EXPECT_EQ(count("/api/events?since=1699999990000"), 1u);
  EXPECT_EQ(count("/api/events?since=2h&gpu=1"), 2u);
  EXPECT_EQ(count("/api/events?since=2h&limit=1"), 1u);
  for (const char* bad : {"since=soon", "since=-5", "gpu=x", "gpu=-1", "limit=0", "limit=many", "gpus=1"}) {
    auto page = api.Get(std::string("/api/events?") + bad);
    ASSERT_FALSE(page.ok()) << bad;
    EXPECT_EQ(page.error().code, Code::kInvalidArgument) << bad;
  }
}

}  // namespace
}  // namespace gpulens
