// Remote-write requests of the agent's own data and of received OTLP, their labels, and the answers of
// receivers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "core/attribute_set.h"
#include "core/named_series.h"
#include "delivery/request_sender.h"
#include "export/part_rule.h"
#include "pipeline/delivery/send_setup.h"
#include "plugins/config.h"
#include "wire/remote_write/remote_write_layout.h"
#include "wire/remote_write/remote_write_out.h"
#include "wire/split/remote_write_splitter.h"

namespace gpulens {

// Versions that a receiver supports. Used by one thread at a time.
struct RemoteWritePeer {
  bool may_fall_back = false;  // to 1.0
  bool knows_2 = false;        // by one of its answers
  bool only_1 = false;
};

// The start of the names of its header fields, to be kept: x-prometheus-remote-write-samples-written: 3
inline constexpr std::string_view kRemoteWriteFields = "x-prometheus-remote-write-";

// `second`: the request was one of 2.0. One that its receiver did not understand is to be made anew
// (kRework), and from then on it is known as `only_1`. Receivers of 1.0 may take a request of 2.0 as an empty
// one, so an answer that does not say what was written counts as such, too.
SendOutcome ClassifyRemoteWriteReply(const HttpReply& reply, bool second, RemoteWritePeer& peer);

// `job` and `instance` as OpenTelemetry's rules for Prometheus have them, of service.namespace, service.name
// and service.instance.id, the host's name in place of the last. Then what configuration says of this machine
// (cluster, environment …): all of the resource but what describes service, host, system, cloud and program,
// which `target_info` tells.
RemoteWriteLabels RemoteWriteLabelsOf(const AttributeSet& resource);

// Appends `up`, `scrape_duration_seconds` or `scrape_samples_scraped` for the series that has that number.
// Its labels are those that the target's own series have from the configuration, `target` among them.
void NameTargetHealth(const SeriesInfo& series, std::vector<NamedSeries>& out);

// The kind of a record of own data, and the route of every request: the version it is made in.
enum RemoteWriteRoute : uint8_t { kRemoteWrite1, kRemoteWrite2, kRemoteWriteRoutes };

// Converts records to requests for one receiver, and remembers its version. Used by one thread.
class RemoteWriteRequests {
 public:
  // `clock` outlives it.
  RemoteWriteRequests(std::string name, const Config& config, const SendPlan& plan, const Clock& clock);

  // As SendPlan::validate, prepare and rework.
  SendOutcome Validate(const HttpReply& reply, size_t route);
  Status Make(const Envelope& envelope, std::string&& body, uint32_t items, SendParts& out);
  Status Rework(SendPart& part);

 private:
  Status MakeOwn(const Envelope& envelope, std::string&& body, uint32_t items, SendParts& out);
  Status MakeReceived(const Envelope& envelope, std::string_view body, uint32_t items, SendParts& out);

  const std::string name_;
  const Clock& clock_;
  const PartRule rule_;
  RemoteWritePeer peer_;
  RemoteWriteOut convert_;
  RemoteWriteOutOutcome outcome_;
  RemoteWriteSplitter splitter_;
  ReceivedParts read_;
  std::vector<SplitPart> parts_;
  std::string plain_, older_;
};

}  // namespace gpulens
