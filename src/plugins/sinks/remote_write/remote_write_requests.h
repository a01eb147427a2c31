// Makes requests of records for one receiver of remote write: the agent's own, and received OTLP.
#pragma once

#include <string>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "export/part_rule.h"
#include "export/received_parts.h"
#include "pipeline/delivery/send_setup.h"
#include "plugins/config.h"
#include "plugins/sinks/remote_write/remote_write_answer.h"
#include "wire/remote_write/remote_write_out.h"
#include "wire/split/remote_write_splitter.h"

namespace gpulens {

// The kind of a record of own data, and the route of every request: the version it is made in.
enum RemoteWriteRoute : uint8_t { kRemoteWrite1, kRemoteWrite2, kRemoteWriteRoutes };

// Of one thread; remembers which version the receiver knows.
class RemoteWriteRequests {
 public:
  // `clock` outlives it.
  RemoteWriteRequests(std::string name, const Config& config, const SendPlan& plan, const Clock& clock);

  // As SendPlan::judge, prepare and rework.
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
