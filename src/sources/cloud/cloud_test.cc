#include <gtest/gtest.h>

#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>

#include "net/testing/scripted_server.h"
#include "sources/cloud/cloud.h"

namespace gpulens {
namespace {

// In the form that each service documents; the values are ours.
constexpr std::string_view kEc2 = R"({"accountId":"123456789012","architecture":"x86_64",
  "availabilityZone":"eu-west-1b","imageId":"ami-0abc","instanceId":"i-0123","instanceType":"p5.48xlarge",
  "privateIp":"10.0.0.7","region":"eu-west-1","version":"2017-09-30"})";
constexpr std::string_view kGce = R"({"attributes":{"note":"\"id\":1"},"id":8087716956832600000,
  "image":"projects/images/global/images/debian-12","machineType":"projects/42/machineTypes/a3-highgpu-8g",
  "zone":"projects/42/zones/us-central1-a"})";
constexpr std::string_view kAzure = R"({"compute":{"location":"eastus","zone":"2","vmId":"02aab8a4",
  "vmSize":"Standard_ND96isr_H100_v5","subscriptionId":"8d10da13"},"network":{}})";

TEST(CloudIdentity, ReadsEachCloudsAnswer) {
  auto ec2 = ReadEc2Document(kEc2);
  ASSERT_TRUE(ec2.ok());
  EXPECT_EQ(*ec2,
            (CloudIdentity{"eu-west-1", "eu-west-1b", "123456789012", "i-0123", "p5.48xlarge", "ami-0abc"}));
  auto gce = ReadGceInstance(kGce);
  ASSERT_TRUE(gce.ok());
  EXPECT_EQ(*gce, (CloudIdentity{"us-central1", "us-central1-a", "42", "8087716956832600000", "a3-highgpu-8g",
                                 "projects/images/global/images/debian-12"}));
  auto azure = ReadAzureInstance(kAzure);
  ASSERT_TRUE(azure.ok());
  EXPECT_EQ(*azure,
            (CloudIdentity{"eastus", "eastus-2", "8d10da13", "02aab8a4", "Standard_ND96isr_H100_v5", ""}));
}

TEST(CloudIdentity, ACaptivePortalIsNoCloud) {
  for (std::string_view text : {"<html>log in</html>", "{}", "[]", "", "{\"region\": 7}"}) {
    EXPECT_EQ(ReadEc2Document(text).error().code, Code::kDataLoss) << text;
    EXPECT_EQ(ReadGceInstance(text).error().code, Code::kDataLoss) << text;
    EXPECT_EQ(ReadAzureInstance(text).error().code, Code::kDataLoss) << text;
  }
  auto odd =
      ReadEc2Document(R"({"instanceId":"i-1","region":"a\nb","imageId":")" + std::string(300, 'x') + "\"}");
  ASSERT_TRUE(odd.ok());
  EXPECT_EQ(*odd, (CloudIdentity{"", "", "", "i-1", "", ""}));
}

TEST(LikelyCloud, IsGuessedFromTheFirmware) {
  const std::filesystem::path root = std::filesystem::temp_directory_path() / "gpulens_cloud_test";
  const auto dmi = root / "sys/class/dmi/id";
  auto machine = [&](std::initializer_list<std::pair<const char*, const char*>> files) {
    std::filesystem::remove_all(root);
    std::filesystem::create_directories(dmi);
    for (auto [name, text] : files) std::ofstream(dmi / name) << text << "\n";
    return LikelyCloud(root);
  };
  EXPECT_EQ(machine({{"sys_vendor", "Amazon EC2"}}), CloudProvider::kAws);
  EXPECT_EQ(machine({{"sys_vendor", "Xen"}, {"product_version", "4.11.amazon"}}), CloudProvider::kAws);
  EXPECT_EQ(machine({{"sys_vendor", "Google"}, {"product_name", "Google Compute Engine"}}),
            CloudProvider::kGcp);
  EXPECT_EQ(machine({{"sys_vendor", "Microsoft Corporation"},
                     {"chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77"}}),
            CloudProvider::kAzure);
  EXPECT_EQ(machine({{"sys_vendor", "Microsoft Corporation"}}), CloudProvider::kNone) << "Hyper-V at home";
  EXPECT_EQ(machine({{"sys_vendor", "Supermicro"}}), CloudProvider::kNone);
  EXPECT_EQ(machine({}), CloudProvider::kNone);
  std::filesystem::remove_all(root);
}

class CloudQueryTest : public ::testing::Test {
 protected:
  void SetUp() override { loop_.Start(); }
  void TearDown() override {
    loop_.Call([this] { query_.reset(); });
    loop_.Stop();
  }
  Result<CloudIdentity> Query(CloudProvider cloud, const std::string& endpoint) {
    auto made = CloudQuery::Make(cloud, endpoint, client_);
    EXPECT_TRUE(made.ok());
    query_.emplace(*std::move(made));
    std::mutex mutex;
    std::condition_variable came;
    std::optional<Result<CloudIdentity>> answer;
    loop_.Call([&] {
      query_->Query(std::chrono::seconds(20), [&](Result<CloudIdentity> found) {
        std::lock_guard lock(mutex);
        answer.emplace(std::move(found));
        came.notify_one();
      });
    });
    std::unique_lock lock(mutex);
    came.wait_for(lock, std::chrono::seconds(30), [&] { return answer.has_value(); });
    return answer ? *std::move(answer) : Result<CloudIdentity>(Status{Code::kTimeout, "no answer"});
  }
  static std::string Answer(std::string_view body, std::string_view status = "200 OK") {
    return "HTTP/1.1 " + std::string(status) + "\r\nContent-Length: " + std::to_string(body.size()) +
           "\r\n\r\n" + std::string(body);
  }

  IoLoop loop_;
  HttpClient client_{loop_};
  std::optional<CloudQuery> query_;
};

TEST_F(CloudQueryTest, Ec2WantsATokenFirst) {
  testing::ScriptedServer server([](int, int, const std::string& request) {
    const bool token = request.starts_with("PUT /latest/api/token ");
    return testing::ScriptedServer::Turn{.answer = Answer(token ? "se:cret=" : kEc2)};
  });
  auto found = Query(CloudProvider::kAws, server.Url(""));
  ASSERT_TRUE(found.ok()) << found.error().detail;
  EXPECT_EQ(found->host_id, "i-0123");
  const std::vector<std::string> requests = server.requests();
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_NE(requests[0].find("X-aws-ec2-metadata-token-ttl-seconds: 60\r\n"), std::string::npos);
  EXPECT_TRUE(requests[1].starts_with("GET /latest/dynamic/instance-identity/document "));
  EXPECT_NE(requests[1].find("X-aws-ec2-metadata-token: se:cret=\r\n"), std::string::npos);
}

TEST_F(CloudQueryTest, TheOthersWantAField) {
  testing::ScriptedServer server([](int, int, const std::string& request) {
    return testing::ScriptedServer::Turn{.answer = Answer(request.starts_with("GET /comp") ? kGce : kAzure)};
  });
  EXPECT_EQ(Query(CloudProvider::kGcp, server.Url(""))->zone, "us-central1-a");
  EXPECT_EQ(Query(CloudProvider::kAzure, server.Url(""))->zone, "eastus-2");
  EXPECT_NE(server.requests()[0].find("Metadata-Flavor: Google\r\n"), std::string::npos);
  EXPECT_NE(server.requests()[1].find("Metadata: true\r\n"), std::string::npos);
}

TEST_F(CloudQueryTest, NamesEachFailure) {
  std::string answer = Answer("no", "403 Forbidden");
  testing::ScriptedServer server(
      [&](int, int, const std::string&) { return testing::ScriptedServer::Turn{.answer = answer}; });
  EXPECT_EQ(Query(CloudProvider::kAws, server.Url("")).error().code, Code::kPermissionDenied);
  answer = Answer("");
  EXPECT_EQ(Query(CloudProvider::kAws, server.Url("")).error().code, Code::kDataLoss) << "an empty token";
  answer = Answer("a\r\nb: c");
  EXPECT_EQ(Query(CloudProvider::kAws, server.Url("")).error().code, Code::kDataLoss)
      << "a token that is two fields";
  answer = Answer("<html>");
  EXPECT_EQ(Query(CloudProvider::kGcp, server.Url("")).error().code, Code::kDataLoss);
}

}  // namespace
}  // namespace gpulens
