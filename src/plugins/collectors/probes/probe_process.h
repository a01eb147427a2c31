// `gpulens probe-host`: the process that holds the rights to attach probes, and does nothing else.
//
// It listens at a Unix socket, has no network, starts no program, and keeps CAP_BPF, CAP_PERFMON and
// CAP_SYS_PTRACE of the capabilities that it was given. A second process without capabilities watches it: it
// kills the first when that is silent for 3 s, upon which the kernel removes all probes, and ends with it. So
// nothing stays attached whichever of the two, or the agent, is killed.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gpulens/status.h>

#include "base/sandbox/sandbox.h"
#include "plugins/collectors/probes/probe_host.h"

namespace gpulens::probes {

struct ProbeProcessOptions {
  std::string socket = kDefaultProbeSocket;
  SandboxMode sandbox = SandboxMode::kEnforce;
  std::vector<std::string> switch_files = DefaultSwitchFiles();
  // Reads the configuration: at the start, and again on SIGHUP. After an error nothing is attached, and
  // nothing can be.
  std::function<Result<ProbeHostOptions>()> load;
  std::function<std::unique_ptr<ProbeBackend>()> make_backend;
};

// Runs until SIGTERM or SIGINT. Returns the exit code: 0 ended by a signal, 1 cannot listen, or its process
// was killed. Call it before there are threads. At most 32 clients are served at the same time.
int RunProbeProcess(const ProbeProcessOptions& options);

// Whether the peer of a connected socket may attach to any process, as the kernel knows it: root, this
// process's user, or who has CAP_PERFMON in the same user namespace.
ProbePeer PeerOf(int socket);

}  // namespace gpulens::probes
