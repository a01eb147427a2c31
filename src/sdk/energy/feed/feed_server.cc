#include "sdk/energy/feed/feed_server.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "sdk/energy/feed/guarded.h"

namespace gpulens::sdk {
namespace {

// Readings younger than this are shared: counters are not updated more often, and there may be many clients.
constexpr int64_t kYoungNs = 2'000'000;
constexpr int kPollMs = 500;

// Ends the process when its scope takes longer: a call into a hanging library cannot be cancelled otherwise.
class Alarm {
 public:
  explicit Alarm(unsigned seconds) noexcept : set_(seconds > 0) {
    if (set_) ::alarm(seconds);
  }
  ~Alarm() {
    if (set_) ::alarm(0);
  }
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;

 private:
  const bool set_;
};

}  // namespace

FeedServer::FeedServer(UniqueFd listening, Sources sources, const Clock& clock, Options options)
    : listening_(std::move(listening)),
      sources_(std::move(sources)),
      clock_(clock),
      options_(std::move(options)) {}

FeedServer::~FeedServer() = default;

template <class Call>
Status FeedServer::CallSource(Call call) const {
  const Alarm alarm(options_.longest_call_seconds);
  return Guarded(std::move(call));
}

Status FeedServer::OpenOne(EnergySource& source) {
  auto devices = source.Open();
  if (!devices) return devices.error();
  for (size_t i = 0; i < devices->size() && list_.size() < kMostFeedDevices; ++i) {
    (*devices)[i].name += options_.mark;
    list_.push_back({std::move((*devices)[i]), source.vendor()});
    devices_.push_back({&source, i, {}, 0, {}});
  }
  return {};
}

void FeedServer::OpenSources() {
  nothing_ = {Code::kUnavailable, "the agent's reader found nothing"};
  for (const auto& source : sources_) {
    const Status status = CallSource([&] { return OpenOne(*source); });
    if (!status.ok()) nothing_.detail += "; " + std::string(source->name()) + ": " + status.detail;
  }
}

void FeedServer::ReadNow(Device& device) {
  EnergyReading reading;
  const int64_t began_ns = Now();
  device.status = CallSource([&] { return device.source->Read(device.number, reading); });
  device.last = {reading, began_ns, Now(), 0};
  if (device.status.ok()) device.failing_since_ns = 0;
  else if (device.failing_since_ns == 0) device.failing_since_ns = began_ns;
}

// Whether no device answers any more, as after a driver was unloaded: the library must then be reopened.
bool FeedServer::Lost() const {
  const int64_t now_ns = clock_.Now().boot_ns;
  return !devices_.empty() && std::ranges::all_of(devices_, [&](const Device& device) {
    return device.failing_since_ns > 0 && now_ns - device.failing_since_ns > options_.lost.count();
  });
}

// "Ours" are the processes of the client, whose PID the kernel reports also across namespaces.
std::string FeedServer::WhoUses(const Client& client, const Device& device) {
  if (client.pid == 0)
    return EncodeFeedFailure({Code::kUnavailable, "the agent does not see the requesting process"});
  EnergyProcesses processes;
  const Status status = CallSource([&] { return device.source->Processes(device.number, processes); });
  if (!status.ok()) return EncodeFeedFailure(status);
  for (EnergyProcess& one : processes.list) one.own = family_.Has(one.pid, client.pid, {});
  return EncodeFeedProcesses(processes);
}

std::string FeedServer::Answer(const Client& client, const FeedRequest& request) {
  if (list_.empty()) return EncodeFeedFailure(nothing_);
  if (request.kind == FeedRequest::Kind::kDevices) return EncodeFeedDevices(list_);
  if (request.device >= devices_.size())
    return EncodeFeedFailure({Code::kInvalidArgument, "there is no device with this number"});
  Device& device = devices_[request.device];
  if (request.kind == FeedRequest::Kind::kProcesses) return WhoUses(client, device);
  if (device.last.ended_ns == 0 || Now() - device.last.ended_ns >= kYoungNs) ReadNow(device);
  if (!device.status.ok()) return EncodeFeedFailure(device.status);
  FeedReading reading = device.last;
  reading.now_ns = Now();
  return EncodeFeedReading(reading);
}

bool FeedServer::Serve(Client& client) {
  std::array<char, 64> bytes;  // longer requests are invalid, and truncated
  const ssize_t got = ::recv(client.socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  if (got == 0) return false;
  const auto request = DecodeFeedRequest({bytes.data(), static_cast<size_t>(got)});
  if (!request) return false;
  client.queried_ns = Now();
  const std::string answer = Answer(client, *request);
  // A client that does not receive its answers is disconnected.
  return ::send(client.socket.get(), answer.data(), answer.size(), MSG_DONTWAIT | MSG_NOSIGNAL) ==
         static_cast<ssize_t>(answer.size());
}

void FeedServer::Accept() {
  UniqueFd socket(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket) return;
  ucred who{};
  socklen_t size = sizeof who;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &who, &size) != 0) return;
  const auto of_user = std::ranges::count(clients_, who.uid, &Client::user);
  if (who.uid != 0 && static_cast<size_t>(of_user) >= options_.clients_of_a_user) return;
  clients_.push_back({std::move(socket), who.uid, static_cast<uint32_t>(std::max(who.pid, 0)), Now()});
}

void FeedServer::Run(int stop) {
  OpenSources();
  int64_t busy_ns = Now();
  std::vector<pollfd> polled;
  while (true) {
    const bool room = clients_.size() < options_.clients;
    polled.assign({{stop, POLLIN, 0}, {room ? listening_.get() : -1, POLLIN, 0}});
    for (const Client& client : clients_) polled.push_back({client.socket.get(), POLLIN, 0});
    if (::poll(polled.data(), polled.size(), kPollMs) < 0 && errno != EINTR) return;
    if (polled[0].revents != 0) return;
    for (size_t i = 2; i < polled.size(); ++i) {
      Client& client = clients_[i - 2];
      if (polled[i].revents != 0 && !Serve(client)) client.socket.reset();
    }
    const int64_t now_ns = Now();
    std::erase_if(clients_, [&](const Client& client) {
      return !client.socket || now_ns - client.queried_ns > options_.silent.count();
    });
    if (polled[1].revents != 0) Accept();
    if (!clients_.empty()) busy_ns = now_ns;
    if (now_ns - busy_ns > options_.idle.count() || Lost()) return;
  }
}

}  // namespace gpulens::sdk
