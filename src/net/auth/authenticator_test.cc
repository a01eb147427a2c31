#include "net/auth/authenticator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <future>
#include <string>
#include <vector>

#include "base/testing/temp_folder.h"

namespace gpulens {
namespace {

using ::testing::HasSubstr;

constexpr const char* kHashOfSecret = "$2y$04$q5LhxlxD4e07/Nmn6a1ia.7Gs7jiUZ9w0Nru8eXqbVxxAlma4IeJK";
constexpr const char* kHashOfOther = "$2b$04$51iNaFfiyGcSh.i0ViW8BOydh6l7F91bltJdq1o9LxVzvEikLXNXK";
constexpr const char* kAliceSecret = "Basic YWxpY2U6c2VjcmV0";
constexpr const char* kAliceOther = "Basic YWxpY2U6b3RoZXI=";
constexpr const char* kUnknownUserSecret = "Basic bm9ib2R5OnNlY3JldA==";

// Passwords are checked by the test itself, so that it can count them.
class AuthenticatorTest : public ::testing::Test {
 protected:
  void Open(const std::string& text) {
    path_ = folder_.Write("web.yml", text);
    auto opened = Authenticator::Open(loop_, path_, [this](const Endpoint&, PasswordQueue::Job job) {
      if (full_) return false;
      jobs_.push_back(std::move(job));
      return true;
    });
    ASSERT_TRUE(opened.ok()) << opened.error().detail;
    authenticator_ = *std::move(opened);
  }
  Access Check(std::string_view authorization) {
    Access answer = Access::kPending;
    Access now = authenticator_->Check(authorization, {}, [&](Access found) { answer = found; });
    if (now != Access::kPending) return now;
    for (auto& job : std::exchange(jobs_, {})) {
      job(turn_);
      ++checked_;
    }
    loop_.Call([] {});  // after what the check has posted
    return answer;
  }

  testing::TempFolder folder_;
  std::string path_;
  std::vector<PasswordQueue::Job> jobs_;
  bool full_ = false, turn_ = true;
  int checked_ = 0;
  IoLoop loop_;
  std::unique_ptr<Authenticator> authenticator_;
};

TEST_F(AuthenticatorTest, WithoutAFileAccessIsGranted) {
  auto open = Authenticator::Open(loop_, "", {});
  ASSERT_TRUE(open.ok());
  EXPECT_EQ((*open)->Check("", {}, {}), Access::kGranted);
  EXPECT_EQ((*open)->Rules()->tls, nullptr);
  EXPECT_TRUE((*open)->Reload().ok());
}

TEST_F(AuthenticatorTest, Passwords) {
  loop_.Start();
  Open("basic_auth_users: {alice: " + std::string(kHashOfSecret) + "}\n");
  EXPECT_THAT(authenticator_->Rules()->challenge, HasSubstr("Basic"));
  EXPECT_EQ(Check(kAliceSecret), Access::kGranted);
  EXPECT_EQ(checked_, 1);
  EXPECT_EQ(Check(kAliceSecret), Access::kGranted);
  EXPECT_EQ(checked_, 1) << "remembered";
  EXPECT_EQ(Check(kAliceOther), Access::kDenied);
  EXPECT_EQ(Check(kAliceOther), Access::kDenied);
  EXPECT_EQ(checked_, 3) << "wrong ones are checked each time";
  EXPECT_EQ(Check(kUnknownUserSecret), Access::kDenied);
  EXPECT_EQ(checked_, 4) << "unknown names cost the same";
  for (const char* bad : {"", "Basic", "Basic !!!!", "Basic YWxpY2U", "Basic YWxpY2U=", "Digest x",
                          "Bearer x", "Basic YWxpY2U6c2VjcmV0AGFi"}) {
    EXPECT_EQ(Check(bad), Access::kDenied) << bad;
  }
  EXPECT_EQ(Check("Basic " + std::string(4000, 'A')), Access::kDenied);
  EXPECT_EQ(checked_, 4);
  EXPECT_EQ(Check("basic  YWxpY2U6c2VjcmV0"), Access::kGranted) << "schemes have no case";
}

TEST_F(AuthenticatorTest, AChangedPasswordForgetsTheOld) {
  loop_.Start();
  Open("basic_auth_users: {alice: " + std::string(kHashOfSecret) + "}\n");
  EXPECT_EQ(Check(kAliceSecret), Access::kGranted);
  folder_.Write("web.yml", "basic_auth_users: {alice: " + std::string(kHashOfOther) + "}\n");
  ASSERT_TRUE(authenticator_->Reload().ok());
  EXPECT_EQ(Check(kAliceSecret), Access::kDenied);
  EXPECT_EQ(Check(kAliceOther), Access::kGranted);
}

TEST_F(AuthenticatorTest, WithoutRoomAndWithoutATurnItIsBusy) {
  loop_.Start();
  Open("basic_auth_users: {alice: " + std::string(kHashOfSecret) + "}\n");
  turn_ = false;
  EXPECT_EQ(Check(kAliceSecret), Access::kBusy);
  full_ = true;
  EXPECT_EQ(Check(kAliceSecret), Access::kBusy);
  full_ = false;
  turn_ = true;
  EXPECT_EQ(Check(kAliceSecret), Access::kGranted);
  full_ = true;
  EXPECT_EQ(Check(kAliceSecret), Access::kGranted) << "a remembered password needs no check";
}

TEST_F(AuthenticatorTest, ACheckMayOutliveIt) {
  loop_.Start();
  Open("basic_auth_users: {alice: " + std::string(kHashOfSecret) + "}\n");
  EXPECT_EQ(authenticator_->Check(kAliceOther, {}, [](Access) { FAIL(); }), Access::kPending);
  authenticator_ = nullptr;
  for (auto& job : jobs_) job(true);
  loop_.Call([] {});
}

double Seconds(const std::function<void()>& work) {
  timespec before{}, after{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
  work();
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
  return static_cast<double>(after.tv_sec - before.tv_sec) +
         1e-9 * static_cast<double>(after.tv_nsec - before.tv_nsec);
}

// By processor time of this thread, so that other work on the machine does not count.
TEST_F(AuthenticatorTest, AWrongPasswordCostsTheSameForAnyUser) {
  loop_.Start();
  Open("basic_auth_users:\n  alice: " + std::string(kHashOfSecret) +
       "\n  bob: $2y$09$abcdefghijklmnopqrstuuIJrW0S9pm2ET8fAheeVdSl1ukEOQ322\n");
  const auto cost = [&](const char* header) {
    double least = 1e9;
    for (int i = 0; i < 3; ++i) {
      least = std::min(least, Seconds([&] { EXPECT_EQ(Check(header), Access::kDenied); }));
    }
    return least;
  };
  const double cheap = cost(kAliceOther), dear = cost("Basic Ym9iOm5vbmU="),
               unknown = cost(kUnknownUserSecret);
  EXPECT_GT(cheap, 0.7 * dear);
  EXPECT_LT(cheap, 1.4 * dear);
  EXPECT_GT(unknown, 0.7 * dear);
  EXPECT_LT(unknown, 1.4 * dear);
}

TEST_F(AuthenticatorTest, AnswersHaveSafeHeadersAndTheFilesOwn) {
  Open("http_server_config: {headers: {X-Frame-Options: SAMEORIGIN}}\n");
  authenticator_->AllowHosts({"gpu1.example.org"});
  EXPECT_EQ(authenticator_->Rules()->headers,
            "X-Frame-Options: SAMEORIGIN\r\nX-Content-Type-Options: nosniff\r\n");
  ASSERT_TRUE(authenticator_->Reload().ok());
  EXPECT_EQ(authenticator_->Rules()->allowed_hosts, std::vector<std::string>{"gpu1.example.org"});
}

TEST_F(AuthenticatorTest, Tokens) {
  folder_.Write("token", "  abc123\n");
  Open("bearer_token_file: token\n");
  EXPECT_THAT(authenticator_->Rules()->challenge, HasSubstr("Bearer"));
  EXPECT_EQ(Check("Bearer abc123"), Access::kGranted);
  EXPECT_EQ(Check("bearer abc123"), Access::kGranted);
  EXPECT_EQ(Check("Bearer abc124"), Access::kDenied);
  EXPECT_EQ(Check("Bearer abc"), Access::kDenied);
  EXPECT_EQ(Check("Basic YWxpY2U6c2VjcmV0"), Access::kDenied);
  EXPECT_EQ(Check(""), Access::kDenied);
  folder_.Write("token", "\n");
  EXPECT_FALSE(authenticator_->Reload().ok());
  EXPECT_EQ(Check("Bearer abc123"), Access::kGranted);
}

TEST_F(AuthenticatorTest, ABadFileKeepsTheOldRules) {
  Open("bearer_token: one\n");
  folder_.Write("web.yml", "bearer_tokn: two\n");
  // The first look falls into the second of the opening at the latest; later ones are a second apart.
  authenticator_->Rules();
  EXPECT_EQ(authenticator_->failed_reloads(), 1u);
  EXPECT_EQ(Check("Bearer one"), Access::kGranted);
  Status again = authenticator_->Reload();
  EXPECT_THAT(again.detail, HasSubstr("did you mean bearer_token?"));
  folder_.Write("web.yml", "bearer_token: two\n");
  ASSERT_TRUE(authenticator_->Reload().ok());
  EXPECT_EQ(Check("Bearer one"), Access::kDenied);
  EXPECT_EQ(Check("Bearer two"), Access::kGranted);
  EXPECT_EQ(authenticator_->config().bearer_token, "two");
}

TEST_F(AuthenticatorTest, BadFilesDoNotOpen) {
  EXPECT_FALSE(Authenticator::Open(loop_, folder_.path() + "/none.yml", {}).ok());
  std::string path = folder_.Write("tls.yml", "tls_server_config: {cert_file: no.pem, key_file: no.pem}\n");
  auto opened = Authenticator::Open(loop_, path, {});
  ASSERT_FALSE(opened.ok());
  EXPECT_THAT(opened.error().detail, HasSubstr("no.pem"));
  EXPECT_THAT(opened.error().detail, HasSubstr("tls.yml"));
}

Endpoint At(const char* text) { return *ParseIp(text, 5000); }

class PasswordQueueTest : public ::testing::Test {
 protected:
  bool Push(const char* from, const std::string& name) {
    PasswordQueue::Job gone,
        job = [this, name](bool turn) { calls_.push_back(name + (turn ? "" : " gone")); };
    const bool taken = queue_.Push(At(from), job, gone);
    if (gone) gone(false);
    return taken;
  }
  std::vector<std::string> All() {
    calls_.clear();
    while (auto job = queue_.Pop()) (*job)(true);
    return calls_;
  }
  PasswordQueue queue_{{.waiting = 6, .of_one_address = 4}};
  std::vector<std::string> calls_;
};

TEST_F(PasswordQueueTest, AddressesTakeTurns) {
  for (const char* name : {"a1", "a2", "a3"}) EXPECT_TRUE(Push("10.0.0.1", name));
  EXPECT_TRUE(Push("10.0.0.2", "b1"));
  EXPECT_TRUE(Push("10.0.0.2", "b2"));
  EXPECT_TRUE(Push("10.0.0.3", "c1"));
  EXPECT_THAT(All(), ::testing::ElementsAre("a1", "b1", "c1", "a2", "b2", "a3"));
  EXPECT_TRUE(queue_.empty());
}

TEST_F(PasswordQueueTest, AnAddressHasItsShareAndNoMore) {
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(Push("127.0.0.1", "l"));
  EXPECT_FALSE(Push("127.9.9.9", "l")) << "all addresses of the loopback are one machine";
  EXPECT_FALSE(Push("::1", "l"));
  EXPECT_TRUE(Push("10.0.0.2", "other"));
  EXPECT_EQ(queue_.size(), 5u);
}

TEST_F(PasswordQueueTest, AnIpv6NetworkIsOneAddress) {
  for (const char* from : {"2001:db8::1", "2001:db8::2", "2001:db8::3", "2001:db8::4"})
    EXPECT_TRUE(Push(from, "x"));
  EXPECT_FALSE(Push("2001:db8::5", "x"));
  EXPECT_TRUE(Push("2001:db8:0:1::5", "x"));
}

TEST_F(PasswordQueueTest, AFullQueueDropsAJobOfTheAddressWithMost) {
  for (const char* name : {"a1", "a2", "a3", "a4"}) EXPECT_TRUE(Push("10.0.0.1", name));
  for (const char* name : {"b1", "b2"}) EXPECT_TRUE(Push("10.0.0.2", name));
  EXPECT_TRUE(Push("10.0.0.3", "c1"));
  EXPECT_THAT(calls_, ::testing::ElementsAre("a4 gone"));
  EXPECT_TRUE(Push("10.0.0.3", "c2"));
  EXPECT_FALSE(Push("10.0.0.3", "c3")) << "no address has more";
  EXPECT_THAT(All(), ::testing::ElementsAre("a1", "b1", "c1", "a2", "b2", "c2"));
}

TEST(PasswordThread, RunsAtALowPriorityOnDemand) {
  PasswordThread thread;
  std::promise<int> nice;
  ASSERT_TRUE(thread.Post({}, [&](bool turn) {
    nice.set_value(turn ? ::getpriority(PRIO_PROCESS, static_cast<id_t>(::gettid())) : -99);
  }));
  auto priority = nice.get_future();
  ASSERT_EQ(priority.wait_for(std::chrono::seconds(30)), std::future_status::ready);
  const int before = ::getpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()));
  EXPECT_EQ(priority.get(), std::max(10, before));
  thread.Stop();
  EXPECT_FALSE(thread.Post({}, [](bool) { FAIL(); }));
}

}  // namespace

}  // namespace gpulens
