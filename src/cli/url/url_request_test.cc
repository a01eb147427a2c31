#include "cli/url/url_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpulens {
namespace {

using ::testing::StartsWith;

TEST(UrlRequest, FieldsOfTheCallerThenOfTheUrlThenOfTheOptions) {
  const auto url = ParseHttpUrl("http://user:word@127.0.0.1/metrics");
  ASSERT_TRUE(url.ok());
  const auto request =
      MakeUrlRequest(*url, "Accept: text/plain\r\n", {.headers = {"X-Team:  a ", "X-Empty:"}});
  ASSERT_TRUE(request.ok()) << request.error().detail;
  EXPECT_EQ(request->fields,
            "Accept: text/plain\r\nAuthorization: Basic dXNlcjp3b3Jk\r\nX-Team: a\r\nX-Empty: \r\n");
  EXPECT_EQ(request->tls, nullptr);
}

TEST(UrlRequest, NamesTheOptionThatIsWrong) {
  const auto url = ParseHttpUrl("https://127.0.0.1/");
  ASSERT_TRUE(url.ok());
  for (const char* header : {"no colon", "Bad name: x", "A: b\r\nHost: c", ""}) {
    const auto request = MakeUrlRequest(*url, "", {.headers = {header}});
    ASSERT_FALSE(request.ok()) << header;
    EXPECT_EQ(request.error().code, Code::kInvalidArgument);
    EXPECT_THAT(request.error().detail, StartsWith("--header ")) << header;
  }
  const auto request = MakeUrlRequest(*url, "", {.ca_file = "/does/not/exist.pem"});
  ASSERT_FALSE(request.ok());
  EXPECT_THAT(request.error().detail, StartsWith("--ca-file: "));
  EXPECT_NE(MakeUrlRequest(*url, "", {.insecure_skip_verify = true})->tls, nullptr);
}

}  // namespace
}  // namespace gpulens
