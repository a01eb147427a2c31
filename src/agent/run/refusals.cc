#include "agent/run/refusals.h"

#include <string>

#include "agent/found/own_pages.h"
#include "agent/plugin_tables.h"
#include "base/result.h"
#include "net/address.h"
#include "net/auth/web_config.h"

namespace gpulens {

Status RefuseOpenListeners(const Config& config, bool locked) {
  if (locked || config.Group("http").Bool("insecure")) return Ok();
  for (const char* group : {"http", "websocket"}) {
    for (const std::string& text : config.Group(group).Texts("listen")) {
      ASSIGN_OR_RETURN(Endpoint endpoint, ParseListenAddress(text));
      if (endpoint.IsLoopback()) continue;
      return {Code::kInvalidArgument,
              config.Group(group).Where("listen") + ": " + group + ".listen " + endpoint.ToString() +
                  " is open to other machines: it needs http.web_config with TLS and users, or "
                  "http.insecure: true on a closed network"};
    }
  }
  return Ok();
}

namespace {

Status RefuseOpenReceivers(const Config& config, bool locked) {
  if (locked || !config.Has("receivers")) return Ok();
  for (const Config::Entry& receiver : config.Group("receivers").entries()) {
    const auto& options = std::get<Config>(receiver.value);
    if (!options.Bool("enabled") || options.Bool("insecure")) continue;
    for (const Config::Entry& transport : options.entries()) {
      const auto* group = std::get_if<Config>(&transport.value);
      if (!group || !group->Has("listen")) continue;
      for (const std::string& text : group->Texts("listen")) {
        ASSIGN_OR_RETURN(Endpoint endpoint, ParseListenAddress(text));
        if (endpoint.IsLoopback()) continue;
        const std::string name = "receivers." + receiver.key;
        return {Code::kInvalidArgument,
                group->Where("listen") + ": " + name + ": " + text +
                    " is open to other machines: it needs http.web_config with TLS and users, or " + name +
                    ".insecure: true on a closed network"};
      }
    }
  }
  return Ok();
}

}  // namespace

Status RefuseReceiversWithoutSink(const Config& config) {
  std::string sinks;
  for (const SinkSpec* spec : AllSinks()) {
    if (!config.Group("sinks").Has(spec->name)) continue;
    const bool on = config.Group("sinks").Group(spec->name).Bool("enabled");
    if (spec->takes_received && on) return Ok();
    if (spec->takes_received) sinks += (sinks.empty() ? "sinks." : ", sinks.") + std::string(spec->name);
  }
  for (const ReceiverSpec* spec : AllReceivers()) {
    const Config& receiver = config.Group("receivers").Group(spec->name);
    if (!receiver.Bool("enabled")) continue;
    return {Code::kInvalidArgument, "receivers." + std::string(spec->name) +
                                        " is on, and no sink that passes on what it takes in; switch on " +
                                        sinks};
  }
  return Ok();
}

Status RefuseBeforeStart(const Config& config) {
  RETURN_IF_ERROR(RefuseOwnPages(config));
  bool locked = false;
  if (const std::string& path = config.Group("http").Text("web_config"); !path.empty()) {
    ASSIGN_OR_RETURN(const WebConfig web, LoadWebConfig(path));
    locked = web.tls && web.authenticates();
  }
  RETURN_IF_ERROR(RefuseOpenListeners(config, locked));
  RETURN_IF_ERROR(RefuseOpenReceivers(config, locked));
  return RefuseReceiversWithoutSink(config);
}

}  // namespace gpulens
