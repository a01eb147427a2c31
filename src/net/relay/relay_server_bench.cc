// A relay between clients and an upstream of this process, and nginx in its place where the peers have it
// (build/peers, or GPULENS_NGINX): CPU of the relay alone for a request and an event, and the memory of idle
// streams.
#include "net/relay/relay_server.h"

#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <atomic>
#include <ctime>
#include <thread>

#include "base/fd.h"
#include "base/process.h"
#include "net/relay/relay_idle_streams.h"

namespace gpulens {
namespace {

constexpr size_t kBodyBytes = 200;
constexpr int kEvents = 200;

class ForwardAll final : public RelayPolicy {
 public:
  class Exchange final : public RelayExchange {
   public:
    Exchange(ForwardAll& policy, RelayHandle handle) : policy_(policy), handle_(std::move(handle)) {}
    void OnRequest(const RelayRequest&) override {
      RelayForward forward;
      forward.upstream = policy_.upstream;
      handle_.Forward(forward);
    }
    void OnUpstreamHead(const RelayHead&, RelayPass& pass) override {
      pass.write_first = !policy_.inspect;
      pass.same_length = true;
    }
    void OnEnd(const RelayOutcome&) override {}

   private:
    ForwardAll& policy_;
    RelayHandle handle_;
  };
  Ref<UpstreamPool> upstream;
  bool inspect = false;
  std::unique_ptr<RelayExchange> Begin(const RelayRequest&, RelayHandle handle) override {
    return std::make_unique<Exchange>(*this, std::move(handle));
  }
};

UniqueFd Listening(Endpoint& at) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_storage address{};
  socklen_t size = ParseListenAddress("127.0.0.1:0")->ToSockaddr(address);
  CHECK(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
  CHECK(::listen(fd.get(), 512) == 0);
  size = sizeof address;
  ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size);
  at = Endpoint::FromSockaddr(address, size);
  return fd;
}

// Answers each request with 1 KB, or with a stream of different events, each its own write.
class Upstream {
 public:
  Upstream() : listener_(Listening(at)), thread_([this] { Run(); }) {}
  ~Upstream() {
    stop_ = true;
    thread_.join();
  }
  Endpoint at;

 private:
  void Run() {
    const std::string plain =
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n" +
        std::string(1000, 'x');
    std::vector<std::string> events;
    for (int i = 0; i < kEvents; ++i) {
      const std::string event = "data: {\"choices\":[{\"delta\":{\"content\":\"" + std::to_string(i * 7919) +
                                " token\"},\"index\":0}],\"usage\":null}\n\n";
      char hex[24];
      std::snprintf(hex, sizeof hex, "%zx\r\n", event.size());
      events.push_back(hex + event + "\r\n");
    }
    UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
    const auto add = [&](int fd) {
      epoll_event event{};
      event.events = EPOLLIN;
      event.data.fd = fd;
      ::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &event);
    };
    add(listener_.get());
    std::vector<size_t> got(4096, 0);
    std::vector<bool> streams(4096, false);
    epoll_event ready[64];
    char buffer[16384];
    while (!stop_) {
      const int count = ::epoll_wait(epoll.get(), ready, 64, 50);
      for (int i = 0; i < count; ++i) {
        const int fd = ready[i].data.fd;
        if (fd == listener_.get()) {
          const int made = ::accept4(fd, nullptr, nullptr, SOCK_CLOEXEC);
          const int on = 1;
          ::setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
          if (made >= 0) add(made);
          continue;
        }
        const ssize_t n = ::recv(fd, buffer, sizeof buffer, 0);
        if (n <= 0) {
          ::close(fd);
          continue;
        }
        const std::string_view text(buffer, static_cast<size_t>(n));
        const auto at_fd = static_cast<size_t>(fd);
        if (got[at_fd] == 0) streams[at_fd] = text.find("/sse") != std::string_view::npos;
        got[at_fd] += text.size();
        if (!text.ends_with("bbE")) continue;
        got[at_fd] = 0;
        if (!streams[at_fd]) {
          static_cast<void>(!::send(fd, plain.data(), plain.size(), MSG_NOSIGNAL));
          continue;
        }
        const std::string_view head =
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
        static_cast<void>(!::send(fd, head.data(), head.size(), MSG_NOSIGNAL));
        for (const std::string& event : events)
          static_cast<void>(!::send(fd, event.data(), event.size(), MSG_NOSIGNAL));
        static_cast<void>(!::send(fd, "0\r\n\r\n", 5, MSG_NOSIGNAL));
      }
    }
  }

  UniqueFd listener_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// `connections` clients that send again as soon as they have their answer. Returns the number of answers.
size_t Load(const Endpoint& to, size_t connections, bool sse, size_t answers_wanted) {
  sockaddr_storage address{};
  const socklen_t length = to.ToSockaddr(address);
  const std::string request =
      std::string("POST ") + (sse ? "/sse" : "/plain") +
      " HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer 0123456789abcdef\r\nContent-Type: "
      "application/json\r\nAccept: */*\r\nUser-Agent: bench\r\nContent-Length: " +
      std::to_string(kBodyBytes) + "\r\n\r\n" + std::string(kBodyBytes - 1, 'b') + "E";
  std::vector<UniqueFd> clients;
  std::vector<pollfd> polls;
  std::vector<std::string> tails(connections);
  std::vector<size_t> got(connections, 0);
  for (size_t i = 0; i < connections; ++i) {
    clients.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(clients.back().get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) return 0;
    static_cast<void>(!::send(clients.back().get(), request.data(), request.size(), MSG_NOSIGNAL));
    polls.push_back({clients.back().get(), POLLIN, 0});
  }
  std::vector<char> buffer(1 << 18);
  size_t answers = 0;
  while (answers < answers_wanted) {
    if (::poll(polls.data(), polls.size(), 2000) <= 0) return answers;
    for (size_t i = 0; i < polls.size(); ++i) {
      if (polls[i].revents == 0) continue;
      const ssize_t n = ::recv(polls[i].fd, buffer.data(), buffer.size(), 0);
      if (n <= 0) return answers;
      tails[i].append(buffer.data(), static_cast<size_t>(n));
      got[i] += static_cast<size_t>(n);
      if (tails[i].size() > 8) tails[i].erase(0, tails[i].size() - 8);
      const bool whole =
          sse ? tails[i].ends_with("\r\n0\r\n\r\n") : got[i] > 1000 && tails[i].ends_with("xxxx");
      if (!whole) continue;
      got[i] = 0;
      tails[i].clear();
      ++answers;
      static_cast<void>(!::send(polls[i].fd, request.data(), request.size(), MSG_NOSIGNAL));
    }
  }
  return answers;
}

void Report(benchmark::State& state, double cpu_us, size_t answers) {
  state.SetItemsProcessed(static_cast<int64_t>(answers));
  state.counters["cpu_us_per_request"] = cpu_us / static_cast<double>(std::max<size_t>(answers, 1));
}

// Of a process, from its first thread: µs on a CPU.
double CpuOf(pid_t pid) {
  const std::string text = ReadFile("/proc/" + std::to_string(pid) + "/schedstat", 4096).value_or("");
  std::string_view rest = text;
  return static_cast<double>(ParseInt<int64_t>(TakeUntil(rest, ' ')).value_or(0)) / 1000;
}

size_t AnswersOf(bool sse) { return sse ? 600 : 20'000; }
size_t ConnectionsOf(bool sse) { return sse ? 16 : 64; }

void Relay(benchmark::State& state) {
  const bool sse = state.range(0) == 1;
  Upstream upstream;
  IoLoop loop;
  ForwardAll policy;
  policy.inspect = state.range(1) == 1;
  UpstreamOptions options;
  options.url = *ParseHttpUrl("http://" + upstream.at.ToString());
  policy.upstream = MakeRef<UpstreamPool>(loop, std::move(options));
  loop.Start();
  RelayServer server(loop, policy, {});
  const Endpoint at = *server.Listen(*ParseListenAddress("127.0.0.1:0"));
  const auto cpu = [&loop] {
    timespec now{};
    loop.Call([&] { ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now); });
    return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
  };
  size_t answers = 0;
  Load(at, ConnectionsOf(sse), sse, ConnectionsOf(sse) * 4);
  const double before = cpu();
  for (auto _ : state) answers += Load(at, ConnectionsOf(sse), sse, AnswersOf(sse));
  Report(state, cpu() - before, answers);
  loop.Call([&] { policy.upstream = nullptr; });
}
BENCHMARK(Relay)
    ->ArgNames({"sse", "inspect"})
    ->Args({0, 0})
    ->Args({0, 1})
    ->Args({1, 0})
    ->Args({1, 1})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond)
    ->Iterations(5);

void Nginx(benchmark::State& state) {
  const bool sse = state.range(0) == 1;
  const char* named = ::getenv("GPULENS_NGINX");
  const std::string program = named ? named : "build/peers/usr/sbin/nginx";
  if (::access(program.c_str(), X_OK) != 0) return state.SkipWithError("no nginx");
  Upstream upstream;
  Endpoint at;
  {
    UniqueFd free = Listening(at);
  }
  char folder[] = "/tmp/relay_bench_XXXXXX";
  CHECK(::mkdtemp(folder) != nullptr);
  const std::string dir = folder;
  const std::string config =
      "worker_processes 1; daemon off; master_process off; pid " + dir + "/pid; error_log " + dir +
      "/err;\nevents { worker_connections 1024; }\nhttp { access_log off; keepalive_requests 100000000;\n"
      "client_body_temp_path " +
      dir + "/1; proxy_temp_path " + dir + "/2; fastcgi_temp_path " + dir + "/3; uwsgi_temp_path " + dir +
      "/4; scgi_temp_path " + dir + "/5;\nupstream up { server " + upstream.at.ToString() +
      "; keepalive 256; keepalive_requests 100000000; }\nserver { listen " + at.ToString() +
      "; location / { proxy_pass http://up; proxy_http_version 1.1; proxy_set_header Connection \"\"; "
      "proxy_buffering off; } } }\n";
  UniqueFd file(::open((dir + "/conf").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  CHECK(::write(file.get(), config.data(), config.size()) == static_cast<ssize_t>(config.size()));
  ChildProcess::Options options;
  options.program = program;
  options.arguments = {"-p", dir, "-c", dir + "/conf", "-e", dir + "/err"};
  auto child = ChildProcess::Start(options);
  if (!child.ok()) return state.SkipWithError("nginx does not start");
  for (int i = 0; i < 100 && Load(at, 1, false, 1) == 0; ++i) ::poll(nullptr, 0, 20);
  size_t answers = 0;
  Load(at, ConnectionsOf(sse), sse, ConnectionsOf(sse) * 4);
  const double before = CpuOf(child->pid());
  for (auto _ : state) answers += Load(at, ConnectionsOf(sse), sse, AnswersOf(sse));
  Report(state, CpuOf(child->pid()) - before, answers);
  child->Signal(SIGTERM);
  ::poll(nullptr, 0, 50);
}
BENCHMARK(Nginx)
    ->ArgNames({"sse"})
    ->Arg(0)
    ->Arg(1)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond)
    ->Iterations(5);

void IdleStreamMemory(benchmark::State& state) {
  testing::IdleStreams measured;
  for (auto _ : state) {
    ForwardAll policy;
    measured = testing::MeasureIdleStreams(policy, policy.upstream, 10'000);
  }
  state.counters["streams"] = static_cast<double>(measured.streams);
  state.counters["bytes_per_stream"] = measured.bytes_each;
}
BENCHMARK(IdleStreamMemory)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace gpulens
