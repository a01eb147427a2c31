// Asks the metadata service of the cloud that lends this machine, once.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <gpulens/status.h>

#include "net/client/http_client.h"
#include "sources/cloud/cloud_identity.h"

namespace gpulens {

// Used on the loop's thread, made and destroyed on any; the client outlives it. One question at a time.
class CloudQuery {
 public:
  // Where those services are in all three clouds: an address that never leaves the machine's own network.
  static constexpr std::string_view kEndpoint = "http://169.254.169.254";

  // `endpoint` as an absolute http URL without path. kInvalidArgument when it is none.
  static Result<CloudQuery> Make(Cloud cloud, std::string_view endpoint, HttpClient& client);

  using Done = std::function<void(Result<CloudIdentity>)>;
  // Calls `done` once, within `timeout`, never from inside; not at all when this is destroyed before.
  void Query(Duration timeout, Done done);

 private:
  CloudQuery(Cloud cloud, std::unique_ptr<HttpChannel> token, std::unique_ptr<HttpChannel> facts)
      : cloud_(cloud), token_(std::move(token)), facts_(std::move(facts)) {}
  void QueryFacts(std::string headers, Duration timeout, Done done);

  Cloud cloud_;
  std::unique_ptr<HttpChannel> token_;  // EC2 alone
  std::unique_ptr<HttpChannel> facts_;
};

}  // namespace gpulens
