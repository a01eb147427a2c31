// Enricher with region, zone, account and machine type from the cloud's metadata service. Off by
// default, since it sends requests to an address that is not this machine's.

#include <atomic>
#include <mutex>

#include "base/result.h"
#include "net/client/http_client.h"
#include "net/io_loop.h"
#include "plugins/plugin.h"
#include "sources/cloud/cloud.h"

namespace gpulens {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr Duration kTimeout = seconds(1);

std::string_view PlatformOf(CloudProvider cloud) {
  constexpr std::string_view kPlatforms[] = {"", "aws_ec2", "gcp_compute_engine", "azure_vm"};
  return kPlatforms[static_cast<size_t>(cloud)];
}

// OpenTelemetry's attributes of cloud and host; unknown ones are left out.
AttributeSet Attributes(CloudProvider cloud, const CloudIdentity& identity) {
  std::vector<AttributeSet::Attribute> attributes = {{"cloud.provider", CloudName(cloud)},
                                                     {"cloud.platform", PlatformOf(cloud)}};
  auto add = [&](std::string_view key, const std::string& value) {
    if (!value.empty()) attributes.push_back({key, value});
  };
  add("cloud.region", identity.region);
  add("cloud.availability_zone", identity.zone);
  add("cloud.account.id", identity.account);
  add("host.id", identity.host_id);
  add("host.type", identity.host_type);
  add("host.image.id", identity.image);
  return AttributeSet(attributes);
}

class CloudEnricher final : public Enricher {
 public:
  CloudEnricher(CloudProvider cloud, CloudQuery query) : cloud_(cloud), query_(std::move(query)) {}

  void Fetch(Instant, std::function<void(Status)> done) override {
    query_.Query(kTimeout, [this, done = std::move(done)](Result<CloudIdentity> found) {
      if (!found) return done(found.error());
      AttributeSet attributes = Attributes(cloud_, *found);
      {
        std::lock_guard lock(mutex_);
        if (!(attributes == attributes_)) generation_.fetch_add(1, std::memory_order_relaxed);
        attributes_ = std::move(attributes);
      }
      done(Ok());
    });
  }
  uint64_t generation() const noexcept override { return generation_.load(std::memory_order_relaxed); }
  AttributeSet Resource() const override {
    std::lock_guard lock(mutex_);
    return attributes_;
  }

 private:
  const CloudProvider cloud_;
  CloudQuery query_;
  std::atomic<uint64_t> generation_{0};
  mutable std::mutex mutex_;  // guards what follows
  AttributeSet attributes_;
};

constexpr std::string_view kProviders[] = {"auto", "aws", "gcp", "azure"};
constexpr OptionSpec kOptions[] = {
    TextOption("provider", "auto", "Provider of the metadata service; auto: detected from the firmware.",
               kProviders),
    UrlOption("endpoint", CloudQuery::kEndpoint, "URL of the metadata service."),
    TimeOption("interval", "5m", "How often it is queried.", 1),
};
using Options = OptionsOf<kOptions>;

CloudProvider ConfiguredCloud(const Options& options, const Env& env) {
  const std::string& provider = options.Text("provider");
  for (CloudProvider cloud : {CloudProvider::kAws, CloudProvider::kGcp, CloudProvider::kAzure}) {
    if (provider == CloudName(cloud)) return cloud;
  }
  return LikelyCloud(env.root);
}

Result<std::unique_ptr<Enricher>> Create(const Config& config, Env& env) {
  if (!env.http || !env.io) return Status{Code::kUnavailable, "there is no network here"};
  const CloudProvider cloud = ConfiguredCloud(config, env);
  if (cloud == CloudProvider::kNone)
    return Status{Code::kUnavailable, "not a machine of EC2, Compute Engine or Azure"};
  ASSIGN_OR_RETURN(CloudQuery query, CloudQuery::Make(cloud, Options(config).Text("endpoint"), *env.http));
  return std::unique_ptr<Enricher>(std::make_unique<CloudEnricher>(cloud, std::move(query)));
}

std::vector<Finding> Probe(const Config& config, Env& env) {
  const CloudProvider cloud = ConfiguredCloud(config, env);
  if (cloud == CloudProvider::kNone)
    return {{Finding::kNotHere, "cloud", "no cloud", "the firmware names none of EC2, Compute Engine, Azure",
             "name it: enrichers: {cloud: {provider: aws}}"}};
  return {{Finding::kFound, "cloud", std::string(CloudName(cloud)), {}, {}}};
}

}  // namespace

extern const EnricherSpec cloud_enricher;
const EnricherSpec cloud_enricher{.name = "cloud",
                                  .help =
                                      "Region, zone, account and machine type, from the cloud's metadata "
                                      "service.",
                                  .on_by_default = false,
                                  .period = minutes(5),
                                  .timeout = kTimeout,
                                  .options = kOptions,
                                  .create = &Create,
                                  .probe = &Probe};

}  // namespace gpulens
