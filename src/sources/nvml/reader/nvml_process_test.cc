// The reader process's loop in this process; the test holds the agent's end of the socket.
#include "sources/nvml/reader/nvml_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <thread>

#include "base/process.h"
#include "reader/process/reader_loop.h"
#include "sources/nvml/simulated/fake_world.h"

namespace gpulens::nvml {
namespace {

TEST(ReaderArguments, AreUnderstood) {
  std::vector<std::string_view> arguments = {"--socket-fd=5",
                                             "--page-fd=6",
                                             "--interval-ns=100000000",
                                             "--medium-ns=2000000000",
                                             "--slow-ns=3000000000",
                                             "--library=/x y",
                                             "--events=8",
                                             "--device-folder=/g",
                                             "--leave-out=a",
                                             "--build-id=0.1",
                                             "--details=3"};
  auto options = ParseReaderArguments(arguments);
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->socket_fd, 5);
  EXPECT_EQ(options->page_fd, 6);
  EXPECT_EQ(options->interval, std::chrono::milliseconds(100));
  EXPECT_EQ(options->slow, std::chrono::seconds(3));
  EXPECT_EQ(options->library_path, "/x y");
  EXPECT_EQ(options->left_out, 10U);
  EXPECT_EQ(options->details, uint32_t{kDetailLinks | kDetailTopology});
  EXPECT_EQ(options->event_types, 8U);
  EXPECT_EQ(options->device_folder, "/g");
}

TEST(ReaderArguments, BadOnesAreNamed) {
  for (std::string_view bad :
       {"--socket-fd=x", "--page-fd=-1", "--interval-ns=5", "--interval-ns=99999999999999999",
        "--leave-out=zz", "--details=zz", "--details=10000", "--what", "plain"}) {
    std::vector<std::string_view> arguments = {"--socket-fd=5", "--page-fd=6", bad};
    auto options = ParseReaderArguments(arguments);
    ASSERT_FALSE(options.ok()) << bad;
    EXPECT_THAT(options.error().detail, testing::HasSubstr(std::string(bad.substr(0, bad.find('=')))));
  }
  EXPECT_FALSE(ParseReaderArguments({}).ok());
}

TEST(Ticks, AreMultiplesOfTheInterval) {
  EXPECT_EQ(reader::NextTick(1'000, Duration(100)), 1'100);
  EXPECT_EQ(reader::NextTick(1'099, Duration(100)), 1'100);
}

class LoopTest : public testing::Test {
 protected:
  LoopTest() {
    auto ends = MakeSocketPair();
    EXPECT_TRUE(ends.ok());
    ends_ = *std::move(ends);
    page_.reset(::memfd_create("test", MFD_CLOEXEC));
    EXPECT_EQ(::ftruncate(page_.get(), kCallPageBytes), 0);
    options_.socket_fd = ends_.theirs.get();
    options_.page_fd = page_.get();
    options_.interval = std::chrono::milliseconds(20);
    options_.lookup = FakeNvmlLookup;
    options_.build_id = "test";
    options_.limited = false;
    // The thread that waits for events outlives a call of the loop by up to half a second; in a process of
    // its own it ends with it.
    options_.event_types = 0;
  }

  // The next message; the bytes stay in buffer_.
  reader::ReaderMessage Next() {
    pollfd wait{.fd = ends_.ours.get(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(::poll(&wait, 1, 10'000), 1);
    ssize_t size = ::recv(ends_.ours.get(), buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    EXPECT_GT(size, 0);
    auto message = reader::DecodeMessage(
        std::span(buffer_).first(static_cast<size_t>(std::max<ssize_t>(size, 0))), NvmlVendor());
    EXPECT_TRUE(message.ok());
    return message.ok() ? *message : reader::ReaderMessage{};
  }

  SocketPair ends_;
  UniqueFd page_;
  ReaderProcessOptions options_;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(reader::kMaxMessage);
};

TEST_F(LoopTest, SendsUntilTheSocketCloses) {
  ASSERT_TRUE(FakeWorld::Get().Use("gpus: 2\nprocesses: [{pid: 5, memory: 1GiB}]\n", nullptr).ok());
  options_.left_out = 2;
  int exit = -1;
  std::thread process([&] { exit = RunNvmlReader(options_); });
  reader::ReaderMessage message = Next();
  EXPECT_EQ(std::get<reader::HelloMessage>(message).build_id, "test");
  message = Next();
  EXPECT_EQ(std::get<reader::LibraryReport>(message).fault, reader::ReaderFault::kNone);
  EXPECT_EQ(std::get<reader::LibraryReport>(message).devices, 2U);
  bool entity[2] = {}, readings = false, processes = false, heartbeat = false;
  for (int i = 0; i < 300 && !(entity[1] && readings && processes && heartbeat); ++i) {
    message = Next();
    if (const auto* report = std::get_if<reader::DeviceReport>(&message)) {
      EXPECT_EQ(report->state, reader::DeviceState::kOk);
      entity[report->device] = true;
    }
    readings |= std::holds_alternative<reader::ReadingsReport>(message);
    if (const auto* more = std::get_if<reader::VendorReport>(&message)) {
      auto decoded = DecodeReport(*more);
      ASSERT_TRUE(decoded.ok());
      processes |= std::holds_alternative<ProcessList>(*decoded);
    }
    heartbeat |= std::holds_alternative<reader::HeartbeatMessage>(message);
    if (i == 20) {
      // GPU 1 was left out until it is requested. Nonsense is ignored.
      EXPECT_FALSE(entity[1]);
      EXPECT_EQ(::send(ends_.ours.get(), "x", 1, 0), 1);
      MessageEncoder encoder;
      auto bytes = encoder.Encode(reader::AttachRequest{.device = 1});
      EXPECT_GT(::send(ends_.ours.get(), bytes.data(), bytes.size(), 0), 0);
    }
  }
  EXPECT_TRUE(entity[0] && entity[1] && readings && processes && heartbeat);
  ends_.ours.reset();
  process.join();
  EXPECT_EQ(exit, kReaderDone);
}

TEST_F(LoopTest, ReportsWhyTheLibraryFailed) {
  ASSERT_TRUE(FakeWorld::Get().Use("errors: [{call: nvmlDeviceGetCount_v2, code: 17}]\n", nullptr).ok());
  EXPECT_EQ(RunNvmlReader(options_), kReaderNoLibrary);
  Next();
  EXPECT_EQ(std::get<reader::LibraryReport>(Next()).code, 17);
}

TEST_F(LoopTest, AMissingLibrary) {
  options_.lookup = nullptr;
  options_.library_path = "/nonexistent/lib.so";
  EXPECT_EQ(RunNvmlReader(options_), kReaderNoLibrary);
  Next();
  reader::ReaderMessage message = Next();
  EXPECT_EQ(std::get<reader::LibraryReport>(message).code, kLibraryNotFound);
  EXPECT_THAT(std::string(std::get<reader::LibraryReport>(message).detail),
              testing::HasSubstr("/nonexistent/lib.so"));
}

TEST_F(LoopTest, ABadPage) {
  EXPECT_EQ(::ftruncate(page_.get(), 16), 0);
  EXPECT_EQ(RunNvmlReader(options_), kReaderBadStart);
}

TEST(Library, SomethingElseIsNotNvml) {
  auto library = NvmlLibrary::Open("libm.so.6");
  ASSERT_FALSE(library.ok());
  EXPECT_EQ(library.error().code, gpulens::Code::kDataLoss);
  EXPECT_FALSE(NvmlLibrary::DefaultPaths().empty());
}

TEST(Library, FromAFileOfOurs) {
  auto library = NvmlLibrary::Open(GPULENS_FAKE_LIBRARY);
  ASSERT_TRUE(library.ok()) << library.error().detail;
  EXPECT_TRUE(library->fn().PowerUsage);
  EXPECT_EQ(library->path(), GPULENS_FAKE_LIBRARY);
  // Every function of ours is in it under its name.
#define EXPECT_THERE(id, symbol, parameters) EXPECT_TRUE(library->fn().id) << #symbol;
  GPULENS_NVML_CALLS(EXPECT_THERE)
#undef EXPECT_THERE
}

TEST(Library, OneThatMayNotBeRead) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read everything";
  std::string path = testing::TempDir() + "unreadable.so";
  FILE* file = ::fopen(path.c_str(), "w");
  ASSERT_NE(file, nullptr);
  ::fclose(file);
  ::chmod(path.c_str(), 0);
  auto library = NvmlLibrary::Open(path);
  ASSERT_FALSE(library.ok());
  EXPECT_EQ(library.error().code, gpulens::Code::kPermissionDenied);
  ::unlink(path.c_str());
}

}  // namespace
}  // namespace gpulens::nvml
