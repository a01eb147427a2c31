// Finds LLM engines and dcgm-exporter on this machine: requests /metrics from processes that look like an
// engine and from listeners at their usual ports, and takes those whose page is an engine's or
// dcgm-exporter's.

#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "base/threads.h"
#include "net/client/http_client.h"
#include "net/io_loop.h"
#include "plugins/discovery/local/listener_scan.h"
#include "plugins/plugin.h"

namespace gpulens {
namespace {

using local_listeners::ListenerScanner;
using local_listeners::PageCandidate;
using local_listeners::RemoteEngine;
using local_listeners::ScanResult;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr std::string_view kAuto = "auto", kDcgm = "dcgm";
constexpr Duration kQueryTime = seconds(2);
constexpr Duration kFullScan = seconds(60);  // without a change of the listening sockets
constexpr Duration kFirstRetry = seconds(15), kLastRetry = minutes(5);
// The largest page of an engine has some 100 KiB.
constexpr size_t kPageBytes = 4 << 20;

std::string Shown(std::string_view text) {
  std::string out;
  AppendPrintable(out, text);
  return out;
}

// "llama-server, pid 17"
std::string ProcessOf(const PageCandidate& one) {
  const std::string name = one.process.empty() ? "another user's process" : Shown(one.process);
  return one.pid == 0 ? name : name + ", pid " + std::to_string(one.pid);
}

std::string RemedyFor(const RemoteEngine& one) {
  std::string host = one.addresses.empty() ? "ADDRESS" : one.addresses.front();
  return "targets: [{name: " + one.engine + ", url: \"http://" + host + ":" +
         std::to_string(one.ports.front()) + std::string(local_listeners::PathsFor(one.engine, 0).front()) +
         "\"}]";
}

constexpr std::string_view kKinds[] = {kAuto, "prometheus"};
constexpr OptionSpec kOptions[] = {
    TextOption("kind", kAuto,
               "auto: export native names; prometheus: export the pages under their own names.", kKinds),
};
using Options = OptionsOf<kOptions>;

// Scan runs on a worker, the requests on the loop, one after the other: never concurrently.
class LocalDiscovery final : public Discovery {
 public:
  LocalDiscovery(const Options& options, Env& env)
      : env_(env), kind_(options.Text("kind")), scanner_(env.root, ::getpid()) {}

  void Fetch(Instant deadline, std::function<void(Status)> done) override {
    deadline_ = deadline;
    done_ = std::move(done);
    bool posted = env_.workers && env_.http && env_.io && env_.workers->Post([this] {
      Scan();
      env_.io->Post([this] { QueryNext(); });
    });
    if (!posted) Done({Code::kExhausted, "the work queue is full"});
  }

  std::vector<FoundTarget> Targets() const override {
    std::vector<FoundTarget> out;
    for (const auto& [address, known] : known_) {
      if (known.url.empty()) continue;
      FoundTarget target;
      target.name =
          known.kind == kDcgm ? known.kind : known.kind + "-" + std::to_string(known.candidate.port);
      target.url = known.url;
      target.options["kind"] = kind_ != kAuto ? kind_ : known.kind == kDcgm ? known.kind : "engine";
      target.options["optional"] = "true";
      if (known.candidate.pid > 0 && known.kind != kDcgm)
        target.options["pid"] = std::to_string(known.candidate.pid);
      out.push_back(std::move(target));
    }
    return out;
  }

 private:
  struct Listener {
    PageCandidate candidate;
    std::string url, kind;  // set: a page was recognised
    int64_t query_at_ns = 0;
    Duration retry = kFirstRetry;
  };

  void Scan() {
    const int64_t now = env_.clock->Now().boot_ns;
    auto sockets = scanner_.Listening();
    bool full = sockets != sockets_ || !scanned_ || now - scanned_ns_ >= kFullScan.count();
    if (full) {
      Update(scanner_.Scan(sockets));
      sockets_ = std::move(sockets);
      scanned_ = true;
      scanned_ns_ = now;
    }
    due_.clear();
    for (const auto& [address, known] : known_) {
      if (known.url.empty() && known.query_at_ns <= now) due_.push_back(address);
    }
    path_ = 0;
  }

  void Update(const ScanResult& scan) {
    std::set<std::string> present;
    for (const PageCandidate& one : scan.candidates) {
      present.insert(one.address);
      auto [known, added] = known_.try_emplace(one.address);
      if (added || known->second.candidate.inode != one.inode)
        known->second = Listener{one, {}, {}, 0, kFirstRetry};
    }
    std::erase_if(known_, [&](const auto& entry) { return !present.contains(entry.first); });
    std::set<int> away;
    for (const RemoteEngine& one : scan.elsewhere) {
      away.insert(one.pid);
      if (reported_.contains(one.pid)) continue;
      Log(LogLevel::kInfo, "discovery", "engine_elsewhere",
          one.engine + " (pid " + std::to_string(one.pid) +
              ") listens in another network namespace and is not read; name it: " + RemedyFor(one),
          std::to_string(one.pid));
    }
    reported_ = std::move(away);
  }

  void QueryNext() {
    while (!due_.empty()) {
      Listener& known = known_.at(due_.back());
      auto paths = local_listeners::PathsFor(known.candidate.kind, known.candidate.port);
      if (path_ < paths.size() && env_.clock->Now().boot_ns < deadline_.boot_ns) {
        return Query("http://" + known.candidate.address + std::string(paths[path_]));
      }
      if (path_ < paths.size()) break;  // the rest is due next time
      GiveUp(known);
      due_.pop_back();
      path_ = 0;
    }
    channel_.reset();
    Done(Ok());
  }

  void Query(const std::string& url) {
    auto parsed = ParseHttpUrl(url);
    if (!parsed) {  // an address of an unsupported family
      ++path_;
      return env_.io->Post([this] { QueryNext(); });
    }
    HttpTarget target{.url = *parsed, .unix_socket = {}, .limits = {}};
    target.limits.body_bytes = kPageBytes;
    channel_ = env_.http->Open(std::move(target));
    HttpGet get{.headers = "Accept: text/plain;version=0.0.4\r\n",
                .tls = nullptr,
                .timeout = kQueryTime,
                .buffer = {}};
    channel_->Get(std::move(get), [this, url](HttpReply& reply) { OnReply(url, reply); });
  }

  void OnReply(const std::string& url, const HttpReply& reply) {
    Listener& known = known_.at(due_.back());
    std::string_view kind;
    if (reply.failure == HttpFailure::kNone && !reply.gzip) kind = local_listeners::KindOfPage(reply.body);
    // A demonstration has simulated GPUs only.
    if (kind == kDcgm && env_.demo) kind = {};
    ++path_;
    if (!kind.empty()) {
      known.url = url;
      known.kind = kind;
      due_.pop_back();
      path_ = 0;
      Log(LogLevel::kInfo, "discovery", "target_found",
          known.kind + " at " + url + " (" + ProcessOf(known.candidate) + ")", url);
    } else if (reply.failure == HttpFailure::kConnect || reply.failure == HttpFailure::kTimeout) {
      path_ = SIZE_MAX;  // other paths would not answer either
    }
    QueryNext();
  }

  // A listener that only has an engine's port is queried once in the life of its socket.
  void GiveUp(Listener& known) {
    if (known.candidate.kind.empty()) {
      known.query_at_ns = INT64_MAX;
      return;
    }
    known.query_at_ns = env_.clock->Now().boot_ns + known.retry.count();
    known.retry = std::min(known.retry * 2, kLastRetry);
  }

  void Done(Status status) { std::exchange(done_, nullptr)(std::move(status)); }

  Env& env_;
  const std::string kind_;  // of the targets: auto or prometheus
  ListenerScanner scanner_;
  std::vector<listening::ListeningSocket> sockets_;
  bool scanned_ = false;
  int64_t scanned_ns_ = 0;
  std::map<std::string, Listener> known_;  // by address
  std::set<int> reported_;                 // pids elsewhere that were logged
  std::vector<std::string> due_;
  size_t path_ = 0;  // of the last in due_
  Instant deadline_;
  std::function<void(Status)> done_;
  std::unique_ptr<HttpChannel> channel_;  // last: ends before what its callback uses
};

Result<std::unique_ptr<Discovery>> Create(const Config& config, Env& env) {
  return std::unique_ptr<Discovery>(std::make_unique<LocalDiscovery>(config, env));
}

std::vector<Finding> Probe(const Config&, Env& env) {
  constexpr std::string_view kSubject = "local";
  std::vector<Finding> findings;
  ListenerScanner scanner(env.root, ::getpid());
  ScanResult scan = scanner.Scan(scanner.Listening());
  auto add = [&](Finding::Kind kind, std::string what, std::string why = {}, std::string remedy = {}) {
    findings.push_back({kind, std::string(kSubject), std::move(what), std::move(why), std::move(remedy)});
  };
  for (const PageCandidate& one : scan.candidates) {
    if (one.kind.empty()) continue;
    add(Finding::kFound, ProcessOf(one) + " listens at " + one.address + " and may be " + one.kind +
                             "; the agent reads its page if it is");
  }
  for (const RemoteEngine& one : scan.elsewhere) {
    add(Finding::kNoPermission,
        one.engine + " (" + Shown(one.process) + ", pid " + std::to_string(one.pid) + ") is not read",
        "it listens in another network namespace", "name it in the configuration: " + RemedyFor(one));
  }
  if (!scan.hidden.empty()) {
    add(Finding::kNoPermission,
        std::to_string(scan.hidden.size()) + " processes look like engines, but their ports cannot be read",
        "descriptors of other users' processes are hidden; ports are guessed by user and arguments",
        "run the agent as root, or add them to the list targets");
  }
  if (findings.empty()) {
    add(Finding::kNotHere, "",
        scan.processes ? "LLM engines are running, but none listens on a port that may serve its page"
                       : "no LLM engine and no dcgm-exporter was found");
  }
  return findings;
}

}  // namespace

extern const DiscoverySpec local_discovery;
const DiscoverySpec local_discovery{
    .name = "local",
    .help = "LLM engines and dcgm-exporter on this machine, by their processes, ports and pages.",
    .on_by_default = true,
    .period = seconds(5),
    .options = kOptions,
    .create = &Create,
    .probe = &Probe};

}  // namespace gpulens
