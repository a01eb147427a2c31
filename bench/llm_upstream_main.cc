// llm_upstream EVENTS: a provider of scripted answers on a port of 127.0.0.1, which it prints. One thread.
//
// A chat completion (and a message of Anthropic's API) is 1 KB of JSON with its usage, or with "stream":true
// a chunked stream of EVENTS pieces of text, its usage and the end. Each event is a write of its own, and
// streams take turns, so that a proxy gets them one by one as from a model. A request whose text has HOLD
// gets one event and no end.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/fd.h"
#include "base/parse.h"
#include "net/relay/relay_message.h"

namespace {

using gpulens::RelayBodyWalk;
using gpulens::RelayHead;
using gpulens::RelayHeadStep;
using gpulens::UniqueFd;

constexpr int kMostReady = 256;

// What one request gets: a head, and pieces that are written one by one.
struct Script {
  std::vector<std::string> writes;
};

std::string Chunk(std::string_view payload) {
  char size[24];
  std::snprintf(size, sizeof size, "%zx\r\n", payload.size());
  return size + std::string(payload) + "\r\n";
}

std::string Whole(std::string_view json) {
  return "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nx-request-id: req-1\r\nContent-Length: " +
         std::to_string(json.size()) + "\r\n\r\n" + std::string(json);
}

const std::string kStreamHead =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nx-request-id: req-1\r\n"
    "Transfer-Encoding: chunked\r\n\r\n";

std::string ChatEvent(std::string_view choices, std::string_view usage) {
  return "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":"
         "\"gpt-4o-mini\",\"service_tier\":\"default\",\"system_fingerprint\":\"fp_1\",\"choices\":" +
         std::string(choices) + std::string(usage) + "}\n\n";
}

std::string Usage(int tokens) {
  return "{\"prompt_tokens\":120,\"completion_tokens\":" + std::to_string(tokens) +
         ",\"total_tokens\":" + std::to_string(120 + tokens) + "}";
}

Script ChatStream(int events, bool with_usage) {
  Script script;
  const std::string_view none = with_usage ? ",\"usage\":null" : "";
  script.writes.push_back(kStreamHead);
  for (int i = 0; i < events; ++i) {
    const std::string choice = "[{\"index\":0,\"delta\":{\"content\":\" word" + std::to_string(i) +
                               "\"},\"logprobs\":null,\"finish_reason\":null}]";
    script.writes.push_back(Chunk(ChatEvent(choice, none)));
  }
  script.writes.push_back(
      Chunk(ChatEvent("[{\"index\":0,\"delta\":{},\"logprobs\":null,\"finish_reason\":\"stop\"}]", none)));
  if (with_usage) script.writes.push_back(Chunk(ChatEvent("[]", ",\"usage\":" + Usage(events))));
  script.writes.push_back(Chunk("data: [DONE]\n\n") + "0\r\n\r\n");
  return script;
}

std::string MessageEvent(std::string_view name, std::string_view json) {
  return Chunk("event: " + std::string(name) + "\ndata: " + std::string(json) + "\n\n");
}

Script MessageStream(int events) {
  Script script;
  script.writes.push_back(kStreamHead);
  script.writes.push_back(MessageEvent(
      "message_start",
      "{\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\","
      "\"model\":\"claude-sonnet-4-5\",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,"
      "\"usage\":{\"input_tokens\":120,\"output_tokens\":1}}}"));
  script.writes.push_back(
      MessageEvent("content_block_start",
                   "{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\","
                   "\"text\":\"\"}}"));
  for (int i = 0; i < events; ++i) {
    script.writes.push_back(MessageEvent("content_block_delta",
                                         "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":"
                                         "\"text_delta\",\"text\":\" word" +
                                             std::to_string(i) + "\"}}"));
  }
  script.writes.push_back(
      MessageEvent("content_block_stop", "{\"type\":\"content_block_stop\",\"index\":0}") +
      MessageEvent("message_delta",
                   "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\",\"stop_sequence\":"
                   "null},\"usage\":{\"output_tokens\":" +
                       std::to_string(events) + "}}") +
      MessageEvent("message_stop", "{\"type\":\"message_stop\"}") + "0\r\n\r\n");
  return script;
}

struct Scripts {
  explicit Scripts(int events)
      : chat_stream(ChatStream(events, false)),
        chat_stream_usage(ChatStream(events, true)),
        message_stream(MessageStream(events)) {
    const std::string text(700, 'w');
    chat.writes.push_back(
        Whole("{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion\",\"created\":1700000000,\"model\":"
              "\"gpt-4o-mini\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"" +
              text + "\"},\"logprobs\":null,\"finish_reason\":\"stop\"}],\"usage\":" + Usage(events) + "}"));
    message.writes.push_back(
        Whole("{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"claude-sonnet-4-5\","
              "\"content\":[{\"type\":\"text\",\"text\":\"" +
              text +
              "\"}],\"stop_reason\":\"end_turn\",\"stop_sequence\":null,\"usage\":{\"input_tokens\":120,"
              "\"output_tokens\":" +
              std::to_string(events) + "}}"));
  }
  Script chat, chat_stream, chat_stream_usage, message, message_stream;
};

// Whether the JSON has `name` with the value true, however it is spaced.
bool HasTrue(std::string_view body, std::string_view name) {
  const size_t at = body.find(name);
  if (at == std::string_view::npos) return false;
  std::string_view rest = body.substr(at + name.size());
  while (!rest.empty() && (rest[0] == ' ' || rest[0] == ':')) rest.remove_prefix(1);
  return rest.starts_with("true");
}

struct Connection {
  UniqueFd socket;
  std::string input;  // from the head of the present request
  const Script* script = nullptr;
  size_t next = 0;  // write of the script
  size_t end = 0;   // of the writes
};

// A stream whose next event is due then.
struct Due {
  int64_t at_ns;
  int fd;
};

int64_t NowNs() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

class Upstream {
 public:
  Upstream(int events, int64_t interval_ns)
      : scripts_(events), interval_ns_(interval_ns), poller_(::epoll_create1(EPOLL_CLOEXEC)) {}

  bool Listen() {
    listener_ = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    if (::bind(listener_.get(), reinterpret_cast<sockaddr*>(&at), size) != 0 ||
        ::listen(listener_.get(), 4096) != 0)
      return false;
    ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&at), &size);
    std::printf("%d\n", ntohs(at.sin_port));
    std::fflush(stdout);
    Watch(listener_.get());
    return true;
  }

  void Run() {
    epoll_event ready[kMostReady];
    for (;;) {
      timespec wait{};
      if (!due_.empty()) wait.tv_nsec = std::clamp<int64_t>(due_.front().at_ns - NowNs(), 0, 999'999'999);
      const int count =
          ::epoll_pwait2(poller_.get(), ready, kMostReady, due_.empty() ? nullptr : &wait, nullptr);
      for (int i = 0; i < count; ++i) {
        if (ready[i].data.fd == listener_.get()) Accept();
        else Read(ready[i].data.fd);
      }
      // All streams have the same interval, so the queue is in order.
      const int64_t now = NowNs();
      for (size_t left = due_.size(); left > 0 && due_.front().at_ns <= now; --left) {
        const int fd = due_.front().fd;
        due_.pop_front();
        Write(fd);
      }
    }
  }

 private:
  void Watch(int fd) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    ::epoll_ctl(poller_.get(), EPOLL_CTL_ADD, fd, &event);
  }

  void Accept() {
    for (;;) {
      UniqueFd made(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (made.get() < 0) return;
      const int on = 1;
      ::setsockopt(made.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      const int fd = made.get();
      Watch(fd);
      connections_[fd].socket = std::move(made);
    }
  }

  void Read(int fd) {
    const auto at = connections_.find(fd);
    if (at == connections_.end()) return;
    Connection& connection = at->second;
    const ssize_t got = ::recv(fd, buffer_, sizeof buffer_, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) {
      connections_.erase(at);
      return;
    }
    connection.input.append(buffer_, static_cast<size_t>(got));
    if (connection.script) return;
    const RelayHeadStep step = ParseRequestHead(connection.input, {}, head_);
    if (step.state == RelayHeadStep::State::kMore) return;
    if (step.state == RelayHeadStep::State::kBad) {
      connections_.erase(at);
      return;
    }
    std::string body = connection.input.substr(step.consumed);
    RelayBodyWalk walk;
    walk.Begin(head_.framing(), head_.length());
    const RelayBodyWalk::Step taken = walk.Take({body.data(), body.size()});
    if (head_.framing() != gpulens::RelayFraming::kNone && taken.state != RelayBodyWalk::State::kDone) return;
    connection.input.clear();
    const std::string_view payload(body.data(), taken.payload);
    const bool stream = HasTrue(payload, "\"stream\"");
    const bool messages = head_.target().find("/messages") != std::string_view::npos;
    if (messages) connection.script = stream ? &scripts_.message_stream : &scripts_.message;
    else if (!stream) connection.script = &scripts_.chat;
    else
      connection.script =
          HasTrue(payload, "\"include_usage\"") ? &scripts_.chat_stream_usage : &scripts_.chat_stream;
    connection.next = 0;
    connection.end = payload.find("HOLD") == std::string_view::npos ? connection.script->writes.size() : 2;
    Write(fd);
  }

  void Write(int fd) {
    if (WriteNext(fd)) due_.push_back({NowNs() + interval_ns_, fd});
  }

  // False when the answer is written, or the connection has ended.
  bool WriteNext(int fd) {
    const auto at = connections_.find(fd);
    if (at == connections_.end() || !at->second.script) return false;
    Connection& connection = at->second;
    const std::string& bytes = connection.script->writes[connection.next++];
    if (::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(bytes.size())) {
      connections_.erase(at);
      return false;
    }
    if (connection.next < connection.end) return true;
    if (connection.end == connection.script->writes.size()) connection.script = nullptr;
    return false;
  }

  const Scripts scripts_;
  const int64_t interval_ns_;
  UniqueFd poller_, listener_;
  std::unordered_map<int, Connection> connections_;
  std::deque<Due> due_;
  RelayHead head_;
  char buffer_[64 << 10];
};

}  // namespace

int main(int argc, char** argv) {
  const auto events = argc == 3 ? gpulens::ParseInt<uint16_t>(argv[1]) : std::nullopt;
  const auto interval_us = argc == 3 ? gpulens::ParseInt<uint32_t>(argv[2]) : std::nullopt;
  if (!events || !interval_us) {
    std::fputs("usage: llm_upstream EVENTS MICROSECONDS\n", stderr);
    return 2;
  }
  const auto upstream = std::make_unique<Upstream>(*events, int64_t{*interval_us} * 1000);
  if (!upstream->Listen()) {
    std::perror("llm_upstream");
    return 1;
  }
  upstream->Run();
}
