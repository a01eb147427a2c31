// `gpulens engines`: which LLM engines are known and what of them, what a page says and what the tables make
// of it, and how an engine does now. Needs no agent and no configuration.
#pragma once

#include <string>

#include "cli/engines/page_source.h"

namespace CLI {
class App;
}

namespace gpulens {

struct EnginesOptions {
  std::string name;              // list: one engine alone; empty: all
  std::string format = "table";  // list: table, md, json
  PageSource::Options page;      // check, read
  std::string engine;            // check, read: whose page it is, or of which engine on it; empty: all
  std::string model;             // read: of one model alone
  std::string window;            // read: text; empty: since the engine began
  std::string timeout = "10s";
  bool json = false;
};

// Adds the command with its subcommands. The one that runs puts its exit code into `code`; both outlive
// `app`.
void AddEngines(CLI::App& app, EnginesOptions& options, int& code);

// 0 printed, 2 no such engine.
int RunEnginesList(const EnginesOptions& options);
// 0 every family is known, 1 some are not, no engine is recognised, or the page cannot be read; 2 wrong use.
int RunEnginesCheck(const EnginesOptions& options);
// 0 printed, 1 nothing could be read, 2 wrong use.
int RunEnginesRead(const EnginesOptions& options);

}  // namespace gpulens
