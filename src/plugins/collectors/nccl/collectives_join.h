// Where the ranks of a job are joined: in this agent, those of this host alone (`local`); in a gateway, to
// which this agent sends what it knows (`send`); or here, as the gateway (`join`).
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include <gpulens/status.h>

#include "collectives/batch_queue.h"
#include "collectives/diagnosis.h"
#include "core/frame_writer.h"
#include "plugins/collectors/nccl/batch_sender.h"
#include "plugins/collectors/nccl/hint_feed.h"
#include "plugins/config.h"
#include "plugins/plugin.h"
#include "plugins/remote_access.h"

namespace gpulens {

inline constexpr std::string_view kJoinRoles[] = {"local", "send", "join"};
inline constexpr OptionSpec kCollectivesOptions[] = {
    TextOption(
        "role", "local",
        "Where slow and hung ranks are found: `local`, among the ranks of this host; `send`, in the "
        "gateways of join_urls; `join`, here, from what other agents send to receivers.otlp of this one.",
        kJoinRoles),
    TextsOption(
        "join_urls", {},
        "With `send`: the gateways, as http://HOST:4318. Each communicator goes to one of them, so the list "
        "must be equal on all hosts of a job."),
    TimeOption("hang_after", "30s",
               "The shortest time without any progress that is a hang; longer where collectives take long.",
               5, 3600),
    GroupOption(kTransportKey, "How to connect to the gateways: timeout, authentication, TLS.",
                kTransportOptions),
};
using CollectivesOptions = OptionsOf<kCollectivesOptions>;

// Refuses a role without its URLs, and the reverse.
void CheckCollectives(CollectivesOptions options, ConfigFaults& faults);

// Not thread-safe.
class CollectivesJoin {
 public:
  static Result<std::unique_ptr<CollectivesJoin>> Open(CollectivesOptions options, Env& env);
  ~CollectivesJoin();

  // Takes what this host knows, with the hints of the latest tick, and, with `join`, what others have sent;
  // or sends it.
  void Take(collectives::Batch own, Instant now);
  // Communicators of which steps of the network are wanted now, here or by a gateway.
  std::vector<uint64_t> wanted_links() const;
  // Null with the role `send`: gateways have it.
  collectives::Diagnosis* diagnosis() noexcept { return diagnosis_ ? &*diagnosis_ : nullptr; }
  void Count(FrameWriter& out);

 private:
  explicit CollectivesJoin(Env& env) : env_(env) {}

  Env& env_;
  std::optional<collectives::Diagnosis> diagnosis_;
  std::unique_ptr<BatchSender> sender_;
  HintFeed hints_;
  bool joins_ = false;
  uint64_t received_ = 0;
  std::array<Series, 5> batches_;
  std::array<Series, 5> samples_;
};

}  // namespace gpulens
