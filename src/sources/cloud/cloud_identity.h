// What a cloud says of the machine it lends: EC2, Compute Engine, Azure. Their answers, read. Pure but for
// LikelyCloud, which reads /sys.
#pragma once

#include <string>
#include <string_view>

#include <gpulens/status.h>

namespace gpulens {

enum class Cloud : uint8_t { kNone, kAws, kGcp, kAzure };
// "aws"; "none".
std::string_view CloudName(Cloud cloud) noexcept;

// Empty: the cloud did not say.
struct CloudIdentity {
  std::string region, zone;
  std::string account;  // account, project, subscription
  std::string host_id, host_type, image;

  friend bool operator==(const CloudIdentity&, const CloudIdentity&) = default;
};

// What the firmware tells of the machine's maker under `root`/sys/class/dmi/id. kNone: none of the three.
Cloud LikelyCloud(const std::string& root);

// The instance identity document of EC2; the answer of Compute Engine's
// computeMetadata/v1/instance/?recursive=true; that of Azure's metadata/instance. kDataLoss when it is no
// JSON, or not that.
Result<CloudIdentity> ReadEc2Document(std::string_view json);
Result<CloudIdentity> ReadGceInstance(std::string_view json);
Result<CloudIdentity> ReadAzureInstance(std::string_view json);

}  // namespace gpulens
