// `gpulens queue list` and `gpulens queue drop SINK`.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace gpulens {

struct QueueOptions {
  std::string config_file, state_dir;
  std::string sink;  // of drop
  bool json = false, yes = false;
};

// 0 shown, 1 the queues cannot be read, 2 wrong use.
int RunQueueList(const QueueOptions& options);
// 0 dropped, 1 not, 2 wrong use: also for a sink that is configured.
int RunQueueDrop(const QueueOptions& options);

void AddQueue(CLI::App& app, int& code);

}  // namespace gpulens
