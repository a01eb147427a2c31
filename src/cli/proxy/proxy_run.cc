#include "cli/proxy/proxy_run.h"

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "agent/run/config_file.h"
#include "base/log.h"
#include "base/result.h"
#include "base/service_manager.h"
#include "base/text.h"
#include "cli/common/output.h"
#include "cli/proxy/proxy_options.h"
#include "cli/proxy/proxy_otlp.h"
#include "cli/proxy/telemetry_records.h"
#include "net/auth/web_config.h"
#include "net/client/http_client.h"
#include "net/server/server.h"

namespace gpulens {
namespace {

// Open requests are let finish so long; SDKs repeat what is cut then.
constexpr Duration kGrace = std::chrono::seconds(30);

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, std::max<size_t>(slash, 1));
}

// Bound while a capability for low ports is left; the proxy then serves these sockets. One per address.
Result<std::vector<std::shared_ptr<SharedSocket>>> OpenListeners(const proxy::ProxyOptions& options) {
  std::vector<std::shared_ptr<SharedSocket>> out;
  for (const Endpoint& at : options.listen) {
    if (at.port == 0) continue;  // chosen by the system, which needs no capability
    ASSIGN_OR_RETURN(auto socket, SharedSocket::Get(at));
    out.push_back(std::move(socket));
  }
  return out;
}

void ReportSandbox(SandboxMode mode, const proxy::ProxySandbox& sandbox) {
  if (mode == SandboxMode::kOff)
    return Log(LogLevel::kWarn, "proxy", "not_confined", "sandbox.mode is off: this process may do all.");
  std::string on;
  for (const SandboxLayer& layer : sandbox.layers()) {
    if (layer.on) on += (on.empty() ? "" : "; ") + std::string(layer.name) + ": " + std::string(layer.detail);
    else
      Log(LogLevel::kWarn, "proxy", "not_confined",
          "Not limited: " + std::string(layer.name) + ": " + layer.detail + ".");
  }
  if (!on.empty()) Log(LogLevel::kInfo, "proxy", "confined", "Confined. " + on + ".");
}

// The problem, and where this process may not open a file of the new configuration: what to do.
std::string WithWhatIsOutside(std::string problem, const std::vector<std::string>& outside) {
  if (outside.empty()) return problem;
  problem +=
      "; this process is confined to the folders that its configuration named at its start, and may "
      "not open ";
  for (size_t i = 0; i < outside.size(); ++i) problem += (i > 0 ? ", " : "") + outside[i];
  return problem + ": restart it";
}

Status Reload(const std::string& file, const proxy::ProxySandbox& sandbox, proxy::LlmProxy& running) {
  LoadOutcome loaded;
  proxy::ProxyOptions next;
  Status status = LoadProxyOptions(file, loaded, next)
                      ? running.Reload(std::move(next))
                      : Status{Code::kInvalidArgument, "the configuration is wrong"};
  if (!status)
    status.detail = WithWhatIsOutside(std::move(status.detail), sandbox.Outside(ProxyFilesOf(loaded)));
  return status;
}

}  // namespace

LoadOutcome LoadProxyConfig(const std::string& file) {
  ::setenv("CREDENTIALS_DIRECTORY", "/run/credentials/gpulens-proxy.service", 0);
  return LoadConfig(ProxySchema(), file, {});
}

bool LoadProxyOptions(const std::string& file, LoadOutcome& loaded, proxy::ProxyOptions& options) {
  loaded = LoadProxyConfig(file);
  std::string report = loaded.FullReport();
  std::vector<std::string> errors;
  if (loaded.ok()) options = MakeProxyOptions(loaded.config, errors);
  for (const std::string& error : errors) report += error + "\n";
  if (!report.empty()) ::dprintf(STDERR_FILENO, "%s", report.c_str());
  return loaded.ok() && errors.empty();
}

proxy::ProxyFiles ProxyFilesOf(const LoadOutcome& loaded) {
  const Config& config = loaded.config;
  const std::string state = ProxyStateDir(config);
  proxy::ProxyFiles out;
  out.read = loaded.files;
  const auto add = [&](const std::string& path) {
    // The word builtin of `prices` names no file, and is in no folder.
    if (path.find('/') != std::string::npos || ::access(path.c_str(), F_OK) == 0) out.read.push_back(path);
  };
  if (const std::string& web = config.Text("web_config"); !web.empty()) {
    out.read.push_back(web);
    if (const Result<WebConfig> read = LoadWebConfig(web)) {
      for (const std::string& path : read->Files()) out.read.push_back(path);
    }
  }
  if (!config.Text("keys").empty()) add(config.Text("keys"));
  for (const std::string& path : config.Texts("prices")) add(path);
  for (const Config& provider : config.Groups("providers")) {
    if (!provider.Text("ca_file").empty()) add(provider.Text("ca_file"));
  }
  for (const std::string& path : ProxyOtlpFiles(config.Group("otlp"))) add(path);
  if (!state.empty()) out.folders.push_back(state);
  for (const Config& store : config.Groups("stores")) {
    const std::string& place = store.Text("url");
    if (place.find("://") == std::string::npos) out.folders.push_back(FolderOf(place));
    else proxy::AddPostgresFiles(place, out);
  }
  proxy::AddPostgresFiles(config.Group("budget_engine").Text("url"), out);
  if (const std::string& telemetry = config.Group("telemetry").Text("url"); !telemetry.empty()) {
    if (const std::string path = TelemetryFile(telemetry); !path.empty())
      out.folders.push_back(FolderOf(path));
    else proxy::AddPostgresFiles(telemetry, out);
  }
  return out;
}

int RunProxy(const std::string& file) {
  LoadOutcome loaded;
  proxy::ProxyOptions options;
  if (!LoadProxyOptions(file, loaded, options)) return 2;
  SetLogOptions(LogOptionsFor(loaded.config.Group("log")));
  static_cast<void>(SetLogLevels(loaded.config.Group("log").Text("level")));
  ::signal(SIGPIPE, SIG_IGN);
  LinkSecurePost();
  // Before there are threads: they inherit the mask, and this one waits.
  sigset_t signals;
  ::sigemptyset(&signals);
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&signals, signal);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  const auto fail = [](const Status& why) {
    return FailCommand("proxy", why.detail, why.code == Code::kInvalidArgument ? 2 : 1);
  };
  const auto listeners = OpenListeners(options);
  if (!listeners) return fail(listeners.error());
  const SandboxMode mode =
      ParseSandboxMode(loaded.config.Group("sandbox").Text("mode")).value_or(SandboxMode::kEnforce);
  const proxy::ProxySandbox sandbox = proxy::ProxySandbox::Enter(mode, ProxyFilesOf(loaded));
  ReportSandbox(mode, sandbox);
  std::unique_ptr<proxy::RequestRecords> records;
  if (!options.telemetry.empty()) {
    auto opened =
        OpenTelemetryRecords({.place = options.telemetry, .retention = options.telemetry_retention});
    if (!opened) return fail(opened.error());
    records = *std::move(opened);
  }
  auto started = proxy::LlmProxy::Start(std::move(options), std::move(records));
  if (!started) return fail(started.error());
  proxy::LlmProxy& running = **started;
  std::string at;
  for (const Endpoint& address : running.addresses()) at += (at.empty() ? "" : ", ") + address.ToString();
  Log(LogLevel::kInfo, "proxy", "ready", "Serving at " + at + ".");
  NotifyServiceManager("READY=1");
  while (true) {
    int signal = 0;
    if (::sigwait(&signals, &signal) != 0) continue;
    if (signal != SIGHUP) break;
    NotifyServiceManager("RELOADING=1");
    if (const Status status = Reload(file, sandbox, running); status)
      Log(LogLevel::kInfo, "proxy", "reloaded",
          "Keys, prices, providers, routes and budgets were read again.");
    else Log(LogLevel::kError, "proxy", "not_reloaded", "Nothing was changed: " + status.detail + ".");
    NotifyServiceManager("READY=1");
  }
  NotifyServiceManager("STOPPING=1");
  Log(LogLevel::kInfo, "proxy", "stopping", "Open requests have 30 s to finish.");
  running.Stop(kGrace);
  return 0;
}

}  // namespace gpulens
