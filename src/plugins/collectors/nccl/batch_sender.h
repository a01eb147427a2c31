// Sends batches of collectives to the gateways that join them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "collectives/batch.h"
#include "plugins/config.h"
#include "plugins/plugin.h"
#include "plugins/remote_access.h"

namespace gpulens {

// Send is called by one thread at a time, which is not the I/O loop. A batch that cannot be delivered is
// dropped and counted: the next one has the totals.
class BatchSender {
 public:
  struct Counts {
    uint64_t sent = 0, failed = 0, dropped = 0, bytes = 0;  // requests and their bodies
  };

  // `urls`: of gateways; each communicator goes to one of them. A URL without a path gets that of the
  // receiver. kUnavailable: there is no network here.
  static Result<std::unique_ptr<BatchSender>> Open(const std::vector<std::string>& urls,
                                                   TransportOptions transport, Env& env);
  ~BatchSender();

  // State of ranks is left out that was sent within the last second, and hints of the last five seconds.
  void Send(collectives::Batch batch, Instant now);
  Counts counts() const;
  // Communicators of which the gateways want steps of the network, by their last answers.
  std::vector<uint64_t> wanted_links() const;

 private:
  struct Gateway;
  struct SentState;
  explicit BatchSender(Env& env);

  IoLoop& loop_;
  std::vector<std::shared_ptr<Gateway>> gateways_;
  std::vector<uint64_t> hashes_;
  std::unique_ptr<SentState> sent_;
};

}  // namespace gpulens
