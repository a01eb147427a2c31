#include "agent/run/refusals.h"

#include <string>

#include "agent/plugin_tables.h"
#include "agent/targets/own_pages.h"
#include "base/result.h"
#include "net/message/address.h"

namespace gpulens {
namespace {

// `config` has `listen`. `who` may be reached there, unless `insecure` of `lock` says that it needs no lock.
Status RefuseOpen(const Config& config, const std::string& who, const std::string& lock) {
  for (const std::string& text : config.Texts("listen")) {
    ASSIGN_OR_RETURN(Endpoint endpoint, ParseListenAddress(text));
    if (endpoint.IsLoopback()) continue;
    return {Code::kInvalidArgument,
            config.Where("listen") + ": " + who + ".listen " + text +
                " is open to other machines: it needs http.web_config with TLS and users, or " + lock +
                ".insecure: true on a closed network"};
  }
  return Ok();
}

Status RefuseOpenListeners(const Config& config) {
  if (!config.Group("http").Bool("insecure")) {
    for (const char* group : {"http", "websocket"})
      RETURN_IF_ERROR(RefuseOpen(config.Group(group), group, "http"));
  }
  for (const Config::Entry& receiver : config.Group("receivers").entries()) {
    const auto& options = std::get<Config>(receiver.value);
    if (!options.Bool("enabled") || options.Bool("insecure")) continue;
    const std::string name = "receivers." + receiver.key;
    for (const Config::Entry& transport : options.entries()) {
      const auto* group = std::get_if<Config>(&transport.value);
      if (group && group->Has("listen"))
        RETURN_IF_ERROR(RefuseOpen(*group, name + "." + transport.key, name));
    }
  }
  return Ok();
}

Status RefuseReceiversWithoutSink(const Config& config) {
  std::string sinks;
  for (const SinkSpec* spec : AllSinks()) {
    if (!spec->takes_received) continue;
    for (const std::string& name : NamesOfSink(*spec, config))
      if (config.Group("sinks").Group(name).Bool("enabled")) return Ok();
    sinks += (sinks.empty() ? "sinks." : ", sinks.") + std::string(spec->name);
  }
  for (const ReceiverSpec* spec : AllReceivers()) {
    const Config& receivers = config.Group("receivers");
    if (!receivers.Group(spec->name).Bool("enabled")) continue;
    return {Code::kInvalidArgument, receivers.Where(spec->name) + ": receivers." + std::string(spec->name) +
                                        " is on, but no sink accepts received data; switch on one of " +
                                        sinks};
  }
  return Ok();
}

}  // namespace

bool IsLocked(const WebConfig& web) { return web.tls && web.authenticates(); }

Status RefuseBeforeStart(const Config& config, bool locked) {
  RETURN_IF_ERROR(RefuseOwnPages(config));
  if (!locked) RETURN_IF_ERROR(RefuseOpenListeners(config));
  return RefuseReceiversWithoutSink(config);
}

Status RefuseBeforeStart(const Config& config) {
  bool locked = false;
  if (const std::string& path = config.Group("http").Text("web_config"); !path.empty()) {
    ASSIGN_OR_RETURN(const WebConfig web, LoadWebConfig(path));
    locked = IsLocked(web);
  }
  return RefuseBeforeStart(config, locked);
}

}  // namespace gpulens
