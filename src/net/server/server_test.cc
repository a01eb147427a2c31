#include "net/server/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/testing/temp_folder.h"
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
    Make(std::chrono::milliseconds(60), std::chrono::milliseconds(5));
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
