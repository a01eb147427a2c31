#include "cli/collect/older_options.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "base/parse.h"

namespace gpulens {

Result<std::vector<std::pair<std::string, std::string>>> SplitPairs(const std::vector<std::string>& pairs) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const std::string& pair : pairs) {
    const size_t equals = pair.find('=');
    if (equals == pair.npos) return Status{Code::kInvalidArgument, "-o " + pair + ": expected KEY=VALUE"};
    out.emplace_back(pair.substr(0, equals), pair.substr(equals + 1));
  }
  return out;
}

const OptionSpec* FindOption(std::span<const OptionSpec> options, std::string_view key) {
  const std::string_view first = TakeUntil(key, '.');
  auto found = std::ranges::find(options, first, &OptionSpec::key);
  if (found == options.end()) return nullptr;
  return key.empty() ? &*found : FindOption(found->children, key);
}

std::string PlacedOption(std::span<const OptionSpec> options, std::string_view key) {
  const std::string within = "transport." + std::string(key);
  return !FindOption(options, key) && FindOption(options, within) ? within : std::string(key);
}

SinkOption SinkOptionOf(const SinkSpec& sink, std::string_view given, std::string_view value) {
  constexpr std::string_view kOld = "otel_", kVerify = "verify_ssl", kFilePath = "file_path";
  SinkOption out{std::string(given), std::string(value)};
  if (sink.name == "otlp" && given.starts_with(kOld)) {
    out.key = given.substr(kOld.size());
    out.older = true;
  } else if (given == kVerify && FindOption(sink.options, "transport.tls.insecure_skip_verify")) {
    out = {"transport.tls.insecure_skip_verify", EqualsIgnoringCase(value, "false") ? "true" : "false", true,
           true};
    // The loader reports any other word as it was given.
    if (!EqualsIgnoringCase(value, "false") && !EqualsIgnoringCase(value, "true")) out.value = value;
  } else if (given == kFilePath && sink.name == "file") {
    std::error_code none;
    const bool folder = value.ends_with('/') || std::filesystem::is_directory(out.value, none);
    if (folder) out.value = std::filesystem::path(out.value) / kMetricsFile;
    out.key = "path";
    out.older = true;
  }
  out.key = PlacedOption(sink.options, out.key);
  const OptionSpec* option = FindOption(sink.options, out.key);
  out.known = option != nullptr;
  if (option && option->type == OptionType::kTime && ParseDouble(out.value)) out.value += "s";
  return out;
}

LeadingOptions TakeLeadingOptions(int argc, char** argv) {
  LeadingOptions out;
  std::string file;
  int at = 1;
  for (; at < argc; ++at) {
    const std::string_view word = argv[at];
    if (word == "-d" || word == "--detach") out.detach = true;
    else if (word == "--config" && at + 1 < argc) file = argv[++at];
    else if (word.starts_with("--config=")) file = word.substr(word.find('=') + 1);
    else break;
  }
  out.arguments.assign(argv + at, argv + argc);
  if (!file.empty() && !out.arguments.empty()) {
    // The backfill's options belong to the command below it.
    const bool deeper = out.arguments[0] == "sacct_backfill" && out.arguments.size() > 1;
    out.arguments.insert(out.arguments.begin() + (deeper ? 2 : 1), {"--config", file});
  }
  return out;
}

bool Detach() {
  const pid_t child = ::fork();
  if (child < 0) {
    ::dprintf(STDERR_FILENO, "gpulens: --detach: cannot start a process; continuing in the foreground\n");
    return true;
  }
  if (child > 0) return false;
  ::setsid();
  // The closing of the terminal must not end the process.
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  ::dup2(nothing, STDIN_FILENO);
  for (int fd : {STDOUT_FILENO, STDERR_FILENO}) {
    if (::isatty(fd)) ::dup2(nothing, fd);
  }
  return true;
}

Result<bool> OlderResource::Take(std::string_view given, std::string_view value) {
  std::string_view key;
  for (std::string_view start : {"metric_resource_attributes.", "log_resource_attributes."}) {
    if (!given.starts_with(start)) continue;
    key = given.substr(start.size());
    if (key.empty())
      return Status{Code::kInvalidArgument, std::string(given) + "KEY=TEXT has no attribute name"};
  }
  if (key.empty()) return false;
  if (value.find(',') != value.npos || key.find(',') != key.npos)
    return Status{
        Code::kInvalidArgument,
        std::string(given) +
            ": a comma separates attributes; use resource.attributes in the configuration for any text"};
  auto known = std::ranges::find(taken_, key, &std::pair<std::string, std::string>::first);
  if (known == taken_.end()) taken_.emplace_back(key, value);
  else if (known->second != value)
    return Status{Code::kInvalidArgument, "metrics and logs have one resource, so \"" + std::string(key) +
                                              "\" cannot be \"" + known->second + "\" and \"" +
                                              std::string(value) + "\""};
  return true;
}

void OlderResource::AddTo(std::vector<FlagValue>& flags) const {
  if (taken_.empty()) return;
  std::string all;
  for (const auto& [key, value] : taken_) all += (all.empty() ? "" : ",") + key + "=" + value;
  flags.push_back({"-o metric_resource_attributes", "resource.attributes", std::move(all)});
}

std::string OlderLogLevels(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  if (text == "warning") return "warn";
  return text == "critical" ? "error" : text;
}

}  // namespace gpulens
