// What --help of the agent's commands adds to the options: examples and exit codes. Static storage.
#pragma once

namespace gpulens {

inline constexpr const char* kAgentFooter = R"(
  gpulens agent                          on 127.0.0.1:9091, WebSocket on 9092
  gpulens agent --config /etc/gpulens/gpulens.yaml
  GPULENS_INTERVAL=5s gpulens agent      every key can be set by a variable

Options override variables, and variables override the file. SIGHUP or POST /-/reload read the file again.
All keys: gpulens config schema.
Exit: 0 stopped by Ctrl-C or SIGTERM · 1 cannot run (port in use) · 2 wrong configuration)";

inline constexpr const char* kCollectFooter = R"(
  gpulens collect host --once                      a table
  gpulens collect host --once --json
  gpulens collect vllm --once                      an LLM engine at its usual port
  gpulens collect sglang --endpoint http://10.0.0.7:30000/metrics --interval 5s
  gpulens collect scrape -o url=http://127.0.0.1:9100/metrics --once
  gpulens collect host --interval 5s --sink file -o path=host.jsonl
  gpulens collect gpu_summary --once               an analyzer, over the GPUs here
  gpulens collect --list                           what can be collected here

Exit: 0 something was read · 1 nothing could be read · 2 wrong use)";

inline constexpr const char* kExplainFooter = R"(
  gpulens explain 79                   an XID: what it means, what to do, sources
  gpulens explain sxid 20034
  gpulens explain gpu.power.draw       a metric; DCGM_FI_DEV_POWER_USAGE works too
  gpulens explain gpu_temperature      a check and its thresholds
  gpulens explain vllm                 an LLM engine and what it reports

Exit: 0 printed · 2 an unknown word)";

inline constexpr const char* kConfigInitFooter = R"(
  gpulens config init                       $GPULENS_CONFIG, or /etc/gpulens/gpulens.yaml
  gpulens config init gpulens.yaml
  gpulens config init -                     print it

Exit: 0 written · 1 the file exists, or cannot be written)";

inline constexpr const char* kGpuFooter = R"(
  gpulens gpu release --for 5m && nvidia-smi --gpu-reset && gpulens gpu resume

Returns when the agent holds no GPU open.
Exit: 0 done · 1 no agent, or its reader process does not end · 2 wrong use)";

inline constexpr const char* kDoctorFooter = R"(
  gpulens doctor
  gpulens doctor --compare             each reading next to nvidia-smi's, amd-smi's or hl-smi's
  gpulens doctor --compare-with smi.xml --json   next to the tool's saved output

With --compare: exit 1 when a difference has no known reason, 2 when nothing can be compared.
Exit: 0 fine · 1 limited: something here may not be read · 2 a fault. Absent hardware never counts.)";

}  // namespace gpulens
