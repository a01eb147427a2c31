
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/events/events_command.h"

namespace gpulens {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Incident Xid() {
  Incident row;
  row.id = 7;
  row.unix_ns = 1'763'691'249'120'000'000;
  row.name = "gpu.xid";
  row.severity = EventSeverity::kFatal;
  row.gpu_index = 3;
  row.gpu_uuid = "GPU-x";
  row.body = "NVRM: \x1b[31mred";
  row.attributes =
      "{\"gpu.xid.action\":\"reboot\",\"gpu.xid.class\":\"bus\",\"gpu.xid.code\":79,\"process.executable."
      "name\":\"p\"}";
  row.readings =
      "{\"columns\":[{\"name\":\"gpu.power.draw\",\"unit\":\"W\"}],\"samples\":[[-1,300],[0,310]]}";
  return row;
}

TEST(EventsText, TableHasActionsAndEscapesTexts) {
  std::string text = IncidentTable({Xid()});
  EXPECT_THAT(text, HasSubstr("2025-11-21T02:14:09.120Z  fatal     3    gpu.xid"));
  EXPECT_THAT(text, HasSubstr("XID 79 bus, do: reboot, p"));
  EXPECT_THAT(text, HasSubstr("2 samples of power.draw"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
}

TEST(EventsText, ShowsRepeats) {
  Incident many = Xid();
  many.attributes.insert(1, "\"event.repeats\":2995,");
  EXPECT_THAT(IncidentTable({many}), HasSubstr("×2995  NVRM"));
  EXPECT_THAT(IncidentTable({Xid()}), Not(HasSubstr("×")));
}

TEST(EventsText, EscapesControlCharacters) {
  Incident odd = Xid();
  odd.name = "\x1b]0;title\x07";
  EXPECT_THAT(IncidentTable({odd}), HasSubstr("\\x1b]0;title\\x07"));
  odd = Xid();
  odd.attributes =
      "{\"gpu.xid.action\":\"\u202e\",\"gpu.xid.code\":79,\"process.executable.name\":\"\x1b[2J\u009bp\"}";
  odd.readings = "{\"columns\":[{\"name\":\"gpu.\u009bx\",\"unit\":\"W\"}],\"samples\":[[0,1]]}";
  for (const std::string& text : {IncidentTable({odd}), IncidentJson({odd})}) {
    for (const char* steers : {"\x1b", "\u009b", "\u202e", "\x07"}) EXPECT_THAT(text, Not(HasSubstr(steers)));
  }
  EXPECT_THAT(IncidentJson({odd}), HasSubstr("\"process.executable.name\":\"\\u001b[2J\\u009bp\""));
}

TEST(EventsText, JsonIsOneObjectPerLine) {
  Incident bare;
  bare.name = "host.oom_kill";
  std::string text = IncidentJson({Xid(), bare});
  EXPECT_EQ(std::ranges::count(text, '\n'), 2);
  EXPECT_THAT(text, HasSubstr("\"readings_before\":{\"columns\""));
  EXPECT_THAT(text, HasSubstr("\"gpu_index\":null,\"gpu_uuid\":null"));
  EXPECT_THAT(text, HasSubstr("\\u001b[31mred"));
}

TEST(EventsText, MarksSimulatedEvents) {
  Incident demo = Xid();
  EXPECT_EQ(IncidentTable({demo}).find("SIMULATED"), std::string::npos);
  EXPECT_THAT(IncidentCsv({demo}), HasSubstr(",\"false\"\n"));
  demo.attributes.insert(1, "\"simulated\":true,");
  EXPECT_THAT(IncidentTable({demo}), HasSubstr("SIMULATED  XID 79"));
  EXPECT_THAT(IncidentCsv({demo}), HasSubstr(",\"true\"\n"));
}

TEST(EventsText, CsvQuotesFormulas) {
  Incident odd = Xid();
  odd.body = "=cmd \"x\"";
  std::string text = IncidentCsv({odd});
  EXPECT_THAT(text, HasSubstr("\"'=cmd \"\"x\"\"\""));
  EXPECT_EQ(text.substr(0, text.find('\n')),
            "time,severity,gpu_index,gpu_uuid,name,body,attributes,simulated");
}

TEST(EventsCommand, ExitCodes) {
  EventsOptions options;
  options.state_dir = "/nowhere/at/all";
  EXPECT_EQ(RunEvents(options), 0);
  options.since = "yesterday";
  EXPECT_EQ(RunEvents(options), 2);
  options.since = "7d";
  EXPECT_EQ(RunEvents(options), 0);
  options.name = "gpu.xidd";
  EXPECT_EQ(RunEvents(options), 2);
  options.name.clear();
  options.state_dir = "/proc/version";  // what is below it is no folder
  EXPECT_EQ(RunEvents(options), 1) << "whether anything was recorded is not known";
}

TEST(EventsCommand, ExplainsCodesOfAllTables) {
  for (const char* code : {"79", "xid 79", "XID79", "sxid 20034", "amdgpu.ras.umc.ue"})
    EXPECT_FALSE(CodePage(code).empty()) << code;
  for (const char* code : {"", "xid", "999", "sxid 79", "-1", "1e3"})
    EXPECT_TRUE(CodePage(code).empty()) << code;
}

}  // namespace
}  // namespace gpulens
