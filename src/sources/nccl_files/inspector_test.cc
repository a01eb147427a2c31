#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <set>
#include <thread>

#include "base/files.h"
#include "base/testing/temp_folder.h"
#include "sources/nccl_files/inspector_files.h"
#include "sources/nccl_files/inspector_line.h"

namespace gpulens::nccl_files {
namespace {

using job_page::Function;

std::string Line(int rank, int64_t sequence, int64_t took_us = 100) {
  return R"({"header":{"id":"0x7f8c496ae9f661","comm_name":"DP Group 0","rank":)" + std::to_string(rank) +
         R"(,"n_ranks":8,"nnodes":1},"metadata":{"inspector_output_format_version":"v4.0","git_rev":"",)"
         R"("rec_mechanism":"nccl_profiler_interface","dump_timestamp_us":1748030377748202,"hostname":"h","pid":42},)"
         R"("coll_perf":{"coll":"AllReduce","coll_sn":)" +
         std::to_string(sequence) + R"(,"coll_msg_size_bytes":1024,"coll_exec_time_us":)" +
         std::to_string(took_us) +
         R"(,"coll_timing_source":"kernel_gpu","coll_algobw_gbs":277.5,"coll_busbw_gbs":"nan"}})";
}

TEST(InspectorLine, ReadsACollective) {
  const auto line = ParseInspectorLine(Line(2, 1407));
  ASSERT_TRUE(line.ok()) << line.status().detail;
  const InspectorRecord* record = &line->record;
  EXPECT_EQ(record->communicator, 0x7f8c496ae9f661u);
  EXPECT_EQ(record->communicator_name, "DP Group 0");
  EXPECT_EQ(record->rank, 2);
  EXPECT_EQ(record->ranks, 8);
  EXPECT_EQ(record->function, Function::kAllReduce);
  EXPECT_EQ(record->sequence, 1407);
  EXPECT_EQ(record->bytes, 1024);
  EXPECT_EQ(record->duration_us, 100);
  EXPECT_EQ(record->timing, TimingSource::kKernelGpu);
  EXPECT_EQ(record->bandwidth, 277.5e9);
  EXPECT_TRUE(std::isnan(record->bus_bandwidth));
  EXPECT_EQ(record->pid, 42);
  EXPECT_EQ(record->host, "h");
  EXPECT_FALSE(record->point_to_point);
}

TEST(InspectorLine, ReadsPointToPointAndFlatLines) {
  const auto sending = ParseInspectorLine(
      R"({"header":{"id":"0x1","rank":0,"n_ranks":2},"p2p_perf":{"p2p":"Send","p2p_sn":3,"p2p_peer":1,)"
      R"("p2p_msg_size_bytes":4096,"p2p_exec_time_us":10,"p2p_algobw_gbs":0.5,"p2p_busbw_gbs":0.5}})");
  ASSERT_TRUE(sending.ok());
  const InspectorRecord* sent = &sending->record;
  EXPECT_TRUE(sent->point_to_point);
  EXPECT_EQ(sent->function, Function::kSend);
  EXPECT_EQ(sent->peer, 1);
  EXPECT_EQ(sent->bytes, 4096);
  const auto flat_line = ParseInspectorLine(
      R"({"collective":"AllGather","rank":3,"size":10,"alg_bw":1,"bus_bw":2,"time_ms":1.5})");
  ASSERT_TRUE(flat_line.ok());
  const InspectorRecord* flat = &flat_line->record;
  EXPECT_EQ(flat->function, Function::kAllGather);
  EXPECT_EQ(flat->rank, 3);
  EXPECT_EQ(flat->duration_us, 1500);
  EXPECT_EQ(flat->communicator, 0u);
}

constexpr std::string_view kMarker =
    R"({"header":{"id":"0xab","comm_name":"tp","rank":2,"n_ranks":8,"nnodes":1},"metadata":{)"
    R"("inspector_output_format_version":"v4.4","dump_timestamp_us":7,"hostname":"h","pid":42},"dump_stats":{)"
    R"("coll_records":1,"coll_dropped_total":99,"coll_dropped_since_last_dump":5,"p2p_dropped_since_last_dump":1}})";
constexpr std::string_view kOfMarker =
    R"({"coll_perf":{"coll":"AlltoAll","coll_algo":"RING","coll_sn":3,"coll_exec_time_us":10,)"
    R"("coll_timing_source":"kernel_gpu","coll_algobw_gbs":1.5,"coll_busbw_gbs":0}})";

TEST(InspectorLine, AnOperationWithoutHeaderIsOfTheMarkerBeforeIt) {
  const auto marker = ParseInspectorLine(kMarker);
  ASSERT_TRUE(marker.ok()) << marker.status().detail;
  EXPECT_EQ(marker->kind, InspectorLine::Kind::kMarker);
  EXPECT_EQ(marker->overwritten, 6u);
  const auto line = ParseInspectorLine(kOfMarker, &marker->record);
  ASSERT_TRUE(line.ok());
  EXPECT_EQ(line->kind, InspectorLine::Kind::kOperation);
  EXPECT_EQ(line->record.communicator, 0xabu);
  EXPECT_EQ(line->record.communicator_name, "tp");
  EXPECT_EQ(line->record.rank, 2);
  EXPECT_EQ(line->record.ranks, 8);
  EXPECT_EQ(line->record.host, "h");
  EXPECT_EQ(line->record.pid, 42);
  EXPECT_EQ(line->record.dumped_unix_us, 7);
  EXPECT_EQ(line->record.sequence, 3);
  // Inspector's 0 for an operation without a rule.
  EXPECT_TRUE(std::isnan(line->record.bus_bandwidth));
  EXPECT_FALSE(ParseInspectorLine(kOfMarker).ok());
  // Its own header counts.
  EXPECT_EQ(ParseInspectorLine(Line(5, 1), &marker->record)->record.rank, 5);
  EXPECT_EQ(ParseInspectorLine(R"({"proxy_trace":{"record_type":"proxy_op","rank":1}})")->kind,
            InspectorLine::Kind::kUnused);
}

TEST(InspectorLine, RefusesWhatIsNone) {
  for (const char* bad :
       {"", "[]", "{}", "{\"header\":{\"rank\":0}}", "nonsense", "{\"coll_perf\":{\"coll\":7}}",
        "{\"header\":{\"rank\":9,\"n_ranks\":8},\"coll_perf\":{\"coll\":\"AllReduce\"}}",
        "{\"dump_stats\":{}}", "{\"coll_perf\":{\"coll\":\"AllReduce\"}}",
        "{\"header\":{\"rank\":-3},\"coll_perf\":{\"coll\":\"AllReduce\"}}"})
    EXPECT_FALSE(ParseInspectorLine(bad).ok()) << bad;
  EXPECT_FALSE(ParseInspectorLine(std::string(kLongestLine + 1, ' ')).ok());
}

class InspectorFilesTest : public ::testing::Test {
 protected:
  void Append(const std::string& path, const std::string& text) {
    UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    ASSERT_EQ(::write(fd.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  std::vector<int64_t> Poll(InspectorFiles& files) {
    std::vector<int64_t> got;
    now_ = now_ + std::chrono::seconds(1);
    last_ = files.Poll(
        now_, [&](InspectorRecord&& record) { got.push_back(record.sequence); },
        [&](const InspectorPage& page) {
          pages_.push_back(std::string(page.gpu_uuid) + "=" + std::string(page.text));
        });
    std::ranges::sort(got);
    return got;
  }
  using Numbers = std::vector<int64_t>;

  testing::TempFolder folder_;
  const std::string path_ = folder_.path() + "/host-pid42.log";
  Instant now_{1'000'000'000, 0};
  Status last_;
  std::vector<std::string> pages_;
};

TEST_F(InspectorFilesTest, BeginsAtTheEndAndReadsNewFilesWhole) {
  Append(path_, Line(0, 1) + "\n" + Line(0, 2).substr(0, 50));
  InspectorFiles files({.places = {folder_.path()}});
  EXPECT_EQ(Poll(files), Numbers{});
  Append(path_, Line(0, 2).substr(50) + "\n" + Line(0, 3) + "\n");
  EXPECT_EQ(Poll(files), Numbers{3});
  Append(folder_.path() + "/host-pid43.log", Line(1, 7) + "\n");
  Append(folder_.path() + "/other.txt", Line(1, 8) + "\n");
  EXPECT_EQ(Poll(files), Numbers{7});
  EXPECT_EQ(files.counts().files, 2u);
  EXPECT_EQ(files.counts().invalid, 0u);
}

TEST_F(InspectorFilesTest, KeepsHalfLines) {
  InspectorFiles files({.places = {path_}, .from_start = true});
  EXPECT_EQ(Poll(files), Numbers{});
  EXPECT_EQ(last_.code, Code::kUnavailable);
  const std::string line = Line(0, 1) + "\n";
  for (size_t i = 0; i < line.size(); i += 100) {
    Append(path_, line.substr(i, 100));
    EXPECT_EQ(Poll(files), i + 100 < line.size() ? Numbers{} : Numbers{1});
  }
}

TEST_F(InspectorFilesTest, FollowsRotationAndCuts) {
  InspectorFiles files({.places = {path_}, .from_start = true});
  Append(path_, Line(0, 1) + "\n");
  EXPECT_EQ(Poll(files), Numbers{1});
  // What is written before and after the rename, and the new file.
  Append(path_, Line(0, 2) + "\n");
  std::filesystem::rename(path_, path_ + ".1");
  Append(path_ + ".1", Line(0, 3) + "\n");
  Append(path_, Line(0, 4) + "\n");
  EXPECT_EQ(Poll(files), (Numbers{2, 3, 4}));
  Append(path_ + ".1", Line(0, 5) + "\n");
  EXPECT_EQ(Poll(files), Numbers{5});
  ASSERT_EQ(::truncate(path_.c_str(), 0), 0);
  EXPECT_EQ(Poll(files), Numbers{});
  Append(path_, Line(0, 6) + "\n");
  EXPECT_EQ(Poll(files), Numbers{6});
  EXPECT_EQ(files.counts().cut, 1u);
  // Cut, and grown again to the same size.
  ASSERT_EQ(::truncate(path_.c_str(), 0), 0);
  Append(path_, Line(0, 7) + "\n");
  EXPECT_EQ(Poll(files), Numbers{7});
  EXPECT_EQ(files.counts().cut, 2u);
  std::filesystem::remove(path_ + ".1");
  EXPECT_EQ(Poll(files), Numbers{});
  EXPECT_EQ(files.counts().files, 1u);
}

TEST_F(InspectorFilesTest, SkipsWhatIsTooLongOrNoLine) {
  InspectorFiles files({.places = {path_}, .from_start = true});
  Append(path_, std::string(3 * kLongestLine, 'x'));
  EXPECT_EQ(Poll(files), Numbers{});
  Append(path_, "xxx\n\nnonsense\n" + Line(0, 9) + "\r\n");
  EXPECT_EQ(Poll(files), Numbers{9});
  EXPECT_EQ(files.counts().invalid, 2u);
}

TEST_F(InspectorFilesTest, NeitherFollowsDevicesNorMoreThanItsLimit) {
  ASSERT_EQ(::mkfifo((folder_.path() + "/a.log").c_str(), 0600), 0);
  for (int i = 0; i < 5; ++i) Append(folder_.path() + "/p" + std::to_string(i) + ".log", Line(0, i) + "\n");
  InspectorFiles files({.places = {folder_.path()}, .from_start = true, .files = 3});
  EXPECT_EQ(Poll(files).size(), 3u);
  EXPECT_EQ(files.counts().not_followed, 2u);
}

TEST_F(InspectorFilesTest, ReadsInPartsWithinItsBudget) {
  for (int i = 0; i < 100; ++i) Append(path_, Line(0, i) + "\n");
  InspectorFiles files({.places = {path_}, .from_start = true, .bytes_a_poll = 10'000});
  std::set<int64_t> seen;
  for (int i = 0; i < 20; ++i) {
    for (const int64_t sequence : Poll(files)) seen.insert(sequence);
  }
  EXPECT_EQ(seen.size(), 100u);
  EXPECT_EQ(files.counts().waiting, 0u);
}

TEST_F(InspectorFilesTest, LosesNothingWhileAFileRotatesUnderLoad) {
  constexpr int64_t kLines = 20'000;
  InspectorFiles files({.places = {folder_.path() + "/*.log"}, .from_start = true});
  std::atomic<bool> done{false};
  std::atomic<int64_t> polls{0};
  std::thread writer([&] {
    for (int64_t i = 0; i < kLines; ++i) {
      if (i % 997 == 0 && i > 0) {
        // A file that came and was renamed between two polls is never seen in its place.
        for (const int64_t begun = polls; polls < begun + 2;) ::poll(nullptr, 0, 1);
        std::filesystem::rename(path_, path_ + "." + std::to_string(i));
      }
      const std::string line = Line(0, i) + "\n";
      // In two writes: the second goes into the file that the first was written to.
      UniqueFd fd(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
      const size_t cut = static_cast<size_t>(i) % line.size();
      ASSERT_EQ(::write(fd.get(), line.data(), cut), static_cast<ssize_t>(cut));
      ASSERT_EQ(::write(fd.get(), line.data() + cut, line.size() - cut),
                static_cast<ssize_t>(line.size() - cut));
    }
    done = true;
  });
  std::set<int64_t> seen;
  size_t records = 0;
  for (bool last = false; !last;) {
    last = done;
    for (const int64_t sequence : Poll(files)) {
      seen.insert(sequence);
      ++records;
    }
    ++polls;
  }
  writer.join();
  EXPECT_EQ(records, seen.size());
  EXPECT_EQ(files.counts().invalid, 0u);
  EXPECT_EQ(seen.size(), static_cast<size_t>(kLines));
}

TEST_F(InspectorFilesTest, ReadsFormatsWithMarkers) {
  InspectorFiles files({.places = {path_}, .from_start = true});
  Append(path_, std::string(kMarker) + "\n" + std::string(kOfMarker) + "\n");
  EXPECT_EQ(Poll(files), Numbers{3});
  Append(path_, std::string(kOfMarker) + "\n");
  EXPECT_EQ(Poll(files), Numbers{3});
  EXPECT_EQ(files.counts().overwritten, 6u);
  // A file that was cut begins with its own marker.
  ASSERT_EQ(::truncate(path_.c_str(), 0), 0);
  Append(path_, std::string(kOfMarker) + "\n");
  EXPECT_EQ(Poll(files), Numbers{});
  EXPECT_EQ(files.counts().invalid, 1u);
}

class InspectorPagesTest : public InspectorFilesTest {
 protected:
  // Written `ago` before the next Poll.
  void Write(const std::string& path, const std::string& text, Duration ago = {}) {
    UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    ASSERT_EQ(::write(fd.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
    const Duration at = Duration(now_.unix_ns) + std::chrono::seconds(1) - ago;
    const auto whole = std::chrono::duration_cast<std::chrono::seconds>(at);
    const timespec times[2] = {{whole.count(), (at - whole).count()}, {whole.count(), (at - whole).count()}};
    ASSERT_EQ(::futimens(fd.get(), times), 0);
  }
  std::vector<std::string> Pages(InspectorFiles& files, int seconds = 1) {
    pages_.clear();
    for (int i = 0; i < seconds; ++i) Poll(files);
    return pages_;
  }
  using Texts = std::vector<std::string>;
  InspectorPagesTest() { now_.unix_ns = int64_t{1'900'000'000} * 1'000'000'000; }
  const std::string a_ = folder_.path() + "/nccl_inspector_metrics_a.prom",
                    b_ = folder_.path() + "/nccl_inspector_metrics_b.prom";
};

TEST_F(InspectorPagesTest, ReadsAPageWhenItIsWholeAndOnce) {
  InspectorFiles files({.places = {folder_.path(), folder_.path() + "/*.prom"}});
  Write(folder_.path() + "/node.prom", "x 1\n");
  Write(folder_.path() + "/nccl_inspector_metrics_.prom", "x 1\n");
  Write(a_, "half");
  EXPECT_EQ(Pages(files), Texts{});
  Write(a_, "whole\n");
  EXPECT_EQ(Pages(files), Texts{});
  EXPECT_EQ(Pages(files), Texts{"a=whole\n"});
  EXPECT_EQ(Pages(files, 10), Texts{});
  Write(b_, "other\n", std::chrono::seconds(2));
  EXPECT_EQ(Pages(files), Texts{"b=other\n"});
  // Emptied, as Inspector does before it writes: what it had holds.
  Write(a_, "");
  EXPECT_EQ(Pages(files, 3), Texts{});
  Write(a_, "again\n");
  EXPECT_EQ(Pages(files, 2), Texts{"a=again\n"});
  EXPECT_EQ(files.counts().files, 2u);
  EXPECT_EQ(files.counts().invalid, 0u);
  EXPECT_TRUE(last_.ok());
}

TEST_F(InspectorPagesTest, WhatIsOldOrGoneEnds) {
  Write(a_, "old\n", std::chrono::minutes(5));
  Write(b_, "new\n", std::chrono::seconds(60));
  InspectorFiles files({.places = {folder_.path()}});
  EXPECT_EQ(Pages(files), Texts{"b=new\n"});
  EXPECT_EQ(Pages(files, 29), Texts{});
  EXPECT_EQ(Pages(files, 3), Texts{"b="});
  // One that is written every minute may be three minutes old.
  Write(a_, "1\n");
  EXPECT_EQ(Pages(files, 60), Texts{"a=1\n"});
  Write(a_, "2\n");
  EXPECT_EQ(Pages(files, 175), Texts{"a=2\n"});
  EXPECT_EQ(Pages(files, 10), Texts{"a="});
  Write(a_, "3\n");
  EXPECT_EQ(Pages(files, 2), Texts{"a=3\n"});
  std::filesystem::remove(a_);
  EXPECT_EQ(Pages(files), Texts{"a="});
  EXPECT_EQ(Pages(files, 5), Texts{});
  EXPECT_EQ(files.counts().files, 1u);
}

TEST_F(InspectorPagesTest, HasLimits) {
  for (int i = 0; i < 4; ++i)
    Write(folder_.path() + "/nccl_inspector_metrics_" + std::to_string(i) + ".prom",
          i == 0 ? std::string(kLongestPage + 1, '#') : "x\n", std::chrono::seconds(2));
  ASSERT_EQ(::mkfifo((folder_.path() + "/nccl_inspector_metrics_f.prom").c_str(), 0600), 0);
  InspectorFiles files({.places = {folder_.path()}, .files = 3});
  EXPECT_EQ(Pages(files), (Texts{"1=x\n", "2=x\n"}));
  EXPECT_EQ(files.counts().invalid, 1u);
  EXPECT_EQ(files.counts().not_followed, 1u);
}

}  // namespace
}  // namespace gpulens::nccl_files
