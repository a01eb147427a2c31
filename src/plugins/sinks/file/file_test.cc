#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "base/files.h"
#include "base/testing/file_size_limit.h"
#include "export/names_testing.h"
#include "plugins/plugin.h"
#include "plugins/sinks/file/file.h"
#include "wire/json/json_snapshot.h"
#include "wire/json/json_testing.h"

namespace gpulens {
extern const SinkSpec file_sink;
namespace {

namespace fs = std::filesystem;
using json_testing::Gpu;
using json_testing::Json;
using json_testing::JsonReader;
using json_testing::MakeSnapshot;
using json_testing::TestSource;
using ::testing::HasSubstr;

constexpr MetricDesc kPower{.name = "gpu.power.draw", .unit = "W", .help = ""};

class FileTest : public ::testing::Test {
 protected:
  FileTest() {
    std::string pattern = ::testing::TempDir() + "/file_sink_XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    path_ = folder_ + "/m.jsonl";
  }
  ~FileTest() override { fs::remove_all(folder_); }

  static std::string Text(const std::string& path) { return ReadFile(path, 64 << 20).value_or("(none)"); }
  static void Make(const std::string& path, std::string_view text) {
    ASSERT_TRUE(WriteFileAtomically(path, text).ok());
  }
  LogFile::Options Plain() const {
    LogFile::Options options;
    options.path = path_;
    return options;
  }

  std::string folder_, path_;
  Instant now_ = ManualClock().Now();
};

TEST_F(FileTest, AppendsToAnExistingFile) {
  Make(path_, "{\"old\":1}\n");
  LogFile file(Plain());
  ASSERT_TRUE(file.Append("{\"a\":1}\n", now_).ok());
  ASSERT_TRUE(file.Append("", now_).ok());
  ASSERT_TRUE(file.Append("{\"a\":2}\n", now_).ok());
  EXPECT_EQ(Text(path_), "{\"old\":1}\n{\"a\":1}\n{\"a\":2}\n");
}

TEST_F(FileTest, IsReadableByOwnerAndGroupOnly) {
  mode_t before = ::umask(0);
  LogFile file(Plain());
  EXPECT_TRUE(file.Open(now_).ok());
  ::umask(before);
  struct stat info{};
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640u);
}

TEST_F(FileTest, CreatesNoFolder) {
  LogFile::Options options;
  options.path = folder_ + "/not/there.jsonl";
  LogFile file(options);
  Status status = file.Open(now_);
  EXPECT_EQ(status.code, Code::kUnavailable);
  EXPECT_THAT(status.detail, HasSubstr("the folder " + folder_ + "/not does not exist; create it first"));
  EXPECT_FALSE(fs::exists(folder_ + "/not"));
}

TEST_F(FileTest, RefusesOtherFileTypes) {
  ::symlink((folder_ + "/elsewhere").c_str(), path_.c_str());
  Status link = LogFile(Plain()).Open(now_);
  EXPECT_EQ(link.code, Code::kInvalidArgument);
  EXPECT_THAT(link.detail, HasSubstr("symbolic link"));
  EXPECT_FALSE(fs::exists(folder_ + "/elsewhere"));
  ::unlink(path_.c_str());

  ::mkfifo(path_.c_str(), 0600);
  EXPECT_THAT(LogFile(Plain()).Open(now_).detail, HasSubstr("not a regular file"));
  ::unlink(path_.c_str());

  ::mkdir(path_.c_str(), 0700);
  EXPECT_FALSE(LogFile(Plain()).Open(now_).ok());
  ::rmdir(path_.c_str());

  Make(path_, "root:x:0:0\n");
  EXPECT_THAT(LogFile(Plain()).Open(now_).detail, HasSubstr("does not contain JSON lines"));
  EXPECT_EQ(Text(path_), "root:x:0:0\n");
}

TEST_F(FileTest, RemovesATornLastLine) {
  Make(path_, "{\"a\":1}\n{\"b\":");
  ASSERT_TRUE(LogFile(Plain()).Append("{\"c\":1}\n", now_).ok());
  EXPECT_EQ(Text(path_), "{\"a\":1}\n{\"c\":1}\n");
  Make(path_, "{\"only");
  ASSERT_TRUE(LogFile(Plain()).Append("{\"c\":1}\n", now_).ok());
  EXPECT_EQ(Text(path_), "{\"c\":1}\n");
  Make(path_, "{\n{" + std::string(2 << 20, 'x'));
  EXPECT_EQ(LogFile(Plain()).Open(now_).code, Code::kDataLoss);
}

TEST_F(FileTest, RotatesBySizeAndKeepsTheConfiguredNumber) {
  auto options = Plain();
  options.rotate_size = 20;
  options.keep = 2;
  LogFile file(options);
  for (char c = 'a'; c <= 'e'; ++c)
    ASSERT_TRUE(file.Append("{\"line\":\"" + std::string(1, c) + "\"}\n", now_).ok());
  EXPECT_EQ(Text(path_), "{\"line\":\"e\"}\n");
  EXPECT_EQ(Text(path_ + ".1"), "{\"line\":\"d\"}\n");
  EXPECT_EQ(Text(path_ + ".2"), "{\"line\":\"c\"}\n");
  EXPECT_FALSE(fs::exists(path_ + ".3"));
  // A piece larger than the limit has a file of its own, and is not cut.
  std::string large = "{\"line\":\"" + std::string(50, 'f') + "\"}\n";
  ASSERT_TRUE(file.Append(large, now_).ok());
  EXPECT_EQ(Text(path_), large);
  EXPECT_EQ(Text(path_ + ".1"), "{\"line\":\"e\"}\n");
}

TEST_F(FileTest, RotatesByAgeAndKeepsNone) {
  auto options = Plain();
  options.rotate_age = std::chrono::hours(1);
  options.keep = 0;
  options.sync = SyncPolicy::kAlways;
  LogFile file(options);
  ASSERT_TRUE(file.Append("{\"a\":1}\n", now_).ok());
  ASSERT_TRUE(file.Append("{\"a\":2}\n", now_ + std::chrono::minutes(59)).ok());
  EXPECT_EQ(Text(path_), "{\"a\":1}\n{\"a\":2}\n");
  ASSERT_TRUE(file.Append("{\"a\":3}\n", now_ + std::chrono::minutes(60)).ok());
  EXPECT_EQ(Text(path_), "{\"a\":3}\n");
  EXPECT_FALSE(fs::exists(path_ + ".1"));
}

TEST_F(FileTest, ContinuesWhenItCannotRotate) {
  auto options = Plain();
  options.rotate_size = 10;
  options.keep = 1;
  LogFile file(options);
  ASSERT_TRUE(file.Append("{\"a\":1}\n", now_).ok());
  ASSERT_EQ(::mkdir((path_ + ".1").c_str(), 0700), 0);
  ASSERT_EQ(::mkdir((path_ + ".1/full").c_str(), 0700), 0);
  EXPECT_TRUE(file.Append("{\"a\":2}\n", now_).ok());
  EXPECT_EQ(Text(path_), "{\"a\":1}\n{\"a\":2}\n");
}

TEST_F(FileTest, FollowsTheNameWhenTheFileIsMovedAwayOrEmptied) {
  LogFile file(Plain());
  ASSERT_TRUE(file.Append("{\"a\":1}\n", now_).ok());
  fs::rename(path_, path_ + ".moved");
  ASSERT_TRUE(file.Append("{\"a\":2}\n", now_).ok());
  EXPECT_EQ(Text(path_ + ".moved"), "{\"a\":1}\n");
  EXPECT_EQ(Text(path_), "{\"a\":2}\n");
  fs::remove(path_);
  ASSERT_TRUE(file.Append("{\"a\":3}\n", now_).ok());
  EXPECT_EQ(Text(path_), "{\"a\":3}\n");
  fs::resize_file(path_, 0);
  ASSERT_TRUE(file.Append("{\"a\":4}\n", now_).ok());
  EXPECT_EQ(Text(path_), "{\"a\":4}\n");
}

TEST_F(FileTest, SurvivesAFullDisk) {
  LogFile file(Plain());
  std::string piece = "{\"x\":\"" + std::string(600, 'x') + "\"}\n";
  ASSERT_TRUE(file.Append(piece, now_).ok());
  {
    FileSizeLimit limit(1000);
    for (int i = 0; i < 3; ++i) {
      Status status = file.Append(piece, now_);
      EXPECT_EQ(status.code, Code::kExhausted) << status.detail;
      EXPECT_THAT(status.detail, HasSubstr(path_));
      EXPECT_EQ(Text(path_), piece);  // the part that fitted was taken back
    }
  }
  EXPECT_TRUE(file.Append(piece, now_).ok());
  EXPECT_EQ(Text(path_), piece + piece);
}

// Runs in a process of its own; 77: this machine does not let us mount.
int FillSmallFileSystem(const std::string& folder, LogFile::Options options, Instant now) {
  if (::unshare(CLONE_NEWNS) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return 77;
  ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
  if (::mount("none", folder.c_str(), "tmpfs", 0, "size=64k") != 0) return 77;
  LogFile file(std::move(options));
  std::string piece = "{\"x\":\"" + std::string(9000, 'x') + "\"}\n";
  int fitted = 0;
  Status status;
  while (fitted < 20 && (status = file.Append(piece, now)).ok()) ++fitted;
  if (fitted != 7 || status.code != Code::kExhausted) return 1;
  std::string text = ReadFile(folder + "/m.jsonl", 1 << 20).value_or("");
  if (text.size() != piece.size() * 7 || text.back() != '\n') return 2;
  fs::resize_file(folder + "/m.jsonl", piece.size());
  return file.Append(piece, now).ok() ? 0 : 3;
}

TEST_F(FileTest, SurvivesAFullFileSystem) {
  pid_t child = ::fork();
  if (child == 0) ::_exit(FillSmallFileSystem(folder_, Plain(), now_));
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "mounting a small file system is not allowed here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(FileTest, SyncsByItsPolicy) {
  auto options = Plain();
  options.sync = SyncPolicy::kInterval;
  LogFile file(options);
  EXPECT_TRUE(file.SyncNow().ok());  // nothing is open yet
  EXPECT_TRUE(file.Append("{}\n", now_).ok());
  EXPECT_TRUE(file.Append("{}\n", now_ + std::chrono::seconds(6)).ok());
  EXPECT_TRUE(file.SyncNow().ok());
}

TEST_F(FileTest, LinesHaveEachReadingOnce) {
  TestSource nvidia("nvidia");
  Series power0 = nvidia.table.Declare(kPower, Gpu(0));
  Series power1 = nvidia.table.Declare(kPower, Gpu(1));
  nvidia.writer.Begin(now_);
  nvidia.writer.Set(power0, 1.5);
  nvidia.writer.Set(power1, 2);
  auto entry = nvidia.Entry();
  auto snapshot = MakeSnapshot(1, now_, {entry});
  snapshot->resource = AttributeSet({{"host.name", "n1"}, {"gpu.index", int64_t{9}}});
  JsonLines lines;
  std::string out, again;
  lines.Append(*snapshot, out);
  lines.Append(*snapshot, again);
  EXPECT_EQ(out, again);  // it has not arrived
  EXPECT_EQ(
      out,
      "{\"ts\":\"2023-11-14T22:13:20.000Z\",\"name\":\"gpu.power.draw\",\"unit\":\"W\",\"source\":\"nvidia\","
      "\"attributes\":{\"gpu.index\":0,\"host.name\":\"n1\"},\"value\":1.5}\n"
      "{\"ts\":\"2023-11-14T22:13:20.000Z\",\"name\":\"gpu.power.draw\",\"unit\":\"W\",\"source\":\"nvidia\","
      "\"attributes\":{\"gpu.index\":1,\"host.name\":\"n1\"},\"value\":2}\n");
  lines.Commit();
  again.clear();
  lines.Append(*snapshot, again);
  EXPECT_EQ(again, "");
  lines.Commit();
  nvidia.writer.Begin(now_ + std::chrono::seconds(1));
  nvidia.writer.Set(power1, 3);  // the other is stale now
  auto next = MakeSnapshot(2, now_, {nvidia.Entry()});
  next->resource = AttributeSet({{"host.name", "n2"}});
  again.clear();
  lines.Append(*next, again);
  auto json = JsonReader::Read(again.substr(0, again.size() - 1));
  ASSERT_TRUE(json.has_value()) << again;
  EXPECT_EQ((*json)["value"].text, "3");
  EXPECT_EQ((*json)["attributes"]["host.name"].text, "n2");
}

TEST_F(FileTest, LinesHaveTheNamesOfTheSink) {
  TestSource nvidia("nvidia");
  Series power = nvidia.table.Declare(kPower, Gpu(3));
  nvidia.writer.Begin(now_);
  nvidia.writer.Set(power, 612.5);
  auto snapshot = MakeSnapshot(1, now_, {nvidia.Entry()});
  Config config;
  testing::SetNames(config, {"native", "dcgm"});
  config.Set("exclude", std::vector<std::string>{"gpu.power.*"}, {});
  JsonLines nothing(SinkNames(config).namer(NameForm::kOtel));
  std::string out;
  nothing.Append(*snapshot, out);
  EXPECT_EQ(out, "");
  testing::SetNames(config);
  config.Set("rename", std::map<std::string, std::string>{{"gpu.uuid", "uuid"}}, {});
  config.Set(kAttributesKey, std::map<std::string, std::string>{{"cluster", "c"}}, {});
  JsonLines lines(SinkNames(config).namer(NameForm::kOtel));
  lines.Append(*snapshot, out);
  EXPECT_EQ(
      out,
      "{\"ts\":\"2023-11-14T22:13:20.000Z\",\"name\":\"gpu.power.draw\",\"unit\":\"W\",\"source\":\"nvidia\","
      "\"attributes\":{\"cluster\":\"c\",\"gpu.index\":3},\"value\":612.5}\n");
}

class FileSinkTest : public FileTest {
 protected:
  Config Options(const std::string& path) {
    Config config;
    testing::SetNames(config);
    config.Set("path", path, {});
    config.Set("format", format_, {});
    config.Set("rotate_size", int64_t{0}, {});
    config.Set("rotate_age", Duration(0), {});
    config.Set("keep", int64_t{5}, {});
    config.Set("fsync", sync_, {});
    config.Set("fsync_interval", Duration(std::chrono::seconds(5)), {});
    return config;
  }
  std::string sync_ = "interval", format_ = "records";
  Env env_;
};

TEST_F(FileSinkTest, OtlpJsonHasARequestInEachLine) {
  format_ = "otlp_json";
  auto sink = file_sink.create(Options(path_), env_);
  ASSERT_TRUE(sink.ok()) << sink.error().detail;
  TestSource nvidia("nvidia");
  Series power = nvidia.table.Declare(kPower, Gpu(3));
  nvidia.writer.Begin(now_);
  nvidia.writer.Set(power, 612.5);
  auto snapshot = MakeSnapshot(1, now_, {nvidia.Entry()});
  EXPECT_TRUE((*sink)->Write(*snapshot).ok());
  EXPECT_TRUE((*sink)->Write(*snapshot).ok()) << "nothing is new, so there is no second line";
  Events events;
  EXPECT_TRUE((*sink)->Write(events).ok());
  events.list.push_back({now_, "gpu.xid", nullptr, {}, "fell off the bus", EventSeverity::kError});
  EXPECT_TRUE((*sink)->Write(events).ok());
  sink->reset();
  const std::string text = *ReadFile(path_);
  const size_t end = text.find('\n');
  ASSERT_NE(end, text.npos);
  auto metrics = JsonReader::Read(text.substr(0, end));
  ASSERT_TRUE(metrics.has_value()) << text;
  EXPECT_NE(text.find("{\"resourceMetrics\":["), text.npos);
  EXPECT_NE(text.find("\"name\":\"gpu.power.draw\""), text.npos);
  EXPECT_NE(text.find("\"asDouble\":612.5"), text.npos);
  const std::string second = text.substr(end + 1);
  EXPECT_EQ(second.find("{\"resourceLogs\":["), 0u) << second;
  EXPECT_NE(second.find("fell off the bus"), text.npos);
  EXPECT_EQ(second.find('\n'), second.size() - 1);
}

TEST_F(FileSinkTest, WritesTicksAndContinuesAfterAFullDisk) {
  auto sink = file_sink.create(Options(path_), env_);
  ASSERT_TRUE(sink.ok()) << sink.error().detail;
  TestSource nvidia("nvidia");
  Series power = nvidia.table.Declare(kPower, Gpu(0));
  auto tick = [&](int64_t second) {
    nvidia.writer.Begin(now_ + std::chrono::seconds(second));
    nvidia.writer.Set(power, second);
    return MakeSnapshot(static_cast<uint64_t>(second), now_, {nvidia.Entry()});
  };
  EXPECT_TRUE((*sink)->Write(*tick(1)).ok());
  auto second = tick(2);
  {
    FileSizeLimit limit(200);
    EXPECT_EQ((*sink)->Write(*second).code, Code::kExhausted);
  }
  EXPECT_TRUE((*sink)->Write(*second).ok());  // what was not written is written again
  EXPECT_TRUE((*sink)->Flush(now_).ok());
  std::string text = Text(path_);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  EXPECT_THAT(text, HasSubstr("\"value\":2}"));
}

TEST_F(FileSinkTest, WritesEventsBetweenTheReadings) {
  auto sink = file_sink.create(Options(path_), env_);
  ASSERT_TRUE(sink.ok());
  Events events;
  events.resource = AttributeSet({{"host.name", "n1"}});
  events.list.resize(2);
  events.list[0].name = "gpu.xid";
  events.list[0].entity = MakeRef<Entity>("gpu", AttributeSet({{"gpu.index", int64_t{3}}}));
  events.list[0].severity = EventSeverity::kFatal;
  events.list[1].name = "host.oom_kill";
  ASSERT_TRUE((*sink)->Write(events).ok());
  std::string text = Text(path_);
  ASSERT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  auto first = JsonReader::Read(text.substr(0, text.find('\n')));
  ASSERT_TRUE(first);
  EXPECT_EQ((*first)["type"].text, "event");
  EXPECT_EQ((*first)["severity"].text, "fatal");
  EXPECT_EQ((*first)["resource"]["host.name"].text, "n1");
  FileSizeLimit limit(text.size() + 10);
  EXPECT_EQ((*sink)->Write(events).code, Code::kExhausted);
  EXPECT_EQ(Text(path_), text) << "no half line";
}

TEST_F(FileSinkTest, IsNotCreatedWithoutAPath) {
  EXPECT_EQ(file_sink.create(Options(""), env_).error().code, Code::kInvalidArgument);
  EXPECT_EQ(file_sink.create(Options(folder_ + "/no/x"), env_).error().code, Code::kUnavailable);
  sync_ = "always";
  EXPECT_TRUE(file_sink.create(Options(path_), env_).ok());
  sync_ = "none";
  auto sink = file_sink.create(Options(path_), env_);
  ASSERT_TRUE(sink.ok());
  EXPECT_TRUE((*sink)->Flush(now_).ok());
  EXPECT_TRUE(file_sink.threaded);
  EXPECT_FALSE(file_sink.on_by_default);
}

}  // namespace
}  // namespace gpulens
