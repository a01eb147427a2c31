// llm_load PORT CONNECTIONS MILLISECONDS RATE REQUEST-FILE [KEYS-FILE]: sends one request over kept-alive
// connections to 127.0.0.1, and prints one line of JSON: answers, failures, and the time to the first byte of
// a body and to its end. One thread.
//
// RATE 0: each connection sends again when its answer is whole. Else so many requests a second are sent at
// even distances, whatever comes back, and times count from the moment at which a request was due.
// MILLISECONDS 0: each connection sends once; when all have their first byte it prints the line, and holds
// them until its input ends.
// REQUEST-FILE has the bytes of a request; KEY in it becomes the next line of KEYS-FILE.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/files.h"
#include "base/parse.h"
#include "net/relay/relay_message.h"

namespace {

using gpulens::ParseInt;
using gpulens::RelayBodyWalk;
using gpulens::RelayHead;
using gpulens::RelayHeadStep;
using gpulens::UniqueFd;

constexpr size_t kMostFileBytes = 16u << 20;
constexpr int kMostReady = 256;
constexpr size_t kOpeningAtOnce = 64;  // connections that wait for their first byte
constexpr int64_t kSecond = 1'000'000'000;

int64_t NowNs() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t{t.tv_sec} * kSecond + t.tv_nsec;
}

double QuantileUs(std::vector<int64_t>& times, double q) {
  if (times.empty()) return 0;
  std::sort(times.begin(), times.end());
  return static_cast<double>(times[static_cast<size_t>(q * static_cast<double>(times.size() - 1))]) / 1000;
}

struct Connection {
  UniqueFd socket;
  int64_t due_ns = 0;
  bool busy = false, head_done = false, first = false;
  std::string head_bytes;
  RelayBodyWalk walk;
};

class Load {
 public:
  uint16_t port = 0;
  size_t connections = 0;
  uint64_t rate = 0;
  int64_t span_ns = 0;
  std::string before_key, after_key;
  std::vector<std::string> keys;

  // False after a failure that makes the rest useless; `error` has the reason.
  bool Run() {
    poller_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
    all_.resize(connections);
    start_ns_ = NowNs();
    if (span_ns == 0) return Hold();
    for (size_t i = 0; i < connections; ++i) {
      if (!Connect(all_[i], i)) return false;
      idle_.push_back(i);
    }
    start_ns_ = NowNs();
    if (rate == 0) {
      while (!idle_.empty()) {
        const size_t i = idle_.front();
        idle_.pop_front();
        if (!Send(i, NowNs())) return false;
      }
    } else {
      StartTimer();
    }
    while (NowNs() - start_ns_ < span_ns) {
      if (!Turn(1000)) return false;
    }
    seconds_ = static_cast<double>(NowNs() - start_ns_) / 1e9;
    return true;
  }

  void Print() {
    std::printf(
        "{\"answers\": %zu, \"failed\": %zu, \"late\": %zu, \"seconds\": %.6f, \"first_p50_us\": %.1f, "
        "\"first_p99_us\": %.1f, \"whole_p50_us\": %.1f, \"whole_p99_us\": %.1f}\n",
        whole_ns_.size(), failed_, due_.size(), seconds_, QuantileUs(first_ns_, 0.5),
        QuantileUs(first_ns_, 0.99), QuantileUs(whole_ns_, 0.5), QuantileUs(whole_ns_, 0.99));
    std::fflush(stdout);
  }

  std::string error;

 private:
  bool Fail(std::string why) {
    error = std::move(why);
    return false;
  }

  bool Connect(Connection& connection, size_t index) {
    connection = {};
    connection.socket = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int on = 1;
    ::setsockopt(connection.socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(connection.socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0)
      return Fail(std::string("connect: ") + std::strerror(errno));
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = index;
    ::epoll_ctl(poller_.get(), EPOLL_CTL_ADD, connection.socket.get(), &event);
    return true;
  }

  void StartTimer() {
    timer_ = UniqueFd(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
    itimerspec every{};
    const int64_t ns = kSecond / static_cast<int64_t>(rate);
    every.it_interval = {ns / kSecond, ns % kSecond};
    every.it_value = every.it_interval;
    ::timerfd_settime(timer_.get(), 0, &every, nullptr);
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = kTimer;
    ::epoll_ctl(poller_.get(), EPOLL_CTL_ADD, timer_.get(), &event);
    next_due_ns_ = start_ns_ + ns;
  }

  bool Send(size_t index, int64_t due_ns) {
    Connection& connection = all_[index];
    connection.due_ns = due_ns;
    connection.busy = true;
    connection.head_done = connection.first = false;
    std::string_view key;
    if (!keys.empty()) key = keys[next_key_++ % keys.size()];
    iovec parts[3] = {{before_key.data(), before_key.size()},
                      {const_cast<char*>(key.data()), key.size()},
                      {after_key.data(), after_key.size()}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 3;
    const size_t size = before_key.size() + key.size() + after_key.size();
    if (::sendmsg(connection.socket.get(), &message, MSG_NOSIGNAL) != static_cast<ssize_t>(size))
      return Fail(std::string("send: ") + std::strerror(errno));
    return true;
  }

  bool Hold() {
    size_t opened = 0;
    while (first_ns_.size() < connections) {
      for (; opened < connections && opened - first_ns_.size() < kOpeningAtOnce; ++opened) {
        if (!Connect(all_[opened], opened) || !Send(opened, NowNs())) return false;
      }
      if (!Turn(60'000)) return false;
    }
    seconds_ = static_cast<double>(NowNs() - start_ns_) / 1e9;
    Print();
    char byte;
    while (::read(0, &byte, 1) > 0) {
    }
    return true;
  }

  bool Turn(int timeout_ms) {
    epoll_event ready[kMostReady];
    const int count = ::epoll_wait(poller_.get(), ready, kMostReady, timeout_ms);
    if (count == 0 && ++silent_ * timeout_ms >= 60'000) return Fail("no answer within a minute");
    if (count > 0) silent_ = 0;
    for (int i = 0; i < count; ++i) {
      if (ready[i].data.u64 == kTimer ? !Due() : !Receive(ready[i].data.u64)) return false;
    }
    return true;
  }

  bool Due() {
    uint64_t fired = 0;
    if (::read(timer_.get(), &fired, sizeof fired) != sizeof fired) return true;
    const int64_t ns = kSecond / static_cast<int64_t>(rate);
    for (uint64_t i = 0; i < fired; ++i, next_due_ns_ += ns) {
      if (idle_.empty()) {
        due_.push_back(next_due_ns_);
        continue;
      }
      const size_t index = idle_.front();
      idle_.pop_front();
      if (!Send(index, next_due_ns_)) return false;
    }
    return true;
  }

  bool Receive(size_t index) {
    Connection& connection = all_[index];
    const ssize_t got = ::recv(connection.socket.get(), buffer_, sizeof buffer_, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) return true;
    if (got <= 0) return Again(index, got == 0 ? "the server closed a connection" : std::strerror(errno));
    std::span<char> bytes(buffer_, static_cast<size_t>(got));
    if (!connection.busy) return Fail("bytes without a request");
    std::string joined;
    if (!connection.head_done) {
      if (!connection.head_bytes.empty()) {
        joined.swap(connection.head_bytes);
        joined.append(bytes.data(), bytes.size());
        bytes = joined;
      }
      const RelayHeadStep step = ParseAnswerHead({bytes.data(), bytes.size()}, {}, head_);
      if (step.state == RelayHeadStep::State::kBad) return Fail("an answer that is not HTTP");
      if (step.state == RelayHeadStep::State::kMore) {
        connection.head_bytes.assign(bytes.data(), bytes.size());
        return true;
      }
      if (head_.status() != 200) {
        return Fail("an answer with status " + std::to_string(head_.status()) + ": " +
                    std::string(bytes.data(), std::min<size_t>(bytes.size(), 600)));
      }
      connection.head_done = true;
      connection.walk.Begin(head_.framing(), head_.length());
      bytes = bytes.subspan(step.consumed);
    }
    const RelayBodyWalk::Step step = connection.walk.Take(bytes);
    const int64_t now = NowNs();
    if (step.payload > 0 && !connection.first) {
      connection.first = true;
      first_ns_.push_back(now - connection.due_ns);
    }
    if (step.state == RelayBodyWalk::State::kBad) return Fail("a body that is not framed");
    if (step.state == RelayBodyWalk::State::kMore) return true;
    if (span_ns == 0) return Fail("an answer that should have been held has ended");
    whole_ns_.push_back(now - connection.due_ns);
    connection.busy = false;
    if (!head_.keeps_alive() && !Connect(connection, index)) return false;
    return Next(index, now);
  }

  bool Next(size_t index, int64_t now) {
    if (rate == 0) return Send(index, now);
    if (due_.empty()) {
      idle_.push_back(index);
      return true;
    }
    const int64_t due = due_.front();
    due_.pop_front();
    return Send(index, due);
  }

  // A server may end a connection between requests.
  bool Again(size_t index, std::string_view why) {
    Connection& connection = all_[index];
    const bool busy = connection.busy;
    const int64_t due_ns = connection.due_ns;
    if (busy && (connection.head_done || ++failed_ > 100)) return Fail(std::string(why));
    if (!Connect(connection, index)) return false;
    return busy ? Send(index, due_ns) : true;
  }

  static constexpr uint64_t kTimer = UINT64_MAX;
  UniqueFd poller_, timer_;
  std::vector<Connection> all_;
  std::deque<size_t> idle_;
  std::deque<int64_t> due_;  // of requests for which no connection was free
  std::vector<int64_t> first_ns_, whole_ns_;
  size_t next_key_ = 0, failed_ = 0;
  int64_t start_ns_ = 0, next_due_ns_ = 0;
  int silent_ = 0;
  double seconds_ = 0;
  RelayHead head_;
  char buffer_[256 << 10];
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6 && argc != 7) {
    std::fputs("usage: llm_load PORT CONNECTIONS MILLISECONDS RATE REQUEST-FILE [KEYS-FILE]\n", stderr);
    return 2;
  }
  const auto port = ParseInt<uint16_t>(argv[1]);
  const auto connections = ParseInt<uint16_t>(argv[2]);
  const auto milliseconds = ParseInt<uint32_t>(argv[3]);
  const auto rate = ParseInt<uint32_t>(argv[4]);
  const auto request = gpulens::ReadFile(argv[5], kMostFileBytes);
  if (!port || !connections || !milliseconds || !rate || !request) {
    std::fputs("llm_load: a number or a readable file was expected\n", stderr);
    return 2;
  }
  static Load load;
  load.port = *port;
  load.connections = *connections;
  load.rate = *rate;
  load.span_ns = int64_t{*milliseconds} * 1'000'000;
  const size_t key = argc == 7 ? request->find("KEY") : std::string::npos;
  load.before_key = request->substr(0, key);
  if (key != std::string::npos) {
    load.after_key = request->substr(key + 3);
    const auto lines = gpulens::ReadFile(argv[6], kMostFileBytes);
    std::string_view rest = lines ? std::string_view(*lines) : std::string_view();
    while (!rest.empty()) load.keys.emplace_back(gpulens::TakeUntil(rest, '\n'));
  }
  if (!load.Run()) {
    std::fprintf(stderr, "llm_load: %s\n", load.error.c_str());
    return 1;
  }
  if (*milliseconds > 0) load.Print();
  return 0;
}
