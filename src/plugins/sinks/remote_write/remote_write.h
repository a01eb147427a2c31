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

// Prefix of the header fields to keep: x-prometheus-remote-write-samples-written: 3
inline constexpr std::string_view kRemoteWriteFields = "x-prometheus-remote-write-";

// Returns what an answer means. `second`: the request was one of 2.0. When the receiver does not support it,
// the request is converted (kRework), and `peer` becomes `only_1`. Receivers of 1.0 may accept a request of
// 2.0 as an empty one, so an answer without the number of written samples counts as unsupported, too.
SendOutcome ClassifyRemoteWriteReply(const HttpReply& reply, bool second, RemoteWritePeer& peer);

// Returns `job` and `instance` by OpenTelemetry's rules for Prometheus, from service.namespace, service.name
// and service.instance.id, or the host's name without the last. Then configured attributes (cluster,
// environment …): all of the resource except service, host, system, cloud and program, which are on
// `target_info`.
RemoteWriteLabels RemoteWriteLabelsOf(const AttributeSet& resource);

// Appends `up`, `scrape_duration_seconds` or `scrape_samples_scraped` for the series with that value. The
// labels are those of the target's configuration, including `target`.
void NameTargetHealth(const SeriesInfo& series, std::vector<NamedSeries>& out);

// Version of a request: the kind of a record of own data, and the route.
enum RemoteWriteRoute : uint8_t { kRemoteWrite1, kRemoteWrite2, kRemoteWriteRoutes };

// Converts records to requests for one receiver, and remembers its version. Used by one thread.
class RemoteWriteRequests {
 public:
  // `may_fall_back`: to 1.0, for a receiver without 2.0. `clock` outlives it.
  RemoteWriteRequests(std::string name, RemoteWriteOut::Options options, bool may_fall_back, PartRule rule,
                      const Clock& clock);

  // SendPlan::validate, prepare and rework.
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
