#include <gpulens/c.h>
#include <gpulens/job.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/fd.h"
#include "base/testing/allocations.h"
#include "base/testing/temp_folder.h"
#include "job_page/job_page_reader.h"
#include "sdk/job/job_core.h"

namespace gpulens {
namespace {

using job_page::Function;
using job_page::Phase;

// The agent's view of the page of this process, whose file is in a folder of the test.
class JobPageOfTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder = new testing::TempFolder;
    ::setenv(job_page::kFolderVariable, folder->path().c_str(), 1);
    ::setenv(job_page::kSocketVariable, (folder->path() + "/no.sock").c_str(), 1);
    ASSERT_TRUE(JobStatus().ok());
  }
  static std::string FileOf(pid_t pid) {
    return folder->path() + "/gpulens-job-" + std::to_string(::getuid()) + "-" + std::to_string(pid) + "-3";
  }
  static job_page::PageCopy Read(job_page::JobPageReader& reader) {
    job_page::PageCopy copy;
    const Status status = reader.Read(RealClock().Now(), copy);
    EXPECT_TRUE(status.ok()) << status.detail;
    EXPECT_EQ(copy.rejected, 0U);
    return copy;
  }
  static job_page::JobPageReader Reader(pid_t pid = ::getpid()) {
    auto reader = job_page::JobPageReader::FromPath(FileOf(pid));
    if (!reader.ok()) ADD_FAILURE() << reader.error().detail;
    return *std::move(reader);
  }
  // The communicator of this name that was opened last.
  static const job_page::CommunicatorCopy* Named(const job_page::PageCopy& copy, const std::string& name) {
    for (const auto& communicator : copy.communicators) {
      if (communicator.identity->name == name) return &communicator;
    }
    return nullptr;
  }
  // Exit code of a child that does this.
  static int InChild(const std::function<bool()>& passes) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(passes() ? 0 : 1);
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  static void PauseMs(int ms) { ::poll(nullptr, 0, ms); }

  static testing::TempFolder* folder;
};
testing::TempFolder* JobPageOfTest::folder = nullptr;

TEST_F(JobPageOfTest, PhasesNestAndTheOneThatBeganLastCounts) {
  auto reader = Reader();
  const auto before = Read(reader);
  const uint64_t base = before.phases ? before.phases->transitions : 0;
  {
    PhaseScope compute(JobPhase::kGpuCompute);
    PauseMs(5);
    {
      PhaseScope step(JobPhase::kOptimizerStep);
      PauseMs(2);
      EXPECT_EQ(Read(reader).phases->current, Phase::kOptimizerStep);
    }
    EXPECT_EQ(Read(reader).phases->current, Phase::kGpuCompute);
    PhaseScope same(JobPhase::kGpuCompute);  // no edge
  }
  const auto after = Read(reader);
  EXPECT_EQ(after.phases->current, Phase::kUnknown);
  EXPECT_EQ(after.phases->transitions - base, 4U);
  EXPECT_GE(after.phases->total_ns[static_cast<size_t>(Phase::kGpuCompute)], 5'000'000U);
  EXPECT_GE(after.phases->total_ns[static_cast<size_t>(Phase::kOptimizerStep)], 2'000'000U);
}

TEST_F(JobPageOfTest, AScopeThatEndsOutOfOrderLeavesTheOthers) {
  auto reader = Reader();
  auto outer = std::make_unique<PhaseScope>(JobPhase::kCheckpoint);
  PhaseScope inner(JobPhase::kOptimizerStep);
  outer.reset();
  EXPECT_EQ(Read(reader).phases->current, Phase::kOptimizerStep);
  const PhaseScope moved(std::move(inner));
  EXPECT_EQ(Read(reader).phases->current, Phase::kOptimizerStep);
}

TEST_F(JobPageOfTest, MorePhasesThanAreKeptAreCounted) {
  auto reader = Reader();
  const auto lost = [&] { return Read(reader).lost[static_cast<size_t>(job_page::Loss::kNoHandle)]; };
  const uint64_t before = lost();
  {
    std::vector<PhaseScope> scopes;
    for (int i = 0; i < 70; ++i) scopes.emplace_back(JobPhase::kDecode);
    EXPECT_EQ(Read(reader).phases->current, Phase::kDecode);
  }
  EXPECT_EQ(lost() - before, 6U);
  EXPECT_EQ(Read(reader).phases->current, Phase::kUnknown);
}

TEST_F(JobPageOfTest, AWaitInsideAWaitIsPartOfIt) {
  auto reader = Reader();
  job_page::DataLoadingCopy before;
  if (const auto copy = Read(reader); copy.data_loading) before = *copy.data_loading;
  {
    DataWaitScope outer;
    DataWaitScope inner;
    PauseMs(3);
    const auto open = Read(reader);
    EXPECT_NE(open.data_loading->open_since_boot_ns, 0U);
    EXPECT_EQ(open.phases->current, Phase::kDataLoading);
  }
  {
    DataWaitScope none_left;
    none_left.Discard();
  }
  const auto after = *Read(reader).data_loading;
  EXPECT_EQ(after.batches - before.batches, 1U);
  EXPECT_EQ(after.wait.count - before.wait.count, 1U);
  EXPECT_GE(after.wait.sum_ns - before.wait.sum_ns, 3'000'000U);
  EXPECT_EQ(after.open_since_boot_ns, 0U);
}

TEST_F(JobPageOfTest, CallsAreCountedPerCommunicatorAndFunction) {
  auto reader = Reader();
  static_cast<void>(Read(reader));
  JobCommunicator world(0xABCDEF, 2, 4, "world of calls");
  JobCommunicator pair(0x1234, 1, 2, "pair");
  for (int i = 0; i < 3; ++i) auto call = world.Collective(CollectiveFunction::kAllReduce, 1000);
  {
    auto call = world.Collective(CollectiveFunction::kBroadcast, 10, 3);
  }
  {
    auto call = pair.Collective(CollectiveFunction::kAllReduce, 8);
  }
  auto open = world.Collective(CollectiveFunction::kAllReduce, 5);
  const auto copy = Read(reader);
  const auto* found = Named(copy, "world of calls");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->identity->hash, 0xABCDEFU);
  EXPECT_EQ(found->identity->rank, 2);
  EXPECT_EQ(found->identity->ranks, 4);
  const auto& all_reduce = found->functions[static_cast<size_t>(Function::kAllReduce)];
  EXPECT_EQ(all_reduce.enqueued, 4U);
  EXPECT_EQ(all_reduce.started, 4U);
  EXPECT_EQ(all_reduce.done, 3U);
  EXPECT_EQ(all_reduce.bytes, 3005U);
  ASSERT_EQ(copy.records.size(), 5U);
  EXPECT_EQ(copy.records[2].sequence, 2U);
  EXPECT_EQ(copy.records[2].timing, job_page::Timing::kHost);
  EXPECT_EQ(copy.records[3].function, Function::kBroadcast);
  EXPECT_EQ(copy.records[3].peer_or_root, 3);
  EXPECT_EQ(copy.records[4].sequence, 0U);
  EXPECT_EQ(copy.records[4].communicator->hash, 0x1234U);
  EXPECT_EQ(copy.phases->current, Phase::kNcclCollective);
}

TEST_F(JobPageOfTest, ACallThatAnExceptionEndsIsCountedOnly) {
  auto reader = Reader();
  static_cast<void>(Read(reader));
  JobCommunicator world(5, 0, 2, "throws");
  try {
    auto call = world.Collective(CollectiveFunction::kAllGather, 1);
    throw std::runtime_error("a peer closed the connection");
  } catch (const std::runtime_error&) {
  }
  const auto copy = Read(reader);
  ASSERT_EQ(copy.records.size(), 1U);
  EXPECT_EQ(copy.records[0].timing, job_page::Timing::kNone);
  EXPECT_EQ(copy.records[0].end_ns, 0U);
}

TEST_F(JobPageOfTest, PlacesOfClosedCommunicatorsAreUsedAgain) {
  auto reader = Reader();
  const auto lost = [&] { return Read(reader).lost[static_cast<size_t>(job_page::Loss::kNoCommunicator)]; };
  const uint64_t before = lost();
  for (int round = 0; round < 3; ++round) {
    std::vector<JobCommunicator> many;
    for (int i = 0; i < 64; ++i) many.emplace_back(static_cast<uint64_t>(1000 * round + i), 0, 2, "many");
    {
      auto call = many[63].Collective(CollectiveFunction::kBarrier, 0);
    }
    JobCommunicator one_too_many(7, 0, 2);
    {
      auto call = one_too_many.Collective(CollectiveFunction::kBarrier, 0);
    }
    EXPECT_EQ(lost() - before, 2U * (static_cast<uint64_t>(round) + 1));
  }
  JobCommunicator next(4711, 0, 2, "next");
  EXPECT_NE(Named(Read(reader), "next"), nullptr);
  EXPECT_EQ(lost() - before, 6U);
}

TEST_F(JobPageOfTest, TheAgentTurnsItDownAndOff) {
  auto reader = Reader();
  static_cast<void>(Read(reader));
  JobCommunicator world(99, 0, 2, "levels");
  ASSERT_TRUE(reader.SetWantedLevel(job_page::Level::kCount).ok());
  {
    auto call = world.Collective(CollectiveFunction::kReduce, 1);
  }
  ASSERT_TRUE(reader.SetWantedLevel(job_page::Level::kOff).ok());
  {
    auto call = world.Collective(CollectiveFunction::kReduce, 1);
    PhaseScope phase(JobPhase::kPrefill);
    EXPECT_EQ(Read(reader).phases->current, Phase::kUnknown);
  }
  ASSERT_TRUE(reader.SetWantedLevel(job_page::Level::kTime).ok());
  {
    auto call = world.Collective(CollectiveFunction::kReduce, 1);
  }
  const auto copy = Read(reader);
  // The number of the one that was not recorded is not used again: ranks must agree.
  ASSERT_EQ(copy.records.size(), 1U);
  EXPECT_EQ(copy.records[0].sequence, 2U);
  const auto& progress = Named(copy, "levels")->functions[static_cast<size_t>(Function::kReduce)];
  EXPECT_EQ(progress.done, 3U);
  EXPECT_EQ(progress.operations, 2U);
}

TEST_F(JobPageOfTest, AChildHasAPageOfItsOwn) {
  auto reader = Reader();
  auto phase = std::make_unique<PhaseScope>(JobPhase::kCheckpoint);
  auto wait = std::make_unique<DataWaitScope>();
  auto world = std::make_unique<JobCommunicator>(1, 0, 2, "of the parent");
  auto call = std::make_unique<CollectiveScope>(world->Collective(CollectiveFunction::kBarrier, 0));
  const auto before = Read(reader);
  EXPECT_EQ(InChild([&] {
              call.reset(), world.reset(), wait.reset(), phase.reset();  // end nothing
              if (job_core::PageForTest() != nullptr) return false;
              PhaseScope own(JobPhase::kIdle);
              {
                DataWaitScope its_own;
              }
              auto child = Reader();
              const auto copy = Read(child);
              return copy.phases && copy.phases->current == Phase::kIdle && copy.communicators.empty() &&
                     copy.data_loading && copy.data_loading->batches == 1 && copy.pid == ::getpid();
            }),
            0);
  const auto after = Read(reader);
  EXPECT_EQ(after.phases->transitions, before.phases->transitions);
  EXPECT_EQ(after.phases->current, Phase::kNcclCollective);
  EXPECT_TRUE(after.records.empty());
}

TEST_F(JobPageOfTest, WithoutAnAgentNothingIsWritten) {
  EXPECT_EQ(InChild([] {
              ::unsetenv(job_page::kFolderVariable);
              JobCommunicator world(1, 0, 2, "kept for later");
              PhaseScope phase(JobPhase::kDecode);
              return JobStatus().code == Code::kUnavailable && job_core::PageForTest() == nullptr &&
                     gpulens_job_status() == GPULENS_UNAVAILABLE &&
                     !std::filesystem::exists(FileOf(::getpid()));
            }),
            0);
}

TEST_F(JobPageOfTest, OffIsOff) {
  EXPECT_EQ(InChild([] {
              ::setenv(job_page::kSwitchVariable, "off", 1);
              PhaseScope phase(JobPhase::kDecode);
              return JobStatus().code == Code::kUnavailable && job_core::PageForTest() == nullptr &&
                     gpulens_job_status() == GPULENS_PERMISSION_DENIED &&
                     gpulens_communicator_open(1, 0, 2, nullptr) == 0 &&
                     !std::filesystem::exists(FileOf(::getpid()));
            }),
            0);
}

// An agent's socket.
class JobListener {
 public:
  explicit JobListener(const std::string& path) : listener_(::socket(AF_UNIX, SOCK_SEQPACKET, 0)) {
    ::unlink(path.c_str());
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(listener_.get(), 4), 0);
  }
  // Waits for a job, at most 20 s. None: no page came.
  std::optional<job_page::JobPageReader> Accept() {
    pollfd ready{listener_.get(), POLLIN, 0};
    if (::poll(&ready, 1, 20'000) != 1) return {};
    connection_ = UniqueFd(::accept(listener_.get(), nullptr, nullptr));
    job_page::Hello hello{};
    iovec bytes{&hello, sizeof hello};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &bytes, message.msg_iovlen = 1;
    message.msg_control = control, message.msg_controllen = sizeof control;
    if (::recvmsg(connection_.get(), &message, 0) != static_cast<ssize_t>(sizeof hello)) return {};
    EXPECT_EQ(hello.magic, job_page::kMagic);
    int descriptor = -1;
    __builtin_memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof descriptor);
    auto reader = job_page::JobPageReader::FromDescriptor(UniqueFd(descriptor));
    if (!reader.ok()) {
      ADD_FAILURE() << reader.error().detail;
      return {};
    }
    return *std::move(reader);
  }

 private:
  UniqueFd listener_, connection_;
};

TEST_F(JobPageOfTest, AnAgentGetsThePageByItsSocket) {
  const std::string path = folder->path() + "/job.sock";
  JobListener listener(path);
  const pid_t child = ::fork();
  if (child == 0) {
    ::unsetenv(job_page::kFolderVariable);
    ::setenv(job_page::kSocketVariable, path.c_str(), 1);
    gpulens_job_library("torch 9.9");
    const bool kept = gpulens_phase_begin(GPULENS_PHASE_PREFILL) != 0;
    const bool file = std::filesystem::exists(FileOf(::getpid()));
    ::_exit(kept && !file ? 0 : 1);
  }
  auto reader = listener.Accept();
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ASSERT_TRUE(reader);
  EXPECT_TRUE(reader->sealed());
  const auto copy = Read(*reader);
  EXPECT_EQ(copy.writer, job_page::Writer::kProgram);
  EXPECT_EQ(copy.library_version, "torch 9.9");
  EXPECT_EQ(copy.phases->current, Phase::kPrefill);
}

TEST_F(JobPageOfTest, TheNextAgentGetsThePageToo) {
  const std::string path = folder->path() + "/again.sock";
  auto first = std::make_unique<JobListener>(path);
  int stop[2];
  ASSERT_EQ(::pipe(stop), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(stop[1]);
    ::unsetenv(job_page::kFolderVariable);
    ::setenv(job_page::kSocketVariable, path.c_str(), 1);
    pollfd end{stop[0], POLLIN, 0};
    while (::poll(&end, 1, 20) == 0) const PhaseScope phase(JobPhase::kDecode);
    ::_exit(0);
  }
  ::close(stop[0]);
  ASSERT_TRUE(first->Accept());
  first.reset();
  JobListener second(path);
  auto reader = second.Accept();  // within 5 s
  ::close(stop[1]);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ASSERT_TRUE(reader);
  const auto copy = Read(*reader);
  EXPECT_EQ(copy.pid, child);
  EXPECT_GT(copy.phases->transitions, 10U);
}

TEST_F(JobPageOfTest, ManyThreadsLoseNothing) {
  auto reader = Reader();
  static_cast<void>(Read(reader));
  JobCommunicator world(77, 0, 2, "threads");
  constexpr int kThreads = 4, kEach = 500;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kEach; ++i) {
        PhaseScope phase(JobPhase::kGpuCompute);
        auto call = world.Collective(CollectiveFunction::kAllToAll, 2);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto copy = Read(reader);
  EXPECT_EQ(copy.phases->current, Phase::kUnknown);
  EXPECT_EQ(copy.records.size(), static_cast<size_t>(kThreads * kEach));
  const auto& progress = Named(copy, "threads")->functions[static_cast<size_t>(Function::kAllToAll)];
  EXPECT_EQ(progress.done, static_cast<uint64_t>(kThreads * kEach));
  EXPECT_EQ(progress.operations, static_cast<uint64_t>(kThreads * kEach));
}

TEST_F(JobPageOfTest, FromC) {
  auto reader = Reader();
  static_cast<void>(Read(reader));
  const uint64_t world = gpulens_communicator_open(42, 3, 8, "from C");
  gpulens_collective call;
  gpulens_collective_begin(&call, world, GPULENS_REDUCE_SCATTER, 4096, -1, 1);
  EXPECT_NE(Read(reader).phases->current, Phase::kNcclCollective);
  gpulens_collective_end(&call, 1);
  gpulens_collective_end(&call, 1);  // ended already
  gpulens_data_wait wait;
  gpulens_data_wait_begin(&wait);
  gpulens_data_wait_end(&wait, 1);
  gpulens_phase_end(0);
  gpulens_phase_end(~uint64_t{0});
  EXPECT_EQ(gpulens_phase_begin(99), 0U);
  EXPECT_EQ(gpulens_phase_begin(-1), 0U);
  const auto copy = Read(reader);
  ASSERT_EQ(copy.records.size(), 1U);
  EXPECT_EQ(copy.records[0].function, Function::kReduceScatter);
  EXPECT_EQ(copy.records[0].bytes, 4096U);
  gpulens_communicator_close(world);
  gpulens_communicator_close(world);
  gpulens_communicator_close(12345);
  gpulens_job_trouble("a patch failed");
  const auto closed = Read(reader);
  EXPECT_TRUE(Named(closed, "from C")->closed);
  EXPECT_EQ(closed.trouble, "a patch failed");
}

TEST_F(JobPageOfTest, NothingIsAllocated) {
  JobCommunicator world(78, 0, 2, "allocations");
  const uint64_t before = ThreadAllocations();
  for (int i = 0; i < 100; ++i) {
    PhaseScope phase(JobPhase::kGpuCompute);
    DataWaitScope wait;
    auto call = world.Collective(CollectiveFunction::kAllToAll, 2);
  }
  EXPECT_EQ(ThreadAllocations() - before, 0U);
}

TEST(JobNames, AreReadBack) {
  for (uint8_t i = 0; i <= static_cast<uint8_t>(JobPhase::kIdle); ++i) {
    const auto phase = static_cast<JobPhase>(i);
    EXPECT_EQ(ParseJobPhase(JobPhaseName(phase)), phase);
  }
  for (uint8_t i = 0; i <= static_cast<uint8_t>(CollectiveFunction::kBarrier); ++i) {
    const auto function = static_cast<CollectiveFunction>(i);
    EXPECT_EQ(ParseCollectiveFunction(CollectiveFunctionName(function)), function);
  }
  EXPECT_EQ(ParseJobPhase("coffee"), std::nullopt);
}

}  // namespace
}  // namespace gpulens
