#include "store/incident_store.h"

#include <poll.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/testing/temp_folder.h"
#include "store/sqlite/hostile_file_testing.h"

namespace gpulens {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class StoreTest : public ::testing::Test {
 protected:
  StoreTest() {
    char name[] = "/tmp/gpulens-store-XXXXXX";
    folder_ = ::mkdtemp(name);
    path_ = folder_ + "/state/incidents.db";
  }
  ~StoreTest() override { fs::remove_all(folder_); }

  std::unique_ptr<IncidentStore> Open(bool read_only = false, uint64_t max_bytes = 64 << 20) {
    auto store = IncidentStore::Open({.path = path_, .max_bytes = max_bytes, .read_only = read_only});
    EXPECT_TRUE(store.ok()) << store.error().detail;
    return store ? *std::move(store) : nullptr;
  }
  static Incident Xid(int64_t unix_ns, int64_t gpu = 3) {
    Incident row;
    row.unix_ns = unix_ns;
    row.name = "gpu.xid";
    row.severity = EventSeverity::kFatal;
    row.gpu_index = gpu;
    row.gpu_uuid = "GPU-" + std::to_string(gpu) + "-abc";
    row.body = "NVRM: Xid";
    row.attributes = "{\"gpu.xid.code\":79}";
    row.readings = "{\"columns\":[]}";
    return row;
  }

  std::string folder_, path_;
};

TEST_F(StoreTest, FindsAddedIncidents) {
  auto store = Open();
  ASSERT_TRUE(store->Add(Xid(1000)));
  Incident bare;
  bare.unix_ns = 2000;
  bare.name = "host.oom_kill";
  bare.body = std::string("nul\0 inside", 11);
  bare.attributes = "{}";
  ASSERT_TRUE(store->Add(bare));
  auto all = store->Find({.gpu_index = {}, .gpu_uuid = {}, .name = {}, .readings = true});
  ASSERT_TRUE(all.ok());
  ASSERT_EQ(all->size(), 2u);
  EXPECT_EQ((*all)[0].gpu_index, 3);
  EXPECT_EQ((*all)[0].severity, EventSeverity::kFatal);
  EXPECT_EQ((*all)[0].readings, "{\"columns\":[]}");
  EXPECT_EQ((*all)[1].gpu_index, std::nullopt);
  EXPECT_EQ((*all)[1].body, bare.body);
  EXPECT_GT(store->bytes(), 0u);
}

TEST_F(StoreTest, IsNotForEverybody) {
  mode_t before = ::umask(0);
  auto store = Open();
  ASSERT_TRUE(store->Add(Xid(1)));
  ::umask(before);
  for (const char* suffix : {"", "-wal", "-shm"}) {
    struct stat file{};
    ASSERT_EQ(::stat((path_ + suffix).c_str(), &file), 0) << suffix;
    EXPECT_EQ(file.st_mode & 0777, 0640u) << suffix;
  }
}

// systemd's DynamicUser makes the state folder a link.
TEST_F(StoreTest, TheFolderMayBeALinkTheFileMayNot) {
  fs::create_directories(folder_ + "/private");
  fs::create_directory_symlink("private", folder_ + "/state");
  ASSERT_TRUE(Open()->Add(Xid(1)));
  EXPECT_TRUE(fs::exists(folder_ + "/private/incidents.db"));
  fs::create_symlink("/etc/passwd", folder_ + "/private/other.db");
  EXPECT_FALSE(IncidentStore::Open({.path = folder_ + "/state/other.db"}).ok());
}

TEST_F(StoreTest, Filters) {
  auto store = Open();
  for (int64_t i = 1; i <= 5; ++i) ASSERT_TRUE(store->Add(Xid(i * 1000, i % 2)));
  auto count = [&](IncidentStore::Filter filter) { return store->Find(filter)->size(); };
  EXPECT_EQ(count({.since_unix_ns = 3000, .gpu_index = {}, .gpu_uuid = {}, .name = {}}), 3u);
  EXPECT_EQ(count({.gpu_index = 1, .gpu_uuid = {}, .name = {}}), 3u);
  EXPECT_EQ(count({.gpu_index = {}, .gpu_uuid = "GPU-0", .name = {}}), 2u);
  EXPECT_EQ(count({.gpu_index = {}, .gpu_uuid = "%", .name = {}}), 0u) << "no pattern";
  EXPECT_EQ(count({.gpu_index = {}, .gpu_uuid = {}, .name = "gpu.lost"}), 0u);
  auto newest = store->Find({.gpu_index = {}, .gpu_uuid = {}, .name = {}, .limit = 2});
  ASSERT_EQ(newest->size(), 2u);
  EXPECT_EQ(newest->front().unix_ns, 4000) << "the newest, oldest first";
  EXPECT_TRUE(newest->front().readings.empty()) << "only when asked for";
}

TEST_F(StoreTest, ComesInTheOrderOfTime) {
  auto store = Open();
  // Incidents are not added in the order of time: a health state is reported before the XID that caused it.
  for (int64_t at : {3000, 1000, 2000}) ASSERT_TRUE(store->Add(Xid(at)));
  auto all = store->Find({.gpu_index = {}, .gpu_uuid = {}, .name = {}, .limit = 2});
  ASSERT_TRUE(all.ok());
  ASSERT_EQ(all->size(), 2u);
  EXPECT_EQ((*all)[0].unix_ns, 2000);
  EXPECT_EQ((*all)[1].unix_ns, 3000);
}

TEST_F(StoreTest, AFileWithoutItsTableIsEmpty) {
  ASSERT_TRUE(MakeFoldersAbove(path_));
  sqlite3* made = nullptr;
  ASSERT_EQ(::sqlite3_open(path_.c_str(), &made), SQLITE_OK);
  ASSERT_EQ(::sqlite3_exec(made, "PRAGMA journal_mode=WAL", nullptr, nullptr, nullptr), SQLITE_OK);
  ::sqlite3_close(made);
  auto store = Open(true);
  ASSERT_TRUE(store);
  auto all = store->Find({.gpu_index = {}, .gpu_uuid = {}, .name = {}});
  ASSERT_TRUE(all.ok()) << all.error().detail;
  EXPECT_TRUE(all->empty());
}

TEST_F(StoreTest, OthersReadWhileItIsWritten) {
  auto writer = Open();
  ASSERT_TRUE(writer->Add(Xid(1000)));
  auto reader = Open(true);
  for (int64_t i = 2; i < 50; ++i) {
    ASSERT_TRUE(writer->Add(Xid(i * 1000)));
    EXPECT_EQ(reader->Find({.gpu_index = {}, .gpu_uuid = {}, .name = {}})->size(), static_cast<size_t>(i));
  }
}

TEST_F(StoreTest, TheOldestGoWhenItIsFull) {
  auto store = Open(false, 256 << 10);
  Incident large = Xid(0);
  large.readings = std::string(4096, 'x');
  for (int64_t i = 1; i <= 500; ++i) {
    large.unix_ns = i;
    ASSERT_TRUE(store->Add(large));
  }
  auto rows = store->Find({.gpu_index = {}, .gpu_uuid = {}, .name = {}});
  ASSERT_FALSE(rows->empty());
  EXPECT_LT(rows->size(), 100u);
  EXPECT_EQ(rows->back().unix_ns, 500) << "the newest is always there";
  store.reset();
  EXPECT_LT(fs::file_size(path_), 512u << 10);
}

TEST_F(StoreTest, ABrokenFileIsMovedAside) {
  fs::create_directories(folder_ + "/state");
  ASSERT_TRUE(WriteFileAtomically(path_, std::string(8192, 'x')));
  auto store = Open();
  ASSERT_TRUE(store);
  ASSERT_TRUE(store->Add(Xid(1000)));
  EXPECT_TRUE(fs::exists(path_ + ".broken"));
}

TEST_F(StoreTest, ANewerProgramsFileIsLeftAlone) {
  {
    auto store = Open();
  }
  sqlite3* raw = nullptr;
  ASSERT_EQ(::sqlite3_open(path_.c_str(), &raw), SQLITE_OK);
  ASSERT_EQ(::sqlite3_exec(raw, "PRAGMA user_version=99", nullptr, nullptr, nullptr), SQLITE_OK);
  ::sqlite3_close(raw);
  auto store = IncidentStore::Open({.path = path_});
  ASSERT_FALSE(store.ok());
  EXPECT_EQ(store.error().code, Code::kUnavailable);
  EXPECT_THAT(store.error().detail, HasSubstr("newer gpulens"));
}

TEST_F(StoreTest, FailuresNameTheirCause) {
  auto absent = IncidentStore::Open({.path = path_, .read_only = true});
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.error().code, Code::kUnavailable);
  ASSERT_TRUE(WriteFileAtomically(folder_ + "/file", "x"));
  auto below_a_file = IncidentStore::Open({.path = folder_ + "/file/incidents.db"});
  ASSERT_FALSE(below_a_file.ok());
  EXPECT_FALSE(below_a_file.error().detail.empty());
}

// A child writes rows and reports each committed one; it is killed in the middle.
TEST_F(StoreTest, NothingCommittedIsLostByAKill) {
  for (int round = 0; round < 3; ++round) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::close(ends[0]);
      auto store = IncidentStore::Open({.path = path_});
      if (!store) ::_exit(3);
      for (char i = 1;; ++i) {
        if (!(*store)->Add(Xid(1000)) || ::write(ends[1], &i, 1) != 1) ::_exit(4);
      }
    }
    ::close(ends[1]);
    size_t reported = 0;
    char byte = 0;
    while (reported < 20 && ::read(ends[0], &byte, 1) == 1) ++reported;
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    while (::read(ends[0], &byte, 1) == 1) ++reported;
    ::close(ends[0]);
    ASSERT_GE(reported, 20u);
    static size_t before = 0;
    auto rows = Open(true)->Find({.gpu_index = {}, .gpu_uuid = {}, .name = {}});
    ASSERT_TRUE(rows.ok()) << rows.error().detail;
    EXPECT_GE(rows->size(), before + reported);
    before = rows->size();
  }
  EXPECT_TRUE(Open()->Add(Xid(2000)).ok()) << "and it goes on";
}

TEST_F(StoreTest, TheWriterOpensTheFileWithTheFirstIncidentAndWritesAllBeforeItEnds) {
  {
    IncidentWriter writer({.path = path_}, RealClock());
    EXPECT_FALSE(fs::exists(path_));
    for (int64_t i = 1; i <= 10; ++i) writer.Add(Xid(i));
  }
  EXPECT_EQ(Open(true)->Find({.gpu_index = {}, .gpu_uuid = {}, .name = {}})->size(), 10u);
}

TEST_F(StoreTest, WithoutAFolderTheWriterCountsErrorsAndGoesOn) {
  ASSERT_TRUE(WriteFileAtomically(folder_ + "/file", "x"));
  IncidentWriter writer({.path = folder_ + "/file/incidents.db"}, RealClock());
  writer.Add(Xid(1));
  writer.Add(Xid(2));
  for (int i = 0; i < 20'000 && writer.stats().errors < 2; ++i) ::poll(nullptr, 0, 1);
  EXPECT_EQ(writer.stats().errors, 2u);
  EXPECT_EQ(writer.stats().ok, 0u);
}

TEST(Incident, OfAnEvent) {
  Event event;
  event.at = {5, 7};
  event.name = "gpu.xid";
  event.body = "b";
  event.severity = EventSeverity::kError;
  event.entity = MakeRef<Entity>(
      "gpu", AttributeSet({{"gpu.index", int64_t{2}}, {"gpu.uuid", std::string_view("GPU-x")}}));
  event.attributes = AttributeSet({{"gpu.xid.code", int64_t{79}}});
  Incident row = MakeIncident(event);
  EXPECT_EQ(row.unix_ns, 7);
  EXPECT_EQ(row.gpu_index, 2);
  EXPECT_EQ(row.gpu_uuid, "GPU-x");
  EXPECT_EQ(row.attributes, "{\"gpu.index\":2,\"gpu.uuid\":\"GPU-x\",\"gpu.xid.code\":79}");
}

// Rows of a few pages that are each other's children, each with the same large text.
TEST(Incident, AnEndlessFileEndsAtABound) {
  gpulens::testing::TempFolder folder;
  const std::string path = folder.path() + "/incidents.db";
  {
    auto store = IncidentStore::Open({.path = path});
    Incident row;
    row.name = "gpu.xid", row.body = std::string(1000, 'x');
    ASSERT_TRUE((*store)->Add(row));
  }
  {
    auto database = sqlite::Database::Open({.path = path});
    ASSERT_TRUE(database->Run("DROP INDEX incidents_by_time; PRAGMA journal_mode=DELETE"));
  }
  sqlite::FileBytes file(sqlite::ReadWhole(path));
  file.MakeEndless(2, 7);
  sqlite::WriteWhole(path, file.bytes());
  auto store =
      IncidentStore::Open({.path = path, .read_only = true, .longest = std::chrono::milliseconds(100)});
  ASSERT_TRUE(store) << store.error().detail;
  EXPECT_EQ((*store)->Find({.gpu_index = {}, .gpu_uuid = {}, .name = {}}).status().code, Code::kTimeout);
}

TEST(Incident, ReadingsAsJson) {
  EXPECT_EQ(ReadingsJson({}), "");
  IncidentReadings readings;
  readings.columns = {{"gpu.power.draw", "W", {}},
                      {"gpu.temperature", "Cel", {{"gpu.temperature.sensor", "edge"}}}};
  readings.samples = {{-29.5004, {612.5, std::nan("")}}, {0, {1, 70}}};
  EXPECT_EQ(
      ReadingsJson(readings),
      "{\"columns\":[{\"name\":\"gpu.power.draw\",\"unit\":\"W\"},{\"name\":\"gpu.temperature\",\"unit\":"
      "\"Cel\",\"attributes\":{\"gpu.temperature.sensor\":\"edge\"}}],\"samples\":[[-29.5,612.5,null],"
      "[0,1,70]]}");
}

}  // namespace
}  // namespace gpulens
