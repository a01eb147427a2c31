#include "sources/cloud/cloud.h"

#include <algorithm>
#include <utility>

#include "base/files.h"
#include "base/json.h"
#include "base/result.h"

namespace gpulens {
namespace {

constexpr size_t kMostText = 256;

// Texts become attributes: one with control bytes, or a very long one, counts as empty.
std::string TextAt(const JsonDocument& json, std::string_view pointer) {
  std::string text = json.Text(pointer).value_or("");
  const bool good = text.size() <= kMostText &&
                    std::ranges::none_of(text, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
  return good ? text : std::string();
}

// "projects/123/zones/us-central1-a": its last part.
std::string LastPart(const std::string& path) { return path.substr(path.rfind('/') + 1); }

Status NotThat(std::string_view what) {
  return {Code::kDataLoss, "the answer is not that of " + std::string(what)};
}

std::string DmiText(const std::string& root, std::string_view file) {
  auto text = ReadFile(root + "/sys/class/dmi/id/" + std::string(file), 256);
  return text ? *text : std::string();
}

constexpr size_t kMostBytes = 256u << 10;
constexpr size_t kMostToken = 1024;

constexpr std::string_view kEc2Token = "X-aws-ec2-metadata-token-ttl-seconds: 60\r\n";

// By Cloud. `field`: each service requires a header field that a browser or a proxy would not send by itself;
// that of EC2 is a token.
struct CloudRow {
  std::string_view name, path = "/", field = {};
  Result<CloudIdentity> (*read)(std::string_view) = nullptr;
};
constexpr CloudRow kClouds[] = {
    {"none"},
    {"aws", "/latest/dynamic/instance-identity/document", {}, &ReadEc2Document},
    {"gcp", "/computeMetadata/v1/instance/?recursive=true", "Metadata-Flavor: Google\r\n", &ReadGceInstance},
    {"azure", "/metadata/instance?api-version=2021-02-01", "Metadata: true\r\n", &ReadAzureInstance}};

const CloudRow& RowOf(CloudProvider cloud) noexcept { return kClouds[static_cast<size_t>(cloud)]; }

Status Why(const HttpReply& reply) {
  return {HttpFailureCode(reply.failure), "the metadata service does not answer: " + reply.detail};
}

}  // namespace

std::string_view CloudName(CloudProvider cloud) noexcept { return RowOf(cloud).name; }

// As the vendors document it: EC2's Nitro and Xen machines, Compute Engine, and Azure, whose vendor is also
// that of Hyper-V elsewhere, so its chassis tag decides.
CloudProvider LikelyCloud(const std::string& root) {
  const std::string vendor = DmiText(root, "sys_vendor");
  if (vendor.starts_with("Amazon EC2") ||
      DmiText(root, "product_version").find("amazon") != std::string::npos)
    return CloudProvider::kAws;
  if (vendor.starts_with("Google") && DmiText(root, "product_name").starts_with("Google"))
    return CloudProvider::kGcp;
  if (DmiText(root, "chassis_asset_tag").starts_with("7783-7084-3265-9085-8269-3286-77"))
    return CloudProvider::kAzure;
  return CloudProvider::kNone;
}

Result<CloudIdentity> ReadEc2Document(std::string_view text) {
  ASSIGN_OR_RETURN(JsonDocument json, JsonDocument::Parse(text));
  CloudIdentity identity;
  identity.region = TextAt(json, "/region");
  identity.zone = TextAt(json, "/availabilityZone");
  identity.account = TextAt(json, "/accountId");
  identity.host_id = TextAt(json, "/instanceId");
  identity.host_type = TextAt(json, "/instanceType");
  identity.image = TextAt(json, "/imageId");
  if (identity.host_id.empty()) return NotThat("EC2");
  return identity;
}

Result<CloudIdentity> ReadGceInstance(std::string_view text) {
  ASSIGN_OR_RETURN(JsonDocument json, JsonDocument::Parse(text));
  CloudIdentity identity;
  const std::string zone = TextAt(json, "/zone");
  identity.zone = LastPart(zone);
  // A zone is its region, a dash and a letter.
  if (const size_t dash = identity.zone.rfind('-'); dash != std::string::npos)
    identity.region = identity.zone.substr(0, dash);
  if (zone.starts_with("projects/")) identity.account = zone.substr(9, zone.find('/', 9) - 9);
  if (auto id = json.Whole("/id")) identity.host_id = std::to_string(*id);
  identity.host_type = LastPart(TextAt(json, "/machineType"));
  identity.image = TextAt(json, "/image");
  if (identity.zone.empty()) return NotThat("Compute Engine");
  return identity;
}

Result<CloudIdentity> ReadAzureInstance(std::string_view text) {
  ASSIGN_OR_RETURN(JsonDocument json, JsonDocument::Parse(text));
  CloudIdentity identity;
  identity.region = TextAt(json, "/compute/location");
  identity.zone = TextAt(json, "/compute/zone");
  // As Kubernetes nodes there are labelled: "eastus-1".
  if (!identity.zone.empty()) identity.zone = identity.region + "-" + identity.zone;
  identity.account = TextAt(json, "/compute/subscriptionId");
  identity.host_id = TextAt(json, "/compute/vmId");
  identity.host_type = TextAt(json, "/compute/vmSize");
  if (identity.host_id.empty()) return NotThat("Azure");
  return identity;
}

Result<CloudQuery> CloudQuery::Make(CloudProvider cloud, std::string_view endpoint, HttpClient& client) {
  if (cloud == CloudProvider::kNone) return Status{Code::kInvalidArgument, "no cloud"};
  ASSIGN_OR_RETURN(HttpUrl url, ParseHttpUrl(endpoint));
  HttpTarget target{url, {}, {}};
  target.limits.body_bytes = kMostBytes;
  std::unique_ptr<HttpChannel> token;
  if (cloud == CloudProvider::kAws) {
    target.url.target = "/latest/api/token";
    token = client.Open(target);
  }
  target.url.target = RowOf(cloud).path;
  return CloudQuery(cloud, std::move(token), client.Open(target));
}

void CloudQuery::Query(Duration timeout, Done done) {
  if (!token_) return QueryFacts(std::string(RowOf(cloud_).field), timeout, std::move(done));
  // The two queries share the time.
  HttpPost put{kEc2Token, nullptr, nullptr, timeout / 2, {}, "PUT"};
  token_->Post(std::move(put), [this, timeout, done = std::move(done)](HttpReply& reply) {
    if (reply.failure != HttpFailure::kNone) return done(Why(reply));
    std::string headers;
    if (reply.body.empty() || reply.body.size() > kMostToken ||
        !AddRequestField(headers, "X-aws-ec2-metadata-token", reply.body))
      return done(Status{Code::kDataLoss, "the metadata service returned no token"});
    QueryFacts(std::move(headers), timeout / 2, done);
  });
}

void CloudQuery::QueryFacts(std::string headers, Duration timeout, Done done) {
  facts_->Get({headers, nullptr, timeout, {}}, [cloud = cloud_, done = std::move(done)](HttpReply& reply) {
    if (reply.failure != HttpFailure::kNone) return done(Why(reply));
    done(RowOf(cloud).read(reply.body));
  });
}

}  // namespace gpulens
