#include "wire/json/json_snapshot.h"

#include <gtest/gtest.h>

namespace gpulens {
namespace {

Event Xid() {
  Event event;
  event.at = {0, 1'763'691'249'120'000'000};
  event.name = "gpu.xid";
  event.entity = MakeRef<Entity>("gpu", AttributeSet({{"gpu.index", int64_t{3}}}));
  event.attributes = AttributeSet({{"gpu.xid.code", int64_t{79}}});
  event.body = "NVRM: \"x\"\n\x01\xff";
  event.severity = EventSeverity::kFatal;
  return event;
}

TEST(JsonEvent, AsItIsDocumented) {
  std::string out;
  AppendJsonEvent(out, Xid(), {{"host.name", "n1"}});
  EXPECT_EQ(
      out,
      "{\"ts\":\"2025-11-21T02:14:09.120Z\",\"type\":\"event\",\"name\":\"gpu.xid\",\"severity\":\"fatal\","
      "\"body\":\"NVRM: \\\"x\\\"\\n\\u0001\\ufffd\",\"attributes\":{\"gpu.xid.code\":79},"
      "\"entity_type\":\"gpu\",\"entity\":{\"gpu.index\":3},\"resource\":{\"host.name\":\"n1\"}}");
}

TEST(JsonEvent, LeavesOutUnknownMembers) {
  Event event;
  event.name = "host.oom_kill";
  Events events;
  events.list = {event, event};
  std::string out;
  AppendJsonEvents(out, events);
  const std::string line =
      "{\"ts\":\"1970-01-01T00:00:00.000Z\",\"type\":\"event\",\"name\":\"host.oom_kill\",\"severity\":"
      "\"unset\","
      "\"body\":\"\",\"attributes\":{}}\n";
  EXPECT_EQ(out, line + line);
}

TEST(JsonEvent, IncludesTheParentsOfAnEntity) {
  Event event = Xid();
  event.entity = MakeRef<Entity>("mig", AttributeSet({{"gpu.mig.instance_id", int64_t{1}}}), event.entity);
  std::string out;
  AppendJsonEvent(out, event, {});
  EXPECT_NE(out.find("\"entity_type\":\"mig\",\"entity\":{\"gpu.index\":3,\"gpu.mig.instance_id\":1}}"),
            std::string::npos)
      << out;
}

}  // namespace
}  // namespace gpulens
