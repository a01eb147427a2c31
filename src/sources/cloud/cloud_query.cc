#include "sources/cloud/cloud_query.h"

#include <utility>

#include "base/result.h"

namespace gpulens {
namespace {

// Each service wants a header field that a browser or a proxy would not send by itself.
constexpr std::string_view kEc2Token = "X-aws-ec2-metadata-token-ttl-seconds: 60\r\n";
constexpr std::string_view kGceField = "Metadata-Flavor: Google\r\n";
constexpr std::string_view kAzureField = "Metadata: true\r\n";
constexpr size_t kMostBytes = 256u << 10;
constexpr size_t kMostToken = 1024;

std::string_view FactsPath(Cloud cloud) {
  switch (cloud) {
    case Cloud::kAws: return "/latest/dynamic/instance-identity/document";
    case Cloud::kGcp: return "/computeMetadata/v1/instance/?recursive=true";
    case Cloud::kAzure: return "/metadata/instance?api-version=2021-02-01";
    case Cloud::kNone: break;
  }
  return "/";
}

Result<CloudIdentity> Read(Cloud cloud, std::string_view body) {
  switch (cloud) {
    case Cloud::kAws: return ReadEc2Document(body);
    case Cloud::kGcp: return ReadGceInstance(body);
    case Cloud::kAzure: return ReadAzureInstance(body);
    case Cloud::kNone: break;
  }
  return Status{Code::kInvalidArgument, "no cloud"};
}

Status Why(const HttpReply& reply) {
  return {HttpFailureCode(reply.failure), "the metadata service does not answer: " + reply.detail};
}

}  // namespace

Result<CloudQuery> CloudQuery::Make(Cloud cloud, std::string_view endpoint, HttpClient& client) {
  ASSIGN_OR_RETURN(HttpUrl url, ParseHttpUrl(endpoint));
  HttpTarget target{url, {}, {}};
  target.limits.body_bytes = kMostBytes;
  std::unique_ptr<HttpChannel> token;
  if (cloud == Cloud::kAws) {
    target.url.target = "/latest/api/token";
    token = client.Open(target);
  }
  target.url.target = FactsPath(cloud);
  return CloudQuery(cloud, std::move(token), client.Open(target));
}

void CloudQuery::Query(Duration timeout, Done done) {
  if (cloud_ == Cloud::kGcp) return QueryFacts(std::string(kGceField), timeout, std::move(done));
  if (cloud_ == Cloud::kAzure) return QueryFacts(std::string(kAzureField), timeout, std::move(done));
  // The two questions share the time.
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
    done(Read(cloud, reply.body));
  });
}

}  // namespace gpulens
