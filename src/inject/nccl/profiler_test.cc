#include "inject/nccl/profiler.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <thread>

#include "base/fd.h"
#include "base/sanitizers.h"
#include "base/testing/allocations.h"
#include "base/testing/temp_folder.h"
#include "inject/nccl/chain.h"
#include "inject/nccl/nccl_host_testing.h"
#include "inject/nccl/nccl_names.h"

extern "C" {
extern char ncclProfiler_v1, ncclProfiler_v2, ncclProfiler_v3, ncclProfiler_v4, ncclProfiler_v5,
    ncclProfiler_v6, ncclProfiler_v7;
}

namespace gpulens::nccl_plugin {
namespace {

using namespace job_page;
using testing::TempFolder;

// Pages become files in a folder of this process: no agent listens.
class PluginFolder : public ::testing::Environment {
 public:
  void SetUp() override {
    folder_ = std::make_unique<TempFolder>();
    ::setenv(kSocketVariable, "", 1);
    ::setenv(kFolderVariable, folder_->path().c_str(), 1);
    ::setenv("GPULENS_NCCL_LEVEL", "time", 1);
  }
  void TearDown() override { folder_.reset(); }
  static std::unique_ptr<TempFolder> folder_;
};
std::unique_ptr<TempFolder> PluginFolder::folder_;
const auto* const plugin_folder = ::testing::AddGlobalTestEnvironment(new PluginFolder);

void* OwnTable(int version) {
  void* const tables[] = {&ncclProfiler_v1, &ncclProfiler_v2, &ncclProfiler_v3, &ncclProfiler_v4,
                          &ncclProfiler_v5, &ncclProfiler_v6, &ncclProfiler_v7};
  return tables[version - 1];
}

uint64_t Lost(const Page& page, Loss loss) { return page.header.lost[static_cast<size_t>(loss)].load(); }

const Communicator* FindCommunicator(const Page& page, uint64_t hash) {
  for (const Communicator& at : page.communicators) {
    if (at.generation.load() != 0 && at.hash == hash && at.closed.load() == 0) return &at;
  }
  return nullptr;
}
const FunctionProgress& Progress(const Communicator& communicator, job_page::Function function) {
  return communicator.functions[static_cast<size_t>(function)];
}
const Record& LastRecord(const Page& page) {
  return page.records[(page.header.next_record.load() - 1) % kRecords];
}

uint64_t NextHash() {
  static uint64_t hash = 0xABC0;
  return ++hash;
}

class EachVersion : public ::testing::TestWithParam<int> {
 protected:
  EachVersion() : host_(OwnTable(GetParam()), GetParam()) {
    world_.hash = NextHash();
    world_.name = "tensor_parallel";
    context_ = host_.Init(&mask_, world_);
    page_ = CurrentPage();
    SetLevel(Level::kTime);
  }
  ~EachVersion() override {
    SetLevel(Level::kTime);
    host_.Finalize(context_);
  }
  // As the agent does; the plugin learns it with the next event.
  void SetLevel(Level level) {
    page_->header.wanted_level.store(static_cast<uint32_t>(level));
    NcclDescriptor group(GetParam(), 1);
    host_.Stop(host_.Start(context_, group));
  }
  int version() const { return GetParam(); }
  const Communicator& communicator() const {
    const Communicator* found = FindCommunicator(*page_, world_.hash);
    if (!found) ADD_FAILURE() << "no communicator", found = page_->communicators;
    return *found;
  }

  NcclHost host_;
  NcclHost::World world_;
  int mask_ = 0;
  void* context_ = nullptr;
  Page* page_ = nullptr;
};
INSTANTIATE_TEST_SUITE_P(Abi, EachVersion, ::testing::Range(1, 8),
                         [](const auto& row) { return "v" + std::to_string(row.param); });

TEST_P(EachVersion, Announces) {
  ASSERT_NE(page_, nullptr);
  EXPECT_STREQ(host_.name(), "gpulens");
  EXPECT_EQ(page_->header.magic.load(), kMagic);
  EXPECT_EQ(page_->header.writer, static_cast<uint32_t>(Writer::kNcclPlugin));
  EXPECT_EQ(page_->header.pid, ::getpid());
  EXPECT_GT(page_->header.start_ticks, 0u);
  EXPECT_EQ(mask_, version() >= 3 ? 0x46 : 0x0E);
  host_.PlayCollective(context_, {}, 1000, 2000);
  const Communicator& found = communicator();
  EXPECT_STREQ(found.name, "tensor_parallel");
  EXPECT_EQ(found.rank, 3);
  EXPECT_EQ(found.ranks, version() >= 4 ? 16 : 0);
  EXPECT_EQ(found.nodes, version() >= 4 ? 2 : 0);
}

TEST_P(EachVersion, CountsExactly) {
  SetLevel(Level::kCount);
  const uint64_t records = page_->header.next_record.load();
  for (uint64_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(nullptr, host_.StartCollective(context_, {.sequence = i}));
    EXPECT_EQ(nullptr,
              host_.StartCollective(context_, {.function = "ReduceScatter", .sequence = i, .count = 10}));
  }
  host_.StartPeer(context_, "Send", 7, 100, 1);
  host_.StartPeer(context_, "Recv", 7, 100, 1);
  host_.StartPeer(context_, "Send", 8, 100, 1);
  const auto& all_reduce = Progress(communicator(), job_page::Function::kAllReduce);
  EXPECT_EQ(all_reduce.operations.load(), 1000u);
  EXPECT_EQ(all_reduce.bytes.load(), 1000u * 4096);
  EXPECT_EQ(all_reduce.enqueued.load(), 1000u);
  EXPECT_EQ(all_reduce.done.load(), 0u);
  EXPECT_EQ(Progress(communicator(), job_page::Function::kReduceScatter).bytes.load(), 40'000u);
  EXPECT_EQ(Progress(communicator(), job_page::Function::kSend).operations.load(), 2u);
  EXPECT_EQ(page_->header.next_record.load() - records, 2003u);
  const Record& last = LastRecord(*page_);
  EXPECT_EQ(last.function, job_page::Function::kSend);
  EXPECT_EQ(last.peer_or_root, 8);
  EXPECT_EQ(last.sequence, 1u);
  EXPECT_EQ(last.bytes, 400u);
  EXPECT_EQ(last.timing, Timing::kNone);
}

TEST_P(EachVersion, DurationFromFirstBeginToLastEnd) {
  if (version() < 4) GTEST_SKIP() << "no timers of kernels";
  const uint64_t before =
      page_->collective_duration[static_cast<size_t>(job_page::Function::kAllReduce)].count.load();
  host_.PlayCollective(context_, {.sequence = 41, .channels = 32}, 5'000'000, 7'500'000);
  const Record& record = LastRecord(*page_);
  EXPECT_EQ(record.timing, Timing::kDevice);
  EXPECT_EQ(record.start_ns, 5'000'000u);
  EXPECT_EQ(record.end_ns, 7'500'000u);
  EXPECT_EQ(record.channels, 32);
  EXPECT_EQ(record.sequence, 41u);
  EXPECT_EQ(record.datatype, Datatype::kFloat32);
  EXPECT_EQ(record.algorithm, Algorithm::kRing);
  EXPECT_EQ(record.protocol, Protocol::kSimple);
  EXPECT_GE(record.ended_boot_ns, record.enqueued_boot_ns);
  const auto& progress = Progress(communicator(), job_page::Function::kAllReduce);
  EXPECT_EQ(progress.enqueued.load(), 42u);
  EXPECT_EQ(progress.started.load(), 42u);
  EXPECT_EQ(progress.done.load(), 42u);
  EXPECT_EQ(page_->collective_duration[static_cast<size_t>(job_page::Function::kAllReduce)].count.load(),
            before + 1);
}

TEST_P(EachVersion, StagesAreSeenWhileItRuns) {
  if (version() < 3) GTEST_SKIP() << "no events of kernels";
  void* handle = host_.StartCollective(context_, {.sequence = 9});
  host_.Stop(handle);
  const auto& progress = Progress(communicator(), job_page::Function::kAllReduce);
  EXPECT_EQ(progress.enqueued.load(), 10u);
  EXPECT_EQ(progress.started.load(), 0u);
  void* first = host_.StartChannel(context_, handle, 0, 100);
  EXPECT_EQ(progress.started.load(), 10u);
  void* second = host_.StartChannel(context_, handle, 1, 100);
  host_.StopChannel(first, 200);
  EXPECT_EQ(progress.done.load(), 0u);
  host_.StopChannel(second, 300);
  EXPECT_EQ(progress.done.load(), 10u);
}

TEST_P(EachVersion, HostTimesWhereKernelsHaveNoTimer) {
  if (version() != 3) GTEST_SKIP() << "version 3 alone";
  host_.PlayCollective(context_, {.sequence = 1}, 0, 0);
  const Record& record = LastRecord(*page_);
  EXPECT_EQ(record.timing, Timing::kHost);
  EXPECT_GE(record.start_ns, record.enqueued_boot_ns);
  EXPECT_GE(record.end_ns, record.start_ns);
}

TEST_P(EachVersion, ProxyTimesWithoutKernels) {
  if (version() > 2) GTEST_SKIP() << "kernels have events";
  void* handle = host_.StartCollective(context_, {.sequence = 5});
  void* send = host_.StartProxyOp(context_, handle, ::getpid(), 0);
  void* receive = host_.StartProxyOp(context_, handle, ::getpid(), 1);
  host_.Stop(handle);
  host_.Stop(send);
  EXPECT_EQ(Progress(communicator(), job_page::Function::kAllReduce).done.load(), 0u);
  host_.Stop(receive);
  EXPECT_EQ(Progress(communicator(), job_page::Function::kAllReduce).done.load(), 6u);
  const uint64_t records = page_->header.next_record.load();
  host_.Finalize(context_);
  EXPECT_EQ(page_->header.next_record.load(), records + 1);
  EXPECT_EQ(LastRecord(*page_).timing, Timing::kProxy);
  EXPECT_GE(LastRecord(*page_).end_ns, LastRecord(*page_).start_ns);
  context_ = host_.Init(&mask_, world_);
}

TEST_P(EachVersion, QuietOperationsEndLater) {
  if (version() < 4) GTEST_SKIP() << "no channels of sends";
  // Advertised are 4 kernels, 2 come.
  const uint64_t count = 10 + static_cast<unsigned>(version());
  void* handle = host_.StartPeer(context_, "Send", 1, count, 4);
  host_.Stop(handle);
  for (int i = 0; i < 2; ++i) host_.StopChannel(host_.StartChannel(context_, handle, i, 100), 900);
  EXPECT_EQ(Progress(communicator(), job_page::Function::kSend).done.load(), 1u);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  bool seen = false;
  while (!seen && std::chrono::steady_clock::now() < deadline) {
    // The sweep needs a round over all handles.
    host_.PlayCollective(context_, {}, 100, 200);
    const Record& last = page_->records[(page_->header.next_record.load() - 2) % kRecords];
    seen = last.function == job_page::Function::kSend && last.end_ns == 900 &&
           last.timing == Timing::kDevice && last.bytes == 4 * count;
  }
  EXPECT_TRUE(seen);
}

TEST_P(EachVersion, SurvivesAnyOrderOfCalls) {
  void* handle = host_.StartCollective(context_, {.sequence = 3});
  void* channel = version() >= 3 ? host_.StartChannel(context_, handle, 0, 100) : nullptr;
  void* other = version() >= 3 ? host_.StartChannel(context_, handle, 1, 100) : nullptr;
  for (int i = 0; i < 3; ++i) host_.Stop(handle);
  host_.StopChannel(channel, 150);
  host_.StopChannel(channel, 9999);
  const uint64_t done = Progress(communicator(), job_page::Function::kAllReduce).done.load();
  host_.StopChannel(other, 160);
  if (version() >= 4) {
    EXPECT_EQ(done, 0u);
    EXPECT_EQ(LastRecord(*page_).end_ns, 160u);
  }
  const uint64_t records = page_->header.next_record.load();
  // Stale, then nonsense.
  host_.StopChannel(other, 170), host_.Stop(handle), host_.Stop(nullptr);
  for (uint64_t bits :
       {uint64_t{1}, uint64_t{0xFFFF'FFFF'FFFF'FFFF}, uint64_t{0x0FFF'FFFF'FFFF'FFF2}, uint64_t{0x33}}) {
    auto* nonsense = reinterpret_cast<void*>(bits);
    host_.Stop(nonsense);
    host_.Record(nonsense, 22, &bits);
    host_.Record(nonsense, 8, nullptr);
    EXPECT_EQ(nullptr, host_.StartChannel(context_, nonsense, 3, 1));
    EXPECT_EQ(nullptr, host_.StartProxyOp(context_, nonsense, ::getpid(), 3));
  }
  EXPECT_EQ(nullptr, host_.StartChannel(context_, nullptr, 0, 1));
  if (version() >= 3) {
    EXPECT_EQ(nullptr, host_.StartChannel(context_, handle, 200, 1));
  }
  EXPECT_EQ(nullptr, host_.StartChannel(nullptr, handle, 0, 1));
  NcclDescriptor unknown(version(), 0x30);
  const uint64_t before = Lost(*page_, Loss::kUnknownEvent);
  EXPECT_EQ(nullptr, host_.Start(context_, unknown));
  EXPECT_EQ(Lost(*page_, Loss::kUnknownEvent), before + 1);
  EXPECT_EQ(page_->header.next_record.load(), records);
  host_.Finalize(nullptr);
  if (version() < 3) host_.Stop(host_.StartCollective(context_, {}));
}

TEST_P(EachVersion, LevelsChangeTheMaskWhileItRuns) {
  SetLevel(Level::kCount);
  EXPECT_EQ(mask_, 0x06);
  EXPECT_EQ(page_->header.actual_level.load(), static_cast<uint32_t>(Level::kCount));
  SetLevel(Level::kLink);
  EXPECT_EQ(mask_, version() >= 3 ? 0x5E : 0x1E);
  SetLevel(Level::kOff);
  EXPECT_EQ(mask_, 0x01);
  const uint64_t records = page_->header.next_record.load();
  EXPECT_EQ(nullptr, host_.StartCollective(context_, {.sequence = 77}));
  EXPECT_EQ(page_->header.next_record.load(), records);
  // The end of what began before.
  SetLevel(Level::kTime);
  void* handle = host_.StartCollective(context_, {.sequence = 78});
  SetLevel(Level::kOff);
  host_.Stop(handle);
  if (version() >= 4) {
    for (int i = 0; i < 2; ++i) host_.StopChannel(host_.StartChannel(context_, handle, i, 5), 6);
    EXPECT_EQ(page_->header.next_record.load(), records + 1);
  }
  page_->header.wanted_level.store(4711);
  SetLevel(Level::kTime);
  EXPECT_EQ(mask_, version() >= 3 ? 0x46 : 0x0E);
}

TEST_P(EachVersion, MaskOfAnOperatorIsKept) {
  mask_ = 0x7FFF;  // as NCCL's RAS does
  SetLevel(Level::kCount);
  EXPECT_EQ(mask_, 0x7FFF);
  EXPECT_NE(std::string(page_->header.trouble).find("RAS"), std::string::npos);
  for (int bit = 0; bit < (version() >= 5 ? 16 : 8); ++bit) {
    NcclDescriptor event(version(), uint64_t{1} << bit);
    host_.Stop(host_.Start(context_, event));
  }
  SetTrouble(*page_, nullptr);
}

TEST_P(EachVersion, ProxyOfAnotherProcess) {
  const uint64_t records = page_->header.next_record.load();
  void* handle = host_.StartCollective(context_, {.sequence = 5});
  EXPECT_EQ(nullptr, host_.StartProxyOp(context_, handle, ::getpid() + 1, 0));
  EXPECT_EQ(nullptr, host_.StartProxyOp(context_, reinterpret_cast<void*>(0xDEAD'BEEF), 1, 0));
  EXPECT_EQ(page_->header.next_record.load(), records);
}

// Of the peer, or null.
const Link* FindLink(const Page& page, const Communicator& communicator, uint32_t peer) {
  const uint64_t key = LinkKey(static_cast<uint32_t>(&communicator - page.communicators),
                               communicator.generation.load(), peer);
  const auto* found = std::ranges::find_if(page.links, [&](const Link& link) { return link.key == key; });
  return found == std::end(page.links) ? nullptr : found;
}

std::vector<uint32_t> Waiting(const Link& link) { return {std::begin(link.waiting), std::end(link.waiting)}; }

TEST_P(EachVersion, StepsOfTheNetworkByPeer) {
  SetLevel(Level::kLink);
  EXPECT_EQ(mask_ & 0x18, 0x18);
  void* operation = host_.StartCollective(context_, {});
  void* proxy = host_.StartProxyOp(context_, operation, ::getpid(), 0, 7);
  void* step = host_.StartStep(context_, proxy, 0);
  ASSERT_NE(step, nullptr);
  const Link* link = FindLink(*page_, communicator(), 7);
  ASSERT_NE(link, nullptr);
  using Counts = std::vector<uint32_t>;
  EXPECT_EQ(Waiting(*link), Counts({0, 0, 0, 0}));
  host_.Record(step, 8, nullptr);
  EXPECT_EQ(Waiting(*link), Counts({1, 0, 0, 0}));
  host_.Record(step, 20, nullptr);
  EXPECT_EQ(Waiting(*link), Counts({0, 1, 0, 0}));
  const uint64_t bytes = 1 << 20;
  host_.Record(step, 9, version() >= 4 ? &bytes : nullptr);
  EXPECT_EQ(Waiting(*link), Counts({0, 0, 1, 0}));
  host_.Record(step, 77, nullptr);
  host_.Record(step, 22, &bytes);
  EXPECT_EQ(Waiting(*link), Counts({0, 0, 1, 0})) << "other states are none of a step";
  ::poll(nullptr, 0, 2);
  host_.Stop(step);
  EXPECT_EQ(Waiting(*link), Counts({0, 0, 0, 0}));
  EXPECT_EQ(link->sent.load(), 1u);
  const uint64_t took = link->send_ns.load();
  EXPECT_GE(took, 1'900'000u);
  host_.Stop(step);
  EXPECT_EQ(link->sent.load(), 1u);
  // A step that receives has no time of its own: its peer may be late.
  void* receives = host_.StartStep(context_, proxy, 1);
  host_.Record(receives, 10, nullptr);
  EXPECT_EQ(Waiting(*link), Counts({0, 0, 0, 1}));
  host_.Record(receives, 11, nullptr);
  EXPECT_EQ(Waiting(*link), Counts({0, 0, 0, 0}));
  host_.Record(receives, 12, nullptr);
  EXPECT_EQ(Waiting(*link), Counts({1, 0, 0, 0}));
  host_.Stop(receives);
  EXPECT_EQ(Waiting(*link), Counts({0, 0, 0, 0}));
  EXPECT_EQ(link->send_ns.load(), took);
  // A late proxy of another process, and one that began at a lower level.
  EXPECT_EQ(host_.StartStep(context_, host_.StartProxyOp(context_, operation, 1, 0, 7), 0), nullptr);
  SetLevel(Level::kTime);
  EXPECT_EQ(host_.StartStep(context_, host_.StartProxyOp(context_, operation, ::getpid(), 0, 8), 0), nullptr);
  EXPECT_EQ(FindLink(*page_, communicator(), 8), nullptr);
}

TEST_P(EachVersion, MoreStepsAndPeersThanThereIsRoomFor) {
  SetLevel(Level::kLink);
  void* operation = host_.StartCollective(context_, {});
  const uint64_t before = Lost(*page_, Loss::kNoHandle);
  void* first = nullptr;
  for (int peer = 0; peer < 400; ++peer) {
    void* proxy = host_.StartProxyOp(context_, operation, ::getpid(), 0, peer);
    for (int i = 0; i < 20; ++i) {
      void* step = host_.StartStep(context_, proxy, i);
      if (!first) first = step;
      host_.Record(step, 9, nullptr);
    }
  }
  EXPECT_GE(Lost(*page_, Loss::kNoHandle) - before, 400u - 255u);
  const auto waiting = [&] {
    uint32_t sum = 0;
    for (const Link& link : page_->links) sum += link.waiting[static_cast<size_t>(StepWait::kSend)];
    return sum;
  };
  EXPECT_EQ(waiting(), 4096u);
  host_.Stop(first);  // another step has its place
  EXPECT_EQ(waiting(), 4096u);
  // Places of communicators that are over are used again.
  host_.Finalize(context_);
  world_.hash = NextHash();
  context_ = host_.Init(&mask_, world_);
  SetLevel(Level::kLink);
  operation = host_.StartCollective(context_, {});
  EXPECT_NE(host_.StartStep(context_, host_.StartProxyOp(context_, operation, ::getpid(), 0, 7), 0), nullptr);
  EXPECT_NE(FindLink(*page_, communicator(), 7), nullptr);
}

// An agent that was killed cannot lower it.
TEST_P(EachVersion, StepsAreMeasuredForAWhile) {
  SetLevel(Level::kLink);
  host_.Stop(host_.StartCollective(context_, {}));
  EXPECT_EQ(page_->header.wanted_level.load(), static_cast<uint32_t>(Level::kLink));
  SetLongestLinks(0);
  host_.Stop(host_.StartCollective(context_, {}));
  EXPECT_EQ(page_->header.wanted_level.load(), static_cast<uint32_t>(Level::kTime));
  SetLongestLinks(60'000'000'000);
  host_.Stop(host_.StartCollective(context_, {}));
  EXPECT_EQ(mask_ & 0x10, 0);
}

TEST_P(EachVersion, SizesOfCollectivesThatCountBytes) {
  SetLevel(Level::kCount);
  for (const char* function : {"AllGather", "Broadcast"}) {
    host_.StartCollective(context_, {.function = function, .count = 4096, .datatype = "ncclInt8"});
    EXPECT_EQ(LastRecord(*page_).bytes, 4096u);
    EXPECT_EQ(LastRecord(*page_).datatype, Datatype::kUnknown) << function;
  }
  if (version() < 5) return;
  void* api = host_.StartApi(context_, 512, "AllGather", "ncclBfloat16", true);
  ASSERT_NE(api, nullptr);
  host_.StartCollective(context_,
                        {.function = "AllGather", .count = 4096, .datatype = "ncclInt8", .parent = api});
  host_.Stop(api), host_.Stop(api);
  EXPECT_EQ(LastRecord(*page_).bytes, 4096u);
  EXPECT_EQ(LastRecord(*page_).datatype, Datatype::kBfloat16);
  EXPECT_EQ(LastRecord(*page_).flags, kGraphCaptured);
  host_.StartCollective(context_, {.function = "AllGatherV", .count = 99, .datatype = "ncclInt8"});
  EXPECT_EQ(LastRecord(*page_).function, job_page::Function::kAllGatherV);
  host_.StartCollective(context_, {.function = "NewOne", .algorithm = "NEW", .protocol = ""});
  EXPECT_EQ(LastRecord(*page_).function, job_page::Function::kOther);
  EXPECT_EQ(LastRecord(*page_).algorithm, Algorithm::kOther);
  EXPECT_EQ(LastRecord(*page_).protocol, Protocol::kUnknown);
}

TEST_P(EachVersion, TimersThatAreWrong) {
  if (version() < 4) GTEST_SKIP() << "no timers of kernels";
  const uint64_t before = Lost(*page_, Loss::kStaleTimer);
  host_.PlayCollective(context_, {.sequence = 1}, 5000, 4000);
  EXPECT_EQ(Lost(*page_, Loss::kStaleTimer), before + 1);
  EXPECT_EQ(LastRecord(*page_).timing, Timing::kNone);
  host_.PlayCollective(context_, {.sequence = 2}, 0, 4000);
  EXPECT_EQ(Lost(*page_, Loss::kStaleTimer), before + 2);
  // The first channel's begin was overwritten by a later kernel.
  void* handle = host_.StartCollective(context_, {.sequence = 3});
  void* first = host_.StartChannel(context_, handle, 0, 90'000);
  void* second = host_.StartChannel(context_, handle, 1, 1000);
  host_.StopChannel(first, 2000), host_.StopChannel(second, 2000);
  EXPECT_EQ(Lost(*page_, Loss::kStaleTimer), before + 3);
  EXPECT_EQ(Progress(communicator(), job_page::Function::kAllReduce).done.load(), 4u);
}

TEST_P(EachVersion, MoreInFlightThanHandles) {
  const uint64_t before = Lost(*page_, Loss::kNoHandle);
  const uint64_t operations = 5000;
  std::vector<void*> handles;
  const auto begin = std::chrono::steady_clock::now();
  for (uint64_t i = 0; i < operations; ++i)
    handles.push_back(host_.StartCollective(context_, {.sequence = i}));
  // Those without a sign for a second are given up, and their handles are free again.
  if (std::chrono::steady_clock::now() - begin > std::chrono::milliseconds(900))
    GTEST_SKIP() << "the machine is too slow";
  const auto given =
      std::count_if(handles.begin(), handles.end(), [](void* handle) { return handle != nullptr; });
  EXPECT_LE(given, static_cast<ptrdiff_t>(kOperations));
  EXPECT_GT(given, static_cast<ptrdiff_t>(kOperations) * 9 / 10);
  EXPECT_EQ(Lost(*page_, Loss::kNoHandle) - before, operations - static_cast<uint64_t>(given));
  EXPECT_EQ(Progress(communicator(), job_page::Function::kAllReduce).operations.load(), operations);
  for (void* handle : handles) host_.Stop(handle);
  // The communicator's end frees them.
  host_.Finalize(context_);
  context_ = host_.Init(&mask_, world_);
  EXPECT_NE(nullptr, host_.StartCollective(context_, {}));
}

TEST_P(EachVersion, KernelsFromOtherThreads) {
  if (version() < 3) GTEST_SKIP() << "no events of kernels";
  const uint64_t records = page_->header.next_record.load();
  constexpr uint64_t kTimes = 300;
  constexpr int kChannels = 8;
  std::array<std::atomic<void*>, kTimes> handles{};
  std::vector<std::thread> threads;
  // Each thread runs every second channel, and ends handles that the other has ended.
  for (int half = 0; half < 2; ++half) {
    threads.emplace_back([&, half] {
      for (auto& slot : handles) {
        void* handle;
        while (!(handle = slot.load())) std::this_thread::yield();
        for (int i = half; i < kChannels; i += 2) {
          void* channel = host_.StartChannel(context_, handle, i, 1000);
          host_.StopChannel(channel, 2000);
          host_.Stop(channel), host_.Stop(handle);
        }
      }
    });
  }
  for (uint64_t i = 0; i < kTimes; ++i) {
    void* handle = host_.StartCollective(context_, {.sequence = i, .channels = kChannels});
    handles[i] = handle;
    host_.Stop(handle);
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(page_->header.next_record.load(), records + kTimes);
  EXPECT_EQ(Progress(communicator(), job_page::Function::kAllReduce).done.load(), kTimes);
}

TEST_P(EachVersion, ManyCommunicators) {
  const uint64_t before = Lost(*page_, Loss::kNoCommunicator);
  if (version() < 3) SetLevel(Level::kCount);  // without kernels nothing ends
  constexpr int kMany = 4096;
  std::vector<void*> contexts;
  NcclHost::World world;
  world.name = nullptr;
  for (int i = 0; i < kMany; ++i) {
    world.hash = 0x100000 + static_cast<unsigned>(i);
    contexts.push_back(host_.Init(&mask_, world));
    host_.PlayCollective(contexts.back(), {}, 100, 200);
  }
  EXPECT_GE(Lost(*page_, Loss::kNoCommunicator) - before, static_cast<uint64_t>(kMany) - kCommunicators);
  for (void* context : contexts) host_.Finalize(context);
  // Slots are free again.
  world.hash = NextHash();
  void* context = host_.Init(&mask_, world);
  host_.PlayCollective(context, {}, 100, 200);
  EXPECT_NE(FindCommunicator(*page_, world.hash), nullptr);
  host_.Finalize(context);
  EXPECT_EQ(FindCommunicator(*page_, world.hash), nullptr);
}

// Waits for a child; its exit status, or minus the signal.
int EndOf(pid_t child) {
  int status = 0;
  EXPECT_EQ(child, ::waitpid(child, &status, 0));
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST_P(EachVersion, ForkedChildLeavesThePageAlone) {
  void* running = host_.StartCollective(context_, {.sequence = 1});
  const uint64_t records = page_->header.next_record.load();
  const uint64_t last = page_->header.last_event_boot_ns.load();
  const pid_t child = ::fork();
  if (child == 0) {
    if (CurrentPage() != nullptr) ::_exit(2);
    host_.StartCollective(context_, {.sequence = 2});
    host_.Stop(running);
    host_.Finalize(context_);
    if (page_->header.next_record.load() != records) ::_exit(3);
    // A library that starts in the child has a page of its own.
    int mask = 0;
    NcclHost host(OwnTable(GetParam()), GetParam());
    void* context = host.Init(&mask, {.hash = 1});
    Page* page = CurrentPage();
    if (!page || page == page_ || page->header.pid != ::getpid()) ::_exit(4);
    page->header.wanted_level.store(static_cast<uint32_t>(Level::kCount));
    host.StartCollective(context, {});
    if (page->header.next_record.load() != 1 || page_->header.next_record.load() != records) ::_exit(5);
    ::_exit(0);
  }
  EXPECT_EQ(EndOf(child), 0);
  EXPECT_EQ(page_->header.last_event_boot_ns.load(), last);
  EXPECT_NE(nullptr, FindCommunicator(*page_, world_.hash));
  host_.Stop(running);
}

TEST_P(EachVersion, AbortEndsTheProcessAtOnce) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_DUMPABLE, 0);
    ::signal(SIGABRT, SIG_DFL);
    int mask = 0;
    NcclHost host(OwnTable(GetParam()), GetParam());
    host.StartCollective(host.Init(&mask, {}), {});
    ::abort();
  }
  EXPECT_EQ(EndOf(child), -SIGABRT);
}

TEST_P(EachVersion, NoAllocationsInEvents) {
  NcclDescriptor collective(version(), 2);
  collective.Set("coll.func", version() == 1 ? uint64_t{4} : reinterpret_cast<uint64_t>("AllReduce"));
  collective.Set("coll.commHash", world_.hash).Set("coll.count", 8);
  const uint64_t before = ThreadAllocations();
  for (int i = 0; i < 100; ++i) host_.Stop(host_.Start(context_, collective));
  EXPECT_EQ(ThreadAllocations(), before);
}

// The kernel ends this process at any other system call than its end. Not the strict mode of seccomp, which
// forbids to read the processor's clock, too.
void ForbidSystemCalls() {
  sock_filter rules[] = {
      {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
      {BPF_JMP | BPF_JEQ | BPF_K, 1, 0, SYS_exit},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_KILL_PROCESS},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
  };
  const sock_fprog program{static_cast<unsigned short>(std::size(rules)), rules};
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) ::_exit(77);
}

TEST_P(EachVersion, NoSystemCallsInEvents) {
  if (kThreadSanitizer || kAddressSanitizer) GTEST_SKIP() << "a sanitizer makes system calls";
  const pid_t child = ::fork();
  if (child == 0) {
    int mask = 0;
    NcclHost host(OwnTable(GetParam()), GetParam());
    void* context = host.Init(&mask, world_);
    NcclDescriptor collective(version(), 2), channel(version(), 64);
    collective.Set("coll.nChannels", 2).Set("coll.nMaxChannels", 2).Set("coll.commHash", world_.hash);
    // Members by their places, since looking them up allocates.
    auto* sequence = collective.At<uint64_t>("coll.seqNumber");
    auto* parent = channel.At<void*>("parentObj");
    auto* number = channel.At<uint8_t>("kernelCh.channelId");
    const uint64_t timer = 2000;
    Page* page = CurrentPage();
    ForbidSystemCalls();
    for (uint64_t i = 0; i < 10'000; ++i) {
      if (sequence) *sequence = i;
      *parent = host.Start(context, collective);
      for (uint8_t at = 0; number && at < 2; ++at) {
        *number = at;
        void* kernel = host.Start(context, channel);
        host.Record(kernel, 22, &timer), host.Stop(kernel);
      }
      host.Stop(*parent);
    }
    ::syscall(SYS_exit, page->header.next_record.load() > 0 || version() < 3 ? 0 : 1);
  }
  const int end = EndOf(child);
  if (end == 77) GTEST_SKIP() << "no filter of system calls here";
  EXPECT_EQ(end, 0);
}

TEST(NcclPlugin, TwoLibrariesAtOnce) {
  std::vector<std::thread> threads;
  std::array<int, 2> masks{};
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      const int version = i == 0 ? 2 : 7;
      NcclHost host(OwnTable(version), version);
      NcclHost::World world{.hash = 0x77000 + static_cast<unsigned>(i)};
      void* context = host.Init(&masks[static_cast<size_t>(i)], world);
      for (uint64_t n = 0; n < 500; ++n) host.PlayCollective(context, {.sequence = n}, 100, 200);
      const Communicator* found = FindCommunicator(*CurrentPage(), world.hash);
      ASSERT_NE(found, nullptr);
      EXPECT_EQ(Progress(*found, job_page::Function::kAllReduce).operations.load(), 500u);
      host.Finalize(context);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(masks[0], 0x0E);
  EXPECT_EQ(masks[1], 0x46);
}

// Runs in a child with its own environment, since a process opens its page once. 0: all is well.
int InChild(const std::function<int()>& run) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(run());
  return EndOf(child);
}

int CountOne() {
  int mask = 0;
  NcclHost host(OwnTable(7), 7);
  void* context = host.Init(&mask, {.hash = 5});
  host.PlayCollective(context, {}, 100, 200);
  host.Finalize(context);
  Page* page = CurrentPage();
  return page && page->header.next_record.load() == 1 ? 0 : 1;
}

int Listen(int type, const std::string& path, int backlog) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size());
  const int socket = ::socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
  EXPECT_EQ(0, ::bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof address));
  EXPECT_EQ(0, ::listen(socket, backlog));
  return socket;
}

// A page that came by a socket, as an agent holds it.
struct ReceivedPage {
  explicit ReceivedPage(int listening) {
    pollfd ready{listening, POLLIN, 0};
    if (::poll(&ready, 1, 20'000) != 1) return;
    connection.reset(::accept(listening, nullptr, nullptr));
    Hello hello{};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    iovec bytes{&hello, sizeof hello};
    msghdr message{};
    message.msg_iov = &bytes, message.msg_iovlen = 1;
    message.msg_control = control, message.msg_controllen = sizeof control;
    EXPECT_EQ(static_cast<ssize_t>(sizeof hello), ::recvmsg(connection.get(), &message, 0));
    EXPECT_EQ(hello.magic, kMagic);
    EXPECT_EQ(hello.layout, kLayout);
    EXPECT_EQ(hello.writer, static_cast<uint32_t>(Writer::kNcclPlugin));
    int descriptor = -1;
    std::memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof descriptor);
    file.reset(descriptor);
    void* at = ::mmap(nullptr, sizeof(Page), PROT_READ, MAP_SHARED, descriptor, 0);
    if (at != MAP_FAILED) page = static_cast<Page*>(at);
  }
  ReceivedPage(ReceivedPage&& from) noexcept
      : connection(std::move(from.connection)),
        file(std::move(from.file)),
        page(std::exchange(from.page, nullptr)) {}
  ~ReceivedPage() {
    if (page) ::munmap(page, sizeof(Page));
  }

  UniqueFd connection, file;
  Page* page = nullptr;  // null: none came
};

TEST(NcclPlugin, HandsItsPageToTheAgent) {
  TempFolder folder;
  const std::string path = folder.path() + "/job.sock";
  const int listening = Listen(SOCK_SEQPACKET, path, 4);
  ASSERT_EQ(0, InChild([&] {
              ::setenv(kSocketVariable, path.c_str(), 1);
              return CountOne();
            }));
  const ReceivedPage received(listening);
  ASSERT_NE(received.page, nullptr);
  EXPECT_EQ(::fcntl(received.file.get(), F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW);
  EXPECT_EQ(received.page->header.next_record.load(), 1u);
  // The process has ended.
  char byte;
  EXPECT_EQ(0, ::recv(received.connection.get(), &byte, 1, 0));
  ::close(listening);
}

// Collectives until `stop` is readable.
int PlayUntil(int stop, const char* level) {
  ::setenv("GPULENS_NCCL_LEVEL", level, 1);
  int mask = 0;
  NcclHost host(OwnTable(7), 7);
  void* context = host.Init(&mask, {.hash = 5});
  uint64_t number = 0;
  for (pollfd end{stop, POLLIN, 0}; ::poll(&end, 1, 10) == 0;) {
    NcclDescriptor group(7, 1);
    host.Stop(host.Start(context, group));
    errno = EXDEV;
    if ((mask & 2) != 0) host.PlayCollective(context, {.sequence = number++}, 100, 200);
    if (errno != EXDEV) return 3;
  }
  return CurrentPage() ? 0 : 2;
}

// Three jobs at once, since each takes five seconds: one has an agent that ends, one measures nothing then,
// and one starts before there is an agent.
TEST(NcclPlugin, TheNextAgentGetsThePageAgain) {
  if (::access("/dev/shm", W_OK) != 0) GTEST_SKIP() << "no files in memory here";
  const std::string files = "/dev/shm/gpulens-test-" + std::to_string(::getpid());
  std::filesystem::create_directory(files);
  TempFolder folder;
  const std::string path = folder.path() + "/job.sock", later = folder.path() + "/later.sock";
  int stop[2];
  ASSERT_EQ(::pipe(stop), 0);
  std::vector<ReceivedPage> first;
  const auto start = [&](const std::string& socket, const char* level) {
    const pid_t child = ::fork();
    if (child != 0) return child;
    ::close(stop[1]);
    first.clear();  // the connections of other jobs
    ::setenv(kSocketVariable, socket.c_str(), 1);
    ::setenv(kFolderVariable, files.c_str(), 1);
    ::_exit(PlayUntil(stop[0], level));
  };
  std::vector<pid_t> children;
  int listening = Listen(SOCK_SEQPACKET, path, 4);
  for (const char* level : {"time", "off"}) {
    children.push_back(start(path, level));
    first.emplace_back(listening);
    ASSERT_NE(first.back().page, nullptr);
    EXPECT_EQ(first.back().page->header.pid, children.back());
  }
  children.push_back(start(later, "time"));
  first.clear();
  ::close(listening), ::unlink(path.c_str());
  const std::string left =
      files + "/gpulens-job-" + std::to_string(::getuid()) + "-" + std::to_string(children[2]) + "-1";
  for (int i = 0; i < 1000 && ::access(left.c_str(), F_OK) != 0; ++i) ::poll(nullptr, 0, 10);
  ASSERT_EQ(::access(left.c_str(), F_OK), 0);

  listening = Listen(SOCK_SEQPACKET, path, 4);
  const int listening_later = Listen(SOCK_SEQPACKET, later, 4);
  std::vector<ReceivedPage> again;
  for (const int socket : {listening, listening, listening_later}) again.emplace_back(socket);
  ::close(listening), ::close(listening_later);
  std::set<pid_t> came;
  for (const ReceivedPage& received : again) {
    ASSERT_NE(received.page, nullptr);
    const Header& header = received.page->header;
    came.insert(header.pid);
    if (header.pid == children[1]) continue;
    const uint64_t before = header.next_record.load();
    EXPECT_GT(before, 10u);
    for (int i = 0; i < 1000 && header.next_record.load() == before; ++i) ::poll(nullptr, 0, 10);
    EXPECT_GT(header.next_record.load(), before) << "records go on";
  }
  EXPECT_EQ(came, std::set<pid_t>(children.begin(), children.end()));
  for (int i = 0; i < 1000 && ::access(left.c_str(), F_OK) == 0; ++i) ::poll(nullptr, 0, 10);
  EXPECT_NE(::access(left.c_str(), F_OK), 0) << "the agent holds it";
  ::close(stop[1]);
  for (const pid_t child : children) EXPECT_EQ(EndOf(child), 0);
  ::close(stop[0]);
  std::filesystem::remove_all(files);
}

TEST(NcclPlugin, ThePageNamesTheJob) {
  const auto job = [](std::initializer_list<std::pair<const char*, const char*>> variables,
                      std::string_view expected) {
    return InChild([&] {
      for (const char* variable : kJobVariables) ::unsetenv(variable);
      for (const auto& [variable, value] : variables) ::setenv(variable, value, 1);
      return CountOne() == 0 && CurrentPage()->header.job == expected ? 0 : 1;
    });
  };
  EXPECT_EQ(0, job({}, ""));
  EXPECT_EQ(0, job({{"SLURM_JOB_ID", "4711"}, {"TORCHELASTIC_RUN_ID", "x"}}, "4711"));
  EXPECT_EQ(0, job({{"TORCHELASTIC_RUN_ID", "none"}, {"GPULENS_RUN_NAME", "train"}}, "train"));
  EXPECT_EQ(0, job({{"SLURM_JOB_ID", ""}, {"TORCHELASTIC_RUN_ID", std::string(99, 'x').c_str()}},
                   std::string(47, 'x')));
}

TEST(NcclPlugin, HostileSocketsDoNotHoldTheJob) {
  TempFolder folder;
  const auto started = std::chrono::steady_clock::now();
  const auto count = [&](const std::string& path) {
    return InChild([&] {
      ::setenv(kSocketVariable, path.c_str(), 1);
      return CountOne();
    });
  };
  // Without anyone who accepts: two connections fill it.
  const int full = Listen(SOCK_SEQPACKET, folder.path() + "/full", 0);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(0, count(folder.path() + "/full"));
  const int stream = Listen(SOCK_STREAM, folder.path() + "/stream", 4);
  EXPECT_EQ(0, count(folder.path() + "/stream"));
  EXPECT_EQ(0, count(folder.path() + "/absent"));
  EXPECT_EQ(0, count(folder.path()));
  EXPECT_EQ(0, count(std::string(300, 'x')));
  EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::seconds(20));
  ::close(full), ::close(stream);
}

TEST(NcclPlugin, WithoutAnyPageTheJobGoesOn) {
  const auto quiet = [] {
    int mask = 0x123;
    NcclHost host(OwnTable(7), 7);
    void* context = host.Init(&mask, {.hash = 5});
    host.PlayCollective(context, {}, 100, 200);
    host.Finalize(context);
    return context && !CurrentPage() && mask == 0 ? 0 : 1;
  };
  EXPECT_EQ(0, InChild([&] { return ::setenv(kFolderVariable, "/nowhere/at/all", 1), quiet(); }));
  EXPECT_EQ(0, InChild([&] { return ::setenv(kSwitchVariable, "off", 1), quiet(); }));
}

TEST(NcclPlugin, FilesOfDeadAndOfLivingProcesses) {
  TempFolder folder;
  // A dead process left the file; one of another namespace lives and holds the next.
  EXPECT_EQ(
      0, InChild([&] {
        ::setenv(kFolderVariable, folder.path().c_str(), 1);
        const std::string name = folder.path() + "/gpulens-job-" + std::to_string(::getuid()) + "-" +
                                 std::to_string(::getpid()) + "-1";
        const int dead = ::open(name.c_str(), O_RDWR | O_CREAT, 0600);
        ::close(dead);
        if (CountOne() != 0) return 1;
        struct stat info{};
        if (::stat(name.c_str(), &info) != 0 || info.st_size != sizeof(Page) || (info.st_mode & 0777) != 0600)
          return 2;
        OwnPage second;
        second.Open({Writer::kNcclPlugin, "1", Level::kCount});
        if (::access((name + "-2").c_str(), R_OK) != 0) return 3;
        second.RemoveFile();
        return ::access((name + "-2").c_str(), R_OK) == 0 ? 4 : 0;
      }));
}

// The folder of this program has the shared objects, too.
std::string Built(const char* name) {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().string() + "/" + name;
}

// A few calls as NCCL makes them; handles of stale and of foreign parents among them.
void PlayForChain(NcclHost& host, int version, int* mask) {
  NcclHost::World world{.hash = 0xC4A1, .name = "chained"};
  void* context = host.Init(mask, world);
  for (uint64_t i = 0; i < 3; ++i) {
    NcclDescriptor group(version, 1);
    void* group_handle = host.Start(context, group);
    NcclHost::Collective collective{.sequence = i, .group = group_handle};
    void* api = version >= 5 ? host.StartApi(context, 512, "AllReduce", "ncclFloat32", false) : nullptr;
    collective.parent = version >= 5 ? api : group_handle;
    void* handle = host.StartCollective(context, collective);
    host.Stop(handle);
    void* proxy = host.StartProxyOp(context, handle, ::getpid(), 0);
    void* foreign = host.StartProxyOp(context, reinterpret_cast<void*>(0x7777), ::getpid() + 1, 0);
    for (int at = 0; version >= 3 && at < 2; ++at)
      host.StopChannel(host.StartChannel(context, handle, at, 100), 200);
    host.Stop(proxy), host.Stop(foreign), host.Stop(group_handle);
    if (api) host.Stop(api);
    void* peer = host.StartPeer(context, "Send", 1, 10, 1);
    host.Stop(peer);
  }
  host.Finalize(context);
}

class NcclChain : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Abi, NcclChain, ::testing::Values(1, 4, 7),
                         [](const auto& row) { return "v" + std::to_string(row.param); });

TEST_P(NcclChain, ThePluginBehindGetsTheSame) {
  const std::string path = Built("libnccl_event_log.so");
  ASSERT_EQ(0, ::access(path.c_str(), R_OK)) << path;
  EXPECT_EQ(0, InChild([&] {
              const std::string symbol = "ncclProfiler_v" + std::to_string(GetParam());
              void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
              auto* log = static_cast<char*>(::dlsym(library, "nccl_event_log"));
              int mask = 0;
              NcclHost alone(::dlsym(library, symbol.c_str()), GetParam());
              PlayForChain(alone, GetParam(), &mask);
              const std::string expected = log;
              log[0] = '\0';
              ::setenv(kChainVariable, path.c_str(), 1);
              ForgetChain();
              NcclHost behind(OwnTable(GetParam()), GetParam());
              PlayForChain(behind, GetParam(), &mask);
              if (expected.size() < 300 || mask != 0xFFF) return 1;
              if (expected != log) {
                std::fprintf(stderr, "alone:\n%s\nbehind:\n%s\n", expected.c_str(), log);
                return 2;
              }
              // And ours has counted.
              const uint64_t records = CurrentPage()->header.next_record.load();
              return records == 6 ? 0 : 10 + static_cast<int>(records);
            }));
}

TEST(NcclPlugin, AChainThatCannotBe) {
  const auto count = [](const std::string& chain) {
    ::setenv(kChainVariable, chain.c_str(), 1);
    ForgetChain();
    return CountOne() == 0 && CurrentPage()->header.trouble[0] != '\0' ? 0 : 1;
  };
  EXPECT_EQ(0, InChild([&] { return count("/nowhere/plugin.so"); }));
  // A library without tables.
  EXPECT_EQ(0, InChild([&] { return count("libm.so.6"); }));
  // One that refuses to start.
  EXPECT_EQ(0, InChild([&] {
              const std::string path = Built("libnccl_event_log.so");
              void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
              *static_cast<int*>(::dlsym(library, "nccl_event_log_result")) = 3;
              return count(path);
            }));
}

TEST(NcclPlugin, LoadedUnloadedAndLoadedAgain) {
  const std::string path = Built("libgpulens-nccl-profiler.so");
  ASSERT_EQ(0, ::access(path.c_str(), R_OK)) << path;
  EXPECT_EQ(0, InChild([&] {
              for (uint64_t i = 0; i < 3; ++i) {
                void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
                if (!library) return 1;
                NcclHost host(::dlsym(library, "ncclProfiler_v6"), 6);
                int mask = 0;
                void* context = host.Init(&mask, {.hash = 9});
                if (mask != 0x46) return 2;
                host.PlayCollective(context, {.sequence = i}, 100, 200);
                void* stale = host.StartCollective(context, {.sequence = i});
                host.Finalize(context);
                ::dlclose(library);
                host.Stop(stale);  // code that stays
              }
              // One page for all three.
              const std::string name = std::string(std::getenv(kFolderVariable)) + "/gpulens-job-" +
                                       std::to_string(::getuid()) + "-" + std::to_string(::getpid()) + "-1";
              const int file = ::open(name.c_str(), O_RDONLY);
              if (file < 0) return 3;
              const auto* page =
                  static_cast<Page*>(::mmap(nullptr, sizeof(Page), PROT_READ, MAP_SHARED, file, 0));
              // Each finalize gives up one that was enqueued and never ran.
              return page != MAP_FAILED && page->header.next_record.load() == 6 ? 0 : 4;
            }));
}

TEST(NcclPlugin, NamesOfAllFunctions) {
  EXPECT_EQ(FunctionOf("AlltoAll"), job_page::Function::kAllToAll);
  EXPECT_EQ(FunctionOf("AllGatherV"), job_page::Function::kAllGatherV);
  EXPECT_EQ(FunctionOf("AllGat"), job_page::Function::kOther);
  EXPECT_EQ(FunctionOf(nullptr), job_page::Function::kOther);
  EXPECT_EQ(FunctionOfNumber(5), job_page::Function::kOther);
  EXPECT_EQ(FunctionOfNumber(255), job_page::Function::kOther);
  EXPECT_EQ(DatatypeOfNumber(9), Datatype::kBfloat16);
  EXPECT_EQ(DatatypeOfNumber(12), Datatype::kUnknown);
  EXPECT_EQ(AlgorithmOfNumber(6), Algorithm::kPat);
  EXPECT_EQ(AlgorithmOfNumber(7), Algorithm::kOther);
  EXPECT_EQ(ProtocolOfNumber(2), Protocol::kSimple);
  EXPECT_EQ(ProtocolOf("LL128"), Protocol::kLowLatency128);
}

}  // namespace
}  // namespace gpulens::nccl_plugin
