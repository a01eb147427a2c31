#include "job_page/job_page_reader.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <atomic>
#include <random>
#include <set>
#include <thread>

#include "base/testing/temp_folder.h"
#include "base/text.h"
#include "job_page/job_page_testing.h"

namespace gpulens::job_page {
namespace {

constexpr Instant kNow{100'000'000'000, 1'700'000'000'000'000'000};
constexpr auto kAllReduce = static_cast<size_t>(Function::kAllReduce);

JobPageReader ReaderOf(const TestPage& page) {
  auto reader = JobPageReader::FromDescriptor(page.Descriptor());
  EXPECT_TRUE(reader.ok()) << reader.status().detail;
  return *std::move(reader);
}

uint64_t Unread(const PageCopy& copy) { return copy.lost[static_cast<size_t>(Loss::kRingFull)]; }

TEST(JobPageReader, CopiesWhatIsThere) {
  TestPage page;
  TestPage::Put(page.page().header.library_version, "2.32.3");
  Communicator& made = page.AddCommunicator(3, 0x7f8c, 2, 8, "DP Group 0");
  TestPage::Put(made.device_id, "0000:1A:00.0");
  page.AddRecord(3, Function::kAllReduce, 0, 1024, 5'000'000, 60'000'000'000);
  page.page().header.lost[static_cast<size_t>(Loss::kNoHandle)] = 7;
  JobPageReader reader = ReaderOf(page);
  EXPECT_TRUE(reader.sealed());
  PageCopy copy;
  ASSERT_TRUE(reader.Read(kNow, copy).ok());
  EXPECT_EQ(copy.writer, Writer::kNcclPlugin);
  EXPECT_EQ(copy.library_version, "2.32.3");
  EXPECT_EQ(copy.lost[static_cast<size_t>(Loss::kNoHandle)], 7u);
  ASSERT_EQ(copy.communicators.size(), 1u);
  const CommunicatorIdentity& who = *copy.communicators[0].identity;
  EXPECT_EQ(who.hash, 0x7f8cu);
  EXPECT_EQ(who.rank, 2);
  EXPECT_EQ(who.ranks, 8);
  EXPECT_EQ(who.name, "DP Group 0");
  EXPECT_EQ(who.device_id, "0000:1a:00.0");
  EXPECT_EQ(copy.communicators[0].functions[kAllReduce].done, 1u);
  EXPECT_EQ(copy.communicators[0].functions[kAllReduce].bytes, 1024u);
  ASSERT_EQ(copy.records.size(), 1u);
  EXPECT_EQ(copy.records[0].duration_ns(), 5'000'000u);
  EXPECT_EQ(copy.records[0].communicator->hash, 0x7f8cu);
  EXPECT_EQ(copy.collective_duration[kAllReduce].count, 1u);
  EXPECT_EQ(copy.collective_duration[kAllReduce].sum_ns, 5'000'000u);
  EXPECT_EQ(copy.rejected, 0u);
  EXPECT_FALSE(copy.phases.has_value());
  EXPECT_FALSE(copy.data_loading.has_value());
  EXPECT_TRUE(copy.devices.empty());
  EXPECT_EQ(page.page().header.read_records.load(), 1u);
  // Each record once.
  ASSERT_TRUE(reader.Read(kNow, copy).ok());
  EXPECT_TRUE(copy.records.empty());
}

TEST(JobPageReader, BoundsAreThoseOfTheWriter) {
  for (uint64_t ns : {uint64_t{1}, uint64_t{64}, uint64_t{65}, uint64_t{1000}, uint64_t{1'048'576},
                      uint64_t{1'048'577}, uint64_t{987'654'321}}) {
    const size_t at = Histogram::BucketOf(ns);
    EXPECT_LE(static_cast<double>(ns), BucketBound(at)) << ns;
    EXPECT_TRUE(at == 0 || static_cast<double>(ns) > BucketBound(at - 1)) << ns;
  }
  EXPECT_EQ(BucketBound(kBuckets - 1), std::numeric_limits<double>::infinity());
}

TEST(JobPageReader, CountsWhatWasOverwritten) {
  TestPage page;
  page.AddCommunicator(0, 1, 0, 2);
  JobPageReader reader = ReaderOf(page);
  PageCopy copy;
  for (uint64_t i = 0; i < kRecords + 100; ++i)
    page.AddRecord(0, Function::kAllGather, i, 8, 1000, 50'000'000'000);
  ASSERT_TRUE(reader.Read(kNow, copy).ok());
  EXPECT_EQ(copy.records.size(), kRecords);
  EXPECT_EQ(Unread(copy), 100u);
  EXPECT_EQ(copy.records.front().sequence, 100u);
}

TEST(JobPageReader, WaitsForAnIncompleteRecordAndThenDoesNot) {
  TestPage page;
  page.AddCommunicator(0, 1, 0, 2);
  page.AddRecord(0, Function::kAllReduce, 0, 8, 1000, 50'000'000'000);
  page.AddRecord(0, Function::kAllReduce, 1, 8, 1000, 50'000'000'000);
  page.page().records[0].ticket = ~uint64_t{0};
  JobPageReader reader = ReaderOf(page);
  PageCopy copy;
  ASSERT_TRUE(reader.Read(kNow, copy).ok());
  EXPECT_TRUE(copy.records.empty());
  page.page().records[0].ticket = 1;
  ASSERT_TRUE(reader.Read(kNow + std::chrono::milliseconds(10), copy).ok());
  EXPECT_EQ(copy.records.size(), 2u);

  page.AddRecord(0, Function::kAllReduce, 2, 8, 1000, 50'000'000'000);
  page.AddRecord(0, Function::kAllReduce, 3, 8, 1000, 50'000'000'000);
  page.page().records[2].ticket = 0;
  ASSERT_TRUE(reader.Read(kNow + std::chrono::seconds(1), copy).ok());
  EXPECT_TRUE(copy.records.empty());
  ASSERT_TRUE(reader.Read(kNow + std::chrono::seconds(3), copy).ok());
  ASSERT_EQ(copy.records.size(), 1u);
  EXPECT_EQ(copy.records[0].sequence, 3u);
  EXPECT_EQ(Unread(copy), 1u);
}

TEST(JobPageReader, TakesTheOtherParts) {
  TestPage page(Writer::kProgram);
  Phases& phases = page.page().phases;
  phases.marked = 1;
  phases.current = static_cast<uint32_t>(Phase::kGpuCompute);
  phases.since_boot_ns = 90'000'000'000;
  phases.transitions = 2;
  phases.total_ns[static_cast<size_t>(Phase::kDataLoading)] = 4'000'000'000;
  for (uint64_t i = 0; i < 2; ++i) {
    phases.edges[i].boot_ns = 80'000'000'000 + i;
    phases.edges[i].phase = static_cast<uint32_t>(Phase::kDataLoading) + static_cast<uint32_t>(i);
    phases.edges[i].ticket = i + 1;
  }
  phases.next_edge = 2;
  page.page().data_loading.wait.Add(20'000'000);
  page.page().data_loading.batches = 1;
  CudaDevice& device = page.page().devices[2];
  device.launches[static_cast<size_t>(Launch::kKernel)] = 10;
  device.kernel.Add(3'000);
  device.busy_ns = 3'000;
  JobPageReader reader = ReaderOf(page);
  PageCopy copy;
  ASSERT_TRUE(reader.Read(kNow, copy).ok());
  ASSERT_TRUE(copy.phases.has_value());
  EXPECT_EQ(copy.phases->current, Phase::kGpuCompute);
  EXPECT_EQ(copy.phases->edges.size(), 2u);
  EXPECT_EQ(copy.phases->total_ns[static_cast<size_t>(Phase::kDataLoading)], 4'000'000'000u);
  ASSERT_TRUE(copy.data_loading.has_value());
  EXPECT_EQ(copy.data_loading->wait.sum_ns, 20'000'000u);
  ASSERT_EQ(copy.devices.size(), 1u);
  EXPECT_EQ(copy.devices[0].device, 2u);
  EXPECT_EQ(copy.devices[0].launches[0], 10u);
  EXPECT_EQ(copy.devices[0].kernel.count, 1u);
  ASSERT_TRUE(reader.Read(kNow, copy).ok());
  EXPECT_TRUE(copy.phases->edges.empty());
  EXPECT_EQ(copy.rejected, 0u);
}

TEST(JobPageReader, RejectsWhatCannotBeTrue) {
  TestPage page;
  page.AddCommunicator(0, 1, 0, 2);
  page.AddRecord(0, Function::kAllReduce, 4, 8, 1000, 50'000'000'000);
  JobPageReader reader = ReaderOf(page);
  PageCopy copy;
  ASSERT_TRUE(reader.Read(kNow, copy).ok());
  const auto rejects = [&](const char* what) {
    const uint64_t before = copy.rejected;
    EXPECT_TRUE(reader.Read(kNow, copy).ok());
    EXPECT_GT(copy.rejected, before) << what;
  };
  FunctionProgress& progress = page.page().communicators[0].functions[kAllReduce];
  progress.done = 3;
  rejects("a count that falls");
  EXPECT_EQ(copy.communicators[0].functions[kAllReduce].done, 5u);
  progress.done = 5;
  progress.enqueued = uint64_t{1} << 50;
  rejects("more operations than nanoseconds");
  EXPECT_EQ(copy.communicators[0].functions[kAllReduce].enqueued, 5u);
  progress.enqueued = 5;
  progress.changed_boot_ns = 200'000'000'000;
  rejects("a time in the future");
  EXPECT_EQ(copy.communicators[0].functions[kAllReduce].changed_boot_ns, 50'000'000'000u);
  progress.changed_boot_ns = 50'000'000'000;

  page.AddRecord(0, Function::kAllReduce, 5, 8, 900'000'000'000, 50'000'000'000);
  rejects("a duration longer than the page is old");
  EXPECT_TRUE(copy.records.empty());
  EXPECT_EQ(copy.collective_duration[kAllReduce].count, 1u);
  page.AddRecord(0, Function::kAllReduce, 6, 8, 1000, 50'000'000'000);
  page.page().records[2].end_ns = 1;
  rejects("an end before the start");
  page.AddRecord(0, Function::kAllReduce, 7, 8, 1000, 50'000'000'000);
  page.page().records[3].communicator = 0xFFFFFFFF;
  rejects("a slot that is none");

  page.AddCommunicator(1, 2, 5, 4);
  rejects("rank 5 of 4");
  EXPECT_EQ(copy.communicators.size(), 1u);
  page.page().header.next_record = 1;
  rejects("a ring that goes back");
  page.page().header.next_record = ~uint64_t{0};
  rejects("a ring that jumps");
}

TEST(JobPageReader, CopiesKernelsByName) {
  TestPage page(Writer::kCudaInjection);
  Kernels& kernels = page.page().kernels;
  const std::string name = "_Z4gemmPf";
  std::memcpy(kernels.names + 1, name.data(), name.size());
  Kernel& kernel = kernels.kernels[7];
  kernel.key = 9;
  kernel.name_at = 1;
  kernel.name_end = static_cast<uint32_t>(1 + name.size());
  kernel.count = 3;
  kernel.total_ns = 3'000;
  kernels.kernels[8].key = 10;
  kernels.kernels[8].name_at = 5;
  kernels.kernels[8].name_end = 0xFFFFFFFF;
  kernels.kernels[8].count = 1;
  JobPageReader reader = ReaderOf(page);
  PageCopy copy;
  ASSERT_TRUE(reader.Read(kNow, copy).ok());
  KernelsCopy out;
  ASSERT_TRUE(reader.ReadKernels(out).ok());
  ASSERT_EQ(out.kernels.size(), 1u);
  EXPECT_EQ(out.kernels[0].name, name);
  EXPECT_EQ(out.kernels[0].count, 3u);
  EXPECT_EQ(out.kernels[0].total_ns, 3'000u);
}

TEST(JobPageReader, LinksOfCommunicatorsThatAreThere) {
  TestPage page;
  const uint32_t generation = page.AddCommunicator(3, 1, 2, 8).generation;
  const auto put = [&](size_t at, uint64_t key, uint64_t sent, uint64_t send_ns) {
    Link& link = page.page().links[at];
    link.key = key, link.sent = sent, link.send_ns = send_ns;
  };
  put(7, LinkKey(3, generation, 5), 10, 5'000);
  put(8, LinkKey(3, generation + 2, 5), 10, 5'000);  // of one that is over
  put(9, LinkKey(3, generation, 8), 10, 5'000);      // no rank
  put(10, LinkKey(3, generation, 2), 10, 5'000);     // itself
  page.page().links[7].waiting[static_cast<size_t>(StepWait::kSend)] = 3;
  page.page().links[7].waiting[static_cast<size_t>(StepWait::kGpu)] = 0xFFFF'FFFF;
  JobPageReader reader = ReaderOf(page);
  PageCopy copy;
  ASSERT_TRUE(reader.Read(kNow, copy).ok());
  EXPECT_TRUE(copy.links.empty()) << "read at the level of links";
  page.page().header.actual_level = static_cast<uint32_t>(Level::kLink);
  ASSERT_TRUE(reader.Read(kNow, copy).ok());
  ASSERT_EQ(copy.links.size(), 1u);
  EXPECT_EQ(copy.links[0].communicator, copy.communicators[0].identity);
  EXPECT_EQ(copy.links[0].peer, 5);
  EXPECT_EQ(copy.links[0].sent, 10u);
  EXPECT_EQ(copy.links[0].send_ns, 5'000u);
  EXPECT_EQ(copy.links[0].waiting, (std::array<uint32_t, 4>{0, 0, 3, 0}));
  EXPECT_EQ(copy.rejected, 3u);
  // The level is lower again: what is in flight ends. Counts that fall, or that cannot be true, are not
  // taken.
  page.page().header.actual_level = static_cast<uint32_t>(Level::kTime);
  put(7, LinkKey(3, generation, 5), 9, ~uint64_t{0});
  ASSERT_TRUE(reader.Read(kNow, copy).ok());
  ASSERT_EQ(copy.links.size(), 1u);
  EXPECT_EQ(copy.links[0].sent, 10u);
  EXPECT_EQ(copy.links[0].send_ns, 5'000u);
}

TEST(JobPageReader, TextIsPrintable) {
  TestPage page;
  Communicator& made = page.AddCommunicator(0, 1, 0, 2);
  TestPage::Put(made.name, "a\xff\x1b[31m");
  std::memset(page.page().header.trouble, 'x', sizeof page.page().header.trouble);
  TestPage::Put(page.page().header.job, "12\n3");
  TestPage::Put(made.device_id, "../../etc");
  JobPageReader reader = ReaderOf(page);
  PageCopy copy;
  ASSERT_TRUE(reader.Read(kNow, copy).ok());
  EXPECT_EQ(copy.communicators[0].identity->name, "a\\xff\\x1b[31m");
  EXPECT_EQ(copy.trouble.size(), sizeof page.page().header.trouble);
  EXPECT_EQ(copy.job, "12\\x0a3");
  EXPECT_EQ(copy.communicators[0].identity->device_id, "");
}

TEST(JobPageReader, SlotsAreUsedAgain) {
  TestPage page;
  page.AddCommunicator(0, 1, 0, 2);
  page.AddRecord(0, Function::kAllReduce, 0, 8, 1000, 50'000'000'000);
  JobPageReader reader = ReaderOf(page);
  PageCopy copy;
  ASSERT_TRUE(reader.Read(kNow, copy).ok());
  page.AddRecord(0, Function::kAllReduce, 1, 8, 1000, 50'000'000'000);
  page.AddCommunicator(0, 2, 0, 2);
  for (FunctionProgress& progress : page.page().communicators[0].functions) {
    progress.enqueued = progress.started = progress.done = 0;
    progress.operations = progress.bytes = 0;
  }
  page.AddRecord(0, Function::kAllReduce, 0, 8, 1000, 50'000'000'000);
  ASSERT_TRUE(reader.Read(kNow, copy).ok());
  ASSERT_EQ(copy.records.size(), 2u);
  EXPECT_EQ(copy.records[0].communicator->hash, 1u);
  EXPECT_EQ(copy.records[1].communicator->hash, 2u);
  EXPECT_EQ(copy.communicators[0].functions[kAllReduce].done, 1u);
  EXPECT_EQ(copy.rejected, 0u);
}

TEST(JobPageReader, RefusesOtherDescriptorsAndPages) {
  int pipe_fds[2];
  ASSERT_EQ(::pipe(pipe_fds), 0);
  UniqueFd reading(pipe_fds[0]), writing(pipe_fds[1]);
  EXPECT_EQ(JobPageReader::FromDescriptor(std::move(reading)).status().code, Code::kInvalidArgument);
  EXPECT_EQ(JobPageReader::FromDescriptor(UniqueFd(::open("/dev/zero", O_RDWR))).status().code,
            Code::kInvalidArgument);
  UniqueFd small(::memfd_create("small", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(JobPageReader::FromDescriptor(std::move(small)).status().code, Code::kInvalidArgument);
  TestPage page;
  JobPageReader reader = ReaderOf(page);
  PageCopy copy;
  page.page().header.magic = 0;
  EXPECT_EQ(reader.Read(kNow, copy).code, Code::kUnavailable);
  page.page().header.magic = 5;
  EXPECT_EQ(reader.Read(kNow, copy).code, Code::kDataLoss);
  page.page().header.magic = kMagic;
  page.page().header.layout = 99;
  EXPECT_EQ(reader.Read(kNow, copy).code, Code::kDataLoss);
  page.page().header.layout = kLayout;
  EXPECT_TRUE(reader.Read(kNow, copy).ok());
  TestPage ahead(Writer::kNcclPlugin, 500'000'000'000);
  EXPECT_EQ(ReaderOf(ahead).Read(kNow, copy).code, Code::kDataLoss);
}

TEST(JobPageReader, AFileThatIsCutIsAnError) {
  gpulens::testing::TempFolder folder;
  const std::string path = folder.path() + "/page";
  EXPECT_EQ(JobPageReader::FromPath(path).status().code, Code::kUnavailable);
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  EXPECT_EQ(JobPageReader::FromPath(path).status().code, Code::kUnavailable);
  TestPage page(Writer::kProgram, 1'000'000'000, std::move(fd));
  auto reader = JobPageReader::FromPath(path);
  ASSERT_TRUE(reader.ok()) << reader.status().detail;
  EXPECT_FALSE(reader->sealed());
  PageCopy copy;
  EXPECT_TRUE(reader->Read(kNow, copy).ok());
  EXPECT_TRUE(reader->SetWantedLevel(Level::kLink).ok());
  EXPECT_EQ(page.page().header.wanted_level.load(), static_cast<uint32_t>(Level::kLink));
  ASSERT_EQ(::ftruncate(page.fd(), sizeof(Header)), 0);
  EXPECT_EQ(reader->Read(kNow, copy).code, Code::kDataLoss);
  ASSERT_EQ(::symlink(path.c_str(), (folder.path() + "/link").c_str()), 0);
  EXPECT_FALSE(JobPageReader::FromPath(folder.path() + "/link").ok());
  ASSERT_EQ(::mkfifo((folder.path() + "/fifo").c_str(), 0600), 0);
  EXPECT_EQ(JobPageReader::FromPath(folder.path() + "/fifo").status().code, Code::kInvalidArgument);
}

// What a reader must find whatever a writer does meanwhile.
void ExpectSane(const PageCopy& copy) {
  EXPECT_LE(copy.communicators.size(), kCommunicators);
  EXPECT_LE(copy.records.size(), kRecords);
  for (const CommunicatorCopy& communicator : copy.communicators) {
    EXPECT_LT(communicator.identity->rank, communicator.identity->ranks);
    EXPECT_TRUE(IsUtf8(communicator.identity->name));
    for (const ProgressCopy& progress : communicator.functions) {
      EXPECT_LE(progress.done, progress.started);
      EXPECT_LE(progress.started, progress.enqueued);
    }
  }
  for (const RecordCopy& record : copy.records) EXPECT_LE(record.start_ns, record.end_ns);
}

TEST(JobPageReader, SurvivesAWriterThatScribbles) {
  TestPage page;
  page.AddCommunicator(0, 1, 0, 2);
  JobPageReader reader = ReaderOf(page);
  std::atomic<bool> stop{false};
  std::thread scribbler([&] {
    std::mt19937_64 random(25);
    auto* words = reinterpret_cast<std::atomic<uint64_t>*>(&page.page());
    // All but magic, layout and size.
    while (!stop) words[4 + random() % (sizeof(Page) / 8 - 4)] = random() >> (random() % 64);
  });
  PageCopy copy;
  for (int i = 0; i < 300; ++i) {
    const Status read = reader.Read(kNow + std::chrono::milliseconds(i), copy);
    if (read.ok()) ExpectSane(copy);
    if (::testing::Test::HasFailure()) break;
  }
  stop = true;
  scribbler.join();
}

TEST(JobPageReader, ReadsEachRecordOnceWhileItIsWritten) {
  TestPage page;
  page.AddCommunicator(0, 1, 0, 2);
  JobPageReader reader = ReaderOf(page);
  constexpr uint64_t kWritten = 60'000;
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (uint64_t i = 0; i < kWritten; ++i)
      page.AddRecord(0, Function::kAllReduce, i, i, 1000 + i, 50'000'000'000);
    done = true;
  });
  PageCopy copy;
  std::set<uint64_t> seen;
  for (bool last = false; !last;) {
    last = done;
    ASSERT_TRUE(reader.Read(kNow, copy).ok());
    for (const RecordCopy& record : copy.records) {
      EXPECT_TRUE(seen.insert(record.sequence).second);
      // Not of two records.
      EXPECT_EQ(record.bytes, record.sequence);
      EXPECT_EQ(record.duration_ns(), 1000 + record.sequence);
    }
  }
  writer.join();
  EXPECT_EQ(seen.size() + Unread(copy), kWritten);
  EXPECT_EQ(copy.rejected, 0u);
}

}  // namespace
}  // namespace gpulens::job_page
