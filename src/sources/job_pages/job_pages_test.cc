#include "sources/job_pages/job_pages.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <set>

#include "base/testing/temp_folder.h"
#include "job_page/job_page_testing.h"

namespace gpulens {
namespace {

using job_page::Function;
using job_page::Hello;
using job_page::TestPage;
using job_page::Writer;

uint64_t BootNow() { return static_cast<uint64_t>(RealClock().Now().boot_ns); }

UniqueFd ConnectTo(const std::string& path) {
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  path.copy(at.sun_path, sizeof at.sun_path - 1);
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  for (int i = 0; i < 500; ++i) {
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0) return socket;
    ::poll(nullptr, 0, 10);
  }
  return {};
}

void Send(int socket, const Hello& hello, int fd, size_t bytes = sizeof(Hello)) {
  iovec part{const_cast<Hello*>(&hello), bytes};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(rights), &fd, sizeof fd);
  }
  ASSERT_EQ(::sendmsg(socket, &message, MSG_NOSIGNAL), static_cast<ssize_t>(bytes));
}

constexpr Hello kGood{job_page::kMagic, job_page::kLayout, 1};

template <class Condition>
bool Wait(Condition&& condition) {
  for (int i = 0; i < 1000; ++i) {
    if (condition()) return true;
    ::poll(nullptr, 0, 10);
  }
  return false;
}

class JobPagesTest : public ::testing::Test {
 protected:
  JobPagesTest() { pages_.Configure({.socket = socket_, .folders = {folder_.path()}}); }

  testing::TempFolder folder_;
  const std::string socket_ = folder_.path() + "/job.sock";
  JobPages pages_;
};

TEST_F(JobPagesTest, TakesPagesAtTheSocketUntilTheProcessEnds) {
  auto feed = pages_.Subscribe("test");
  auto other = pages_.Subscribe("other");
  TestPage page(Writer::kNcclPlugin, BootNow());
  page.AddCommunicator(0, 0xABC, 1, 4, "tp");
  page.AddRecord(0, Function::kAllReduce, 0, 8, 1000, BootNow());
  UniqueFd socket = ConnectTo(socket_);
  ASSERT_TRUE(socket);
  Send(socket.get(), kGood, page.fd());
  size_t records = 0, other_records = 0;
  uint64_t id = 0;
  ASSERT_TRUE(Wait([&] {
    feed->Visit([&](const JobPageView& view) {
      EXPECT_TRUE(view.owner.by_socket);
      EXPECT_EQ(view.owner.pid, ::getpid());
      EXPECT_NE(view.owner.start_ticks, 0u);
      EXPECT_EQ(view.owner.uid, ::getuid());
      EXPECT_EQ(view.page.communicators.size(), 1u);
      id = view.owner.id;
      records += view.records.size();
    });
    return records > 0;
  }));
  page.AddRecord(0, Function::kAllReduce, 1, 8, 1000, BootNow());
  ASSERT_TRUE(Wait([&] {
    feed->Visit([&](const JobPageView& view) { records += view.records.size(); });
    return records >= 2;
  }));
  other->Visit([&](const JobPageView& view) { other_records += view.records.size(); });
  EXPECT_EQ(other_records, 2u);
  other->Visit([&](const JobPageView& view) { other_records += view.records.size(); });
  EXPECT_EQ(other_records, 2u);

  EXPECT_TRUE(pages_.SetLevel(id, job_page::Level::kLink).ok());
  EXPECT_EQ(page.page().header.wanted_level.load(), static_cast<uint32_t>(job_page::Level::kLink));

  page.AddRecord(0, Function::kAllReduce, 2, 8, 1000, BootNow());
  socket.reset();
  int ends = 0;
  ASSERT_TRUE(Wait([&] {
    feed->Visit([&](const JobPageView& view) {
      records += view.records.size();
      ends += view.ended ? 1 : 0;
    });
    return ends > 0;
  }));
  feed->Visit([&](const JobPageView&) { ++ends; });
  EXPECT_EQ(ends, 1);
  EXPECT_EQ(records, 3u);
  other->Visit([&](const JobPageView& view) { other_records += view.records.size(); });
  EXPECT_EQ(other_records, 3u);
  EXPECT_EQ(pages_.counts().pages, 0u);
  EXPECT_FALSE(pages_.SetLevel(id, job_page::Level::kOff).ok());
}

TEST_F(JobPagesTest, RefusesJunk) {
  pages_.Configure({.socket = socket_, .folders = {}, .pages = 10, .pages_of_user = 2});
  auto feed = pages_.Subscribe("test");
  TestPage page(Writer::kNcclPlugin, BootNow());
  uint64_t refused = 0;
  const auto refuses = [&](const char* what, const Hello& hello, int fd, size_t bytes = sizeof(Hello)) {
    UniqueFd socket = ConnectTo(socket_);
    ASSERT_TRUE(socket);
    Send(socket.get(), hello, fd, bytes);
    ++refused;
    EXPECT_TRUE(Wait([&] { return pages_.counts().refused == refused; })) << what;
    // It is disconnected.
    char byte = 0;
    EXPECT_EQ(::recv(socket.get(), &byte, 1, 0), 0) << what;
  };
  refuses("no descriptor", kGood, -1);
  refuses("a short greeting", kGood, page.fd(), 5);
  refuses("another magic", {1, job_page::kLayout, 1}, page.fd());
  refuses("another layout", {job_page::kMagic, 77, 1}, page.fd());
  UniqueFd null(::open("/dev/null", O_RDWR));
  refuses("a device", kGood, null.get());
  UniqueFd first = ConnectTo(socket_), second = ConnectTo(socket_);
  Send(first.get(), kGood, page.fd());
  Send(second.get(), kGood, page.fd());
  ASSERT_TRUE(Wait([&] { return pages_.counts().pages == 2; }));
  refuses("a third page of a user", kGood, page.fd());
  // Bytes after the greeting end the page.
  Send(first.get(), kGood, -1);
  EXPECT_TRUE(Wait([&] { return pages_.counts().pages == 1; }));
  // What is no page any more is given up, too.
  page.page().header.magic = 1;
  EXPECT_TRUE(Wait([&] { return pages_.counts().pages == 0; }));
  EXPECT_GE(pages_.counts().unreadable, 1u);
}

TEST_F(JobPagesTest, ReadsFilesOfLivingProcessesAndRemovesTheOthers) {
  const std::string name =
      "/gpulens-job-" + std::to_string(::getuid()) + "-" + std::to_string(::getpid()) + "-1";
  const std::string path = folder_.path() + name, dead = folder_.path() + "/gpulens-job-0-1-1";
  folder_.Write("gpulens-job-1-2-3", "not a page");
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(::flock(fd.get(), LOCK_EX), 0);
  auto page = std::make_unique<TestPage>(Writer::kProgram, BootNow(), std::move(fd));
  page->AddCommunicator(0, 0xABC, 1, 4);
  {
    TestPage other(Writer::kProgram, BootNow(),
                   UniqueFd(::open(dead.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)));
  }
  auto feed = pages_.Subscribe("test");
  size_t seen = 0;
  ASSERT_TRUE(Wait([&] {
    feed->Visit([&](const JobPageView& view) {
      ++seen;
      EXPECT_EQ(view.owner.file, path);
      EXPECT_EQ(view.owner.uid, ::getuid());
      EXPECT_EQ(view.owner.pid, 0);  // the page does not state when its process started
      EXPECT_FALSE(view.ended);
    });
    return seen > 0;
  }));
  // Files come in any order: the living one may have been taken before the other was looked at.
  EXPECT_TRUE(Wait([&] { return ::access(dead.c_str(), F_OK) != 0; }));
  EXPECT_EQ(::access((folder_.path() + "/gpulens-job-1-2-3").c_str(), F_OK), 0);
  page.reset();
  bool ended = false;
  EXPECT_TRUE(Wait([&] {
    feed->Visit([&](const JobPageView& view) { ended = view.ended; });
    return ended;
  }));
  EXPECT_NE(::access(path.c_str(), F_OK), 0);
}

TEST_F(JobPagesTest, AFileThatIsHandedOverLaterStaysOnePage) {
  // The socket takes files in memory alone.
  if (::access("/dev/shm", W_OK) != 0) GTEST_SKIP() << "no files in memory here";
  const std::string folder = "/dev/shm/gpulens-pages-" + std::to_string(::getpid());
  ASSERT_EQ(::mkdir(folder.c_str(), 0700), 0);
  pages_.Configure({.socket = socket_, .folders = {folder}});
  const std::string path = folder + "/gpulens-job-1-1-1";
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(::flock(fd.get(), LOCK_EX), 0);
  auto page = std::make_unique<TestPage>(Writer::kNcclPlugin, BootNow(), std::move(fd));
  page->AddCommunicator(0, 0xABC, 1, 4);
  page->AddRecord(0, Function::kAllReduce, 0, 8, 1000, BootNow());
  auto feed = pages_.Subscribe("test");
  std::set<uint64_t> ids;
  size_t records = 0;
  bool by_socket = false, ended = false;
  const auto visit = [&] {
    feed->Visit([&](const JobPageView& view) {
      ids.insert(view.owner.id);
      records += view.records.size();
      by_socket = view.owner.by_socket;
      ended = view.ended;
      EXPECT_EQ(view.owner.pid, by_socket ? ::getpid() : 0);
      EXPECT_EQ(view.owner.file, by_socket ? "" : path);
    });
  };
  ASSERT_TRUE(Wait([&] { return visit(), records == 1; }));
  UniqueFd socket = ConnectTo(socket_);
  ASSERT_TRUE(socket);
  Send(socket.get(), kGood, page->fd());
  ASSERT_TRUE(Wait([&] { return visit(), by_socket; }));
  page->AddRecord(0, Function::kAllReduce, 1, 8, 1000, BootNow());
  ASSERT_TRUE(Wait([&] { return visit(), records >= 2; }));
  EXPECT_EQ(records, 2u) << "none twice";
  // Its end is that of the connection now.
  socket.reset();
  ASSERT_TRUE(Wait([&] { return visit(), ended; }));
  EXPECT_EQ(ids.size(), 1u);
  ::unlink(path.c_str());
  ::rmdir(folder.c_str());
}

TEST_F(JobPagesTest, EndsWithItsLastFeedAndBeginsAgain) {
  for (int i = 0; i < 2; ++i) {
    auto feed = pages_.Subscribe("test");
    TestPage page(Writer::kNcclPlugin, BootNow());
    UniqueFd socket = ConnectTo(socket_);
    ASSERT_TRUE(socket);
    Send(socket.get(), kGood, page.fd());
    EXPECT_TRUE(Wait([&] { return pages_.counts().pages == 1; }));
    feed.reset();
    EXPECT_EQ(pages_.counts().pages, 0u);
    EXPECT_NE(::access(socket_.c_str(), F_OK), 0);
  }
}

}  // namespace
}  // namespace gpulens
