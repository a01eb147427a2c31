// Shared by the commands: registration on the command line, printing, confirmation and failure.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include <gpulens/status.h>

namespace CLI {
class App;
}

namespace gpulens {

// Each adds its command. A command that runs puts its exit code, which its help describes, into `code`, which
// outlives `app`.
void AddAliases(CLI::App& app, int& code);  // the l9gpu project's names of `collect`
void AddBench(CLI::App& app, int& code);
void AddCheck(CLI::App& app, int& code);
void AddEngines(CLI::App& app, int& code);
void AddExp(CLI::App& app, int& code);
void AddLog(CLI::App& app, int& code);
void AddQueue(CLI::App& app, int& code);
void AddRun(CLI::App& app, int& code);
void AddSlurm(CLI::App& app, int& code);
void AddTelemetry(CLI::App& app, int& code);

// Writes "gpulens <command>: <text>" as WriteNote does and returns `code`.
int FailCommand(std::string_view command, std::string_view text, int code);
// The same; returns 2 for kInvalidArgument, else 1.
int FailCommand(std::string_view command, const Status& status);
// Writes `text` unchanged to the standard output. 0, or 1 when it cannot be written.
int PrintText(std::string_view text);
// Writes the question and reads the answer; false when it is not yes.
bool IsConfirmed(std::string_view question);
// " Did you mean X?" for the candidate that is nearest to `word`; empty when none is near.
std::string DidYouMean(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace gpulens
