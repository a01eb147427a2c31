// What --help says around the options: examples and exit codes. Static storage.
#pragma once

namespace gpulens {

inline constexpr const char* kHelp =
    R"(See a GPU machine, the LLM engines that serve on it and the jobs that train on it.

  gpulens agent                      collect everything that is here, serve it at http://127.0.0.1:9091
  gpulens agent --demo               the same with eight simulated GPUs, marked simulated="true"
  gpulens doctor                     what is found, what is not, why, and what to do
  gpulens collect host --once        one collector, once, as a table

LOOK      doctor · engines list|check|read · events [explain CODE] · metrics [NAME] · version
LLM       telemetry stats|export|clear|vacuum|check · bench serve URL
COLLECT   agent · collect COLLECTOR · capture SOURCE · check CHECK…
TRAIN     run SCRIPT · log · query SQL · exp list|show|compare|plot|export|delete
SET UP    config check|print|schema · queue list|drop SINK · driver release|resume|status
          fake nvml fail|heal|status
--help in every command has examples.
)";

inline constexpr const char* kAgentFooter = R"(
  gpulens agent                                   what is here, at http://127.0.0.1:9091 and ws://127.0.0.1:9092
  gpulens agent --config /etc/gpulens/gpulens.yaml
  GPULENS_INTERVAL=5s gpulens agent               every key of the file is a variable, too: gpulens config schema

Flags win over variables, variables over the file. SIGHUP or POST /-/reload read the file again.
Exit: 0 stopped by Ctrl-C or SIGTERM · 1 cannot run (port in use) · 2 bad configuration)";

inline constexpr const char* kCollectFooter = R"(
  gpulens collect host --once                                        a table
  gpulens collect host --once --sink stdout                          JSON
  gpulens collect scrape -o url=http://127.0.0.1:9100/metrics --once
  gpulens collect host --interval 5s --sink file -o path=host.jsonl
  gpulens collect vllm --once                                        an LLM engine where it listens by default
  gpulens collect sglang --endpoint http://10.0.0.7:30000/metrics --interval 5s
  gpulens collect gpu_summary --once                                 an analyzer, over the GPUs that are here
  gpulens collect --list                                             what there is, and what of it is here

Exit: 0 something was read · 1 nothing could be read · 2 wrong use)";

inline constexpr const char* kDriverFooter = R"(
  gpulens gpu release --for 5m && nvidia-smi --gpu-reset && gpulens gpu resume

Returns when no GPU is held open. Exit: 0 done · 1 no agent, or its reader process does not end · 2 wrong use)";

inline constexpr const char* kDoctorFooter = R"(
  gpulens doctor --compare                                each reading beside nvidia-smi, amd-smi or hl-smi
  gpulens doctor --compare-with smi.xml --json            the same with what the tool has printed to a file

--compare exits with 1 when a difference has no reason, with 2 when nothing can be compared.
Exit: 0 fine · 1 limited: something is here that may not be read · 2 a fault. What is not on this
machine never counts.)";

}  // namespace gpulens
