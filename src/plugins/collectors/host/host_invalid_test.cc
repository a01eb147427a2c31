// Overlays a good machine with each bad file of the readers' collection: only the series of that file may be
// missing, and no wrong value is exported.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "plugins/collectors/host/host_for_test.h"

namespace gpulens {
namespace {
namespace fs = std::filesystem;

const std::string kInvalid = GPULENS_SOURCE_DIR "/src/sources/host/testdata/invalid";

// Overlays the root with the files of `folder` during its lifetime.
class Overlay {
 public:
  Overlay(const FakeRoot& root, const fs::path& folder) : root_(root) {
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (!entry.is_regular_file()) continue;
      std::string file = fs::relative(entry.path(), folder).string();
      files_.push_back({file, root.Read(file), FirstNew(file)});
      root.Write(file, ReadFile(entry.path().string()).value_or(""));
    }
  }
  ~Overlay() {
    for (const File& file : files_) {
      if (file.first_new.empty()) root_.Write(file.name, file.text);
      else root_.Remove(file.first_new);
    }
  }

 private:
  struct File {
    std::string name, text, first_new;
  };
  // The topmost part of the path that was not there.
  std::string FirstNew(const std::string& file) const {
    fs::path at;
    for (const fs::path& part : fs::path(file)) {
      at /= part;
      if (!fs::exists(root_.path() / at)) return at.string();
    }
    return {};
  }
  const FakeRoot& root_;
  std::vector<File> files_;
};

// The series of the reader of this name (the text before the first underscore of a folder).
struct Feeds {
  std::string_view reader;
  std::vector<std::string_view> families;  // the first of them must lose a line
  // The good machine's numbers that the folder's own good files replace.
  std::string_view other = {};
};
const std::vector<Feeds>& AllFeeds() {
  static const auto& feeds = *new std::vector<Feeds>{
      {"stat",
       {"system_cpu_time", "system_cpu_logical_count", "system_cpu_frequency", "host_context_switches",
        "host_interrupts", "system_process_created"}},
      {"meminfo", {"system_memory", "host_memory", "system_paging_u"}},
      {"vmstat", {"system_paging_faults", "system_paging_operations", "host_memory_oom_kills"}},
      {"diskstats", {"system_disk", "host_disk"}},
      {"disksize", {"system_disk_limit"}},
      {"mountinfo", {"system_filesystem", "host_filesystem"}},
      {"netdev", {"system_network_io", "system_network_packet", "system_network_errors"}},
      {"snmp", {"host_network_tcp_retransmits", "system_network_connection_count"}},
      {"sockstat", {"system_network_connection_count"}},
      {"interface", {"host_network_speed"}},
      {"pressure", {"host_pressure"}},
      {"loadavg", {"system_cpu_load_average"}},
      {"uptime", {"system_uptime"}},
      {"filenr", {"host_file_descriptors"}},
      {"entropy", {"host_entropy"}},
      {"counts", {"system_process_count"}},
      {"cpulist", {"system_cpu_physical_count"}},
      {"frequency", {"system_cpu_frequency"}},
      {"node", {"host_numa"}, "host_numa"},
      {"hugepages", {"host_memory_hugepages"}},
      {"edac", {"host_memory_hardware_errors"}},
      {"hwmon", {"host_temperature"}},
      {"rapl", {"host_cpu_energy"}},
      {"rdma", {"host_rdma"}},
  };
  return feeds;
}

bool BeginsWithOneOf(std::string_view line, const std::vector<std::string_view>& starts) {
  return std::ranges::any_of(starts, [&](std::string_view start) { return line.starts_with(start); });
}

// Expects that only series of `feeds` are missing, and that none is new compared to the good machine.
void ExpectLoss(const std::set<std::string>& good, const std::set<std::string>& now, const Feeds& feeds) {
  bool lost = false;
  for (const std::string& line : good) {
    if (now.contains(line)) continue;
    EXPECT_TRUE(BeginsWithOneOf(line, feeds.families)) << "lost " << line;
    lost = lost || line.starts_with(feeds.families.front());
  }
  EXPECT_TRUE(lost) << "nothing is missing of " << feeds.families.front();
  for (const std::string& line : now) {
    if (!feeds.other.empty() && line.starts_with(feeds.other)) continue;
    EXPECT_TRUE(good.contains(line)) << "new " << line;
  }
}

TEST(HostInvalid, BadFileRemovesOnlyItsOwnSeries) {
  FakeRoot root;
  HostRun good(root.path(), FullConfig());
  ASSERT_TRUE(good.Collect().ok());
  const std::set<std::string> lines = good.Lines();
  size_t bad_files = 0;
  for (const auto& entry : fs::directory_iterator(kInvalid)) {
    std::string folder = entry.path().filename();
    SCOPED_TRACE(folder);
    Overlay overlay(root, entry.path());
    HostRun bad(root.path(), FullConfig());
    Status status = bad.Collect();
    auto feeds = std::ranges::find(AllFeeds(), folder.substr(0, folder.find('_')), &Feeds::reader);
    // "missing" folders are empty, missing energy is normal, and an unknown state has no number.
    bool silent = folder.ends_with("_missing") || folder == "rapl_no_energy" ||
                  folder == "rapl_zone_without_number" || folder == "rdma_phys_state_negative";
    if (feeds == AllFeeds().end() || silent) {
      EXPECT_EQ(bad.Lines(), lines);
      continue;
    }
    ++bad_files;
    EXPECT_TRUE(status.code == Code::kDataLoss || status.code == Code::kExhausted) << status.detail;
    ExpectLoss(lines, bad.Lines(), *feeds);
    // A failure shows at once, whatever the interval of its group. (A range is read once.)
    if (folder == "rapl_garbage_range") continue;
    EXPECT_EQ(bad.After(std::chrono::seconds(1)).code, status.code);
  }
  EXPECT_GT(bad_files, 120u);
}

struct Missing {
  std::string_view path;
  Feeds feeds;
  bool essential = false;
};

TEST(HostInvalid, MissingFileIsNotAFailure) {
  const Missing kCases[] = {
      {"proc/stat", AllFeeds()[0], true},
      {"proc/meminfo", AllFeeds()[1], true},
      {"proc/vmstat", {"", {"system_paging_faults", "system_paging_op", "host_memory_oom_kills"}}},
      {"proc/diskstats", {"", {"system_disk", "host_disk"}}},
      {"sys/block", {"", {"system_disk_limit"}}},
      {"proc/self/mountinfo", {"", {"system_filesystem", "host_filesystem"}}},
      {"proc/net/dev", {"", {"system_network_io", "system_network_packet", "system_network_errors"}}},
      {"proc/net/snmp", {"", {"host_network_tcp", "system_network_connection_count"}}},
      {"proc/net/sockstat", {"", {"system_network_connection_count"}}},
      {"sys/class/net", {"", {"host_network_up", "host_network_speed"}}},
      {"proc/pressure", {"", {"host_pressure"}}},
      {"proc/loadavg", {"", {"system_cpu_load_average"}}},
      {"proc/uptime", {"", {"system_uptime"}}},
      {"proc/sys/fs/file-nr", {"", {"host_file_descriptors"}}},
      {"proc/sys/kernel/random/entropy_avail", {"", {"host_entropy"}}},
      {"proc/sys/kernel/osrelease", {"", {"host_info"}}},
      {"sys/devices/system/cpu", {"", {"system_cpu_physical_count", "system_cpu_frequency"}}},
      {"sys/devices/system/node", {"", {"host_numa"}}},
      {"sys/devices/system/edac", {"", {"host_memory_hardware_errors"}}},
      {"sys/kernel/mm/hugepages", {"", {"host_memory_hugepages"}}},
      {"sys/class/hwmon", {"", {"host_temperature"}}},
      {"sys/class/powercap", {"", {"host_cpu_energy", "host_memory_energy"}}},
      {"sys/class/infiniband", {"", {"host_rdma"}}},
  };
  FakeRoot root;
  HostRun good(root.path(), FullConfig());
  ASSERT_TRUE(good.Collect().ok());
  const std::set<std::string> lines = good.Lines();
  for (const Missing& missing : kCases) {
    SCOPED_TRACE(missing.path);
    const fs::path there = root.path() / missing.path, aside = root.path() / "aside";
    fs::rename(there, aside);
    HostRun run(root.path(), FullConfig());
    Status status = run.Collect();
    fs::rename(aside, there);
    EXPECT_EQ(status.code, missing.essential ? Code::kUnavailable : Code::kOk) << status.detail;
    ExpectLoss(lines, run.Lines(), missing.feeds);
  }
}

TEST(HostInvalid, EmptyMachineHasNoSeries) {
  FakeRoot root;
  for (const char* folder : {"proc", "sys", "etc"}) root.Remove(folder);
  Config config = HostConfig();
  config.Set("root", root.path().string(), {});
  Env env;
  auto none = MakeHostCollector(config, env, {});
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, Code::kUnavailable);
  EXPECT_THAT(none.error().detail, testing::HasSubstr("neither proc nor sys below"));
  root.Write("proc/nothing", "");
  HostRun run(root.path(), FullConfig());
  EXPECT_EQ(run.Collect().code, Code::kUnavailable);
  // Only the clock and two counts of zero processes are left.
  for (const std::string& line : run.Lines()) {
    EXPECT_TRUE(line.starts_with("host_time_") || line.starts_with("system_process_count")) << line;
  }
  config.Set("root", std::string("/nowhere/at/all"), {});
  EXPECT_EQ(host_collector.create(config, env).error().code, Code::kUnavailable);
}

}  // namespace
}  // namespace gpulens
