// The file of `gpulens proxy`: its keys, and what they mean for the proxy.
#pragma once

#include <string>
#include <vector>

#include <gpulens/status.h>

#include "config/schema.h"
#include "plugins/config.h"
#include "proxy/llm_proxy.h"

namespace gpulens {

// Every key of the file. Static storage.
const Schema& ProxySchema();

// The folder of journal and charges: state_dir, else that of the agent and in it "proxy".
std::string ProxyStateDir(const Config& config);

// Turns a loaded configuration into options, reading files of secrets and certificates. Appends what is wrong
// to `errors`, each with its place: "proxy.yaml:7:15: routes[0].providers: there is no provider \"x\"".
proxy::ProxyOptions MakeProxyOptions(const Config& config, std::vector<std::string>& errors);

}  // namespace gpulens
