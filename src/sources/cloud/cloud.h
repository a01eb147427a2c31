// Identity of the cloud instance that this machine is, from the metadata service of EC2, Compute Engine or
// Azure.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <gpulens/status.h>

#include "net/client/http_client.h"

namespace gpulens {

enum class CloudProvider : uint8_t { kNone, kAws, kGcp, kAzure };
// "aws"; "none".
std::string_view CloudName(CloudProvider cloud) noexcept;

// Unknown texts are empty.
struct CloudIdentity {
  std::string region, zone;
  std::string account;  // account, project, subscription
  std::string host_id, host_type, image;

  friend bool operator==(const CloudIdentity&, const CloudIdentity&) = default;
};

// Detects the cloud from the firmware's texts under `root`/sys/class/dmi/id.
CloudProvider LikelyCloud(const std::string& root);

// Parse the instance identity document of EC2; the answer of Compute Engine's
// computeMetadata/v1/instance/?recursive=true; that of Azure's metadata/instance. kDataLoss: another text.
Result<CloudIdentity> ReadEc2Document(std::string_view json);
Result<CloudIdentity> ReadGceInstance(std::string_view json);
Result<CloudIdentity> ReadAzureInstance(std::string_view json);

// Queries the metadata service. Used on the loop's thread, made and destroyed on any; the client outlives it.
// One query at a time.
class CloudQuery {
 public:
  // The services of all three clouds: an address that never leaves the machine's own network.
  static constexpr std::string_view kEndpoint = "http://169.254.169.254";

  // `endpoint`: an absolute http URL without path, else kInvalidArgument.
  static Result<CloudQuery> Make(CloudProvider cloud, std::string_view endpoint, HttpClient& client);

  using Done = std::function<void(Result<CloudIdentity>)>;
  // Calls `done` once, within `timeout`, never from inside; not at all when this is destroyed before.
  void Query(Duration timeout, Done done);

 private:
  CloudQuery(CloudProvider cloud, std::unique_ptr<HttpChannel> token, std::unique_ptr<HttpChannel> facts)
      : cloud_(cloud), token_(std::move(token)), facts_(std::move(facts)) {}
  void QueryFacts(std::string headers, Duration timeout, Done done);

  CloudProvider cloud_;
  std::unique_ptr<HttpChannel> token_;  // EC2 alone
  std::unique_ptr<HttpChannel> facts_;
};

}  // namespace gpulens
