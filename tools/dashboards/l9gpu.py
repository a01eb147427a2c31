"""The ten dashboards of the l9gpu project, over its names (`names: [l9gpu, zernel]`; the two with profiling need `dcgm`, too).

Their questions and metrics are that project's, so that links and habits keep working; its own files work as well, which
tests/deploy/foreign_queries.tsv shows query by query. Here the queries differ where the original would mislead: volatile and aggregate
ECC counts are not added up, the bit mask of throttling is not added to its causes, a ratio of sums replaces the mean of ratios, a
count is 0 only where GPUs are seen (`< bool`), the cluster may be All, and windows follow the zoom unless the title names one.
"""
from model import Board, Column, Query, Row, Threshold, Variable, bars, heat, lines, stat, table

NAMES = "l9gpu, zernel"
PROFILED = "l9gpu, zernel, dcgm"
HOUR = "the title names the hour"
CLUSTER = Variable("cluster", "Cluster", "label_values(gpu_utilization_ratio, k8s_cluster_name)")
NODE = Variable("node", "Node", 'label_values(gpu_utilization_ratio{k8s_cluster_name=~"$cluster"}, host_name)')
ONE_NODE = Variable("node", "Node", 'label_values(gpu_utilization_ratio{k8s_cluster_name=~"$cluster"}, host_name)', multi=False)
NAMESPACE = Variable("namespace", "Namespace", 'label_values(gpu_utilization_ratio{k8s_cluster_name=~"$cluster"}, k8s_namespace_name)')
POD = Variable("pod", "Pod", 'label_values(gpu_utilization_ratio{k8s_cluster_name=~"$cluster", k8s_namespace_name=~"$namespace"}, k8s_pod_name)')
GPU = Variable("gpu_index", "GPU", 'label_values(gpu_utilization_ratio{k8s_cluster_name=~"$cluster", host_name=~"$node"}, gpu_index)')
ONE_GPU = Variable("gpu_index", "GPU", 'label_values(gpu_utilization_ratio{k8s_cluster_name=~"$cluster", host_name="$node"}, gpu_index)', multi=False)
DCGM_NODE = Variable("node", "Node", "label_values(DCGM_FI_DEV_GPU_UTIL, Hostname)")
DCGM_GPU = Variable("gpu_index", "GPU", 'label_values(DCGM_FI_DEV_GPU_UTIL{Hostname=~"$node"}, gpu)')

C = 'k8s_cluster_name=~"$cluster"'
N = f'{C}, host_name=~"$node"'
I = f'{N}, gpu_index=~"$gpu_index"'  # noqa: E741
P = f'{C}, k8s_namespace_name=~"$namespace", k8s_pod_name=~"$pod"'
ONE = f'{C}, host_name="$node", gpu_index="$gpu_index"'
D = 'Hostname=~"$node", gpu=~"$gpu_index"'
PER_GPU, PER_NODE, PER_POD, PER_CLUSTER = "{{host_name}} GPU{{gpu_index}}", "{{host_name}}", "{{k8s_pod_name}} GPU{{gpu_index}}", "{{k8s_cluster_name}}"

HOT = (Threshold(85, "orange", "alert GPUTemperatureWarning"), Threshold(95, "red", "alert GPUTemperatureCritical"))
FULL = (Threshold(90, "orange", "soon full"), Threshold(95, "red", "alert GPUMemoryOOMRisk"))
ANY = (Threshold(1, "red", "at least one"),)
CACHE = (Threshold(90, "red", "alert VLLMKVCachePressure"),)
CAUSES = 'gpu_throttle_cause=~"power_software|temp_hardware|temp_software|syncboost"'


def use(where):
    return f"gpu_utilization_ratio{{{where}}}"


def used_share(where, by=""):
    group = f" by ({by}) " if by else ""
    return f"100 * sum{group}(gpu_memory_used_bytes{{{where}}}) / sum{group}(gpu_memory_total_bytes{{{where}}})"


def chip(where):
    """The temperature of each chip: some boards have no sensor at the edge, others none at the hot spot."""
    return f'max without (gpu_temperature_sensor) (gpu_temperature_celsius{{{where}, gpu_temperature_sensor=~"edge|hotspot"}})'


def ecc(where, window, kind=""):
    kind = f', gpu_ecc_error_type="{kind}"' if kind else ""
    return f'increase(gpu_ecc_errors{{{where}, gpu_ecc_count_type="volatile"{kind}}}[{window}])'


def quantile_lines(metric, where, scale=1, high=60.0, name="", which=("p50", "p95", "p99"), label="{{target}}"):
    """Quantiles that the analyzer made for each engine: shown for each one, never combined."""
    times = f" * {scale}" if scale != 1 else ""
    return [Query(f'{metric}{{{where}, quantile="{q}"}}{times}', f"{name}{q} {label}", 0, high) for q in which]


def fleet_stats(where):
    return (
        stat("GPUs", "GPUs that are read.", Query(f"count({use(where)})", low=2, high=10)),
        stat("Mean utilization", "Over these GPUs.", Query(f"avg({use(where)}) * 100", low=1, high=100), "percent"),
        stat("Idle (<10%)", "GPUs below 10 % right now.", Query(f"sum({use(where)} < bool 0.10)", high=10)),
        stat("Power", "Of these GPUs.", Query(f"sum(gpu_power_draw_watts{{{where}}})", low=20, high=8000), "watt"),
        stat("Memory errors (1h)", "New ECC errors of the hour.", Query(f"sum({ecc(where, '1h')})", high=100, window=HOUR), thresholds=ANY),
        stat("GPUs throttled", "GPUs that a cause holds down now.", Query(f"sum(max by (host_name, gpu_index) (gpu_throttle_reason{{{where}, {CAUSES}}}) > bool 0)", high=10),
             thresholds=(Threshold(1, "orange", "alert GPUThrottling after five minutes"),)),
    )


FLEET = Board(
    "00-multi-cluster-fleet.json", "l9gpu-00-fleet", "l9gpu / Clusters", "All clusters side by side.", NAMES, (CLUSTER,), answers=("Which cluster is busy, hot, or slow?",),
    rows=(
        Row("All clusters", (
            *fleet_stats(C)[:3],
            stat("Highest utilization", "Of any GPU.", Query(f"max({use(C)}) * 100", low=10, high=100), "percent"),
            stat("Hottest GPU", "Of the chip.", Query(f"max({chip(C)})", low=20, high=110), "celsius", thresholds=HOT),
            stat("Slowest TTFT p95", "Of the slowest vLLM engine.", Query(f'max(vllm_ttft_seconds{{{C}, quantile="p95"}}) * 1000', low=1, high=60000), "ms",
                 thresholds=(Threshold(2000, "red", "alert VLLMHighTTFT"),)),
        )),
        Row("Cluster by cluster", (
            table("Clusters", "One row for each cluster.", (("k8s_cluster_name", "Cluster"),),
                  Column("GPUs", Query(f"count by (k8s_cluster_name) ({use(C)})", low=2, high=8)),
                  Column("Utilization", Query(f"avg by (k8s_cluster_name) ({use(C)}) * 100", high=100), "percent"),
                  Column("Hottest", Query(f"max by (k8s_cluster_name) ({chip(C)})", low=20, high=110), "celsius", HOT),
                  Column("Power", Query(f"sum by (k8s_cluster_name) (gpu_power_draw_watts{{{C}}})", low=20, high=6000), "watt"),
                  Column("Memory errors (1h)", Query(f"sum by (k8s_cluster_name) ({ecc(C, '1h')})", high=100, window=HOUR), "none", ANY)),
            lines("Utilization by cluster", "Mean over its GPUs.", Query(f"avg by (k8s_cluster_name) ({use(C)}) * 100", PER_CLUSTER, 0, 100), unit="percent", top=100),
            lines("Memory by cluster", "In use, of all its memory.", Query(used_share(C, "k8s_cluster_name"), PER_CLUSTER, 0, 100), unit="percent", top=100),
            bars("Ten hottest GPUs", "Of the chips.", Query(f"topk(10, {chip(C)})", f"{PER_CLUSTER} {PER_GPU}", 20, 110), "celsius", thresholds=HOT),
            bars("Ten busiest GPUs", "By utilization.", Query(f"topk(10, {use(C)}) * 100", f"{PER_CLUSTER} {PER_GPU}", 0, 100), "percent", top=100),
            lines("TTFT p95 by cluster", "Of the slowest vLLM engine of each cluster.", Query(f'max by (k8s_cluster_name) (vllm_ttft_seconds{{{C}, quantile="p95"}}) * 1000', PER_CLUSTER, 1, 60000), unit="ms"),
            lines("Generated tokens by cluster", "Per second, vLLM.", Query(f"sum by (k8s_cluster_name) (vllm_generation_throughput_per_second{{{C}}})", PER_CLUSTER, 0, 1e5), unit="cps"),
            lines("Power by cluster", "Of all its GPUs.", Query(f"sum by (k8s_cluster_name) (gpu_power_draw_watts{{{C}}})", PER_CLUSTER, 20, 6000), unit="watt"),
            lines("Hottest GPU by cluster", "Of the chip.", Query(f"max by (k8s_cluster_name) ({chip(C)})", PER_CLUSTER, 20, 110), unit="celsius", thresholds=HOT),
        )),
    ), tags=("l9gpu",))

CLUSTER_BOARD = Board(
    "01-eks-gpu-fleet-overview.json", "l9gpu-01-cluster", "l9gpu / Nodes", "The nodes of a cluster.", NAMES, (CLUSTER, NODE), answers=("Which node of the cluster differs from the others?",),
    rows=(
        Row("Cluster", (
            *fleet_stats(N)[:2], fleet_stats(N)[3], stat("Hottest GPU", "Of the chip.", Query(f"max({chip(N)})", low=20, high=110), "celsius", thresholds=HOT), *fleet_stats(N)[4:],
        )),
        Row("GPU by GPU", (
            bars("Utilization", "Of each GPU.", Query(f"{use(N)} * 100", PER_GPU, 0, 100), "percent", top=100),
            bars("Memory in use", "Of each GPU.", Query(f"gpu_memory_used_percent{{{N}}}", PER_GPU, 0, 100), "percent", top=100, thresholds=FULL),
            bars("Fan", "Of GPUs with fans of their own.", Query(f"gpu_fan_speed_ratio{{{N}}} * 100", PER_GPU, 0, 100), "percent", top=100),
            lines("XIDs", "Since the agent first saw the GPU.", Query(f"gpu_xid_errors{{{N}}}", PER_GPU, 0, 10)),
        )),
        Row("Node by node", (
            lines("Utilization by node", "Mean over its GPUs.", Query(f"avg by (host_name) ({use(N)}) * 100", PER_NODE, 0, 100), unit="percent", top=100),
            lines("Power by node", "Of all its GPUs.", Query(f"sum by (host_name) (gpu_power_draw_watts{{{N}}})", PER_NODE, 20, 6000), unit="watt"),
            lines("Memory in use by node", "Of all its GPUs.", Query(f"sum by (host_name) (gpu_memory_used_bytes{{{N}}})", PER_NODE, 1e8, 7e11), unit="bytes"),
            lines("Memory free by node", "Of all its GPUs.", Query(f"sum by (host_name) (gpu_memory_free_bytes{{{N}}})", PER_NODE, 1e8, 7e11), unit="bytes"),
            lines("Least, mean and most utilization", "Over the GPUs of a node.",
                  *(Query(f"{how} by (host_name) ({use(N)}) * 100", f"{how} {PER_NODE}", 0, 100) for how in ("min", "avg", "max")), unit="percent", top=100),
        )),
        Row("Memory", (
            lines("Memory errors", "New ECC errors of each interval.", Query(ecc(N, "$__rate_interval"), PER_GPU + " ({{gpu_ecc_error_type}})", 0, 100)),
            lines("Rows replaced", "Since the board was made.", Query(f"gpu_row_remap_count{{{N}}}", PER_GPU + " {{gpu_ecc_error_type}}", 0, 100)),
        )),
    ), tags=("l9gpu",))

WORKLOAD = Board(
    "02-eks-gpu-workload.json", "l9gpu-02-pods", "l9gpu / Pods", "GPUs by the pod that holds them, and vLLM.", NAMES, (CLUSTER, NAMESPACE, POD), answers=("What do the GPUs of a pod do?", "Do its requests wait?"),
    rows=(
        Row("GPUs of pods", (
            lines("Utilization", "Of each GPU of a pod.", Query(f"{use(P)} * 100", PER_POD, 0, 100), unit="percent", top=100),
            lines("Memory in use", "Of each GPU of a pod.", Query(f"gpu_memory_used_bytes{{{P}}}", PER_POD, 0, 9e10), unit="bytes"),
            lines("Power", "Of each GPU of a pod.", Query(f"gpu_power_draw_watts{{{P}}}", PER_POD, 5, 800), unit="watt"),
            lines("Temperature", "Of each GPU of a pod.", Query(chip(P), PER_POD, 20, 110), unit="celsius", thresholds=HOT),
            lines("Memory in use, share", "Of each GPU of a pod.", Query(f"gpu_memory_used_percent{{{P}}}", PER_POD, 0, 100), unit="percent", top=100, thresholds=FULL),
            lines("Video", "Encoder and decoder.", Query(f"gpu_encode_utilization_ratio{{{P}}} * 100", f"encode {PER_POD}", 0, 100),
                  Query(f"gpu_decode_utilization_ratio{{{P}}} * 100", f"decode {PER_POD}", 0, 100), unit="percent", top=100),
            lines("Memory errors", "New ECC errors of each interval.", Query(ecc(P, "$__rate_interval"), PER_POD + " ({{gpu_ecc_error_type}})", 0, 100)),
            lines("Throttled", "1 while a cause holds the clock down.", Query(f"gpu_throttle_reason{{{P}, {CAUSES}}}", PER_POD + " ({{gpu_throttle_cause}})", 0, 1)),
            lines("PCIe", "Bytes per second.", Query(f"gpu_pcie_throughput_bytes_per_second{{{P}}}", PER_POD + " ({{gpu_interconnect_direction}})", 0, 2e11), unit="Bps"),
            lines("NVLink", "Bytes per second.", Query(f"gpu_interconnect_throughput_bytes_per_second{{{P}}}", PER_POD + " ({{gpu_interconnect_direction}})", 0, 1e12), unit="Bps"),
        )),
        Row("vLLM", (
            lines("Tokens", "Per second.", Query(f"vllm_prompt_throughput_per_second{{{C}}}", "prompt {{model_name}}", 0, 1e6), Query(f"vllm_generation_throughput_per_second{{{C}}}", "generated {{model_name}}", 0, 1e5), unit="cps"),
            lines("Whole request", "From arrival to the last token.", *quantile_lines("vllm_request_latency_seconds", C, high=300, label="{{target}} {{model_name}}"), unit="s"),
            lines("Time to first token", "Of each engine.", *quantile_lines("vllm_ttft_seconds", C, label="{{target}} {{model_name}}"), unit="s"),
            lines("KV cache", "In use; on the CPU only where the engine swaps.", Query(f'vllm_cache_usage_ratio{{{C}, cache_type="gpu"}} * 100', "GPU {{target}} {{model_name}}", 0, 100),
                  Query(f'vllm_cache_usage_ratio{{{C}, cache_type="cpu"}} * 100', "CPU {{target}} {{model_name}}", 0, 100), unit="percent", top=100, thresholds=CACHE),
            lines("Requests", "By state; swapped only where the engine swaps.", *(Query(f"vllm_requests_{state}{{{C}}}", f"{state} {{{{target}}}} {{{{model_name}}}}", 0, 2000) for state in ("running", "waiting", "swapped"))),
        )),
    ), tags=("l9gpu",))


def throttled(cause):
    return f'gpu_throttle_reason{{{I}, gpu_throttle_cause="{cause}"}}'


HEALTH = Board(
    "03-eks-gpu-health.json", "l9gpu-03-health", "l9gpu / GPU health", "Errors, throttling, clocks and energy.", NAMES, (CLUSTER, NODE, GPU), answers=("Did GPUs have errors?", "What holds clocks down?"),
    rows=(
        Row("The last hour", (
            stat("ECC corrected (1h)", "New errors.", Query(f"sum({ecc(N, '1h', 'correctable')})", high=100, window=HOUR)),
            stat("ECC uncorrected (1h)", "New errors.", Query(f"sum({ecc(N, '1h', 'uncorrectable')})", high=0, window=HOUR), thresholds=ANY),
            stat("PCIe replays (1h)", "Packets sent again.", Query(f"sum(increase(gpu_pcie_replay_count{{{N}}}[1h]))", high=100, window=HOUR)),
            stat("Rows replaced", "Since the boards were made.", Query(f"sum(gpu_row_remap_count{{{N}}})", high=100)),
            stat("XIDs (1h)", "New ones.", Query(f"sum(increase(gpu_xid_errors{{{N}}}[1h]))", high=5, window=HOUR), thresholds=ANY),
            stat("Fastest fan", "Of GPUs with fans of their own.", Query(f"max(gpu_fan_speed_ratio{{{N}}}) * 100", low=1, high=100), "percent"),
        )),
        Row("Throttled", (
            lines("By the power limit", "1 while the power limit holds the clock down.", Query(throttled("power_software"), PER_GPU, 0, 1)),
            lines("By heat, in hardware", "1 while the board halves its clock.", Query(throttled("temp_hardware"), PER_GPU, 0, 1)),
            lines("By heat, in software", "1 while the driver lowers the clock.", Query(throttled("temp_software"), PER_GPU, 0, 1)),
            lines("By sync boost", "1 while a slower GPU of the group sets the clock.", Query(throttled("syncboost"), PER_GPU, 0, 1)),
        )),
        Row("Heat and clocks", (
            lines("Temperature", "Of the chip.", Query(chip(I), PER_GPU, 20, 110), unit="celsius", thresholds=HOT, width=8),
            lines("Graphics clock", "Now.", Query(f'gpu_clock_frequency_MHz{{{I}, gpu_clock_type="graphics"}}', PER_GPU, 0, 4000), unit="rotmhz", width=8),
            lines("Memory clock", "Now.", Query(f'gpu_clock_frequency_MHz{{{I}, gpu_clock_type="memory"}}', PER_GPU, 0, 12000), unit="rotmhz", width=8),
        )),
        Row("Energy and links", (
            lines("Performance state", "0 is fastest, 15 slowest.", Query(f"gpu_power_state{{{I}}}", PER_GPU, 0, 15), width=8),
            lines("Power from the energy counter", "Growth of the counter, in watts.", Query(f"rate(gpu_energy_consumption_mJ{{{I}}}[$__rate_interval]) / 1000", PER_GPU, 5, 900), unit="watt", width=8),
            lines("PCIe replays", "Per second.", Query(f"rate(gpu_pcie_replay_count{{{I}}}[$__rate_interval])", PER_GPU, 0, 10), width=8),
            lines("Fan", "Of GPUs with fans of their own.", Query(f"gpu_fan_speed_ratio{{{I}}} * 100", PER_GPU, 0, 100), unit="percent", top=100),
            lines("Memory errors since the driver was loaded", "Volatile counts.",
                  *(Query(f'gpu_ecc_errors{{{I}, gpu_ecc_count_type="volatile", gpu_ecc_error_type="{kind}"}}', f"{kind} {PER_GPU}", 0, 10000) for kind in ("correctable", "uncorrectable"))),
        )),
    ), tags=("l9gpu",))

SINGLE = Board(
    "04-eks-gpu-single-gpu.json", "l9gpu-04-gpu", "l9gpu / One GPU", "One GPU in depth.", NAMES, (CLUSTER, ONE_NODE, ONE_GPU), answers=("What is this GPU doing?",),
    rows=(
        Row("Identity", (
            stat("Model", "Model of the board.", Query(use(ONE), "{{gpu_model}}", 0, 1), text="name", width=6),
            stat("UUID", "The name that stays with the board.", Query(use(ONE), "{{gpu_uuid}}", 0, 1), text="name", width=6),
            stat("Performance state", "0 is fastest, 15 slowest.", Query(f"gpu_power_state{{{ONE}}}", low=0, high=15), width=6),
            stat("Pod", "That holds it.", Query(use(ONE), "{{k8s_pod_name}}", 0, 1), text="name", width=6),
        )),
        Row("Work", (
            lines("Utilization", "Share of time in which a kernel ran.", Query(f"{use(ONE)} * 100", "utilization", 0, 100), unit="percent", top=100),
            lines("Memory", "Of the device.", *(Query(f"gpu_memory_{what}_bytes{{{ONE}}}", what, 0, 9e10) for what in ("used", "total", "free")), unit="bytes"),
            lines("Memory in use", "As a share.", Query(f"gpu_memory_used_percent{{{ONE}}}", "used", 0, 100), unit="percent", top=100, thresholds=FULL),
            lines("Power", "Of the board.", Query(f"gpu_power_draw_watts{{{ONE}}}", "power", 5, 800), unit="watt"),
            lines("Clocks", "Now.", Query(f"gpu_clock_frequency_MHz{{{ONE}}}", "{{gpu_clock_type}}", 0, 12000), unit="rotmhz"),
            lines("Video", "Encoder and decoder.", Query(f"gpu_encode_utilization_ratio{{{ONE}}} * 100", "encode", 0, 100), Query(f"gpu_decode_utilization_ratio{{{ONE}}} * 100", "decode", 0, 100), unit="percent", top=100),
        )),
        Row("Links", (
            lines("PCIe and NVLink", "Bytes per second.", Query(f"gpu_pcie_throughput_bytes_per_second{{{ONE}}}", "PCIe {{gpu_interconnect_direction}}", 0, 2e11),
                  Query(f"gpu_interconnect_throughput_bytes_per_second{{{ONE}}}", "NVLink {{gpu_interconnect_direction}}", 0, 1e12), unit="Bps"),
            lines("PCIe replays", "Per second.", Query(f"rate(gpu_pcie_replay_count{{{ONE}}}[$__rate_interval])", "replays", 0, 10)),
        )),
        Row("Errors", (
            lines("Memory errors", "New ECC errors of each interval.", Query(ecc(ONE, "$__rate_interval"), "{{gpu_ecc_error_type}}", 0, 100), width=8),
            lines("Rows replaced", "Since the board was made.", Query(f"gpu_row_remap_count{{{ONE}}}", "{{gpu_ecc_error_type}}", 0, 100), width=8),
            lines("Throttled", "1 while a cause holds the clock down.", Query(f"gpu_throttle_reason{{{ONE}, {CAUSES}}}", "{{gpu_throttle_cause}}", 0, 1), width=8),
            lines("Fan", "Of a GPU with fans of its own.", Query(f"gpu_fan_speed_ratio{{{ONE}}} * 100", "fan", 0, 100), unit="percent", top=100, width=8),
            lines("XIDs", "Since the agent first saw the GPU.", Query(f"gpu_xid_errors{{{ONE}}}", "XIDs", 0, 10), width=8),
            lines("Memory errors since the driver was loaded", "Volatile counts.",
                  *(Query(f'gpu_ecc_errors{{{ONE}, gpu_ecc_count_type="volatile", gpu_ecc_error_type="{kind}"}}', kind, 0, 10000) for kind in ("correctable", "uncorrectable")), width=8),
        )),
    ), tags=("l9gpu",))

BY_GPU = "GPU{{gpu}} {{Hostname}}"
MODEL = "{{target}} {{model_name}}"


def dcgm(field, times=100, legend=BY_GPU, high=100.0):
    return Query(f"DCGM_FI_PROF_{field}{{{D}}}" + (f" * {times}" if times != 1 else ""), legend, 0, high)


def pipes():
    return lines("FP pipes", "Share of cycles in which each was active.", *(dcgm(f"PIPE_{p}_ACTIVE", legend=f"{p} {BY_GPU}") for p in ("FP16", "FP32", "FP64")), unit="percent", top=100)


PROFILE = Board(
    "05-eks-gpu-dcgm.json", "l9gpu-05-profiling", "l9gpu / Profiling", "Which units of the GPUs work, in DCGM's names.", PROFILED, (DCGM_NODE, DCGM_GPU), answers=("Which units of a GPU limit a job?",),
    rows=(
        Row("SMs", (
            lines("Engine active", "Graphics or compute engine.", dcgm("GR_ENGINE_ACTIVE"), unit="percent", top=100, width=8),
            lines("SMs active", "Share of cycles in which an SM had a warp.", dcgm("SM_ACTIVE"), unit="percent", top=100, width=8),
            lines("SM occupancy", "Warps, of those that fit.", dcgm("SM_OCCUPANCY"), unit="percent", top=100, width=8),
            lines("Tensor pipes", "Share of cycles in which one was active.", dcgm("PIPE_TENSOR_ACTIVE"), unit="percent", top=100), pipes(),
        )),
        Row("Memory and links", (
            lines("Memory bandwidth", "Share of cycles in which memory moved data.", dcgm("DRAM_ACTIVE"), unit="percent", top=100, width=8),
            lines("NVLink", "Bytes per second; not there on GPUs without it.", *(dcgm(f"NVLINK_{way}_BYTES", 1, f"{way.lower()} {BY_GPU}", 1e12) for way in ("TX", "RX")), unit="Bps", width=8),
            lines("PCIe", "Bytes per second.", *(dcgm(f"PCIE_{way}_BYTES", 1, f"{way.lower()} {BY_GPU}", 2e11) for way in ("TX", "RX")), unit="Bps", width=8),
        )),
    ), tags=("l9gpu",))

DEMO = Board(
    "06-gpu-profiling-demo.json", "l9gpu-06-all", "l9gpu / GPUs and engines", "GPUs, profiling, vLLM, NIM, energy and health on one page.", PROFILED, (CLUSTER, NODE, GPU), answers=("How do GPUs and engines look together?",),
    rows=(
        Row("Fleet", fleet_stats(N)),
        Row("GPUs by node", (
            lines("Utilization", "Mean over the GPUs of a node.", Query(f"avg by (host_name) ({use(N)}) * 100", PER_NODE, 0, 100), unit="percent", top=100),
            lines("Memory in use", "Of all GPUs of a node.", Query(f"sum by (host_name) (gpu_memory_used_bytes{{{N}}})", PER_NODE, 1e8, 7e11), unit="bytes"),
            lines("Power", "Of all GPUs of a node.", Query(f"sum by (host_name) (gpu_power_draw_watts{{{N}}})", PER_NODE, 20, 6000), unit="watt"),
            lines("Hottest GPU", "Of each node.", Query(f"max by (host_name) ({chip(N)})", PER_NODE, 20, 110), unit="celsius", thresholds=HOT),
        )),
        Row("Profiling", (
            lines("SMs active", "Share of cycles in which an SM had a warp.", dcgm("SM_ACTIVE"), unit="percent", top=100), lines("Tensor pipes", "Share of cycles in which one was active.", dcgm("PIPE_TENSOR_ACTIVE"), unit="percent", top=100),
            lines("Memory bandwidth", "Share of cycles in which memory moved data.", dcgm("DRAM_ACTIVE"), unit="percent", top=100), pipes(),
            lines("NVLink and PCIe", "Bytes per second.", *(dcgm(f"{link}_{way}_BYTES", 1, f"{link} {way.lower()} {BY_GPU}", 1e12) for link in ("NVLINK", "PCIE") for way in ("TX", "RX")), unit="Bps", width=24),
        )),
        Row("vLLM", (
            stat("Tokens", "Per second, prompt and generated.", Query(f"sum(vllm_prompt_throughput_per_second{{{C}}} + vllm_generation_throughput_per_second{{{C}}})", low=10, high=1e6), "cps", width=6),
            stat("Slowest TTFT p50", "Of the slowest engine.", Query(f'max(vllm_ttft_seconds{{{C}, quantile="p50"}}) * 1000', low=1, high=60000), "ms", width=6),
            stat("Waiting", "Requests.", Query(f"sum(vllm_requests_waiting{{{C}}})", high=2000), width=6),
            stat("Fullest KV cache", "On the GPU.", Query(f'max(vllm_cache_usage_ratio{{{C}, cache_type="gpu"}}) * 100', high=100), "percent", width=6, thresholds=CACHE),
            lines("Time to first token", "Of each engine.", *quantile_lines("vllm_ttft_seconds", C, 1000, 60000), unit="ms"),
            lines("Tokens", "Per second, all engines.", Query(f"sum(vllm_prompt_throughput_per_second{{{C}}})", "prompt", 1, 1e6), Query(f"sum(vllm_generation_throughput_per_second{{{C}}})", "generated", 1, 1e5), unit="cps"),
        )),
        Row("NIM", (
            stat("Requests", "Per second.", Query(f"sum(rate(nim_requests_total{{{C}}}[$__rate_interval]))", low=1, high=100), "reqps", width=6),
            stat("Errors", "Per second.", Query(f"sum(rate(nim_requests_failed{{{C}}}[$__rate_interval]))", high=10), "reqps", width=6),
            stat("Slowest request p50", "Of the slowest engine.", Query(f'max(nim_request_latency_seconds{{{C}, quantile="p50"}})', low=0.01, high=60), "s", width=6),
            stat("Waiting", "Requests.", Query(f"sum(nim_queue_depth{{{C}}})", high=100), width=6),
            lines("Whole request", "Of each engine.", *quantile_lines("nim_request_latency_seconds", C, which=("p50", "p99")), unit="s", width=8),
            lines("Batch size", "Mean requests in one batch.", Query(f"nim_batch_size{{{C}}}", MODEL, 0, 1000, absent="no NIM so far reports it"), width=8),
            lines("KV cache", "In use.", Query(f"nim_kv_cache_usage{{{C}}} * 100", MODEL, 0, 100), unit="percent", top=100, width=8, thresholds=CACHE),
        )),
        Row("Energy and health", (
            lines("Power", "Of each GPU.", Query(f"gpu_power_draw_watts{{{N}}}", PER_GPU, 5, 800), unit="watt", width=8),
            lines("Power from the energy counter", "Growth of the counter, in watts.", Query(f"rate(gpu_energy_consumption_mJ{{{N}}}[$__rate_interval]) / 1000", PER_GPU, 5, 900), unit="watt", width=8),
            lines("Temperature", "Of the chip.", Query(chip(N), PER_GPU, 20, 110), unit="celsius", thresholds=HOT, width=8),
            lines("Memory errors", "New ECC errors of each interval.", *(Query(f"sum({ecc(N, '$__rate_interval', kind)})", kind, 0, 100) for kind in ("correctable", "uncorrectable")), width=8),
            lines("Throttled", "GPUs that each cause holds down.", Query(f"sum by (gpu_throttle_cause) (gpu_throttle_reason{{{N}, {CAUSES}}})", "{{gpu_throttle_cause}}", 0, 10), width=8),
            lines("XIDs", "New ones of each interval.", Query(f"increase(gpu_xid_errors{{{N}}}[$__rate_interval])", PER_GPU, 0, 5), width=8),
        )),
    ), tags=("l9gpu",))

EFFICIENCY = Board(
    "insights-01-fleet-efficiency.json", "l9gpu-i1-efficiency", "l9gpu / Efficiency", "Is what was bought used?", NAMES, (CLUSTER, NODE), answers=("Which GPUs are idle, overloaded or full?",),
    rows=(
        Row("At a glance", (
            stat("Utilization", "Mean over all GPUs.", Query(f"avg({use(N)}) * 100", low=1, high=100), "percent", width=6),
            stat("Idle (<10%)", "GPUs right now.", Query(f"sum({use(N)} < bool 0.10)", high=10), width=6),
            stat("Overloaded (>90%)", "GPUs right now.", Query(f"sum({use(N)} > bool 0.90)", high=10), width=6),
            stat("Memory above 80%", "GPUs right now.", Query(f"sum(gpu_memory_used_bytes{{{N}}} / gpu_memory_total_bytes{{{N}}} > bool 0.80)", high=10), width=6),
            bars("Utilization now", "Of each GPU.", Query(f"{use(N)} * 100", PER_GPU, 0, 100), "percent", top=100),
            bars("Memory now", "Of each GPU.", Query(f"gpu_memory_used_bytes{{{N}}} / gpu_memory_total_bytes{{{N}}} * 100", PER_GPU, 0, 100), "percent", top=100, thresholds=FULL),
        )),
        Row("Over time", (
            lines("Least, mean and most utilization", "Over all GPUs.", *(Query(f"{how}({use(N)}) * 100", how, 0, 100) for how in ("min", "avg", "max")), unit="percent", top=100),
            lines("Memory in use", "Of all memory.", Query(used_share(N), "used", 1, 100), unit="percent", top=100),
            heat("Utilization of each GPU", "A row for each GPU; darker is busier.", Query(f"{use(N)} * 100", PER_GPU, 0, 100), "percent", width=24),
        )),
        Row("Each GPU", (
            table("GPUs", "As they are now.", (("host_name", "Node"), ("gpu_index", "GPU"), ("gpu_model", "Model")),
                  *(Column(name, Query(f"max by (host_name, gpu_index, gpu_model) ({expr})", low=low, high=high), unit, thresholds) for name, expr, low, high, unit, thresholds in (
                      ("Utilization", f"{use(N)} * 100", 0, 100, "percent", ()), ("Memory", f"gpu_memory_used_bytes{{{N}}} / gpu_memory_total_bytes{{{N}}} * 100", 0, 100, "percent", FULL),
                      ("Temperature", chip(N), 20, 110, "celsius", HOT), ("Power", f"gpu_power_draw_watts{{{N}}}", 5, 800, "watt", ()), ("Performance state", f"gpu_power_state{{{N}}}", 0, 15, "none", ())))),
        )),
    ), tags=("l9gpu",))

INFERENCE = Board(
    "insights-02-inference-performance.json", "l9gpu-i2-inference", "l9gpu / Inference", "vLLM, NIM, Triton, SGLang and TGI.", NAMES, (CLUSTER,), answers=("How fast do engines answer, and are they full?",),
    rows=(
        Row("vLLM now", (
            stat("Tokens", "Per second, prompt and generated.", Query(f"sum(vllm_prompt_throughput_per_second{{{C}}} + vllm_generation_throughput_per_second{{{C}}})", low=10, high=1e6), "cps", width=6),
            stat("Slowest TTFT p50", "Of the slowest engine.", Query(f'max(vllm_ttft_seconds{{{C}, quantile="p50"}}) * 1000', low=1, high=60000), "ms", width=6),
            stat("Waiting", "Requests.", Query(f"sum(vllm_requests_waiting{{{C}}})", high=2000), width=6),
            stat("Fullest KV cache", "On the GPU.", Query(f'max(vllm_cache_usage_ratio{{{C}, cache_type="gpu"}}) * 100', high=100), "percent", width=6, thresholds=CACHE),
        )),
        Row("vLLM", (
            lines("Time to first token", "Of each engine.", *quantile_lines("vllm_ttft_seconds", C, 1000, 60000), unit="ms"),
            lines("Whole request", "Of each engine.", *quantile_lines("vllm_request_latency_seconds", C, high=300), unit="s"),
            lines("Tokens", "Per second.", Query(f"sum(vllm_prompt_throughput_per_second{{{C}}})", "prompt", 1, 1e6), Query(f"sum(vllm_generation_throughput_per_second{{{C}}})", "generated", 1, 1e5), unit="cps"),
            lines("Requests", "By state; swapped only where engines swap.", *(Query(f"sum(vllm_requests_{state}{{{C}}})", state, 0, 2000) for state in ("running", "waiting", "swapped"))),
            lines("KV cache", "In use; on the CPU only where the engine swaps.", *(Query(f'vllm_cache_usage_ratio{{{C}, cache_type="{where}"}} * 100', f"{where} {MODEL}", 0, 100) for where in ("gpu", "cpu")),
                  unit="percent", top=100, width=24, thresholds=CACHE),
        )),
        Row("NIM", (
            lines("Whole request", "Of each engine.", *quantile_lines("nim_request_latency_seconds", C, which=("p50", "p99")), unit="s", width=6),
            lines("Waiting", "Requests.", Query(f"nim_queue_depth{{{C}}}", MODEL, 0, 100), width=6),
            lines("KV cache", "In use.", Query(f"nim_kv_cache_usage_ratio{{{C}}} * 100", MODEL, 0, 100), unit="percent", top=100, width=6, thresholds=CACHE),
            lines("Between tokens", "Of each engine.", *quantile_lines("nim_itl_seconds", C, 1000, 5000, which=("p50", "p95")), unit="ms", width=6),
        )),
        Row("Triton", (
            lines("Mean time", "Of a request, and of its wait.", *(Query(f"triton_{what}_latency_microseconds{{{C}}} / 1000", f"{what} {{{{model_name}}}}", 0, 60000) for what in ("request", "queue")), unit="ms", width=8),
            lines("Requests", "Per second.", *(Query(f"triton_requests_{what}_per_second{{{C}}}", f"{what} {{{{model_name}}}}", 0, 1000) for what in ("success", "failed")), unit="reqps", width=8),
            lines("Queue and batch", "Requests.", Query(f"triton_queue_depth{{{C}}}", "waiting {{model_name}}", 0, 1000), Query(f"triton_batch_size{{{C}}}", "batch {{model_name}}", 0, 1000), width=8),
        )),
        Row("SGLang", (
            lines("First token, and between tokens", "Of each engine.", *quantile_lines("sglang_ttft_seconds", C, 1000, 60000, "first ", ("p50", "p95")), *quantile_lines("sglang_itl_seconds", C, 1000, 60000, "between ", ("p50", "p95")), unit="ms", width=6),
            lines("Tokens", "Per second.", Query(f"sglang_prompt_throughput_per_second{{{C}}}", f"prompt {MODEL}", 0, 1e6), Query(f"sglang_generation_throughput_per_second{{{C}}}", f"generated {MODEL}", 0, 1e5), unit="cps", width=6),
            lines("Requests", "By state.", *(Query(f"sglang_requests_{state}{{{C}}}", f"{state} {MODEL}", 0, 2000) for state in ("running", "waiting")), width=6),
            lines("Cache hits", "Prompt tokens from a cache.", Query(f"sglang_cache_hit_rate_ratio{{{C}}} * 100", MODEL, 0, 100), unit="percent", top=100, width=6),
        )),
        Row("TGI", (
            lines("Whole request", "Of each engine.", *quantile_lines("tgi_request_latency_seconds", C), unit="s", width=6),
            lines("Time of a token", "Mean of a request.", *quantile_lines("tgi_tpot_seconds", C, 1000, 5000, which=("p50", "p95")), unit="ms", width=6),
            lines("Batch size", "Requests in a batch.", *quantile_lines("tgi_batch_size", C, high=1000, which=("p50",)), width=6),
            lines("Wait", "In the queue.", *quantile_lines("tgi_queue_latency_seconds", C, which=("p95",)), unit="s", width=6),
        )),
    ), tags=("l9gpu",))

HARDWARE = Board(
    "insights-03-hardware-health.json", "l9gpu-i3-hardware", "l9gpu / Hardware", "What hardware needs attention.", NAMES, (CLUSTER, NODE, GPU), answers=("Which hardware needs attention now?",),
    rows=(
        Row("Now", (
            stat("Memory errors (1h)", "New ECC errors.", Query(f"sum({ecc(N, '1h')})", high=100, window=HOUR), width=6, thresholds=ANY),
            stat("GPUs throttled", "GPUs that a cause holds down now.", Query(f"sum(max by (host_name, gpu_index) (gpu_throttle_reason{{{N}, {CAUSES}}}) > bool 0)", high=10), width=6,
                 thresholds=(Threshold(1, "orange", "alert GPUThrottling after five minutes"),)),
            stat("Hottest GPU", "Of the chip.", Query(f"max({chip(N)})", low=20, high=110), "celsius", width=6, thresholds=HOT),
            stat("XIDs (1h)", "New ones.", Query(f"sum(increase(gpu_xid_errors{{{N}}}[1h]))", high=5, window=HOUR), width=6, thresholds=ANY),
            table("GPUs", "As they are now.", (("host_name", "Node"), ("gpu_index", "GPU")),
                  Column("Temperature", Query(f"max by (host_name, gpu_index) ({chip(N)})", low=20, high=110), "celsius", HOT),
                  Column("Memory errors (1h)", Query(f"sum by (host_name, gpu_index) ({ecc(N, '1h')})", high=100, window=HOUR), "none", ANY),
                  Column("Throttled", Query(f"max by (host_name, gpu_index) (gpu_throttle_reason{{{N}, {CAUSES}}})", high=1), "none", ANY, ((0, "no"), (1, "yes"))),
                  Column("Rows replaced", Query(f"sum by (host_name, gpu_index) (gpu_row_remap_count{{{N}}})", high=100))),
        )),
        Row("Over time", (
            lines("Temperature", "Of the chip.", Query(chip(I), PER_GPU, 20, 110), unit="celsius", thresholds=HOT),
            lines("Throttled", "GPUs that each cause holds down.", Query(f"sum by (gpu_throttle_cause) (gpu_throttle_reason{{{N}, {CAUSES}}})", "{{gpu_throttle_cause}}", 0, 10)),
            lines("Memory errors", "New ECC errors of each interval.", *(Query(f"sum({ecc(N, '$__rate_interval', kind)})", kind, 0, 100) for kind in ("correctable", "uncorrectable")), width=8),
            lines("XIDs", "New ones of each interval.", Query(f"increase(gpu_xid_errors{{{I}}}[$__rate_interval])", PER_GPU, 0, 5), width=8),
            lines("Rows replaced", "Since the board was made.", Query(f"gpu_row_remap_count{{{I}}}", PER_GPU + " {{gpu_ecc_error_type}}", 0, 100), width=8),
        )),
    ), tags=("l9gpu",))

BOARDS = (FLEET, CLUSTER_BOARD, WORKLOAD, HEALTH, SINGLE, PROFILE, DEMO, EFFICIENCY, INFERENCE, HARDWARE)
