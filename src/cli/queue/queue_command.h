// `gpulens queue`: its output. Pure; AddQueue of cli/help/help.h adds the command.
#pragma once

#include <string>
#include <vector>

#include "delivery/queue_folders.h"

namespace gpulens {

struct QueueView {
  std::string root;  // the queue folder of the state folder; empty: there is none
  std::vector<QueueFolder> folders;
  std::string problem;  // why some folders may be missing
};

std::string QueueTable(const QueueView& view, int64_t now_unix_ns);
// One object: schema gpulens.queue/1.
std::string QueueJson(const QueueView& view);

}  // namespace gpulens
