#include "sdk/energy/sources/system_sources.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/files.h"
#include "base/parse.h"
#include "base/result.h"
#include "sdk/energy/sources/visible_devices.h"

namespace gpulens::sdk {
namespace {

std::chrono::steady_clock::time_point At(int64_t ns) {
  return std::chrono::steady_clock::time_point(Duration(ns));
}

Status Gone(std::string why) { return {gpulens::Code::kUnavailable, "the agent's reader " + std::move(why)}; }

}  // namespace

std::string FindEnergySocket() {
  if (const auto queried = Variable("GPULENS_ENERGY_SOCKET"); queried && queried->starts_with('/'))
    return std::string(*queried);
  return FindAgentSocket("energy.sock");
}

Status AgentEnergy::Connect() {
  socket_.reset();
  answered_ = false;
  const std::string path = options_.socket.empty() ? FindEnergySocket() : options_.socket;
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  if (path.size() >= sizeof at.sun_path)
    return {gpulens::Code::kInvalidArgument, "the path of the socket is too long: " + path};
  path.copy(at.sun_path, sizeof at.sun_path - 1);
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return ErrnoStatus("socket", errno);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) {
    const int error = errno;
    if (error == ENOENT || error == ECONNREFUSED || error == ENOTDIR)
      return {gpulens::Code::kUnavailable, "no agent at " + path};
    if (error == EAGAIN) return {gpulens::Code::kUnavailable, "too many clients query the agent at " + path};
    return ErrnoStatus("connect " + path, error);
  }
  socket_ = std::move(socket);
  return {};
}

Result<std::string> AgentEnergy::Query(const FeedRequest& request, Duration timeout) {
  if (!socket_) return Gone("is away");
  const std::string bytes = EncodeFeedRequest(request);
  if (::send(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
    socket_.reset();
    return Gone("has ended");
  }
  const int64_t deadline_ns = clock_.Now().boot_ns + timeout.count();
  std::string answer(kMostFeedBytes, '\0');
  while (true) {
    const int64_t left_ns = deadline_ns - clock_.Now().boot_ns;
    pollfd wait{socket_.get(), POLLIN, 0};
    const int ready = ::poll(&wait, 1, static_cast<int>(std::max<int64_t>(left_ns / 1'000'000, 0)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) {
      socket_.reset();  // a late answer must not be taken for that to the next request
      return Status{gpulens::Code::kTimeout, "the agent's reader does not answer"};
    }
    const ssize_t got = ::recv(socket_.get(), answer.data(), answer.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got <= 0) {
      socket_.reset();
      return Gone("has ended");
    }
    answer.resize(static_cast<size_t>(got));
    answered_ = true;
    return answer;
  }
}

Status AgentEnergy::List(std::vector<EnergyDevice>& devices) {
  RETURN_IF_ERROR(Connect());
  ASSIGN_OR_RETURN(std::string answer, Query({FeedRequest::Kind::kDevices, 0}, options_.first_answer));
  ASSIGN_OR_RETURN(std::vector<FeedDevice> all, DecodeFeedDevices(answer));
  reports_processes_ = FeedReportsProcesses(answer);
  numbers_.clear();
  devices.clear();
  for (uint32_t i = 0; i < all.size(); ++i) {
    if (all[i].vendor != options_.vendor || all[i].device.part != EnergyPart::kGpu) continue;
    numbers_.push_back(i);
    devices.push_back(std::move(all[i].device));
  }
  if (devices.empty()) return {gpulens::Code::kUnavailable, "the agent has no GPU of this vendor"};
  return {};
}

Result<std::vector<EnergyDevice>> AgentEnergy::Open() {
  // Otherwise a MIG device would count as absent, and processors would be measured instead.
  if (const auto list = Variable("CUDA_VISIBLE_DEVICES"); list && Trim(*list).starts_with("MIG-"))
    return Status{
        gpulens::Code::kInvalidArgument,
        "CUDA_VISIBLE_DEVICES names a MIG device, which NVML alone knows: the agent reports whole GPUs. "
        "Make libnvidia-ml.so.1 available here"};
  std::vector<EnergyDevice> devices;
  RETURN_IF_ERROR(List(devices));
  std::vector<VisibleName> names(devices.size());
  ids_.clear();
  for (size_t i = 0; i < devices.size(); ++i) {
    names[i].uuid = devices[i].id;
    ids_.push_back(devices[i].id);
  }
  // The agent reports whole GPUs; the variable of this process chooses among them.
  const std::vector<size_t> visible = VisibleDevices(Variable("CUDA_VISIBLE_DEVICES"), names);
  for (size_t i = 0; i < devices.size(); ++i)
    devices[i].usable &= std::ranges::find(visible, i) != visible.end();
  return devices;
}

Result<FeedReading> AgentEnergy::ReadOnce(uint32_t number) {
  ASSIGN_OR_RETURN(std::string answer, Query({FeedRequest::Kind::kRead, number}, options_.timeout));
  return DecodeFeedReading(answer);
}

Status AgentEnergy::Read(size_t device, EnergyReading& out) {
  if (device >= numbers_.size()) return Gone("no longer has GPUs");
  const bool worked = answered_;
  int64_t queried_ns = clock_.Now().boot_ns;
  auto reading = ReadOnce(numbers_[device]);
  if (!reading && worked && !socket_ && reading.error().code == gpulens::Code::kUnavailable) {
    std::vector<EnergyDevice> devices;
    RETURN_IF_ERROR(List(devices));
    if (!std::ranges::equal(devices, ids_, {}, &EnergyDevice::id)) {
      socket_.reset();
      answered_ = false;
      return {gpulens::Code::kUnavailable, "the agent was restarted and has other GPUs"};
    }
    queried_ns = clock_.Now().boot_ns;
    reading = ReadOnce(numbers_[device]);
  }
  if (!reading) return reading.error();
  const int64_t got_ns = clock_.Now().boot_ns;
  out = reading->reading;
  int64_t began_ns = reading->began_ns, ended_ns = reading->ended_ns;
  // The clocks are the same unless a container has a time namespace; then the time of the transfer is
  // unknown.
  if (reading->now_ns < queried_ns || reading->now_ns > got_ns) {
    began_ns = queried_ns - (reading->now_ns - began_ns);
    ended_ns = got_ns - (reading->now_ns - ended_ns);
  }
  out.began = At(began_ns);
  out.ended = At(ended_ns);
  return {};
}

Status AgentEnergy::Processes(size_t device, EnergyProcesses& out) {
  if (!reports_processes_)
    return {gpulens::Code::kUnavailable,
            "the agent is of an earlier version and does not report the processes of a GPU"};
  if (device >= numbers_.size()) return Gone("no longer has GPUs");
  ASSIGN_OR_RETURN(std::string answer,
                   Query({FeedRequest::Kind::kProcesses, numbers_[device]}, options_.timeout));
  ASSIGN_OR_RETURN(out, DecodeFeedProcesses(answer));
  return {};
}

}  // namespace gpulens::sdk
