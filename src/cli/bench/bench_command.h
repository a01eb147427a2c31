// `gpulens bench serve URL`: load on an OpenAI-compatible server, and how it answered.
#pragma once

namespace CLI {
class App;
}

namespace gpulens {

// Adds the command. When it runs it puts its exit code into `code`, which outlives the parsing: 0 every
// request was answered, 1 some were not, or not stored, 2 wrong use, 130 stopped by Ctrl-C.
void AddBench(CLI::App& app, int& code);

}  // namespace gpulens
