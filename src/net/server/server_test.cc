#include "net/server/server.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "base/testing/temp_folder.h"
#include "net/blocking/inherited_sockets.h"
#include "net/blocking/listening_socket.h"
#include "net/testing/test_client.h"

namespace gpulens {
namespace {

using ::testing::ElementsAre;
using testing::Eventually;
using ::testing::HasSubstr;

TEST(OpenListeningSocket, ErrorsNameTheAddressAndItsOwner) {
  EXPECT_FALSE(OpenListeningSocket(Endpoint()).ok());
  auto elsewhere = OpenListeningSocket(*ParseListenAddress("192.0.2.1:1"));
  ASSERT_FALSE(elsewhere.ok());
  EXPECT_THAT(elsewhere.error().detail, HasSubstr("no interface of this machine has it"));
  auto nowhere = OpenListeningSocket(*ParseListenAddress("unix:/no/such/folder/s.sock"));
  EXPECT_FALSE(nowhere.ok());
}

TEST(OpenListeningSocket, EveryInterface) {
  auto any = OpenListeningSocket(*ParseListenAddress(":0"));
  EXPECT_TRUE(any.ok()) << any.error().detail;
  auto six = OpenListeningSocket(*ParseListenAddress("[::]:0"));
  EXPECT_TRUE(six.ok() || six.error().detail.find("[::]:0") != std::string::npos);
}

TEST(OpenListeningSocket, DeadUnixSocketsAreReplacedAndLiveOnesNot) {
  testing::TempFolder folder;
  Endpoint at = *ParseListenAddress("unix:" + folder.path() + "/s.sock");
  auto first = OpenListeningSocket(at);
  ASSERT_TRUE(first.ok()) << first.error().detail;
  auto second = OpenListeningSocket(at);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.error().detail, HasSubstr("already in use"));
  first->reset();
  EXPECT_TRUE(OpenListeningSocket(at).ok());
  std::string file = folder.Write("plain", "text");
  EXPECT_FALSE(OpenListeningSocket(*ParseListenAddress("unix:" + file)).ok());
}

// As the service manager hands them over: descriptors in a row, and variables.
class InheritedSocketsTest : public ::testing::Test {
 protected:
  static constexpr int kFirst = 700;
  ~InheritedSocketsTest() override { ForgetInheritedSockets(); }

  Status Take(const std::vector<int>& fds, const std::string& names,
              const std::string& pid = std::to_string(::getpid())) {
    for (size_t i = 0; i < fds.size(); ++i) ::dup2(fds[i], kFirst + static_cast<int>(i));
    ::setenv("LISTEN_PID", pid.c_str(), 1);
    ::setenv("LISTEN_FDS", std::to_string(fds.size()).c_str(), 1);
    ::setenv("LISTEN_FDNAMES", names.c_str(), 1);
    Status status = TakeInheritedSockets(kFirst);
    for (const char* name : {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"})
      EXPECT_EQ(::getenv(name), nullptr) << name << " is not passed on";
    return status;
  }
};

ino_t NodeOf(int fd) {
  struct stat facts{};
  EXPECT_EQ(::fstat(fd, &facts), 0);
  return facts.st_ino;
}

Endpoint BoundAddress(const UniqueFd& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  EXPECT_EQ(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  return Endpoint::FromSockaddr(address, size);
}

TEST_F(InheritedSocketsTest, AreUsedForTheirAddresses) {
  testing::TempFolder folder;
  const Endpoint file = *ParseListenAddress("unix:" + folder.path() + "/s.sock");
  UniqueFd tcp = *OpenListeningSocket(*ParseListenAddress("127.0.0.1:0"));
  UniqueFd any = *OpenListeningSocket(*ParseListenAddress(":0"));
  UniqueFd local = *OpenListeningSocket(file);
  const Endpoint at = BoundAddress(tcp);
  Endpoint every = *ParseListenAddress(":1");
  every.port = BoundAddress(any).port;
  ASSERT_TRUE(Take({tcp.get(), any.get(), local.get()}, "http:any:x\x1b").ok());
  EXPECT_TRUE(IsInherited(at) && IsInherited(file) && IsInherited(every));
  const ino_t tcp_node = NodeOf(tcp.get()), any_node = NodeOf(any.get());
  tcp.reset();
  any.reset();
  local.reset();
  EXPECT_THAT(UnusedInheritedSockets(), ElementsAre(HasSubstr(at.ToString() + " (http)"), HasSubstr("(any)"),
                                                    HasSubstr("s.sock (x\\x1b)")));
  auto used = OpenListeningSocket(at);
  ASSERT_TRUE(used.ok()) << used.error().detail;
  EXPECT_EQ(NodeOf(used->get()), tcp_node);
  EXPECT_TRUE(::fcntl(used->get(), F_GETFD) & FD_CLOEXEC);
  EXPECT_TRUE(::fcntl(used->get(), F_GETFL) & O_NONBLOCK);
  EXPECT_EQ(NodeOf(OpenListeningSocket(every)->get()), any_node);
  EXPECT_THAT(UnusedInheritedSockets(), ElementsAre(HasSubstr("(any)"), HasSubstr("s.sock")));
  {
    // A server that ends leaves the file, whose socket the service manager goes on with.
    IoLoop loop;
    loop.Start();
    class Nothing final : public Acceptor {
      void OnAccept(UniqueFd, const Endpoint&) override {}
      bool MakeRoom() override { return false; }
    } nothing;
    std::unique_ptr<Listeners> listeners;
    loop.Call([&] { listeners = std::make_unique<Listeners>(loop, nothing); });
    loop.Call([&] { EXPECT_TRUE(listeners->Add(*OpenListeningSocket(file)).ok()); });
    EXPECT_THAT(UnusedInheritedSockets(), ElementsAre(HasSubstr("(any)")));
    loop.Call([&] { listeners.reset(); });
  }
  EXPECT_EQ(::access(file.path.c_str(), F_OK), 0);
}

TEST_F(InheritedSocketsTest, OfAnotherProcessAreLeftAlone) {
  UniqueFd tcp = *OpenListeningSocket(*ParseListenAddress("127.0.0.1:0"));
  for (const char* pid : {"1", "", "x", "999999999999999999999"}) {
    ASSERT_TRUE(Take({tcp.get()}, "http", pid).ok());
    EXPECT_FALSE(IsInherited(BoundAddress(tcp))) << pid;
  }
  ::close(kFirst);
  EXPECT_TRUE(TakeInheritedSockets(kFirst).ok()) << "no variables";
}

TEST_F(InheritedSocketsTest, WhatIsNoListeningSocketIsRefused) {
  UniqueFd tcp = *OpenListeningSocket(*ParseListenAddress("127.0.0.1:0"));
  UniqueFd datagrams(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  UniqueFd idle(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  UniqueFd file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  for (int bad : {datagrams.get(), idle.get(), file.get()}) {
    const Status status = Take({tcp.get(), bad}, "http:second");
    EXPECT_EQ(status.code, Code::kInvalidArgument);
    EXPECT_THAT(status.detail, HasSubstr("descriptor 701 (second): it is no listening stream socket"));
    EXPECT_FALSE(IsInherited(BoundAddress(tcp))) << "nothing is taken";
    ::close(kFirst + 1);
  }
  ::setenv("LISTEN_PID", std::to_string(::getpid()).c_str(), 1);
  ::setenv("LISTEN_FDS", "65", 1);
  EXPECT_THAT(TakeInheritedSockets(kFirst).detail, HasSubstr("no number from 0 to 64"));
}

TEST(FindPortOwner, FindsThisProcess) {
  auto socket = OpenListeningSocket(*ParseListenAddress("127.0.0.1:0"));
  ASSERT_TRUE(socket.ok());
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  ::getsockname(socket->get(), reinterpret_cast<sockaddr*>(&address), &size);
  Endpoint at = Endpoint::FromSockaddr(address, size);
  EXPECT_THAT(FindPortOwner(at), HasSubstr("(pid " + std::to_string(::getpid()) + ")"));
  socket->reset();
  EXPECT_EQ(FindPortOwner(at), "");
}

// Notes what the set does with it.
class Fake : public Connection {
 public:
  Fake(ConnectionSet& set, std::vector<std::string>& events, std::string name)
      : set_(set), events_(events), name_(std::move(name)) {}
  void OnDeadline(Phase phase) override {
    events_.push_back(name_ + " due " + std::to_string(static_cast<int>(phase)));
    if (again_-- > 0) return set_.Enter(*this, phase);
    Close();
  }
  void Close() override {
    if (std::exchange(closed_, true)) return;
    events_.push_back(name_ + " closed");
    set_.Remove(*this);
  }
  void FinishAndClose() override { Close(); }
  int again_ = 0;

 private:
  ConnectionSet& set_;
  std::vector<std::string>& events_;
  std::string name_;
  bool closed_ = false;
};

class ConnectionSetTest : public ::testing::Test {
 protected:
  ConnectionSetTest() { loop_.Start(); }
  ~ConnectionSetTest() override {
    loop_.Call([this] { set_ = nullptr; });
    loop_.Stop();
  }
  void Make(Duration request, Duration idle) {
    set_ = std::make_unique<ConnectionSet>(
        loop_,
        std::array<Duration, kPhases>{request, idle, Duration(0), Duration(0), Duration(0), Duration(0)});
  }
  Ref<Fake> Add(std::string name, Phase phase) {
    auto fake = MakeRef<Fake>(*set_, events_, std::move(name));
    set_->Add(*fake, phase);
    return fake;
  }
  std::vector<std::string> Events() {
    std::vector<std::string> copy;
    loop_.Call([&] { copy = events_; });
    return copy;
  }
  IoLoop loop_;
  std::unique_ptr<ConnectionSet> set_;
  std::vector<std::string> events_;
};

TEST_F(ConnectionSetTest, ClosesTheLeastImportantConnection) {
  loop_.Call([&] {
    Make(Duration(0), Duration(0));
    Add("work", Phase::kWork);
    Add("open", Phase::kOpen);
    Add("write", Phase::kWrite);
    Add("idle1", Phase::kIdle);
    auto idle2 = Add("idle2", Phase::kIdle);
    Add("half1", Phase::kRequest);
    Add("half2", Phase::kRequest);
    Add("linger", Phase::kLinger);
    set_->Enter(*Add("busy", Phase::kIdle), Phase::kWork);
    EXPECT_EQ(set_->size(), 9u);
    while (set_->CloseOne()) {
    }
    set_->Remove(*idle2);
    set_->Enter(*idle2, Phase::kIdle);
    EXPECT_EQ(set_->size(), 4u);
  });
  EXPECT_THAT(Events(),
              ElementsAre("linger closed", "half1 closed", "half2 closed", "idle1 closed", "idle2 closed"));
}

TEST_F(ConnectionSetTest, DeadlinesComeInOrder) {
  loop_.Call([&] {
    Make(std::chrono::seconds(1), std::chrono::milliseconds(5));
    Add("half", Phase::kRequest);
    Add("idle", Phase::kIdle)->again_ = 1;
    Add("work", Phase::kWork);
  });
  EXPECT_TRUE(Eventually([&] { return Events().size() == 5; }));
  EXPECT_THAT(Events(), ElementsAre("idle due 1", "idle due 1", "idle closed", "half due 0", "half closed"));
}

TEST_F(ConnectionSetTest, ReportsWhenItIsEmpty) {
  std::atomic<int> empty{0};
  loop_.Call([&] {
    Make(Duration(0), Duration(0));
    set_->OnEmpty([&] { ++empty; });
  });
  EXPECT_TRUE(Eventually([&] { return empty == 1; }));
  loop_.Call([&] {
    Add("one", Phase::kWork);
    Add("two", Phase::kIdle);
    set_->OnEmpty([&] { ++empty; });
    set_->FinishAll();
  });
  EXPECT_TRUE(Eventually([&] { return empty == 2; }));
}

}  // namespace
}  // namespace gpulens
