#include "plugins/listening.h"

#include "base/log.h"
#include "base/result.h"
#include "base/threads.h"
#include "net/auth/authenticator.h"
#include "net/io_loop.h"

namespace gpulens {
namespace {

Status MayServe(const Endpoint& at, const std::string& text, const PluginListen& listen, Env& env) {
  if (at.IsLoopback() || listen.insecure) return Ok();
  bool safe = false;
  env.io->Call([&] {
    safe =
        env.authenticator && env.authenticator->config().tls && env.authenticator->config().authenticates();
  });
  if (safe) return Ok();
  const std::string name = std::string(listen.group) + "." + std::string(listen.plugin);
  return {Code::kInvalidArgument,
          name + ": " + text +
              " is open to other machines: it needs http.web_config with TLS and users, or " + name +
              ".insecure: true on a closed network"};
}

}  // namespace

Result<std::vector<std::shared_ptr<SharedSocket>>> ListenForPlugin(
    const PluginListen& at, Env& env, const std::function<Result<Endpoint>(UniqueFd)>& serve) {
  std::vector<std::shared_ptr<SharedSocket>> sockets;
  std::string reached;
  for (const std::string& text : at.listen) {
    ASSIGN_OR_RETURN(Endpoint address, ParseListenAddress(text));
    RETURN_IF_ERROR(MayServe(address, text, at, env));
    auto socket = SharedSocket::Get(address);
    const bool ipv6_loopback = address.family == Endpoint::Family::kIpv6 && address.IsLoopback();
    if (!socket && socket.error().code == Code::kUnavailable && ipv6_loopback && at.listen.size() > 1) {
      Log(LogLevel::kInfo, at.plugin, "no_ipv6",
          "this machine has no IPv6 loopback: " + text + " is left out");
      continue;
    }
    RETURN_IF_ERROR(socket.status());
    ASSIGN_OR_RETURN(UniqueFd copy, (*socket)->Copy());
    ASSIGN_OR_RETURN(const Endpoint served, serve(std::move(copy)));
    reached += (reached.empty() ? "" : ", ") + served.ToString();
    sockets.push_back(*std::move(socket));
  }
  if (!reached.empty())
    Log(LogLevel::kInfo, at.plugin, "listening", "serving " + std::string(at.protocol) + " at " + reached,
        at.protocol);
  return sockets;
}

std::function<void(std::function<void()>)> OffloadTo(Workers* workers) {
  if (!workers) return nullptr;
  return [workers](std::function<void()> task) {
    if (!workers->Post(task)) task();
  };
}

void CloseEvent::Report() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  wake_.notify_all();
}

bool CloseEvent::Await(Duration longest) {
  std::unique_lock lock(mutex_);
  return wake_.wait_for(lock, longest, [this] { return closed_; });
}

}  // namespace gpulens
