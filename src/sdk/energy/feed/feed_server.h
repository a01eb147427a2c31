// Serves energy readings over a Unix socket of packets: one thread answers all clients with readings that are
// at most 2 ms old. Runs in a process of its own, which may hang in a library or be ended at any time;
// clients time out and retry.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <gpulens/energy_source.h>

#include "base/clock.h"
#include "base/fd.h"
#include "sdk/energy/feed/feed_wire.h"
#include "sdk/energy/processes/processor_time.h"

namespace gpulens::sdk {

// Used by one thread.
class FeedServer {
 public:
  struct Options {
    size_t clients = 64, clients_of_a_user = 16;  // the second limit does not apply to root
    Duration idle = std::chrono::seconds(10);     // Run returns after this time without a client
    Duration silent = std::chrono::minutes(2);  // clients are disconnected after this time without a request
    Duration lost = std::chrono::seconds(3);    // Run returns when no device answers for this long
    std::string mark = {};                      // appended to each device's name: " (simulated)"
    unsigned longest_call_seconds = 20;         // SIGALRM ends the process after it; 0: never
  };
  using Sources = std::vector<std::shared_ptr<EnergySource>>;

  // `listening` is a socket of packets, which the process that started this one may share. `clock` is the
  // monotonic clock of windows.
  FeedServer(UniqueFd listening, Sources sources, const Clock& clock, Options options);
  ~FeedServer();

  // Serves until no request came for `idle`, or `stop` is readable (-1: never). Opens the sources first.
  void Run(int stop = -1);

 private:
  struct Client {
    UniqueFd socket;
    uint32_t user = 0, pid = 0;  // pid 0: not visible in this namespace
    int64_t queried_ns = 0;
  };
  struct Device {
    EnergySource* source = nullptr;
    size_t number = 0;
    Status status;
    int64_t failing_since_ns = 0;
    FeedReading last;
  };

  // Calls a source within the time limit and turns exceptions into an error.
  template <class Call>
  Status CallSource(Call call) const;
  void OpenSources();
  Status OpenOne(EnergySource& source);
  void Accept();
  bool Serve(Client& client);  // false: disconnected, or an invalid request
  std::string Answer(const Client& client, const FeedRequest& request);
  std::string WhoUses(const Client& client, const Device& device);
  void ReadNow(Device& device);
  bool Lost() const;
  int64_t Now() const noexcept { return clock_.Now().boot_ns; }

  const UniqueFd listening_;
  const Sources sources_;
  const Clock& clock_;
  const Options options_;
  std::vector<FeedDevice> list_;
  std::vector<Device> devices_;
  Status nothing_;  // why there are no devices
  std::vector<Client> clients_;
  RunFamily family_;
};

}  // namespace gpulens::sdk
