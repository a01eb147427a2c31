// LLM engines on this machine: processes that look like one and what listens at their usual ports. Each is
// asked for its page, and taken when a family on it is an engine's.

#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "base/workers.h"
#include "discovery/engine_processes/engine_marks.h"
#include "discovery/engine_processes/engine_scan.h"
#include "net/client/http_client.h"
#include "net/io_loop.h"
#include "pipeline/plugin.h"

namespace gpulens {
namespace {

using engine_processes::Candidate;
using engine_processes::Elsewhere;
using engine_processes::Scan;
using engine_processes::Scanner;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr Duration kAskTime = seconds(2);
constexpr Duration kWholeLook = seconds(60);  // without a change of the listening sockets
constexpr Duration kFirstRetry = seconds(15), kLastRetry = minutes(5);
// The largest page of an engine is some 100 KiB; others are none.
constexpr size_t kPageBytes = 4 << 20;

std::string Shown(std::string_view text) {
  std::string out;
  AppendPrintable(out, text);
  return out;
}

std::string RemedyFor(const Elsewhere& one) {
  std::string host = one.addresses.empty() ? "ADDRESS" : one.addresses.front();
  return "collectors: {engines: {targets: [{name: " + one.engine + ", url: \"http://" + host + ":" +
         std::to_string(one.ports.front()) + std::string(engine_processes::PathsFor(one.engine, 0).front()) +
         "\"}]}}";
}

// Look runs on a worker, what asks on the loop, one after the other: never at once.
class EngineProcesses final : public Discovery {
 public:
  EngineProcesses(const Config& config, Env& env)
      : env_(env), collector_(config.Text("collector")), scanner_(env.root, ::getpid()) {}

  void Fetch(Instant deadline, std::function<void(Status)> done) override {
    deadline_ = deadline;
    done_ = std::move(done);
    bool posted = env_.workers && env_.http && env_.io && env_.workers->Post([this] {
      Look();
      env_.io->Post([this] { AskNext(); });
    });
    if (!posted) Done({Code::kExhausted, "too much work is waiting"});
  }

  std::vector<FoundTarget> Targets() const override {
    std::vector<FoundTarget> out;
    for (const auto& [address, known] : known_) {
      if (known.url.empty()) continue;
      FoundTarget target;
      target.collector = collector_;
      target.name = known.engine + "-" + std::to_string(known.candidate.port);
      target.url = known.url;
      target.options["discovered"] = "true";
      out.push_back(std::move(target));
    }
    return out;
  }

 private:
  struct Known {
    Candidate candidate;
    std::string url, engine;  // set: a page was recognised
    int64_t ask_at_ns = 0;
    Duration retry = kFirstRetry;
  };

  void Look() {
    const int64_t now = env_.clock->Now().boot_ns;
    auto sockets = scanner_.Listening();
    bool whole = sockets != sockets_ || !looked_ || now - looked_ns_ >= kWholeLook.count();
    if (whole) {
      Take(scanner_.Look(sockets));
      sockets_ = std::move(sockets);
      looked_ = true;
      looked_ns_ = now;
    }
    due_.clear();
    for (const auto& [address, known] : known_) {
      if (known.url.empty() && known.ask_at_ns <= now) due_.push_back(address);
    }
    path_ = 0;
  }

  void Take(const Scan& scan) {
    std::set<std::string> present;
    for (const Candidate& one : scan.candidates) {
      present.insert(one.address);
      auto [known, added] = known_.try_emplace(one.address);
      if (added || known->second.candidate.inode != one.inode)
        known->second = Known{one, {}, {}, 0, kFirstRetry};
    }
    std::erase_if(known_, [&](const auto& entry) { return !present.contains(entry.first); });
    std::set<int> away;
    for (const Elsewhere& one : scan.elsewhere) {
      away.insert(one.pid);
      if (told_.contains(one.pid)) continue;
      Log(LogLevel::kInfo, "discovery", "engine_elsewhere",
          one.engine + " (pid " + std::to_string(one.pid) +
              ") listens in another network namespace and is not read; name it: " + RemedyFor(one),
          std::to_string(one.pid));
    }
    told_ = std::move(away);
  }

  void AskNext() {
    while (!due_.empty()) {
      Known& known = known_.at(due_.back());
      auto paths = engine_processes::PathsFor(known.candidate.engine, known.candidate.port);
      if (path_ < paths.size() && env_.clock->Now().boot_ns < deadline_.boot_ns) {
        return Ask("http://" + known.candidate.address + std::string(paths[path_]));
      }
      if (path_ < paths.size()) break;  // the rest is due next time
      GiveUp(known);
      due_.pop_back();
      path_ = 0;
    }
    channel_.reset();
    Done(Ok());
  }

  void Ask(const std::string& url) {
    auto parsed = ParseHttpUrl(url);
    if (!parsed) {  // an address of a family we do not speak
      ++path_;
      return env_.io->Post([this] { AskNext(); });
    }
    HttpTarget target{.url = *parsed, .unix_socket = {}, .limits = {}};
    target.limits.body_bytes = kPageBytes;
    channel_ = env_.http->Open(std::move(target));
    HttpGet get{
        .headers = "Accept: text/plain;version=0.0.4\r\n", .tls = nullptr, .timeout = kAskTime, .buffer = {}};
    channel_->Get(std::move(get), [this, url](HttpReply& reply) { OnReply(url, reply); });
  }

  void OnReply(const std::string& url, const HttpReply& reply) {
    Known& known = known_.at(due_.back());
    std::string_view engine;
    if (reply.failure == HttpFailure::kNone && !reply.gzip)
      engine = engine_processes::EngineOnPage(reply.body);
    ++path_;
    if (!engine.empty()) {
      known.url = url;
      known.engine = engine;
      due_.pop_back();
      path_ = 0;
      Log(LogLevel::kInfo, "discovery", "engine_found",
          known.engine + " at " + url + " (" + Shown(known.candidate.process) + ", pid " +
              std::to_string(known.candidate.pid) + ")",
          url);
    } else if (reply.failure == HttpFailure::kConnect || reply.failure == HttpFailure::kTimeout) {
      path_ = SIZE_MAX;  // other paths would not answer either
    }
    AskNext();
  }

  // What only has an engine's port is asked once in the life of its socket.
  void GiveUp(Known& known) {
    if (known.candidate.engine.empty()) {
      known.ask_at_ns = INT64_MAX;
      return;
    }
    known.ask_at_ns = env_.clock->Now().boot_ns + known.retry.count();
    known.retry = std::min(known.retry * 2, kLastRetry);
  }

  void Done(Status status) { std::exchange(done_, nullptr)(std::move(status)); }

  Env& env_;
  const std::string collector_;
  Scanner scanner_;
  std::vector<listening::Socket> sockets_;
  bool looked_ = false;
  int64_t looked_ns_ = 0;
  std::map<std::string, Known> known_;  // by address
  std::set<int> told_;                  // pids elsewhere that a line of log has told
  std::vector<std::string> due_;
  size_t path_ = 0;  // of the last in due_
  Instant deadline_;
  std::function<void(Status)> done_;
  std::unique_ptr<HttpChannel> channel_;  // last: ends before what its callback uses
};

Result<std::unique_ptr<Discovery>> Create(const Config& config, Env& env) {
  return std::unique_ptr<Discovery>(std::make_unique<EngineProcesses>(config, env));
}

std::vector<Finding> Probe(const Config&, Env& env) {
  constexpr std::string_view kSubject = "engine processes";
  std::vector<Finding> findings;
  Scanner scanner(env.root, ::getpid());
  Scan scan = scanner.Look(scanner.Listening());
  auto add = [&](Finding::Kind kind, std::string what, std::string why = {}, std::string remedy = {}) {
    findings.push_back({kind, std::string(kSubject), std::move(what), std::move(why), std::move(remedy)});
  };
  for (const Candidate& one : scan.candidates) {
    if (one.engine.empty()) continue;
    add(Finding::kFound, one.engine + " (" + Shown(one.process) + ", pid " + std::to_string(one.pid) +
                             ") listens at " + one.address + ": the agent asks it for its page");
  }
  for (const Elsewhere& one : scan.elsewhere) {
    add(Finding::kNoPermission,
        one.engine + " (" + Shown(one.process) + ", pid " + std::to_string(one.pid) + ") is not read",
        "it listens in another network namespace", "name it in the configuration: " + RemedyFor(one));
  }
  if (!scan.hidden.empty()) {
    add(Finding::kNoPermission,
        std::to_string(scan.hidden.size()) + " processes look like engines, but not what they listen on",
        "descriptors of other users' processes are hidden; ports are guessed by user and arguments",
        "run the agent as root, or name them under collectors.engines.targets");
  }
  if (findings.empty()) {
    add(Finding::kNotHere, "",
        scan.processes ? "engines run, but none listens at a port that may be its page's"
                       : "none here looks like an LLM engine");
  }
  return findings;
}

constexpr std::string_view kCollectors[] = {"engines", "scrape"};
constexpr OptionSpec kOptions[] = {
    {.key = "collector",
     .fallback = "engines",
     .help = "The collector that reads them: engines, or scrape for their own names.",
     .allowed = kCollectors},
};

}  // namespace

extern const DiscoverySpec engine_processes_discovery;
const DiscoverySpec engine_processes_discovery{
    .name = "engine_processes",
    .help = "LLM engines that run on this machine, by what their processes are and what their pages say.",
    .on_by_default = true,
    .period = seconds(5),
    .options = kOptions,
    .collector_switch = "autodetect",
    .create = &Create,
    .probe = &Probe};

}  // namespace gpulens
