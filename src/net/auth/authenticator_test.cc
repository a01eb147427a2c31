#include "net/auth/authenticator.h"
#include "base/testing/temp_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpulens {
namespace {

using ::testing::HasSubstr;

constexpr const char* kHashOfSecret = "$2y$04$q5LhxlxD4e07/Nmn6a1ia.7Gs7jiUZ9w0Nru8eXqbVxxAlma4IeJK";
constexpr const char* kHashOfOther = "$2b$04$51iNaFfiyGcSh.i0ViW8BOydh6l7F91bltJdq1o9LxVzvEikLXNXK";
constexpr const char* kAliceSecret = "Basic YWxpY2U6c2VjcmV0";
constexpr const char* kAliceOther = "Basic YWxpY2U6b3RoZXI=";
constexpr const char* kNobodySecret = "Basic bm9ib2R5OnNlY3JldA==";

// Passwords are checked by the test itself, so that it can count them.
class AuthenticatorTest : public ::testing::Test {
 protected:
  void Open(const std::string& text) {
    path_ = folder_.Write("web.yml", text);
    auto opened =
        Authenticator::Open(loop_, path_, [this](std::function<void()> task) { tasks_.push_back(task); });
    ASSERT_TRUE(opened.ok()) << opened.error().detail;
    authenticator_ = *std::move(opened);
  }
  Access Check(std::string_view authorization) {
    Access answer = Access::kPending;
    Access now = authenticator_->Check(authorization, [&](Access found) { answer = found; });
    if (now != Access::kPending) return now;
    for (auto& task : std::exchange(tasks_, {})) {
      task();
      ++checked_;
    }
    loop_.Call([] {});  // after what the check has posted
    return answer;
  }

  testing::TempFolder folder_;
  std::string path_;
  std::vector<std::function<void()>> tasks_;
  int checked_ = 0;
  IoLoop loop_;
  std::unique_ptr<Authenticator> authenticator_;
};

TEST_F(AuthenticatorTest, WithoutAFileEverybodyMayCome) {
  auto open = Authenticator::Open(loop_, "", {});
  ASSERT_TRUE(open.ok());
  EXPECT_EQ((*open)->Check("", {}), Access::kGranted);
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
  EXPECT_EQ(Check(kNobodySecret), Access::kDenied);
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

TEST_F(AuthenticatorTest, OnlySoManyAreCheckedAtOnce) {
  loop_.Start();
  Open("basic_auth_users: {alice: " + std::string(kHashOfSecret) + "}\n");
  for (size_t i = 0; i < Authenticator::kMaxPending; ++i) {
    EXPECT_EQ(authenticator_->Check(kAliceOther, [](Access) {}), Access::kPending);
  }
  EXPECT_EQ(authenticator_->Check(kAliceOther, [](Access) {}), Access::kBusy);
  authenticator_ = nullptr;
  for (auto& task : tasks_) task();
  loop_.Call([] {});
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

}  // namespace
}  // namespace gpulens
