#include "cli/node/node_reader.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <future>

#include "agent/control/control_socket.h"
#include "agent/local/local_node.h"
#include "agent/run/config_file.h"
#include "agent/status/status_report.h"
#include "base/parse.h"
#include "base/result.h"
#include "base/text.h"
#include "cli/help/help.h"
#include "net/client/http_client.h"
#include "net/io_loop.h"

namespace gpulens {

namespace {

constexpr size_t kMostPageBytes = 64u << 20;
// An agent of the configuration that does not answer by then is not waited for.
constexpr Duration kSearchTimeout = std::chrono::seconds(3);
// What every agent with these pages has, and no other program.
constexpr std::string_view kProbe = "/api/now";
constexpr std::string_view kNowSchema = "\"gpulens.now/1\"";

class SocketNode final : public NodeReader {
 public:
  SocketNode(std::string path, Duration timeout) : path_(std::move(path)), timeout_(timeout) {}

  Result<std::string> Get(std::string_view target) override {
    Result<std::string> answer = QueryAgent(path_, "get " + std::string(target), timeout_);
    if (!answer) {
      const bool away = answer.error().code == Code::kUnavailable;
      return Status{answer.error().code,
                    answer.error().detail + (away ? "; is the agent running, as this user or as root?" : "")};
    }
    if (answer->starts_with("ok ")) return answer->erase(0, 3);
    return Refused(*answer);
  }
  Kind kind() const override { return kSocket; }
  std::string name() const override { return "the agent at " + path_; }

 private:
  // "error unavailable there is no page …"
  static Status Refused(std::string_view answer) {
    constexpr std::string_view kError = "error ";
    if (!answer.starts_with(kError)) return {Code::kDataLoss, "this is not the answer of an agent"};
    std::string_view rest = answer.substr(kError.size());
    const std::string_view whole = rest, word = TakeUntil(rest, ' ');
    for (Code code : {Code::kUnavailable, Code::kPermissionDenied, Code::kInvalidArgument, Code::kDataLoss,
                      Code::kTimeout, Code::kExhausted, Code::kIo}) {
      if (CodeName(code) == word) return {code, Printable(rest)};
    }
    return {Code::kUnavailable, Printable(whole) + " (an older agent has no pages for this program)"};
  }

  const std::string path_;
  const Duration timeout_;
};

class UrlNode final : public NodeReader {
 public:
  UrlNode(const HttpUrl& url, std::string headers, std::shared_ptr<const TlsContext> tls, Duration timeout)
      : url_(url), headers_(std::move(headers)), tls_(std::move(tls)), timeout_(timeout) {
    loop_.Start();
  }
  ~UrlNode() override {
    loop_.Call([this] { channels_.clear(); });
    loop_.Stop();
  }

  Result<std::string> Get(std::string_view target) override {
    RETURN_IF_ERROR(loop_.status());
    const auto answer = std::make_shared<std::promise<HttpReply>>();
    loop_.Call([&] {
      ChannelOf(target).Get({headers_, tls_, timeout_, {}},
                            [answer](HttpReply& reply) { answer->set_value(std::move(reply)); });
    });
    HttpReply reply = answer->get_future().get();
    if (reply.failure != HttpFailure::kNone) return Failed(reply);
    return std::move(reply.body);
  }
  Kind kind() const override { return kUrl; }
  std::string name() const override {
    return url_.Origin() + (Prefix().empty() ? "" : std::string(Prefix()));
  }

 private:
  static constexpr size_t kMostChannels = 3;
  struct Page {
    std::string target;
    std::unique_ptr<HttpChannel> channel;
  };

  // A path of the URL, without its last '/', is that of a proxy in front of the agent.
  std::string_view Prefix() const {
    std::string_view path = url_.has_path ? std::string_view(url_.target) : std::string_view();
    path = path.substr(0, path.find('?'));
    while (path.ends_with('/')) path.remove_suffix(1);
    return path;
  }
  // A channel belongs to one page and keeps its connection. Commands read few pages again and again.
  HttpChannel& ChannelOf(std::string_view target) {
    auto at = std::ranges::find(channels_, target, &Page::target);
    if (at == channels_.end()) {
      if (channels_.size() >= kMostChannels) channels_.erase(channels_.begin());
      HttpTarget wanted{url_, {}, {}};
      wanted.url.target = std::string(Prefix()).append(target);
      wanted.limits.body_bytes = kMostPageBytes;
      channels_.push_back({std::string(target), client_.Open(std::move(wanted))});
      at = channels_.end() - 1;
    }
    return *at->channel;
  }

  static Status Failed(const HttpReply& reply) {
    std::string text = Printable(reply.detail);
    Code code = HttpFailureCode(reply.failure);
    if (reply.status == 400) code = Code::kInvalidArgument;
    if (reply.status == 404) {
      code = Code::kUnavailable;
      text += "; is this the address of a gpulens agent, and not of an older one?";
    }
    if (reply.status == 413) {
      code = Code::kExhausted;
      text += "; request less";
    }
    if (reply.failure == HttpFailure::kConnect) text += "; is the agent running, and is this its port?";
    if (reply.failure == HttpFailure::kAuth)
      text +=
          "; pass a token or password with --header \"Authorization: Bearer …\" or https://user:password@…";
    if (reply.failure == HttpFailure::kTls) text += "; pass the CA of its certificate with --ca-file";
    return {code, text};
  }

  const HttpUrl url_;
  const std::string headers_;
  const std::shared_ptr<const TlsContext> tls_;
  const Duration timeout_;
  IoLoop loop_;
  HttpClient client_{loop_};
  std::vector<Page> channels_;  // used on the loop
};

class ThisProcess final : public NodeReader {
 public:
  ThisProcess(CommandConfig config, std::unique_ptr<LocalNode> node)
      : config_(std::move(config)), node_(std::move(node)) {}

  Result<std::string> Get(std::string_view target) override { return node_->Get(target); }
  Kind kind() const override { return kThisProcess; }
  std::string name() const override { return "this process"; }

 private:
  const CommandConfig config_;
  const std::unique_ptr<LocalNode> node_;
};

Result<std::unique_ptr<NodeReader>> OpenUrl(const NodeOptions& options) {
  Result<HttpUrl> url = ParseHttpUrl(options.url);
  if (!url) return Status{Code::kInvalidArgument, UrlName(options.url) + ": " + url.error().detail};
  ASSIGN_OR_RETURN(UrlRequest request, MakeUrlRequest(*url, "Accept: application/json\r\n", options));
  return std::unique_ptr<NodeReader>(
      std::make_unique<UrlNode>(*url, std::move(request.fields), std::move(request.tls), options.timeout));
}

}  // namespace

class NodeOpener {
 public:
  static Result<std::unique_ptr<NodeReader>> Open(const NodeOptions& options) {
    if (!options.url.empty()) return OpenUrl(options);
    if (!options.socket.empty())
      return std::unique_ptr<NodeReader>(std::make_unique<SocketNode>(options.socket, options.timeout));
    CommandConfig config = LoadCommandConfig(options.config_file);
    if (!config.ok()) return Status{Code::kInvalidArgument, "the configuration is wrong"};
    std::string why;
    if (!options.direct && !options.demo) {
      if (auto agent = FindAgent(options, config.config(), why)) return agent;
    }
    ASSIGN_OR_RETURN(auto node, LocalNode::Start(*config.schema, config.config(), options.demo));
    auto reader = std::make_unique<ThisProcess>(std::move(config), std::move(node));
    reader->why_direct_ = std::move(why);
    return std::unique_ptr<NodeReader>(std::move(reader));
  }

 private:
  // Null: none answers, and `why` has the reason.
  static std::unique_ptr<NodeReader> FindAgent(const NodeOptions& options, const Config& config,
                                               std::string& why) {
    for (const std::string& at : AgentAddresses(config)) {
      NodeOptions there = options;
      there.timeout = std::min(options.timeout, kSearchTimeout);
      if (at.starts_with("http://")) there.url = at;
      else there.socket = at;
      Result<std::unique_ptr<NodeReader>> reader = Open(there);
      if (!reader) continue;
      Result<std::string> page = (*reader)->Get(kProbe);
      if (page && page->substr(0, 200).find(kNowSchema) != std::string::npos) return *std::move(reader);
      // An address that is there and refuses is the better reason than those where nothing is.
      if (page) page = Status{Code::kDataLoss, "answers, but is no agent with these pages"};
      if (why.empty() && page.error().code != Code::kUnavailable)
        why = (*reader)->name() + ": " + page.error().detail;
    }
    if (why.empty()) why = "no agent answers on this machine";
    return nullptr;
  }
};

Result<std::unique_ptr<NodeReader>> NodeReader::Open(const NodeOptions& options) {
  return NodeOpener::Open(options);
}

void AddNodeOptions(CLI::App& command, NodeOptions& options) {
  AddOption(command, "--socket", options.socket, "The agent's control socket", "PATH");
  AddOption(command, "--header", options.headers,
            "Header field of requests to a URL: \"Authorization: Bearer …\"; repeatable", "NAME: VALUE");
  AddOption(command, "--ca-file", options.ca_file, "PEM file of the CA that signed the certificate of a URL",
            "FILE");
  command.add_flag("--insecure-skip-verify", options.insecure_skip_verify, "Accept any certificate");
  command.add_flag("--direct", options.direct, "Read this machine in this process, also when an agent runs");
  command.add_flag("--demo", options.demo, "Read simulated GPUs and engines in this process");
  AddConfigOption(command, options.config_file);
}

}  // namespace gpulens
