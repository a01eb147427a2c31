#include "wire/perfetto/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <protozero/pbf_reader.hpp>

#include "base/text.h"
#include "wire/json/json_testing.h"
#include "wire/perfetto/perfetto_fields.h"

namespace gpulens {
namespace {

using namespace perfetto;
using protozero::pbf_reader;
using ::testing::ElementsAre;
using Kind = TimelineTrack::Kind;

// What a trace has, each line of text once: "counter power 612.5 @7".
struct ReadTrace {
  std::vector<std::string> tracks, events, facts;
  size_t resets = 0;
  uint64_t clock = 0;
};

struct TraceReader {
  ReadTrace out;
  std::map<uint64_t, std::string> tracks, names, keys;

  void Interned(pbf_reader interned) {
    while (interned.next()) {
      const bool is_name = interned.tag() == kInternedNames;
      pbf_reader one = interned.get_message();
      uint64_t iid = 0;
      std::string text;
      while (one.next()) {
        if (one.tag() == kInternedIid) iid = one.get_uint64();
        else text = one.get_string();
      }
      EXPECT_TRUE((is_name ? names : keys).emplace(iid, text).second) << "an id twice: " << iid;
    }
  }
  std::string Annotation(pbf_reader annotation) {
    std::string key, value;
    while (annotation.next()) {
      switch (annotation.tag()) {
        case kAnnotationNameIid: key = keys.at(annotation.get_uint64()); break;
        case kAnnotationInt: value = std::to_string(annotation.get_int64()); break;
        case kAnnotationBool: value = annotation.get_bool() ? "true" : "false"; break;
        case kAnnotationDouble: value = std::to_string(annotation.get_double()); break;
        default: value = annotation.get_string();
      }
    }
    return " " + key + "=" + value;
  }
  void Event(pbf_reader event, uint64_t at) {
    constexpr const char* kTypes[] = {"?", "begin", "end", "mark", "count"};
    std::string type, name, value, annotations, track;
    while (event.next()) {
      switch (event.tag()) {
        case kEventType: type = kTypes[event.get_enum()]; break;
        case kEventNameIid: name = " " + names.at(event.get_uint64()); break;
        case kEventTrack: track = tracks.at(event.get_uint64()); break;
        case kEventDouble: value = " " + std::to_string(event.get_double()); break;
        case kEventAnnotation: annotations += Annotation(event.get_message()); break;
        default: ADD_FAILURE() << event.tag();
      }
    }
    out.events.push_back(std::to_string(at) + " " + type + " " + track + name + value + annotations);
  }
  void Track(pbf_reader descriptor) {
    uint64_t uuid = 0;
    std::string name, parent, counter;
    while (descriptor.next()) {
      switch (descriptor.tag()) {
        case kTrackUuid: uuid = descriptor.get_uint64(); break;
        case kTrackName: name = descriptor.get_string(); break;
        case kTrackParent: parent = tracks.at(descriptor.get_uint64()) + "/"; break;
        case kTrackCounter: {
          pbf_reader one = descriptor.get_message();
          counter = " counter";
          while (one.next())
            counter += one.tag() == kCounterUnitName ? " " + one.get_string() : (one.skip(), " bytes");
          break;
        }
        default: descriptor.skip();
      }
    }
    EXPECT_TRUE(tracks.emplace(uuid, parent + name).second) << "a track twice: " << parent + name;
    out.tracks.push_back(parent + name + counter);
  }
  void Packet(pbf_reader packet) {
    uint64_t at = 0;
    while (packet.next()) {
      switch (packet.tag()) {
        case kPacketTime: at = packet.get_uint64(); break;
        case kPacketFlags:
          if (packet.get_uint32() == kStateCleared) ++out.resets, names.clear(), keys.clear();
          break;
        case kPacketInterned: Interned(packet.get_message()); break;
        case kPacketTrack: Track(packet.get_message()); break;
        case kPacketEvent: Event(packet.get_message(), at); break;
        case kPacketClocks: {
          pbf_reader clocks = packet.get_message();
          EXPECT_TRUE(clocks.next(kSnapshotClock));
          pbf_reader clock = clocks.get_message();
          EXPECT_TRUE(clock.next(kClockTime));
          out.clock = clock.get_uint64();
          break;
        }
        case kPacketAttributes: {
          pbf_reader all = packet.get_message();
          while (all.next()) {
            pbf_reader one = all.get_message();
            std::string text;
            while (one.next()) text += one.get_string() + " ";
            out.facts.push_back(text);
          }
          break;
        }
        default: packet.skip();
      }
    }
  }
};

ReadTrace Read(const std::string& bytes) {
  TraceReader reader;
  pbf_reader trace(bytes);
  while (trace.next(kTracePacket)) reader.Packet(trace.get_message());
  return reader.out;
}

const TimelineFacts kFacts = {{"node", "n1"}, {"simulated", "true"}};

TEST(Perfetto, HasTracksCountersSlicesAndMarks) {
  PerfettoWriter writer(kFacts, 5);
  const uint32_t node = writer.AddTrack({Kind::kGroup, 0, "n1", ""});
  const uint32_t gpu = writer.AddTrack({Kind::kGroup, node, "GPU 0", ""});
  const uint32_t power = writer.AddTrack({Kind::kCounter, gpu, "power", "W"});
  const uint32_t memory = writer.AddTrack({Kind::kCounter, gpu, "memory", "By"});
  const uint32_t processes = writer.AddTrack({Kind::kSlices, gpu, "processes", ""});
  writer.AddTrack({Kind::kCounter, gpu, "load", "1"});
  writer.Count(power, 10, 612.5);
  writer.Count(power, 11, std::numeric_limits<double>::quiet_NaN());
  writer.Count(memory, 11, 80e9);
  writer.Begin(processes, 12, "train.py", AttributeSet({{"process.pid", int64_t{7}}}));
  writer.Begin(processes, 13, "step");
  writer.Mark(processes, 14, "gpu.xid", AttributeSet({{"gpu.xid.code", int64_t{79}}, {"fatal", true}}));
  writer.End(processes, 15);
  writer.Finish(20);
  const ReadTrace trace = Read(writer.bytes());
  EXPECT_EQ(trace.clock, 5u);
  EXPECT_THAT(trace.facts, ElementsAre("gpulens.node n1 ", "gpulens.simulated true "));
  EXPECT_THAT(trace.tracks,
              ElementsAre("n1", "n1/GPU 0", "n1/GPU 0/power counter W", "n1/GPU 0/memory counter bytes",
                          "n1/GPU 0/processes", "n1/GPU 0/load counter"));
  EXPECT_THAT(
      trace.events,
      ElementsAre("10 count n1/GPU 0/power 612.500000", "11 count n1/GPU 0/memory 80000000000.000000",
                  "12 begin n1/GPU 0/processes train.py process.pid=7", "13 begin n1/GPU 0/processes step",
                  "14 mark n1/GPU 0/processes gpu.xid fatal=true gpu.xid.code=79",
                  "15 end n1/GPU 0/processes", "20 end n1/GPU 0/processes"));
  EXPECT_EQ(writer.counts(), 2u) << "a value that is unknown is left out";
  EXPECT_EQ(writer.slices(), 2u);
  EXPECT_EQ(writer.marks(), 1u);
}

TEST(Perfetto, InternedTablesBeginAgainBeforeTheyGrowWithoutBound) {
  PerfettoWriter writer(kFacts, 0);
  const uint32_t track = writer.AddTrack({Kind::kSlices, 0, "t", ""});
  const int many = static_cast<int>(PerfettoWriter::kMostInterned) + 10;
  for (int i = 0; i < many; ++i) writer.Mark(track, i, "name " + std::to_string(i));
  writer.Finish(many);
  const ReadTrace trace = Read(writer.bytes());
  EXPECT_EQ(trace.resets, 2u);
  ASSERT_EQ(trace.events.size(), static_cast<size_t>(many));
  EXPECT_EQ(trace.events.back(), std::to_string(many - 1) + " mark t name " + std::to_string(many - 1));
}

TEST(Perfetto, JoinedTracesOfTwoNodesShareNoTrack) {
  std::string both;
  for (const char* node : {"n1", "n2"}) {
    PerfettoWriter writer({{"node", node}}, 0);
    const uint32_t root = writer.AddTrack({Kind::kGroup, 0, "same", ""});
    writer.AddTrack({Kind::kCounter, root, "power", "W"});
    writer.AddTrack({Kind::kSlices, root, "power", ""});  // another kind is another track
    both += writer.bytes();
  }
  EXPECT_EQ(Read(both).tracks.size(), 6u);
}

TEST(Timeline, AnEndWithoutABeginningIsLeftOut) {
  PerfettoWriter writer(kFacts, 0);
  const uint32_t track = writer.AddTrack({Kind::kSlices, 0, "t", ""});
  writer.End(track, 3);
  writer.Finish(4);
  EXPECT_THAT(Read(writer.bytes()).events, ElementsAre());
}

TEST(Timeline, TextsAreUtf8AndNotEndless) {
  EXPECT_EQ(TimelineText("a\xff"
                         "b"),
            "a\xEF\xBF\xBD"
            "b");
  const std::string lengthy = TimelineText(std::string(5000, 'x'));
  EXPECT_EQ(lengthy.size(), TimelineWriter::kMostText);
  std::string wide;
  for (int i = 0; i < 2000; ++i) wide += "€";
  EXPECT_TRUE(IsUtf8(TimelineText(wide)));
  EXPECT_LE(TimelineText(wide).size(), TimelineWriter::kMostText);
  EXPECT_LE(TimelineText(std::string(5000, '\xff')).size(), TimelineWriter::kMostText);
}

TEST(Timeline, UnitsAreThoseOfPeople) {
  EXPECT_EQ(TimelineUnit("Cel"), "°C");
  EXPECT_EQ(TimelineUnit("1"), "");
  EXPECT_EQ(TimelineUnit("{request}/s"), "request/s");
  EXPECT_EQ(TimelineUnit("W"), "W");
}

TEST(ChromeTrace, IsJsonWhateverTheNames) {
  const std::string hostile = "\"}]\x1b[31m\xff<script>\n";
  ChromeTraceWriter writer({{"node", hostile}});
  const uint32_t node = writer.AddTrack({Kind::kGroup, 0, hostile, ""});
  const uint32_t gpu = writer.AddTrack({Kind::kGroup, node, "GPU 0", ""});
  const uint32_t power = writer.AddTrack({Kind::kCounter, gpu, "power", "W"});
  const uint32_t slices = writer.AddTrack({Kind::kSlices, gpu, hostile, ""});
  writer.Count(power, 1'764'190'000'000'000'123, 1.5);
  writer.Begin(slices, 2000, hostile, AttributeSet({{hostile, std::string_view(hostile)}}));
  writer.Mark(slices, 3000, hostile);
  writer.Finish(4000);
  std::string why;
  const auto json = json_testing::JsonReader::Read(writer.bytes(), &why);
  ASSERT_TRUE(json) << why;
  const auto& events = (*json)["traceEvents"];
  std::string phases;
  for (const auto& event : events.items) phases += event["ph"].text;
  EXPECT_EQ(phases, "MMMMMMCBiE");
  EXPECT_EQ(events[6]["ts"].text, "1764190000000000.123");
  EXPECT_EQ(events[6]["pid"].text, "2");
  EXPECT_EQ(events[6]["args"]["W"].text, "1.5");
  EXPECT_EQ(events[7]["tid"].text, "4");
  EXPECT_EQ(events[7]["pid"].text, events[9]["pid"].text);
}

TEST(ChromeTrace, IsJsonWithoutAnyEvent) {
  ChromeTraceWriter writer({});
  writer.Finish(0);
  EXPECT_TRUE(json_testing::JsonReader::Read(writer.bytes()));
}

}  // namespace
}  // namespace gpulens
