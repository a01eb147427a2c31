// A connection to the probe host: for the agent's collector, and for `gpulens probe`.
#pragma once

#include <string>

#include <gpulens/status.h>

#include "base/clock.h"
#include "base/fd.h"
#include "plugins/collectors/probes/probe_protocol.h"

namespace gpulens::probes {

// Blocks, for at most the timeout of each call. Used by one thread; movable.
class ProbeClient {
 public:
  // kUnavailable: none listens at `path`. What listens there is not trusted: see probe_protocol.h.
  static Result<ProbeClient> Connect(const std::string& path);

  // Sends a request and waits for its reply. After an error the connection is of no use. `stop_fd`: readable
  // when it should give up, kUnavailable; -1: none.
  Result<ProbeReply> Send(const ProbeRequest& request, Duration timeout, int stop_fd = -1);

 private:
  explicit ProbeClient(UniqueFd socket) noexcept : socket_(std::move(socket)) {}
  UniqueFd socket_;
  std::string in_;
};

}  // namespace gpulens::probes
