// A proxy that runs until a signal ends it, confined to the files of its configuration.
#pragma once

#include <string>

#include "config/loader.h"
#include "proxy/llm_proxy.h"
#include "proxy/proxy_sandbox.h"

namespace gpulens {

// Reads the proxy's file, and the environment. ${credential:NAME} is that of the unit gpulens-proxy.service
// where no other is running this.
LoadOutcome LoadProxyConfig(const std::string& file);

// What one file means. Reports what is wrong on the standard error: false.
bool LoadProxyOptions(const std::string& file, LoadOutcome& loaded, proxy::ProxyOptions& options);

// The files that the configuration names, those of its web configuration and secrets included.
proxy::ProxyFiles ProxyFilesOf(const LoadOutcome& loaded);

// Serves until SIGINT or SIGTERM, and reads the file again at SIGHUP; returns the exit code.
int RunProxy(const std::string& file);

}  // namespace gpulens
