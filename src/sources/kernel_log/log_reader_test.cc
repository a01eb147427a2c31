#include "sources/kernel_log/log_reader.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/fd.h"
#include "base/files.h"
#include "base/testing/allocations.h"
#include "sources/kernel_log/pci_bus.h"

namespace gpulens::kernel_log {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
namespace fs = std::filesystem;

class LogReaderTest : public ::testing::Test {
 protected:
  LogReaderTest() {
    char name[] = "/tmp/gpulens-klog-XXXXXX";
    folder_ = ::mkdtemp(name);
    path_ = folder_ + "/kern.log";
  }
  ~LogReaderTest() override { fs::remove_all(folder_); }

  void Append(std::string_view text) { std::ofstream(path_, std::ios::app) << text; }
  std::vector<std::string> Read(LogReader& reader) {
    std::vector<std::string> texts;
    status_ = reader.Read(clock_.Now(), [&](Instant at, std::string_view text) {
      EXPECT_LE(at.boot_ns, clock_.Now().boot_ns) << "never in the future";
      at_ = at;
      texts.emplace_back(text);
    });
    return texts;
  }
  // Reads until text arrives; waits long enough for a real process.
  std::vector<std::string> ReadSoon(LogReader& reader) {
    std::vector<std::string> texts;
    for (int i = 0; i < 20'000 && texts.empty() && status_.ok(); ++i) {
      texts = Read(reader);
      if (texts.empty()) ::poll(nullptr, 0, 1);
    }
    return texts;
  }
  std::string Script(std::string_view body) {
    std::string script = folder_ + "/journalctl";
    std::ofstream(script) << "#!/bin/sh\n" << body << "\n";
    ::chmod(script.c_str(), 0755);
    return script;
  }

  ManualClock clock_{{100'000'000'000, 1'700'000'000'000'000'000}};
  std::string folder_, path_;
  Status status_;
  Instant at_;
};

TEST_F(LogReaderTest, AFileIsReadFromItsEndAndThenAsItGrows) {
  Append("[ 1.0] before\n");
  auto reader = FollowFile(path_, LogStart::kNow);
  ASSERT_TRUE(reader.ok());
  EXPECT_THAT(Read(**reader), IsEmpty());
  Append("[ 2.0] one\nno kernel line\n[ 3.0] tw");
  EXPECT_THAT(Read(**reader), ElementsAre("one"));
  Append("o\n");
  EXPECT_THAT(Read(**reader), ElementsAre("two")) << "a half line waits for its end";
  auto whole = FollowFile(path_, LogStart::kBoot);
  EXPECT_THAT(Read(**whole), ElementsAre("before", "one", "two"));
}

TEST_F(LogReaderTest, AFileThatIsMovedOrTruncatedIsFollowed) {
  Append("");
  auto reader = FollowFile(path_, LogStart::kNow);
  ASSERT_TRUE(reader.ok());
  Append("[ 1.0] last of the old\n");
  fs::rename(path_, path_ + ".1");
  EXPECT_THAT(Read(**reader), ElementsAre("last of the old"));
  EXPECT_TRUE(status_.ok()) << "moved, and no new one yet";
  Append("[ 2.0] first of the new\n");
  EXPECT_THAT(Read(**reader), ElementsAre("first of the new"));
  fs::resize_file(path_, 0);
  Append("[ 3.0] short\n");
  EXPECT_THAT(Read(**reader), ElementsAre("short"));
}

TEST_F(LogReaderTest, DatedLinesKeepTheirMoment) {
  Append("");
  auto reader = FollowFile(path_, LogStart::kNow);
  ASSERT_TRUE(reader.ok());
  Append("1699999990.500000 host kernel: x\n");
  Read(**reader);
  EXPECT_EQ(at_.unix_ns, 1'699'999'990'500'000'000);
  EXPECT_EQ(at_.boot_ns, 90'500'000'000);
  Append("1800000000.000000 host kernel: of the future\n");
  Read(**reader);
  EXPECT_EQ(at_, clock_.Now());
}

TEST_F(LogReaderTest, AFolderOrAMissingFileIsRefused) {
  EXPECT_EQ(FollowFile(folder_ + "/none", LogStart::kNow).error().code, Code::kUnavailable);
  EXPECT_EQ(FollowFile(folder_, LogStart::kNow).error().code, Code::kInvalidArgument);
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(FollowFile(path_, LogStart::kNow).error().code, Code::kInvalidArgument)
      << "and does not wait for a writer";
}

TEST_F(LogReaderTest, AQuietFileCostsNoAllocation) {
  Append("[ 1.0] x\n");
  auto reader = FollowFile(path_, LogStart::kNow);
  MessageVisitor visit = [](Instant, std::string_view) {};
  ASSERT_TRUE((*reader)->Read(clock_.Now(), visit));
  if (!AllocationsAreCounted()) GTEST_SKIP() << "a sanitizer has its own operator new";
  uint64_t before = ThreadAllocations();
  EXPECT_TRUE((*reader)->Read(clock_.Now(), visit));
  EXPECT_EQ(ThreadAllocations() - before, 0u);
}

// A named pipe of packets would be closest to the device; a plain pipe hands over what one write wrote as
// long as it is read at once.
TEST_F(LogReaderTest, RecordsOfTheDeviceAndTheGapsBetweenThem) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  UniqueFd both(::open(path_.c_str(), O_RDWR | O_CLOEXEC));
  auto reader = OpenKmsg(path_, LogStart::kNow);
  ASSERT_TRUE(reader.ok()) << reader.error().detail;
  auto write = [&](std::string_view record) {
    ASSERT_EQ(::write(both.get(), record.data(), record.size()), static_cast<ssize_t>(record.size()));
  };
  write("4,10,99000000,-;one\n");
  EXPECT_THAT(Read(**reader), ElementsAre("one"));
  EXPECT_EQ(at_.boot_ns, 99'000'000'000) << "its stamp is near enough to be trusted";
  write("4,11,50000000,-;late\n");
  Read(**reader);
  EXPECT_EQ(at_, clock_.Now()) << "the kernel's clock has drifted: it came just now";
  EXPECT_EQ((*reader)->lost(), 0u);
  write("12,15,99000000,-;of a program\n");
  EXPECT_THAT(Read(**reader), IsEmpty());
  EXPECT_EQ((*reader)->lost(), 3u) << "12, 13 and 14 were overwritten";
  write("garbage");
  EXPECT_THAT(Read(**reader), IsEmpty());
  EXPECT_TRUE(status_.ok());
  EXPECT_EQ(OpenKmsg(folder_ + "/none", LogStart::kNow).error().code, Code::kUnavailable);
}

TEST_F(LogReaderTest, Moments) {
  Instant now = clock_.Now();
  EXPECT_EQ(MomentOf(now.boot_ns - 90'000'000'000, true, now).boot_ns, 10'000'000'000) << "an old message";
  EXPECT_EQ(MomentOf(now.boot_ns + 1, true, now), now);
}

TEST_F(LogReaderTest, ReadsTheOutputOfJournalctl) {
  std::string script =
      Script("echo \"$@\" >> " + folder_ + "/asked\necho '1699999999.250000 host kernel: hello'\nexec cat");
  auto reader = RunJournalctl(script, LogStart::kNow, clock_.Now());
  ASSERT_TRUE(reader.ok());
  EXPECT_THAT(ReadSoon(**reader), ElementsAre("hello"));
  EXPECT_EQ(at_.unix_ns, 1'699'999'999'250'000'000);
  auto arguments = ReadFile(folder_ + "/asked");
  EXPECT_THAT(*arguments, HasSubstr("--lines=0"));
}

TEST_F(LogReaderTest, AJournalctlThatEndsIsReportedAndRestartedLater) {
  auto reader = RunJournalctl(Script("exit 3"), LogStart::kNow, clock_.Now());
  ASSERT_TRUE(reader.ok());
  ReadSoon(**reader);
  ASSERT_FALSE(status_.ok());
  EXPECT_EQ(status_.code, Code::kUnavailable);
  EXPECT_THAT(status_.detail, HasSubstr("journalctl"));
  status_ = Ok();
  Read(**reader);
  EXPECT_FALSE(status_.ok()) << "not at once";
  clock_.Advance(std::chrono::minutes(1));
  Script("echo '1699999999.25 host kernel: again'\nexec cat");
  status_ = Ok();
  EXPECT_THAT(ReadSoon(**reader), ElementsAre("again"));
  EXPECT_EQ(RunJournalctl(folder_ + "/none", LogStart::kNow, clock_.Now()).error().code, Code::kUnavailable);
}

TEST(LineSplitter, PiecesAndEndlessLines) {
  LineSplitter lines;
  std::vector<std::string> seen;
  auto feed = [&](std::string_view bytes) {
    lines.Feed(bytes, [&](std::string_view line) { seen.emplace_back(line); });
  };
  feed("a");
  feed("b\n\nc\nd");
  EXPECT_THAT(seen, ElementsAre("ab", "", "c"));
  feed(std::string(LineSplitter::kMaxKept, 'x'));
  feed("more of it");
  EXPECT_EQ(lines.too_long(), 0u);
  feed("\nnext\n");
  EXPECT_EQ(lines.too_long(), 1u);
  EXPECT_EQ(seen.back(), "next");
  EXPECT_EQ(seen.size(), 4u);
}

TEST(PciBus, GpusWithThePortsAboveThemAndSwitches) {
  char name[] = "/tmp/gpulens-pci-XXXXXX";
  std::string root = ::mkdtemp(name);
  fs::create_directories(root + "/sys/bus/pci/devices");
  auto add = [&](const std::string& place, std::string_view vendor, std::string_view klass) {
    std::string folder = root + "/sys/devices/" + place;
    fs::create_directories(folder);
    std::ofstream(folder + "/vendor") << vendor << "\n";
    std::ofstream(folder + "/class") << klass << "\n";
    fs::create_directory_symlink("../../../devices/" + place,
                                 root + "/sys/bus/pci/devices/" + fs::path(place).filename().string());
  };
  add("pci0000:00/0000:00:01.0", "0x8086", "0x060400");
  add("pci0000:00/0000:00:01.0/0000:3b:00.0", "0x10de", "0x030200");
  add("pci0000:80/0000:86:00.0", "0x10de", "0x068000");
  fs::create_directories(root + "/sys/bus/pci/devices/not-an-address");
  auto bus = ReadPciBus(root);
  ASSERT_EQ(bus.size(), 3u);
  size_t gpus = 0, switches = 0;
  for (const PciDevice& device : bus) {
    switches += device.IsNvswitch();
    if (!device.IsGpu()) continue;
    ++gpus;
    EXPECT_EQ(device.address.ToString(), "0000:3b:00.0");
    ASSERT_EQ(device.ports.size(), 1u);
    EXPECT_EQ(device.ports[0].ToString(), "0000:00:01.0");
  }
  EXPECT_EQ(gpus, 1u);
  EXPECT_EQ(switches, 1u);
  EXPECT_TRUE(ReadPciBus(root + "/none").empty());
  fs::remove_all(root);
}

}  // namespace
}  // namespace gpulens::kernel_log
