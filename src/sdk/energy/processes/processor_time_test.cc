#include "sdk/energy/processes/processor_time.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/testing/temp_folder.h"

namespace gpulens::sdk {
namespace {

// A machine whose /proc is written by hand; the run is process 100.
class ProcessorTimeTest : public ::testing::Test {
 protected:
  void Busy(uint64_t ticks) {
    std::filesystem::create_directories(root_.path() + "/proc");
    const std::string line = " " + std::to_string(ticks) + " 0 0 99999 7 0 0 0 0 0\n";
    // In place: the file stays open, as the kernel's does.
    std::ofstream(root_.path() + "/proc/stat") << "cpu " + line + "cpu0" + line;
  }
  void Process(int pid, int parent, uint64_t own, uint64_t children = 0) {
    const std::string folder = "proc/" + std::to_string(pid);
    std::filesystem::create_directories(root_.path() + "/" + folder);
    root_.Write(folder + "/stat", std::to_string(pid) + " (x) S " + std::to_string(parent) +
                                      " 1 1 0 -1 0 0 0 0 0 " + std::to_string(own) + " 0 " +
                                      std::to_string(children) + " 0 20 0 1 0 " + std::to_string(1000 + pid) +
                                      " 4096 10 0 0 0 0 0 0 0 0 0 0 0\n");
  }
  void Ends(int pid) { std::filesystem::remove_all(root_.path() + "/proc/" + std::to_string(pid)); }
  double Own() {
    EnergyProcesses out;
    const Status status = time_.SinceLast(out);
    EXPECT_TRUE(status.ok()) << status.detail;
    EXPECT_TRUE(out.since_last);
    return out.list.size() == 2 && out.list[0].own ? out.list[0].utilization_ratio : -1;
  }

  testing::TempFolder root_;
  ProcessorTime time_{root_.path(), 100};
};

TEST_F(ProcessorTimeTest, IsTheFamilysShareOfBusyTime) {
  Busy(1000);
  Process(1, 0, 500);
  Process(100, 1, 10);
  Process(101, 100, 20);
  ASSERT_TRUE(time_.Open().ok());
  EXPECT_EQ(Own(), -1) << "nothing was busy since";
  Busy(1100);
  Process(1, 0, 540);
  Process(100, 1, 20);
  Process(101, 100, 60);
  EXPECT_DOUBLE_EQ(Own(), 0.5);
  Busy(1200);
  Process(1, 0, 640);
  EXPECT_DOUBLE_EQ(Own(), 0);
}

TEST_F(ProcessorTimeTest, CountsEndedProcessesOnce) {
  Busy(1000);
  Process(100, 1, 10);
  Process(101, 100, 20);
  ASSERT_TRUE(time_.Open().ok());
  // It used 20 more, ended, and its parent waited for it.
  Busy(1100);
  Ends(101);
  Process(100, 1, 10, 40);
  EXPECT_DOUBLE_EQ(Own(), 0.2);
  // A process that started and ended between two reads.
  Busy(1200);
  Process(100, 1, 10, 70);
  EXPECT_DOUBLE_EQ(Own(), 0.3);
}

TEST_F(ProcessorTimeTest, OrphansRemainMembers) {
  Busy(1000);
  Process(100, 1, 10);
  Process(101, 100, 10);
  Process(102, 101, 10);
  ASSERT_TRUE(time_.Open().ok());
  Busy(1100);
  Ends(101);
  Process(100, 1, 10, 10);
  Process(102, 1, 60);
  EXPECT_DOUBLE_EQ(Own(), 0.5);
  Busy(1200);
  Ends(102);  // init waits for it: what it had used is not taken back from others
  Process(100, 1, 50, 10);
  EXPECT_DOUBLE_EQ(Own(), 0.4);
}

}  // namespace
}  // namespace gpulens::sdk
