#include "sources/kernel_log/parse/log_line.h"

#include <gtest/gtest.h>

#include "base/pci_address.h"
#include "base/rfc3339.h"

namespace gpulens::kernel_log {
namespace {

using Stamp = LogLine::Stamp;

TEST(KmsgRecord, HeadAndText) {
  std::string scratch;
  LogLine line;
  ASSERT_TRUE(ParseKmsgRecord("4,3964,206764307,-;NVRM: hello\n SUBSYSTEM=pci\n", scratch, line));
  EXPECT_EQ(line.sequence, 3964u);
  EXPECT_EQ(line.stamp, Stamp::kSinceBoot);
  EXPECT_EQ(line.stamp_ns, 206'764'307'000);
  EXPECT_EQ(line.text, "NVRM: hello");
  ASSERT_TRUE(ParseKmsgRecord("4,1,2,-,caller=T12;x\\x0ay\\x5cz\\xzz", scratch, line));
  EXPECT_EQ(line.text, "x\ny\\z\\xzz");
}

TEST(KmsgRecord, RecordsOfProgramsAreNotTheKernels) {
  std::string scratch;
  LogLine line;
  EXPECT_FALSE(ParseKmsgRecord("12,77,5,-;NVRM: Xid (PCI:0000:3b:00): 79, forged", scratch, line));
  EXPECT_EQ(line.sequence, 77u) << "it still counts when gaps are looked for";
}

TEST(KmsgRecord, Bad) {
  std::string scratch;
  LogLine line;
  for (std::string_view record :
       {"", ";", "4;x", "4,1;x", "4,1,;x", "4,1,-3,-;x", "4,1,99999999999999999999,-;x", "a,1,2,-;x",
        "4,1,9223372036854775807,-;overflows in nanoseconds"}) {
    EXPECT_FALSE(ParseKmsgRecord(record, scratch, line)) << record;
  }
}

TEST(LogLine, FormsOfOtherDaemons) {
  std::string scratch;
  LogLine line;
  ASSERT_TRUE(ParseLogLine("Jan  2 03:04:05 node-1 kernel[1]: NVRM: a", scratch, line));
  EXPECT_EQ(line.text, "NVRM: a");
  EXPECT_FALSE(ParseLogLine("Jan  2 03:04:05 node-1 kernel[a]: NVRM: a", scratch, line));
  EXPECT_FALSE(ParseLogLine("Jan  2 03:04:05 node-1 kernel-helper: NVRM: a", scratch, line));
  ASSERT_TRUE(ParseLogLine("<4>1 2026-01-02T03:04:05.5+01:00 node-1 kernel - - - NVRM: b", scratch, line));
  EXPECT_EQ(line.stamp_ns, 1'767'319'445'500'000'000);
  EXPECT_EQ(line.text, "NVRM: b");
  EXPECT_FALSE(ParseLogLine("<4>1 2026-01-02T03:04:05.5+01:00 node-1 sshd - - - NVRM: b", scratch, line));
  EXPECT_FALSE(ParseLogLine("<12>1 2026-01-02T03:04:05.5+01:00 node-1 kernel - - - NVRM: b", scratch, line));
  ASSERT_TRUE(ParseLogLine("[Mon Nov 23 14:00:00 2026] NVRM: c", scratch, line));
  EXPECT_EQ(line.stamp, Stamp::kNone) << "no zone";
  EXPECT_EQ(line.text, "NVRM: c");
}

TEST(LogLine, Forms) {
  std::string scratch;
  LogLine line;
  ASSERT_TRUE(ParseLogLine("[   12.345678] NVRM: a", scratch, line));
  EXPECT_EQ(line.stamp, Stamp::kSinceBoot);
  EXPECT_EQ(line.stamp_ns, 12'345'678'000);
  EXPECT_EQ(line.text, "NVRM: a");
  ASSERT_TRUE(ParseLogLine("<4>[   12.345678][  T123] b", scratch, line));
  EXPECT_EQ(line.text, "b");
  ASSERT_TRUE(ParseLogLine("Jan  2 03:04:05 node-1 kernel: [   12.3] c", scratch, line));
  EXPECT_EQ(line.text, "c");
  EXPECT_EQ(line.stamp_ns, 12'300'000'000);
  ASSERT_TRUE(ParseLogLine("2026-01-02T03:04:05.5+01:00 node-1 kernel: d: e", scratch, line));
  EXPECT_EQ(line.stamp, Stamp::kUnix);
  EXPECT_EQ(line.stamp_ns, 1'767'319'445'500'000'000);
  EXPECT_EQ(line.text, "d: e");
  ASSERT_TRUE(ParseLogLine("1767319445.250000 node-1 kernel: f", scratch, line));
  EXPECT_EQ(line.stamp_ns, 1'767'319'445'250'000'000);
  ASSERT_TRUE(ParseLogLine("kern  :warn  : 2026-01-02T02:04:05,500000+00:00 g", scratch, line));
  EXPECT_EQ(line.stamp_ns, 1'767'319'445'500'000'000);
  EXPECT_EQ(line.text, "g");
  ASSERT_TRUE(ParseLogLine("kern  :err   : [   12.345678] h", scratch, line));
  EXPECT_EQ(line.text, "h");
}

TEST(LogLine, EntriesOfTheJournal) {
  std::string scratch;
  LogLine line;
  ASSERT_TRUE(
      ParseLogLine(R"({"__REALTIME_TIMESTAMP":"1767319445250000","_TRANSPORT":"kernel","MESSAGE":"a \"b\""})",
                   scratch, line));
  EXPECT_EQ(line.stamp, LogLine::Stamp::kUnix);
  EXPECT_EQ(line.stamp_ns, 1'767'319'445'250'000'000);
  EXPECT_EQ(line.text, "a \"b\"");
  ASSERT_TRUE(ParseLogLine(R"({"_TRANSPORT":"kernel","MESSAGE":[97,255,98]})", scratch, line));
  EXPECT_EQ(line.stamp, LogLine::Stamp::kNone);
  EXPECT_EQ(line.text,
            "a\xff"
            "b");
  std::string longer(10'000, 'x');
  ASSERT_TRUE(ParseLogLine(R"({"_TRANSPORT":"kernel","MESSAGE":")" + longer + "\"}", scratch, line));
  EXPECT_EQ(line.text.size(), kMaxLine);
  EXPECT_FALSE(ParseLogLine(R"({"_TRANSPORT":"stdout","MESSAGE":"NVRM: Xid"})", scratch, line));
}

TEST(LogLine, OtherProgramsAndOtherLinesAreLeftOut) {
  std::string scratch;
  LogLine line;
  for (std::string_view text : {"", " ", "Jan  2 03:04:05 node-1 app: NVRM: Xid (PCI:0000:3b:00): 79, x",
                                "Jan  2 03:04:05 node-1 kernel-helper: x", "Jax  2 03:04:05 node-1 kernel: x",
                                "NVRM: no frame at all", "2026-13-02T03:04:05Z node kernel: x",
                                "<30>[ 1.2] a daemon's", "user  :info  : [ 1.2] x", "12,1,2,-;user"}) {
    EXPECT_FALSE(ParseLogLine(text, scratch, line)) << text;
  }
}

TEST(Rfc3339, Moments) {
  EXPECT_EQ(ParseRfc3339("1970-01-01T00:00:00Z"), 0);
  EXPECT_EQ(ParseRfc3339("2000-02-29T12:00:00.123456789-02:30"), 951'834'600'123'456'789);
  for (std::string_view bad : {"2001-02-29T12:00:00Z", "2000-02-29T24:00:00Z", "2000-02-29T12:00:00",
                               "2000-02-29", "2000-02-29T12:00:00.Z", "2000-02-29T12:00:00.5",
                               "2000-02-29T12:00:00+1:00", "9999-02-28T12:00:00Z"}) {
    EXPECT_FALSE(ParseRfc3339(bad)) << bad;
  }
}

TEST(PciAddress, Forms) {
  for (std::string_view text : {"0000:3b:00.0", "00000000:3B:00.0", "PCI:0000:3b:00", "3b:00.0", "003b:00"}) {
    auto address = ParsePciAddress(text);
    ASSERT_TRUE(address) << text;
    EXPECT_EQ(address->ToString(), "0000:3b:00.0");
  }
  EXPECT_EQ(ParsePciAddress("0018:01:1f.7")->ToString(), "0018:01:1f.7");
  EXPECT_FALSE(*ParsePciAddress("0000:3b:00.1") == *ParsePciAddress("3b:00")) << "another function";
  EXPECT_TRUE(ParsePciAddress("0000:3b:00.1")->SameSlot(*ParsePciAddress("3b:00")));
  for (std::string_view bad : {"", "3b", ":", "0000:3b:20.0", "0000:3b:00.8", "0000:1ff:00", "g:00",
                               "0000:3b:00.0x", "100000000:00:00.0", "0000:0000:0000:3b:00.0"}) {
    EXPECT_FALSE(ParsePciAddress(bad)) << bad;
  }
}

}  // namespace
}  // namespace gpulens::kernel_log
